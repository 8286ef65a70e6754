//! The story gpulane began with: thirteen models on eight GPUs, then their evaluation, one at a time.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::HashSet;

use gpulane_testkit::Gpulane;
use serde_json::Value;

const PLAN: &str = r#"
name = "thirteen"
[[stage]]
name = "train"
start_gate = "off"       # also where there are fewer cores
command = ["sh", "-c", "mkdir $0/held-$CUDA_VISIBLE_DEVICES || exit 99; sleep 0.05; rmdir $0/held-$CUDA_VISIBLE_DEVICES; echo {seed} > $GPULANE_OUT/model; test {seed} != 7 -o -e $0/mended || exit 42", "LOCKS"]
[stage.matrix]
seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]

[[stage]]
name = "evaluate"
after = ["train"]
foreach = "train"
parallel = 1
command = ["sh", "-c", "mkdir $0/evaluating || exit 99; cat {input}/model > $GPULANE_OUT/score; sleep 0.01; rmdir $0/evaluating", "LOCKS"]
"#;

/// Thirteen jobs on eight GPUs; seed 7 fails. The jobs themselves hold a directory per GPU, so that two on one GPU
/// would fail with 99.
fn thirteen() -> (Gpulane, i32, String) {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let locks = gpulane.workspace.path().join("locks");
    std::fs::create_dir(&locks).unwrap();
    let plan = PLAN.replace("LOCKS", locks.to_str().unwrap());
    let finished = gpulane.run(&plan, "sim:8x24GiB");
    (gpulane, finished.code, finished.stderr)
}

fn index_of(events: &[Value], kind: &str, job: &str) -> usize {
    let found = events.iter().position(|event| event["event"] == kind && event["job"] == job);
    found.unwrap_or_else(|| panic!("no {kind} of {job}"))
}

#[test]
fn a_failing_job_is_reported_and_the_others_go_on() {
    let (gpulane, code, stderr) = thirteen();
    assert_eq!(code, 3, "{stderr}");
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed.len(), 1, "{stderr}");
    assert_eq!(failed[0]["job"], "train/seed=7");
    assert_eq!((failed[0]["reason"].as_str(), failed[0]["code"].as_i64()), (Some("exit"), Some(42)));
    assert_eq!(gpulane.jobs_in("job_succeeded").len(), 24);
    assert_eq!(gpulane.jobs_in("job_skipped"), ["evaluate/seed=7"]);
    assert!(stderr.contains("train/seed=7") && stderr.contains("exit code 42"), "{stderr}");
}

#[test]
fn no_gpu_has_two_jobs_and_a_freed_lane_gets_the_next() {
    let (gpulane, ..) = thirteen();
    let events = gpulane.events();
    let gpu_of = |event: &Value| event["gpus"][0].as_str().expect("a training has a GPU").to_owned();
    let trainings = events.iter().filter(|event| {
        event["event"] == "job_started" && event["job"].as_str().is_some_and(|job| job.starts_with("train/"))
    });
    let used: HashSet<String> = trainings.map(gpu_of).collect();
    assert_eq!(used.len(), 8, "all eight GPUs were used");
    let started: Vec<usize> =
        (0..13).map(|seed| index_of(&events, "job_started", &format!("train/seed={seed}"))).collect();
    assert!(started.is_sorted(), "in the plan's order");
    // That none was held twice the jobs themselves have checked: exit 99 would have failed one.
    assert_eq!(gpulane.events_of("job_failed").len(), 1);
}

#[test]
fn evaluation_comes_strictly_after_and_one_at_a_time() {
    let (gpulane, ..) = thirteen();
    let events = gpulane.events();
    let first_evaluation = events
        .iter()
        .position(|event| {
            event["event"] == "job_started" && event["job"].as_str().unwrap().starts_with("evaluate/")
        })
        .expect("an evaluation started");
    for seed in (0..13).filter(|seed| *seed != 7) {
        assert!(index_of(&events, "job_succeeded", &format!("train/seed={seed}")) < first_evaluation);
    }
    let score = gpulane.dir().join("jobs/evaluate/seed=12/out/score");
    assert_eq!(std::fs::read_to_string(score).unwrap(), "12\n", "the input was the training's output");
}

#[test]
fn resume_failed_runs_only_what_failed_and_what_waited_for_it() {
    let (gpulane, ..) = thirteen();
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4, "without --failed there is nothing to do");
    std::fs::write(gpulane.workspace.path().join("locks/mended"), "").unwrap();
    let before = gpulane.events().len();
    let resumed = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let started: Vec<String> = gpulane.events()[before..]
        .iter()
        .filter(|event| event["event"] == "job_started")
        .map(|event| event["job"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(started, ["train/seed=7", "evaluate/seed=7"]);
}
