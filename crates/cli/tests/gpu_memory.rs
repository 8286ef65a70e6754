//! GPU memory on a fake driver, through the same code as a real one: packing, measuring, running out of it, and
//! getting it back.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{FakeNvml, Finished, Gpulane};

/// Begins a job that takes as much GPU memory as its config says.
const TAKE: &str = r#"echo "$CUDA_VISIBLE_DEVICES {take}" > "$FAKE_VRAM/$$"; "#;

fn on(gpus: &[&str]) -> (FakeNvml, Gpulane) {
    Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), gpus)
}

/// Jobs write down when they begin and end.
const BEGIN: &str = "echo \"+ {seed} $GPULANE_ATTEMPT\" >> ticks; ";
const END: &str = "echo \"- {seed} $GPULANE_ATTEMPT\" >> ticks";

/// Those notes, in order: whether it began, and which.
fn ticks(gpulane: &Gpulane) -> Vec<(bool, String)> {
    let text = std::fs::read_to_string(gpulane.workspace.path().join("ticks")).unwrap_or_default();
    text.lines().map(|line| (line.starts_with('+'), line[2..].to_owned())).collect()
}

/// The most jobs that ran at once.
fn most_at_once(gpulane: &Gpulane) -> usize {
    let mut now = 0;
    let count = |(began, _): (bool, String)| {
        now = if began { now + 1 } else { now - 1 };
        now
    };
    ticks(gpulane).into_iter().map(count).max().unwrap_or(0)
}

/// One stage of jobs that take memory and then run `script`. Memory alone decides when they start, not how busy the cores are.
fn plan(settings: &str, take: &str, script: &str, jobs: u32) -> String {
    let seeds: Vec<String> = (0..jobs).map(|seed| seed.to_string()).collect();
    format!(
        "[[stage]]\nname = \"s\"\nstart_gate = \"off\"\n{settings}\ncommand = [\"sh\", \"-c\", '''{TAKE}{BEGIN}{script}\n{END}''']\n\
         [stage.matrix]\ntake = [\"{take}\"]\nseed = [{}]\n",
        seeds.join(", ")
    )
}

fn assert_ok(finished: &Finished) {
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn reservations_decide_how_many_share_a_gpu() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    // They take nothing yet: what counts is what was reserved.
    assert_ok(&gpulane.run(&plan("memory = \"6GiB\"", "0MiB", "sleep 0.4", 9), "all"));
    assert_eq!(most_at_once(&gpulane), 4);
}

#[test]
fn a_gpu_that_lets_one_process_compute_is_not_shared() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["gpus"][0]["compute_mode"] = "exclusive_process".into());
    let finished = gpulane.run(&plan("memory = \"6GiB\"", "0MiB", "sleep 0.2", 3), "all");
    assert_ok(&finished);
    assert_eq!(most_at_once(&gpulane), 1);
    assert!(finished.stderr.contains("exclusive compute mode"), "{}", finished.stderr);
}

#[test]
fn simulated_gpus_are_packed_alike() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let plan = plan("memory = \"10GiB\"", "0MiB", "sleep 1", 8).replace(TAKE, "");
    assert_ok(&gpulane.run(&plan, "sim:1x24GiB,1x40GiB"));
    assert_eq!(most_at_once(&gpulane), 6);
}

#[test]
fn auto_measures_the_first_alone_then_packs_and_a_later_run_knows() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let plan = plan("memory = \"auto\"", "3GiB", "sleep 0.5", 9);
    assert_ok(&gpulane.run(&plan, "all"));
    let measured = gpulane.events_of("memory_measured");
    assert_eq!(measured[0]["peak"], 3_u64 << 30, "{measured:?}");
    // 3 GiB x 1.1 + 256 MiB: six of them fit.
    assert!((3..=6).contains(&most_at_once(&gpulane)), "{}", most_at_once(&gpulane));
    let guesses = |kind: &serde_json::Value| kind == "memory_guessed" || kind == "memory_measured";
    let alone = gpulane.events().into_iter().take_while(|event| !guesses(&event["event"]));
    assert_eq!(alone.filter(|event| event["event"] == "job_started").count(), 1);
    assert!(
        gpulane.events_of("job_succeeded").iter().all(|event| event["peak_vram"].as_u64() >= Some(3 << 30))
    );

    assert_ok(&gpulane.call(&["run", "plan.toml", "--run-dir", "again"]));
    let journal = std::fs::read_to_string(gpulane.workspace.path().join("again/journal.jsonl")).unwrap();
    let known =
        journal.lines().find(|line| line.contains("memory_measured")).expect("it is known from before");
    let place = journal.find(known) < journal.find("job_started");
    assert!(place && !known.contains("\"job\""), "{known}");
}

