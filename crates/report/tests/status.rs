//! `status` and `logs`.

mod scene;

use std::sync::Arc;

use gpulane_core::Core;
use gpulane_model::{Attempt, Event, Millis, StageId};
use gpulane_report::{
    Logs, Look, Phase, RunFacts, RunRow, Snapshot, Which, job_detail, job_detail_json, runs_json, runs_table,
    status, status_json,
};
use scene::{Scene, Seen, at, plan};

fn half_way() -> Scene {
    let mut plan =
        plan(&[("train", &["lr=0.1", "lr=0.2", "lr=0.3", "lr=0.4", "lr=0.5", "lr=0.6"]), ("eval", &["all"])]);
    plan.stages[1].after = vec![StageId(0)];
    let mut scene = Scene::new(plan);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_started(0, "train/lr=0.2", 1, 1);
    scene.says("train/lr=0.2", 1, "stderr", b"ValueError: bad\n");
    scene.job_succeeded(4000, "train/lr=0.1", 4.0).job_failed(5000, "train/lr=0.2", 1, 3, 5.0);
    scene.job_started(4000, "train/lr=0.3", 1, 0).job_started(5000, "train/lr=0.4", 2, 1);
    scene
}

#[test]
fn a_live_run_says_what_runs_and_why_the_rest_waits() {
    let scene = half_way();
    let state = scene.state();
    let core = Core::observe(Arc::clone(&scene.plan), state.machine.clone().unwrap(), &state);
    let snapshot = Snapshot { core: Some(&core), ..scene.snapshot(&state, at(65_000)) };
    let expected = "\
ablation: running for 1m 05s on 2 simulated GPUs
RUN

  stage                    done  succeeded  failed  skipped  running  waiting
  train  ━━××╌╌╌╌╌╌╌╌╌╌╌╌   2/6          1       1        0        2        2
  eval   ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌   0/1          0       0        0        0        1
  all    ━━××╌╌╌╌╌╌╌╌╌╌╌╌   2/7          1       1        0        2        3

Running
  gpu 0  train/lr=0.3  1m 01s
  gpu 1  train/lr=0.4  1m 00s  try 2

Failed
  train/lr=0.2  exit code 3 after 5.0 s  RUN/jobs/train/lr=0.2/attempt-1/stderr.log

Waiting
  train/lr=0.5  and 1 more  all 2 lanes are busy; next in line
  eval/all                  waits for stage train: 4 of 6 jobs still to end

To watch it: gpulane watch RUN
";
    assert_eq!(scene.masked(&status(&snapshot, Look::PLAIN, false)), expected);
}

