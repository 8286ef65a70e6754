//! Runs as their journals tell them: what went wrong on the way, grouped, with what to do.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;

use gpulane_doctor::{Finding, Severity};
use gpulane_journal::RunDir;
use gpulane_model::{
    Attempt, Bytes, Config, Event, FailReason, Failure, GpuKind, Hang, Job, LaneId, Machine, MapLive,
    MapStage, Memory, Millis, Plan, Record, RunSettings, Stage, StageId, Stuck,
};

/// A run of one stage whose journal holds these events.
struct Told {
    _folder: tempfile::TempDir,
    dir: RunDir,
    plan: Plan,
}

impl Told {
    fn new(events: Vec<Event>) -> Self {
        Self::of(Stage::named("s"), RunSettings::default(), events)
    }

    fn of(stage: Stage, run: RunSettings, events: Vec<Event>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("night")).unwrap();
        let job = |n: u32| Job {
            stage: StageId(0),
            name: n.to_string().into(),
            config: Config::default(),
            source: None,
        };
        let stages = vec![Stage { jobs: 0..4, ..stage }];
        let plan = Plan { format: 1, name: "night".into(), run, stages, jobs: (0..4).map(job).collect() };
        dir.freeze(&plan).unwrap();
        let machine = Machine {
            kind: GpuKind::None,
            gpus: vec![],
            lanes_per_gpu: 1,
            packing: false,
            cores: 4,
            cpu_lanes: 4,
        };
        let (name, gpulane) = ("night".into(), "0".into());
        let begun = Event::RunStarted { format: 1, name, gpulane, jobs: 4, machine, pid: 1, boot: None };
        let records = std::iter::once(begun).chain(events).zip(1..);
        let lines = records
            .map(|(event, seq)| gpulane_journal::encode(&Record { seq, time: Millis(seq), event }) + "\n");
        fs::write(dir.journal_file(), lines.collect::<String>()).unwrap();
        Self { _folder: folder, dir, plan }
    }

    fn about(&self, topic: &str) -> Vec<Finding> {
        let found = gpulane_doctor::run(&self.dir);
        found.into_iter().filter(|finding| finding.topic == topic).collect()
    }
}

fn name(job: u32) -> String {
    format!("s/{job}")
}

fn started(job: u32) -> Event {
    Event::JobStarted {
        job: name(job),
        attempt: Attempt(1),
        lane: LaneId(job),
        gpus: vec![],
        pid: 1,
        warm: false,
    }
}

fn succeeded(job: u32) -> Event {
    Event::JobSucceeded { job: name(job), attempt: Attempt(1), seconds: 1.0, peak_vram: None }
}

fn failed(job: u32, reason: FailReason) -> Event {
    Event::JobFailed { job: name(job), attempt: Attempt(1), failure: Failure::because(reason) }
}

fn hung(job: u32, line: u32) -> Event {
    let stuck = Stuck {
        evidence: format!("waiting for a lock in fid.py:{line}"),
        cause: Some("two threads wait for each other's lock".into()),
        remedy: Some("take the locks in one order".into()),
        ..Stuck::default()
    };
    let (job, attempt) = (name(job), Attempt(1));
    Event::HangSuspected { job, attempt, quiet: 600.0, frozen: true, overdue: false, stuck }
}

fn finished() -> Event {
    Event::RunFinished { succeeded: 0, failed: 0, skipped: 0, seconds: 1.0, exit_code: None }
}

#[test]
fn jobs_that_hung_for_one_cause_are_one_finding_with_remedy_and_stacks() {
    let told = Told::new(vec![
        started(0),
        started(1),
        hung(0, 88),
        hung(1, 90),
        failed(0, FailReason::Hang),
        failed(1, FailReason::Hang),
        finished(),
    ]);
    let job = gpulane_model::JobId(0);
    let stacks = told.dir.stacks_file(&told.plan, job, Attempt(1));
    fs::create_dir_all(stacks.parent().unwrap()).unwrap();
    fs::write(&stacks, "Thread 1").unwrap();
    let found = told.about("hung");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].severity, found[0].jobs.len()), (Severity::Bad, 2));
    assert!(found[0].seen.contains("2 jobs (s/0, …): waiting for a lock in fid.py:88"), "{found:?}");
    assert_eq!(found[0].next[0], "take the locks in one order");
    assert!(found[0].next[1].contains("attempt-1/stacks.txt"), "{found:?}");
    assert_eq!(told.about("failed"), [], "told once, with its evidence");
}