#[test]
fn auto_does_not_wait_for_the_first_to_end() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["gpus"][0]["load"] = 60.into());
    // The first goes on until it sees that another has started.
    let script = "if [ {seed} = 0 ]; then until [ -e other ]; do sleep 0.05; done; else touch other; fi";
    assert_ok(&gpulane.run(&plan("memory = \"auto\"", "2GiB", script, 3), "all"));
    assert_eq!(gpulane.jobs_in("job_started")[0], "s/take=2GiB,seed=0");
}

#[test]
fn behind_another_pid_namespace_the_whole_gpu_is_measured_and_that_is_said() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["hide_processes"] = true.into());
    let finished = gpulane.run(&plan("memory = \"auto\"", "3GiB", "sleep 0.8", 3), "all");
    assert_ok(&finished);
    assert_eq!(gpulane.events_of("memory_measured")[0]["peak"], 3_u64 << 30);
    assert!(finished.stderr.contains("PID namespace"), "{}", finished.stderr);
}

#[test]
fn taking_more_than_reserved_is_noticed() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    assert_ok(&gpulane.run(&plan("memory = \"2GiB\"", "5GiB", "sleep 1", 2), "all"));
    let exceeded = gpulane.events_of("memory_exceeded");
    assert_eq!(exceeded.len(), 2, "once for each");
    assert_eq!(exceeded[0]["reserved"], 2_u64 << 30);
    assert_eq!(exceeded[0]["peak"].as_u64().unwrap() >> 30, 5);
}

/// What torch says.
const TORCH: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.5 GiB";

#[test]
fn out_of_memory_beside_others_is_tried_again_alone_and_not_counted() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let script = format!(
        "if [ $GPULANE_ATTEMPT = 1 ] && [ {{seed}} != 0 ]; then sleep 0.3; echo '{TORCH}' >&2; {END}; exit 1; fi; sleep 0.6"
    );
    assert_ok(&gpulane.run(&plan("memory = \"5GiB\"", "4GiB", &script, 3), "all"));
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed.len(), 2);
    for event in &failed {
        assert_eq!((&event["reason"], &event["shared"]), (&"oom".into(), &true.into()), "{event}");
        assert!(event["message"].as_str().unwrap().contains("held 4 GiB"), "{event}");
    }
    // The second tries: whenever one began, nobody else was there, and nobody joined before it ended.
    let (mut running, mut solo) = (0, false);
    for (began, who) in ticks(&gpulane) {
        running = if began { running + 1 } else { running - 1 };
        assert!(!began || !solo, "{who} joined");
        if who.ends_with(" 2") {
            assert!(!began || running == 1, "{who} was not alone");
            solo = began;
        }
    }
}

#[test]
fn out_of_memory_alone_is_a_failure_with_its_numbers() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let finished =
        gpulane.run(&plan("", "20GiB", &format!("sleep 0.3; echo '{TORCH}' >&2; exit 1"), 1), "all");
    assert_eq!(finished.code, 3);
    let failed = &gpulane.events_of("job_failed")[0];
    assert_eq!(failed["reason"], "oom");
    assert_eq!(failed["peak_vram"].as_u64().unwrap() >> 30, 20);
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("20 GiB") && message.contains("24 GiB"), "{message}");
}

#[test]
fn out_of_host_memory_is_told_apart() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let script = "echo 'Traceback (most recent call last):' >&2; echo MemoryError >&2; exit 1";
    assert_eq!(gpulane.run(&plan("", "1GiB", script, 1), "all").code, 3);
    assert_eq!(gpulane.events_of("job_failed")[0]["reason"], "host_oom");
}

#[test]
fn a_gpu_is_handed_on_only_when_its_memory_is_back() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["late_ms"] = 900.into());
    let script = "date +%s%3N > began-{seed}; sleep 0.2; date +%s%3N > ended-{seed}";
    assert_ok(&gpulane.run(&plan("", "20GiB", script, 2), "all"));
    let at = |name: &str| -> u64 {
        std::fs::read_to_string(gpulane.workspace.path().join(name)).unwrap().trim().parse().unwrap()
    };
    assert!(at("began-1") >= at("ended-0") + 850, "{} {}", at("ended-0"), at("began-1"));
    assert!(gpulane.events_of("vram_held").is_empty());
}

