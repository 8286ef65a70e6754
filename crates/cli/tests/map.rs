//! `gpulane map` from the outside: every item once, in results or with its reason, whatever is done to it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;

use gpulane_testkit::{Gpulane, rows, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// A model over texts or list items, whose `predict_batch` has this body.
fn model(decode: &str, body: &str) -> String {
    let body: Vec<String> = body.lines().map(|line| format!("        {line}")).collect();
    format!(
        "import os, signal, threading, time\nimport gpulane\n\nclass Model(gpulane.Model):\n    decode = \"{decode}\"\n    batch = 16\n\n    def predict_batch(self, batch):\n{}\n",
        body.join("\n")
    )
}

/// A list of so many items, `item-0` and on.
fn list(gpulane: &Gpulane, count: usize, more: &[&str]) -> BTreeSet<String> {
    let mut items: Vec<String> = (0..count).map(|number| format!("item-{number}")).collect();
    for (at, item) in more.iter().enumerate() {
        items.insert((at * 37 + 11) % items.len(), (*item).to_owned());
    }
    gpulane.workspace.file("items.txt", &(items.join("\n") + "\n"));
    items.into_iter().collect()
}

fn items_of(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect()
}

/// Every one of these is there exactly once.
fn assert_once(rows: &[Value], expected: &BTreeSet<String>) {
    let items = items_of(rows);
    let distinct: BTreeSet<String> = items.iter().cloned().collect();
    assert_eq!((items.len(), &distinct), (expected.len(), expected));
}

#[test]
fn two_hundred_texts_are_each_in_the_results_once() {
    let gpulane = gpulane();
    for number in 0..200 {
        gpulane.workspace.file(&format!("texts/{number}.txt"), &"x".repeat(number));
    }
    let finished = gpulane.map(&model("text", "return [len(text) for text in batch]"), &["texts"], &[]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let rows = gpulane.rows();
    let expected: BTreeSet<String> = (0..200).map(|number| format!("texts/{number}.txt")).collect();
    assert_once(&rows, &expected);
    for row in &rows {
        let stem = row["item"].as_str().unwrap().trim_start_matches("texts/").trim_end_matches(".txt");
        assert_eq!(row["result"].to_string(), stem);
    }
    let told = gpulane.events_of("map_finished");
    assert_eq!((told.len(), told[0]["rows"].as_u64(), told[0]["failed"].as_u64()), (1, Some(200), Some(0)));
    gpulane.assert_nothing_left();
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4, "there is nothing to do");
}

#[test]
fn poison_is_found_and_named_and_nothing_else_is_lost() {
    let gpulane = gpulane();
    let poison = ["segv", "raise", "count", "killed"];
    let all = list(&gpulane, 300, &poison);
    let body = r#"
if "segv" in batch:
    os.kill(os.getpid(), signal.SIGSEGV)
if "killed" in batch:
    os.kill(os.getpid(), signal.SIGKILL)
if "raise" in batch:
    raise ValueError("no good")
results = [item.upper() for item in batch]
return results[:-1] if "count" in batch else results"#;
    let finished = gpulane.map(&model("value", body), &["@items.txt"], &["--workers", "2"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed: Vec<(String, String)> = gpulane.failed_items();
    let names: BTreeSet<&str> = failed.iter().map(|(item, _)| item.as_str()).collect();
    assert_eq!(names, poison.into_iter().collect(), "{failed:?}");
    assert_eq!(failed.len(), poison.len(), "each once: {failed:?}");
    let good: BTreeSet<String> = all.into_iter().filter(|item| !poison.contains(&item.as_str())).collect();
    assert_once(&gpulane.rows(), &good);
    assert!(!gpulane.events_of("worker_restarted").is_empty());
    gpulane.assert_nothing_left();
}

/// A run that was stopped in its middle.
fn interrupted(gpulane: &Gpulane, body: &str) -> BTreeSet<String> {
    let all = list(gpulane, 2000, &[]);
    let live = gpulane.start_map(&model("value", body), &["@items.txt"], &["--workers", "1"]);
    gpulane.wait_for_events("batch_committed", 1);
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    gpulane.assert_nothing_left();
    all
}

const SLOW: &str = "time.sleep(0.05)\nreturn [item for item in batch]";

#[test]
fn an_interrupted_map_goes_on_where_it_was() {
    let gpulane = gpulane();
    let all = interrupted(&gpulane, SLOW);
    let before = gpulane.rows().len();
    assert!(before > 0 && before < all.len(), "{before} of {}", all.len());
    let status = gpulane.call(&["status", "r"]).stdout;
    assert!(status.contains(&format!("{before} of 2,000 items have results")), "{status}");
    assert!(status.ends_with("To go on: gpulane resume r\n"), "{status}");
    let finished = gpulane.call(&["resume", "r"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_once(&gpulane.rows(), &all);
}

#[test]
fn a_changed_model_or_list_is_refused_until_it_is_accepted() {
    for (change, named) in [("model.py", "model.py has changed"), ("items.txt", "one more")] {
        let gpulane = gpulane();
        let all = interrupted(&gpulane, SLOW);
        let path = gpulane.workspace.path().join(change);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, if change == "model.py" { text + "# changed\n" } else { text + "one more\n" })
            .unwrap();
        let events = gpulane.events().len();
        let refused = gpulane.call(&["resume", "r"]);
        assert_eq!(refused.code, 2, "{change}: {refused:?}");
        for word in [named, "no item was given", "--accept-changes"] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
        assert_eq!(gpulane.events().len(), events, "nothing was started");
        let finished = gpulane.call(&["resume", "r", "--accept-changes"]);
        assert_eq!(finished.code, 0, "{change}: {finished:?}");
        // The items as they were listed.
        assert_once(&gpulane.rows(), &all);
    }
}

#[test]
fn a_changed_folder_is_refused_before_any_item_is_given_out() {
    let gpulane = gpulane();
    for number in 0..400 {
        gpulane.workspace.file(&format!("texts/{number}.txt"), "x");
    }
    let live = gpulane.start_map(&model("text", SLOW), &["texts"], &["--workers", "1"]);
    gpulane.wait_for_events("batch_committed", 1);
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    let before = gpulane.rows();
    gpulane.workspace.file("texts/39a.txt", "x");
    let refused = gpulane.call(&["resume", "r"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let told = gpulane.events_of("map_stopped");
    let because = told.last().unwrap()["because"].as_str().unwrap();
    for word in
        ["400 items when the run began, 401 now", "texts/39a.txt", "no item was given", "--accept-changes"]
    {
        assert!(because.contains(word), "{word}: {because}");
    }
    assert_eq!(gpulane.rows(), before);
    gpulane.assert_nothing_left();
    assert_eq!(gpulane.call(&["resume", "r", "--accept-changes"]).code, 0);
    assert_eq!(gpulane.rows().len(), 400);
}

#[test]
fn too_many_failures_stop_the_map_with_a_reason() {
    let gpulane = gpulane();
    list(&gpulane, 500, &[]);
    let body = "raise ValueError(\"always\")";
    let finished = gpulane.map(&model("value", body), &["@items.txt"], &["--max-failures", "20"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let told = gpulane.events_of("map_stopped");
    assert_eq!(told.len(), 1, "{finished:?}");
    assert!(gpulane.events_of("map_finished").is_empty());
    gpulane.assert_nothing_left();
}

#[test]
fn a_worker_that_freezes_is_replaced_and_its_item_named() {
    let gpulane = gpulane();
    let all = list(&gpulane, 100, &["freeze"]);
    let body = r#"
if "freeze" in batch:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
return list(batch)"#;
    let finished = gpulane.map(
        &model("value", body),
        &["@items.txt"],
        &["--workers", "2", "--hang", "2s", "--batch", "1"],
    );
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    assert_eq!(failed.iter().map(|(item, _)| item.as_str()).collect::<Vec<_>>(), ["freeze"], "{failed:?}");
    assert_once(&gpulane.rows(), &all.into_iter().filter(|item| item != "freeze").collect());
    assert!(!gpulane.events_of("hang_suspected").is_empty());
}

#[test]
fn a_worker_with_nothing_to_do_is_not_taken_for_frozen() {
    let gpulane = gpulane();
    let all = list(&gpulane, 20, &["slow"]);
    let body = r#"
end = time.monotonic() + (20 if "slow" in batch else 0)
while time.monotonic() < end:
    sum(range(10000))
return list(batch)"#;
    let more = ["--workers", "2", "--hang", "1s", "--batch", "4"];
    let finished = gpulane.map(&model("value", body), &["@items.txt"], &more);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_once(&gpulane.rows(), &all);
    assert_eq!(gpulane.events_of("hang_suspected"), Vec::<Value>::new());
}

#[test]
fn a_map_is_a_stage_that_others_wait_for() {
    let gpulane = gpulane();
    let all = list(&gpulane, 50, &[]);
    gpulane.workspace.file("model.py", &model("value", "return [item for item in batch]"));
    let plan = r#"
[[stage]]
name = "tag"
map = { model = "model.py:Model", input = "@items.txt", format = "jsonl", workers = 2 }

[[stage]]
name = "count"
after = "tag"
command = ["sh", "-c", "cat $GPULANE_RUN/maps/tag/part-*.jsonl | wc -l > $GPULANE_OUT/lines"]
"#;
    let finished = gpulane.run(plan, "none");
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_once(&rows(&gpulane.dir().join("maps/tag")), &all);
    let lines = std::fs::read_to_string(gpulane.dir().join("jobs/count/main/out/lines")).unwrap();
    assert_eq!(lines.trim(), "50");
}

#[test]
fn items_that_failed_are_tried_again_when_asked() {
    let gpulane = gpulane();
    let all = list(&gpulane, 60, &["late"]);
    let body = r#"
if "late" in batch and not os.path.exists("now"):
    raise ValueError("not yet")
return [item for item in batch]"#;
    assert_eq!(gpulane.map(&model("value", body), &["@items.txt"], &[]).code, 3);
    assert_eq!(gpulane.failed_items().len(), 1);
    gpulane.workspace.file("now", "");
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_once(&gpulane.rows(), &all);
    assert_eq!(gpulane.failed_items(), []);
}

#[test]
fn a_feeder_that_is_killed_is_started_again() {
    let gpulane = gpulane();
    let all = list(&gpulane, 1500, &[]);
    let live = gpulane.start_map(&model("value", SLOW), &["@items.txt"], &["--workers", "1"]);
    gpulane.wait_for_events("batch_committed", 1);
    let feeder = gpulane_testkit::tagged(&gpulane.dir());
    let feeder = feeder.iter().find(|process| process.command.starts_with("lane-feeder")).unwrap();
    let pid = rustix::process::Pid::from_raw(feeder.pid).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    gpulane.wait_for_events("map_opened", 2);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_once(&gpulane.rows(), &all);
    assert!(gpulane.events_of("worker_restarted").is_empty(), "the worker kept its model");
}

#[test]
fn a_model_that_cannot_be_loaded_fails_the_map_and_says_where() {
    let gpulane = gpulane();
    list(&gpulane, 10, &[]);
    let broken = "import gpulane\nclass Model(gpulane.Model):\n    def setup(self):\n        raise RuntimeError(\"no weights\")\n    def predict_batch(self, batch):\n        return batch\n";
    let finished = gpulane.map(broken, &["@items.txt"], &["--workers", "1", "--retries", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.jobs_in("job_started").len(), 2, "tried twice");
    let logs = gpulane.call(&["logs", "r"]);
    assert!(logs.stdout.contains("no weights") || logs.stderr.contains("no weights"), "{logs:?}");
    gpulane.assert_nothing_left();
}

#[test]
fn all_mistakes_are_told_at_once_and_nothing_is_started() {
    let gpulane = gpulane();
    gpulane.workspace.file("r/old", "");
    let args = ["map", "missing.py:Model", "nothing-*.jpg", "--out", "r", "--gpus", "none"];
    let finished = gpulane.call(&args);
    assert_eq!(finished.code, 2);
    for expected in ["r is not empty", "missing.py", "nothing-*.jpg"] {
        assert!(finished.stderr.contains(expected), "{expected}: {}", finished.stderr);
    }
    let finished = gpulane.call(&["map", "m.py", "x", "--out", "o", "--decode", "mp4"]);
    assert_eq!(finished.code, 2);
    for expected in ["`decode`", "`model`", "`x`"] {
        assert!(finished.stderr.contains(expected), "{expected}: {}", finished.stderr);
    }
    assert!(!gpulane.workspace.path().join("o").exists());
}

#[test]
fn a_directory_with_a_map_is_not_taken_for_another() {
    let gpulane = gpulane();
    list(&gpulane, 10, &[]);
    let echo = model("value", "return [item for item in batch]");
    assert_eq!(gpulane.map(&echo, &["@items.txt"], &[]).code, 0);
    let again = gpulane.map(&echo, &["@items.txt"], &[]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("gpulane resume r"), "{}", again.stderr);
}

#[test]
fn a_dry_run_counts_and_starts_nothing() {
    let gpulane = gpulane();
    list(&gpulane, 123, &[]);
    let shown =
        gpulane.map(&model("value", "return batch"), &["@items.txt"], &["--dry-run", "--workers", "3"]);
    assert_eq!((shown.code, shown.stdout.lines().next()), (0, Some("123 items, 3 workers")), "{shown:?}");
    assert!(!gpulane.dir().exists());
}

#[test]
fn a_list_may_come_by_standard_input() {
    use std::io::Write;
    let gpulane = gpulane();
    gpulane.workspace.file("model.py", &model("value", "return [item for item in batch]"));
    let args = [
        "map",
        "model.py:Model",
        "@-",
        "--out",
        "r",
        "--gpus",
        "none",
        "--format",
        "jsonl",
        "--decode",
        "value",
    ];
    let mut child = gpulane.command(&args).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb\nc\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(items_of(&gpulane.rows()), ["a", "b", "c"]);
}

#[test]
fn cancelling_a_map_ends_everything() {
    let gpulane = gpulane();
    list(&gpulane, 5000, &[]);
    let live = gpulane.start_map(&model("value", SLOW), &["@items.txt"], &[]);
    gpulane.wait_for_events("batch_committed", 1);
    assert_eq!(gpulane.call(&["cancel", "r"]).code, 0);
    assert_eq!(live.wait().code, 3);
    gpulane.assert_nothing_left();
}

#[test]
fn the_demo_shows_results() {
    let gpulane = gpulane();
    let shown = gpulane.call(&["demo", "map"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.lines().all(|line| line.contains("\"longest\"")), "{shown:?}");
    assert_eq!(rows(&gpulane.workspace.path().join("gpulane-demo/run-1")).len(), 2000);
}

#[test]
fn simulated_gpus_have_a_worker_each() {
    let gpulane = gpulane();
    list(&gpulane, 400, &[]);
    gpulane.workspace.file("model.py", &model("value", SLOW));
    let args =
        ["map", "model.py:Model", "@items.txt", "--out", "r", "--gpus", "sim:2x8GiB", "--format", "jsonl"];
    let live = gpulane.spawn(&args);
    wait_until("both workers", || gpulane.events_of("job_started").len() == 2);
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{finished:?}");
    let gpus: BTreeSet<String> =
        gpulane.events_of("job_started").iter().map(|event| event["gpus"].to_string()).collect();
    assert_eq!(gpus.len(), 2, "{gpus:?}");
}