#[test]
fn a_hang_that_was_overcome_is_only_worth_knowing() {
    let again = Event::JobRetrying { job: name(0), attempt: Attempt(2), delay: 0.0 };
    let told = Told::new(vec![
        started(0),
        hung(0, 1),
        failed(0, FailReason::Hang),
        again,
        started(0),
        succeeded(0),
        finished(),
    ]);
    let found = &told.about("hung")[0];
    assert_eq!(found.severity, Severity::Warning);
    let seen = "s/0: froze, was ended, and went well at the next try: waiting for a lock in fid.py:1";
    assert_eq!(found.seen, seen);
}

#[test]
fn a_frozen_job_that_was_left_alone_and_ended_well_went_on() {
    let told = Told::new(vec![started(0), hung(0, 1), succeeded(0), finished()]);
    let found = &told.about("hung")[0];
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.seen.starts_with("s/0: froze for a while, and went on: waiting"), "{found:?}");
}

#[test]
fn quiet_jobs_are_not_hung() {
    let quiet = |job: u32| Event::HangSuspected {
        job: name(job),
        attempt: Attempt(1),
        quiet: 12.0,
        frozen: false,
        overdue: false,
        stuck: Stuck {
            evidence: "sleeping in job.py:7, quiet for 12 s".into(),
            waits_for: Some("sleeps in job.py:7".into()),
            ..Stuck::default()
        },
    };
    let told = Told::new(vec![started(0), started(1), quiet(0), quiet(1), succeeded(0), finished()]);
    assert_eq!(told.about("hung"), []);
    let found = told.about("quiet");
    let seen = "2 jobs (s/0, …) were quiet for a while: sleeping in job.py:7, quiet for 12 s";
    assert_eq!((found.len(), found[0].severity, found[0].seen.as_str()), (1, Severity::Fine, seen));
    assert_eq!((found[0].next.len(), found[0].jobs.len()), (0, 2), "nothing is to be done");

    let froze = Told::new(vec![started(0), quiet(0), hung(0, 1), failed(0, FailReason::Hang), finished()]);
    assert_eq!((froze.about("hung").len(), froze.about("quiet").len()), (1, 0), "told once");
}

fn waiting(job: u32, overdue: bool) -> Event {
    let stuck = Stuck {
        evidence: format!("opening a FIFO (/x/{job}), quiet for 3 s"),
        waits_for: Some(format!("waits for somebody who opens the other end of /x/{job}")),
        ..Stuck::default()
    };
    Event::HangSuspected { job: name(job), attempt: Attempt(1), quiet: 3.0, frozen: false, overdue, stuck }
}

/// A stage whose watchdog ends waits after so many seconds, if it does.
fn watched(outside: Option<u64>) -> Stage {
    let outside = outside.map(Millis::seconds);
    Stage { hang: Some(Hang { outside, ..Hang::default() }), ..Stage::named("s") }
}

#[test]
fn jobs_that_are_quiet_now_are_told_one_by_one_with_what_ends_them() {
    let events = || vec![started(0), started(1), waiting(0, false), waiting(1, false)];
    let told = Told::of(watched(Some(40)), RunSettings::default(), events());
    let lock = told.dir.lock().unwrap();
    let found = told.about("quiet");
    assert_eq!(found.len(), 2, "{found:?}");
    for (job, finding) in found.iter().enumerate() {
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.seen.starts_with(&format!("s/{job} has been quiet for ")), "{finding:?}");
        assert!(finding.seen.ends_with(&format!("opens the other end of /x/{job}")), "{finding:?}");
        assert!(finding.why.contains("`outside` ends it after 40 s"), "{finding:?}");
        assert!(
            finding.next.iter().any(|next| next.contains(&format!("night s/{job}    # end it"))),
            "{finding:?}"
        );
        assert!(!format!("{finding:?}").contains("outside = "), "`outside` is set: {finding:?}");
    }
    drop(lock);
    let before = told.about("quiet");
    assert_eq!((before.len(), before[0].severity), (1, Severity::Fine), "the run is over: {before:?}");
    assert!(before[0].seen.contains("were quiet for a while"), "{before:?}");

    let unlimited = Told::of(watched(None), RunSettings::default(), events());
    let _lock = unlimited.dir.lock().unwrap();
    let text = format!("{:?}", unlimited.about("quiet"));
    assert!(text.contains("left alone") && text.matches("outside = ").count() == 1, "{text}");
}