#[test]
fn memory_that_stays_away_is_said_and_waited_for() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["late_ms"] = 3_600_000.into());
    let live = gpulane.start(&plan("", "20GiB", "sleep 0.2", 2), "all");
    let held = gpulane.wait_for_events("vram_held", 1);
    assert_eq!(held[0]["bytes"].as_u64().unwrap() >> 30, 20);
    assert_eq!(gpulane.wait_for_events("job_succeeded", 1).len(), 1, "the job itself is done");
    nvml.set(|script| script["late_ms"] = 0.into());
    assert_ok(&live.wait());
    assert_eq!(gpulane.events_of("vram_back").len(), 1);
}

#[test]
fn a_lost_gpu_is_left_and_its_job_done_elsewhere() {
    let (nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let script = "until [ -e go ]; do sleep 0.05; done";
    let live = gpulane.start(&plan("", "1GiB", script, 4), "all");
    gpulane.wait_for_events("job_started", 2);
    nvml.set(|script| script["gpus"][0]["lost"] = true.into());
    let quarantined = gpulane.wait_for_events("gpu_quarantined", 1);
    gpulane.workspace.file("go", "");
    assert_ok(&live.wait());
    let lost = gpulane.events_of("job_failed");
    assert_eq!((lost.len(), &lost[0]["reason"]), (1, &"lost".into()));
    let gone = &quarantined[0]["gpu"];
    let (before, after): (Vec<_>, Vec<_>) = gpulane
        .events_of("job_started")
        .into_iter()
        .partition(|event| event["seq"].as_u64() < quarantined[0]["seq"].as_u64());
    assert!(before.iter().any(|event| event["gpus"][0] == *gone));
    assert!(after.len() == 3 && after.iter().all(|event| event["gpus"][0] != *gone), "{after:?}");
}

#[test]
fn with_no_gpu_left_the_run_stops_and_can_be_resumed() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let live = gpulane.start(&plan("", "1GiB", "until [ -e go ]; do sleep 0.05; done", 2), "all");
    gpulane.wait_for_events("job_started", 1);
    nvml.set(|script| script["gpus"][0]["lost"] = true.into());
    let finished = live.wait();
    assert_eq!(finished.code, 5, "{}", finished.stderr);
    gpulane.assert_nothing_left();
    nvml.set(|script| script["gpus"][0]["lost"] = false.into());
    gpulane.workspace.file("go", "");
    assert_ok(&gpulane.call(&["resume", "r"]));
}

#[test]
fn a_driver_that_freezes_freezes_nothing_else() {
    let (nvml, gpulane) = on(&["24GiB"]);
    let live = gpulane.start(&plan("", "1GiB", "until [ -e go ]; do sleep 0.05; done", 2), "all");
    gpulane.wait_for_events("job_started", 1);
    nvml.set(|script| script["hang"] = "all".into());
    gpulane.workspace.file("go", "");
    let finished = live.wait();
    assert_ok(&finished);
    assert!(finished.stderr.contains("NVML"), "{}", finished.stderr);
}

#[test]
fn a_driver_that_never_answers_is_said_and_nothing_is_started() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["hang"] = "all".into());
    let gpulane = gpulane.with([("GPULANE_NVML_DEADLINE_MS".to_owned(), "300".to_owned())]);
    let finished = gpulane.run(&plan("", "1GiB", "true", 1), "all");
    assert_eq!(finished.code, 5);
    assert!(
        finished.stderr.contains("did not answer") && finished.stderr.contains("nvidia-smi"),
        "{}",
        finished.stderr
    );
    assert!(!gpulane.dir().exists());
}

#[test]
fn what_never_fits_is_refused_before_anything_starts() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let finished = gpulane.run(&plan("memory = \"30GiB\"", "1GiB", "true", 1), "all");
    assert_eq!(finished.code, 5);
    assert!(finished.stderr.contains("30 GiB"), "{}", finished.stderr);
}

#[test]
fn caps_reach_a_packed_job_and_no_other() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let script = "env > env-{seed}";
    assert_ok(&gpulane.run(&plan("memory = \"4GiB\"", "1GiB", script, 1), "all"));
    let environment = std::fs::read_to_string(gpulane.workspace.path().join("env-0")).unwrap();
    // A tenth below, which is more than without a context of half a GiB.
    let cap = (4_u64 << 30) - (4_u64 << 30) / 10;
    assert!(environment.contains(&format!("CUPY_GPU_MEMORY_LIMIT={cap}\n")), "{environment}");
    assert_ok(&gpulane.call(&[
        "run",
        "--run-dir",
        "whole",
        "--",
        "sh",
        "-c",
        "! env | grep CUPY_GPU_MEMORY_LIMIT",
    ]));
}