#[test]
fn a_run_without_engine_says_how_to_go_on() {
    let mut scene = half_way();
    scene.event(6000, Event::RunInterrupted { because: "Ctrl-C".into(), exit_code: None });
    let state = scene.state();
    let snapshot = Snapshot { live: false, ..scene.snapshot(&state, at(65_000)) };
    let text = scene.masked(&status(&snapshot, Look::PLAIN, false));
    assert!(
        text.starts_with("ablation: interrupted after 6.0 s, 59 s ago, on 2 simulated GPUs\nRUN\n! Ctrl-C\n"),
        "{text}"
    );
    assert!(
        text.contains("\nWere running: cut off (resume runs them again)\n  gpu 0  train/lr=0.3\n"),
        "{text}"
    );
    assert!(
        text.contains("all    ━━××╌╌╌╌╌╌╌╌╌╌╌╌   2/7          1       1        0        0        5\n"),
        "{text}"
    );
    assert!(
        text.contains("train/lr=0.5  and 1 more  interrupted; `gpulane resume RUN` continues\n"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    assert_eq!((&value["running"], &value["jobs"][2]["state"]), (&0.into(), &"cut_off".into()));
    assert!(text.ends_with("\nTo go on with the 5 jobs left: gpulane resume RUN\n"), "{text}");
}

#[test]
fn long_lists_are_cut_unless_all_is_wanted() {
    let names: Vec<String> = (0..300).map(|n| format!("n={n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scene = Scene::new(plan(&[("many", &names)]));
    scene.started(1);
    for name in &names[..100] {
        scene.job_failed(0, &format!("many/{name}"), 0, 1, 0.0);
    }
    let state = scene.state();
    let snapshot = Snapshot { live: false, ..scene.snapshot(&state, at(0)) };
    let text = status(&snapshot, Look::PLAIN, false);
    assert!(text.contains("… and 80 more: add --all\n"), "{text}");
    assert!(text.lines().count() < 40);
    assert!(status(&snapshot, Look::PLAIN, true).lines().count() > 100);
}

#[test]
fn status_as_json_has_names_and_numbers() {
    let scene = half_way();
    let state = scene.state();
    let snapshot = scene.snapshot(&state, at(65_000));
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    assert_eq!(value["state"], "running");
    assert_eq!(value["started"], "2023-11-14T22:13:20.000Z");
    assert_eq!((&value["failed"], &value["waiting"]), (&1.into(), &3.into()));
    assert_eq!(value["stages"][0]["running"], 2);
    assert_eq!(value["running_jobs"][1]["attempt"], 2);
    assert_eq!(value["failed_jobs"][0]["reason"], "exit");
}

/// One of each state.
fn motley() -> Scene {
    let mut scene = half_way();
    scene.event(5000, Event::JobSkipped { job: "eval/all".into(), because: "train/lr=0.2 failed".into() });
    scene
}

#[test]
fn all_lists_every_job() {
    let scene = motley();
    let state = scene.state();
    let core = Core::observe(Arc::clone(&scene.plan), state.machine.clone().unwrap(), &state);
    let now = at(65_000);
    let snapshot = Snapshot { core: Some(&core), ..scene.snapshot(&state, now) };
    let text = scene.masked(&status(&snapshot, Look::PLAIN, true));
    let expected = "
  job           state        took  tries  why
  train/lr=0.1  succeeded   4.0 s      1
  train/lr=0.2  failed      5.0 s      1  exit code 3                                 RUN/jobs/train/lr=0.2/attempt-1/stderr.log
  train/lr=0.3  running    1m 01s      1
  train/lr=0.4  running    1m 00s      2
  train/lr=0.5  waiting                   all 2 lanes are busy; next in line
  train/lr=0.6  waiting                   all 2 lanes are busy; 1 job before it
  eval/all      skipped                   train/lr=0.2 failed
";
    let squeezed = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let list = text.find("\n  job ").unwrap();
    let to = text.find("\nTo watch").unwrap();
    assert_eq!(squeezed(&text[list..to]), squeezed(expected));
    let short = status(&snapshot, Look::PLAIN, false);
    assert!(short.contains("\nSkipped\n  eval/all    train/lr=0.2 failed\n"), "{short}");
    assert!(short.contains("  eval   ················   1/1 "), "{short}");
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    let states: Vec<&str> =
        value["jobs"].as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "failed", "running", "running", "waiting", "waiting", "skipped"]);
    assert_eq!((&value["jobs"][1]["reason"], &value["jobs"][1]["code"]), (&"exit".into(), &3.into()));
    assert_eq!(value["jobs"][6]["reason"], "train/lr=0.2 failed");
}

#[test]
fn one_job_in_full() {
    let scene = motley();
    let state = scene.state();
    let now = at(65_000);
    let snapshot = Snapshot { live: false, ..scene.snapshot(&state, now) };
    let detail = |job: &str| scene.masked(&job_detail(&snapshot, scene.id(job), Look::PLAIN));
    let expected = "\
train/lr=0.2: failed after 5.0 s
  why:      exit code 3
  tries:    1
  log:      RUN/jobs/train/lr=0.2/attempt-1/stderr.log
  │ ValueError: bad

To try it again: gpulane resume RUN --failed
";
    assert_eq!(detail("train/lr=0.2"), expected);
    let cut = detail("train/lr=0.3");
    assert!(
        cut.starts_with("train/lr=0.3: cut off\n  why:      resume runs it again\n  where:    gpu 0, "),
        "{cut}"
    );
    assert!(cut.ends_with("  log:      it printed nothing\n\nTo go on: gpulane resume RUN\n"), "{cut}");
    assert!(detail("eval/all").starts_with("eval/all: skipped\n  why:      train/lr=0.2 failed\n"));
    let value = job_detail_json(&snapshot, scene.id("train/lr=0.2"));
    let value: serde_json::Value = serde_json::from_str(&value).unwrap();
    assert_eq!((&value["state"], &value["last_lines"][0]), (&"failed".into(), &"ValueError: bad".into()));
}

#[test]
fn a_hundred_thousand_jobs_are_no_trouble() {
    let names: Vec<String> = (0..100_000).map(|n| format!("n={n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scene = Scene::new(plan(&[("many", &names)]));
    scene.started(1);
    let state = scene.state();
    let core = Core::observe(Arc::clone(&scene.plan), state.machine.clone().unwrap(), &state);
    let now = at(0);
    let snapshot = Snapshot { core: Some(&core), ..scene.snapshot(&state, now) };
    let begun = std::time::Instant::now();
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    assert_eq!(value["jobs"].as_array().unwrap().len(), 100_000);
    assert!(status(&snapshot, Look::PLAIN, true).lines().count() > 100_000);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn the_list_and_the_run_agree_on_how_long_it_took() {
    let mut scene = half_way();
    scene.event(
        60_000,
        Event::RunResumed { gpulane: "0.1.0".into(), machine: scene::machine(2), pid: 2, boot: None },
    );
    let state = scene.state();
    let now = at(65_000);
    let snapshot = scene.snapshot(&state, now);
    let text = status(&snapshot, Look::PLAIN, false);
    assert!(text.starts_with("ablation: running for 1m 05s (5.0 s since it was resumed) on 2"), "{text}");
    let rows = [RunRow { name: "r".into(), known: Ok(RunFacts::of(&state, true)) }];
    assert!(runs_table(&rows, Look::PLAIN, now).contains(" 1m 05s  1m 05s ago"));
}

#[test]
fn the_list_of_runs() {
    let scene = half_way();
    let facts = RunFacts::of(&scene.state(), true);
    assert_eq!(facts.phase, Phase::Running);
    let rows = [
        RunRow { name: "ablation-1".into(), known: Ok(facts) },
        RunRow { name: "broken".into(), known: Err("plan.json is damaged".into()) },
    ];
    let expected = "\
run         state                             done  failed    took     started
ablation-1  running                            2/7       1  1m 00s  1m 00s ago
broken      unreadable: plan.json is damaged

More of one: gpulane status RUN
";
    assert_eq!(runs_table(&rows, Look::PLAIN, at(60_000)), expected);
    assert_eq!(runs_json(&rows).lines().count(), 2);
    assert!(runs_table(&[], Look::PLAIN, Millis(0)).contains("gpulane run"));
}

fn logs(scene: &Scene, which: Which) -> (Logs, Seen) {
    let seen = Seen::default();
    (Logs::new(&scene.dir, Arc::clone(&scene.plan), which, Look::PLAIN, Box::new(seen.clone())), seen)
}

#[test]
fn logs_of_one_job_are_bare_and_of_the_newest_attempt() {
    let mut scene = half_way();
    scene.says("train/lr=0.2", 1, "stdout", b"first try\n");
    scene.says("train/lr=0.2", 2, "stdout", b"second try");
    scene.job_started(6000, "train/lr=0.2", 2, 1).job_failed(7000, "train/lr=0.2", 2, 3, 1.0);
    let job = scene.id("train/lr=0.2");
    for (attempt, expected) in [(None, "second try\n"), (Some(Attempt(1)), "first try\nValueError: bad\n")] {
        let (mut view, seen) = logs(&scene, Which::Job(job, attempt));
        view.show().unwrap();
        assert_eq!(seen.text(), expected);
    }
}

#[test]
fn logs_that_are_not_there_say_why() {
    let scene = motley();
    scene.says("train/lr=0.1", 1, "stdout", b"words\n");
    for (job, attempt, expected) in [
        ("train/lr=0.1", None, None),
        ("train/lr=0.1", Some(9), Some("train/lr=0.1 has 1 attempt, not 9")),
        ("train/lr=0.4", Some(0), Some("train/lr=0.4 has 2 attempts, not 0")),
        ("train/lr=0.4", Some(1), Some("attempt 1 of train/lr=0.4 printed nothing")),
        ("train/lr=0.3", None, Some("train/lr=0.3 has printed nothing so far")),
        ("train/lr=0.5", None, Some("train/lr=0.5 has not started yet")),
        ("eval/all", Some(1), Some("eval/all was skipped: train/lr=0.2 failed")),
    ] {
        let (mut view, _) = logs(&scene, Which::Job(scene.id(job), attempt.map(Attempt)));
        view.show().unwrap();
        assert_eq!(view.nothing_to_show().as_deref(), expected);
    }
}

#[test]
fn logs_are_followed_to_the_end_of_the_run_without_a_line_twice() {
    let mut scene = half_way();
    scene.says("train/lr=0.3", 1, "stdout", b"one\ntwo\nhal");
    let (mut view, seen) = logs(&scene, Which::All);
    view.show().unwrap();
    assert!(!view.tick().unwrap());
    scene.says("train/lr=0.3", 1, "stdout", b"f\nlast");
    scene.job_succeeded(7000, "train/lr=0.3", 1.0);
    scene.job_started(7000, "train/lr=0.5", 1, 0);
    scene.says("train/lr=0.5", 1, "stdout", b"five\n");
    assert!(!view.tick().unwrap());
    scene.event(8000, Event::RunInterrupted { because: "Ctrl-C".into(), exit_code: None });
    assert!(view.tick().unwrap());
    view.finish().unwrap();
    let expected = "\
train/lr=0.2 ┆ ValueError: bad
train/lr=0.3 │ one
train/lr=0.3 │ two
train/lr=0.3 │ half
train/lr=0.3 │ last
train/lr=0.5 │ five
";
    assert_eq!(seen.text(), expected);
}

#[test]
fn following_one_job_ends_with_it() {
    let mut scene = half_way();
    let (mut view, seen) = logs(&scene, Which::Job(scene.id("train/lr=0.3"), None));
    view.show().unwrap();
    scene.says("train/lr=0.3", 1, "stderr", b"\r 1%\r100%\r\n");
    scene.says("train/lr=0.4", 1, "stderr", b"someone else\n");
    assert!(!view.tick().unwrap());
    scene.job_succeeded(7000, "train/lr=0.3", 1.0);
    assert!(view.tick().unwrap());
    assert_eq!(seen.text(), "100%\n");
}

#[test]
fn after_a_jump_of_the_clock_a_date_is_said_and_no_hours() {
    const YEARS: u64 = 30 * 365 * 24 * 3_600_000;
    let mut scene = half_way();
    scene.event(6000, Event::RunInterrupted { because: "Ctrl-C".into(), exit_code: None });
    let state = scene.state();
    let told = |now: Millis| {
        let snapshot = Snapshot { live: false, ..scene.snapshot(&state, now) };
        let row = RunRow { name: "night".into(), known: Ok(RunFacts::of(&state, false)) };
        status(&snapshot, Look::PLAIN, false) + &runs_table(&[row], Look::PLAIN, now)
    };
    let forward = told(at(YEARS));
    assert!(forward.contains("interrupted after 6.0 s, on 2023-11-14 22:13 UTC,"), "{forward}");
    assert!(!forward.contains("262800h"), "{forward}");
    let back = told(Millis(at(0).0 - YEARS));
    assert!(back.contains("on 2023-11-14 22:13 UTC, by a clock that was set back since,"), "{back}");
    assert!(!back.contains("just now"), "{back}");
}

#[test]
fn a_run_across_a_jump_of_the_clock_has_lasted_nobody_knows_how_long() {
    const YEARS: u64 = 30 * 365 * 24 * 3_600_000;
    let scene = half_way();
    let state = scene.state();
    let snapshot = scene.snapshot(&state, at(YEARS));
    let row = RunRow { name: "night".into(), known: Ok(RunFacts::of(&state, true)) };
    let told = status(&snapshot, Look::PLAIN, false) + &runs_table(&[row], Look::PLAIN, at(YEARS));
    assert!(told.contains("running for unknown time (the clock was changed)"), "{told}");
    assert!(!told.contains("2628"), "{told}");
}