#[test]
fn a_job_that_outside_ended_has_its_stacks_and_was_not_only_quiet() {
    let told = |ends: Vec<Event>| {
        let events = [vec![started(0), waiting(0, false), waiting(0, true)], ends, vec![finished()]].concat();
        Told::of(watched(Some(40)), RunSettings::default(), events)
    };
    let given_up = told(vec![failed(0, FailReason::Hang)]);
    let stacks = given_up.dir.stacks_file(&given_up.plan, gpulane_model::JobId(0), Attempt(1));
    fs::create_dir_all(stacks.parent().unwrap()).unwrap();
    fs::write(&stacks, "Thread 1").unwrap();
    let found = &given_up.about("hung")[0];
    let seen =
        "s/0: waited for longer than its limit `hang.outside` of 40 s: opening a FIFO (/x/0), quiet for 3 s";
    assert_eq!((found.severity, found.seen.as_str()), (Severity::Bad, seen));
    assert!(found.next.iter().any(|next| next.contains("attempt-1/stacks.txt")), "{found:?}");

    let again = Event::JobRetrying { job: name(0), attempt: Attempt(2), delay: 0.0 };
    let overcome = told(vec![failed(0, FailReason::Hang), again, started(0), succeeded(0)]);
    let found = &overcome.about("hung")[0];
    assert!(found.seen.starts_with("s/0: was ended, and went well at the next try: waited"), "{found:?}");
    assert_eq!(overcome.about("quiet"), [], "told once");
}

#[test]
fn a_worker_that_froze_until_its_item_failed_did_not_go_well() {
    let at = |attempt: u32, event: Event| match event {
        Event::HangSuspected { job, quiet, frozen, overdue, stuck, .. } => {
            Event::HangSuspected { job, attempt: Attempt(attempt), quiet, frozen, overdue, stuck }
        }
        Event::JobFailed { job, failure, .. } => Event::JobFailed { job, attempt: Attempt(attempt), failure },
        Event::JobStarted { job, lane, gpus, pid, warm, .. } => {
            Event::JobStarted { job, attempt: Attempt(attempt), lane, gpus, pid, warm }
        }
        other => other,
    };
    let froze = |attempt| {
        [started(0), hung(0, 1), failed(0, FailReason::Hang)].map(|event| at(attempt, event)).to_vec()
    };
    let again = |attempt| Event::JobRetrying { job: name(0), attempt: Attempt(attempt), delay: 0.0 };
    let item = Event::ItemFailed {
        stage: "s".into(),
        item: "freeze".into(),
        reason: "it brought down its worker, twice and alone: `gpulane logs /r s/0 --attempt 2` shows".into(),
    };
    let events = [
        froze(1),
        vec![again(2)],
        froze(2),
        vec![item, again(3), at(3, started(0)), succeeded(0), finished()],
    ];
    let stage = Stage { map: Some(MapStage::default()), ..Stage::named("s") };
    let told = Told::of(stage, RunSettings::default(), events.concat());
    let found = &told.about("hung")[0];
    let seen = "s/0: froze 2 times, was ended, and a new worker took over; 1 item failed by it: waiting for";
    assert!(found.seen.starts_with(seen), "{found:?}");
    assert!(found.next.iter().any(|next| next.contains("maps/s/failed.jsonl")), "{found:?}");
}

