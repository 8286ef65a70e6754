//! Runs as their journals tell them: what went wrong on the way, grouped, with what to do.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;

use gpulane_doctor::{Finding, Severity};
use gpulane_journal::RunDir;
use gpulane_model::{
    Attempt, Config, Event, FailReason, Failure, GpuKind, Job, LaneId, Machine, Millis, Plan, Record,
    RunSettings, Stage, StageId, Stuck,
};

/// A run of one stage whose journal holds these events.
struct Told {
    _folder: tempfile::TempDir,
    dir: RunDir,
    plan: Plan,
}

impl Told {
    fn new(events: Vec<Event>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&folder.path().join("night")).unwrap();
        let job = |n: u32| Job {
            stage: StageId(0),
            name: n.to_string().into(),
            config: Config::default(),
            source: None,
        };
        let stages = vec![Stage { jobs: 0..4, ..Stage::named("s") }];
        let run = RunSettings::default();
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