#[test]
fn out_of_memory_again_on_a_gpu_of_its_own_is_not_mended_by_a_reservation() {
    let oom = |job: u32, shared| {
        let failure = Failure { shared, peak_vram: Some(7 << 30), ..Failure::because(FailReason::Oom) };
        Event::JobFailed { job: name(job), attempt: Attempt(1), failure }
    };
    let stage = || Stage { memory: Memory::Reserve(Bytes(6 << 30)), ..Stage::named("s") };
    let run =
        RunSettings { cwd: "/exp".into(), plan_file: Some("ab/night.toml".into()), ..Default::default() };
    let alone = vec![started(0), oom(0, true), started(0), oom(0, false), finished()];
    let found = Told::of(stage(), run.clone(), alone).about("failed");
    assert!(found[0].seen.contains("on a GPU of its own"), "{found:?}");
    assert!(found[0].why.contains("only a smaller job or a larger GPU helps"), "{found:?}");
    assert!(!format!("{found:?}").contains("memory = "), "{found:?}");

    let packed = Told::of(stage(), run, vec![started(0), oom(0, false), finished()]).about("failed");
    let next = format!("{:?}", packed[0].next);
    assert!(next.contains("memory = ") && next.contains("gpulane fit /exp/ab/night.toml"), "{next}");
}

#[test]
fn held_starts_are_told_with_their_reason_and_the_disk_of_the_run() {
    let held = |because: &str| Told::new(vec![Event::StartsHeld { because: because.into() }]);
    let full = held("no space left on the disk of /d/night; free some space and the run goes on by itself");
    assert_eq!(full.about("starts"), [], "nobody waits any more");
    let lock = full.dir.lock().unwrap();
    let found = full.about("starts");
    assert_eq!((found.len(), found[0].severity), (1, Severity::Bad), "{found:?}");
    assert!(found[0].seen.starts_with("no job is started: no space left on the disk of"), "{found:?}");
    let root = full.dir.root().display().to_string();
    assert!(found[0].why.starts_with(&format!("{root} is on the disk at /")), "{found:?}");
    assert!(found[0].why.contains(" free"), "{found:?}");
    let all = format!("{:?}", gpulane_doctor::run(&full.dir));
    assert!(!all.contains("\"gpulane doctor\""), "which would look at the disk of this folder: {all}");
    drop(lock);

    let turn = held("waiting for a GPU: GPU 0: used by others, pid 7");
    let _lock = turn.dir.lock().unwrap();
    assert_eq!(turn.about("starts")[0].severity, Severity::Warning, "nothing is broken");

    let released = Told::new(vec![Event::StartsHeld { because: "x".into() }, Event::StartsReleased {}]);
    let _lock = released.dir.lock().unwrap();
    assert_eq!(released.about("starts"), []);
}

#[test]
fn a_map_that_cannot_write_its_results_is_a_finding_while_it_says_so() {
    let stage = Stage { map: Some(MapStage::default()), ..Stage::named("s") };
    let told = Told::of(stage, RunSettings::default(), vec![started(0)]);
    let _lock = told.dir.lock().unwrap();
    let live = |age: u64| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let time = u64::try_from(since.as_millis()).unwrap() - age;
        let held = "cannot write part-0: No space left on device (os error 28); free some space".into();
        let text = serde_json::to_string(&MapLive { time, held, ..MapLive::default() }).unwrap();
        let folder = told.dir.map_dir(&told.plan.stages[0]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("live.json"), text).unwrap();
    };
    live(0);
    let found = told.about("results");
    assert_eq!((found.len(), found[0].severity), (1, Severity::Bad), "{found:?}");
    assert!(found[0].seen.starts_with("s: results cannot be written: cannot write part-0"), "{found:?}");
    assert!(found[0].why.contains("is on the disk at /") && !found[0].next.is_empty(), "{found:?}");
    live(60_000);
    assert_eq!(told.about("results"), [], "nobody writes that any more");
}

#[test]
fn a_hang_whose_evidence_is_lost_is_told_from_the_failure() {
    let failure = Failure {
        message: Some("reading a socket in net.py:3".into()),
        remedy: Some("set a timeout".into()),
        ..Failure::because(FailReason::Hang)
    };
    let event = Event::JobFailed { job: name(0), attempt: Attempt(1), failure };
    let told = Told::new(vec![started(0), event, finished()]);
    let found = &told.about("hung")[0];
    assert_eq!((found.severity, found.next[0].as_str()), (Severity::Bad, "set a timeout"));
    assert_eq!(found.seen, "s/0: reading a socket in net.py:3");
}

#[test]
fn what_failed_before_a_fresh_start_is_still_told() {
    let again = Event::JobRequeued { job: name(0) };
    let told = Told::new(vec![
        started(0),
        hung(0, 1),
        failed(0, FailReason::Hang),
        started(1),
        failed(1, FailReason::HostOom),
        again,
        Event::JobRequeued { job: name(1) },
        started(0),
        started(1),
        succeeded(0),
        succeeded(1),
        finished(),
    ]);
    assert_eq!(told.about("failed"), [], "nothing has failed in the end");
    assert_eq!(told.about("hung")[0].severity, Severity::Warning);
    let tried = told.about("tried again");
    assert_eq!(tried[0].seen, "s/1: 1 failed try: out of host memory");
}

#[test]
fn what_happened_on_the_way_is_told_by_kind() {
    let told = Told::new(vec![
        started(0),
        Event::ProcessesLeft { job: name(0), count: 3, who: vec!["python3 (pid 7) held stdout".into()] },
        succeeded(0),
        Event::JobLingered {
            job: name(1),
            attempt: Attempt(1),
            because: "called gpulane.done(), then did not exit: sleeping in a.py:60".into(),
        },
        Event::JobLingered {
            job: name(2),
            attempt: Attempt(1),
            because: "called gpulane.done(), then did not exit: sleeping in a.py:61".into(),
        },
        Event::ProcessesStuck { job: name(3), pids: vec![9], because: "state D".into() },
        Event::MemoryExceeded { job: name(0), peak: 7 << 30, reserved: 6 << 30 },
        Event::GpuQuarantined { gpu: "GPU-1".into(), why: "is lost".into() },
        finished(),
    ]);
    let processes = told.about("processes");
    let seen: Vec<&str> = processes.iter().map(|finding| finding.seen.as_str()).collect();
    let lingered = "2 jobs (s/1, …): called gpulane.done(), then did not exit: sleeping in a.py:60";
    assert_eq!(seen[0], lingered);
    assert!(
        seen.iter().any(|seen| seen.contains("left 3 processes behind, such as python3 (pid 7) held stdout"))
    );
    assert!(seen.iter().any(|seen| seen.contains("pid 9 outlived SIGKILL: state D")), "{seen:?}");
    assert!(told.about("GPU memory")[0].seen.contains("held 7 GiB where 6 GiB were reserved"));
    assert_eq!(told.about("GPUs")[0].severity, Severity::Bad);
}

#[test]
fn an_interrupted_run_and_one_whose_engine_was_killed() {
    let interrupted = Told::new(vec![Event::RunInterrupted { because: "Ctrl-C".into(), exit_code: None }]);
    let found = interrupted.about("engine");
    assert_eq!(
        (found[0].severity, found[0].seen.contains("4 jobs to go: Ctrl-C")),
        (Severity::Warning, true)
    );
    let killed = Told::new(vec![started(0)]);
    assert_eq!(killed.about("engine")[0].severity, Severity::Bad);
    let almost = vec![succeeded(0), succeeded(1), succeeded(2), started(3)];
    let almost = Told::new(almost).about("engine");
    assert!(almost[0].seen.contains("with 1 job to go"), "{almost:?}");
    assert!(killed.about("run")[0].seen.contains("1 cut off"), "{:?}", killed.about("run"));
}

#[test]
fn a_plan_that_cannot_be_read_is_a_finding() {
    let told = Told::new(vec![]);
    fs::write(told.dir.plan_file(), "{}").unwrap();
    let found = gpulane_doctor::run(&told.dir);
    assert_eq!((found.len(), found[0].severity), (1, Severity::Bad), "{found:?}");
}
