//! One item must not spoil the rest: workers that an item breaks, and models that do not come back.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;

use gpulane_testkit::{Gpulane, wait_until};
use rustix::process::Signal;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn list(gpulane: &Gpulane, count: usize) {
    let items: Vec<String> = (0..count).map(|number| format!("item-{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
}

/// Every item of the list is in the results or has failed, once.
fn assert_all_once(gpulane: &Gpulane, count: usize) {
    let mut names: Vec<String> =
        gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect();
    names.extend(gpulane.failed_items().into_iter().map(|(item, _)| item));
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), different.len()), (count, count));
}

/// After `item-100` everything fails in the same process, as with a state that is lost or memory that leaked away.
const BREAKS: &str = "import gpulane\n\nclass Model(gpulane.Model):\n    decode = 'value'\n    broken = False\n\n    \
    def predict_batch(self, batch):\n        self.broken = self.broken or 'item-100' in batch\n        if self.broken:\n            \
    raise RuntimeError('the state is lost')\n        return [len(item) for item in batch]\n";

#[test]
fn an_item_that_breaks_its_worker_costs_itself() {
    for batch in ["1", "16"] {
        let gpulane = gpulane();
        list(&gpulane, 600);
        let more = ["--decode", "value", "--batch", batch, "--workers", "1"];
        let finished = gpulane.map(BREAKS, &["@items.txt"], &more);
        assert_eq!(finished.code, 3, "{finished:?}");
        let failed = gpulane.failed_items();
        let names: Vec<&str> = failed.iter().map(|(item, _)| item.as_str()).collect();
        assert_eq!(names, ["item-100"], "in batches of {batch}");
        assert_all_once(&gpulane, 600);
        let restarted = gpulane.events_of("worker_restarted");
        assert!((1..=3).contains(&restarted.len()), "{restarted:?}");
        let because = restarted[0]["because"].as_str().unwrap();
        assert!(because.contains("in a row failed") && because.contains("the state is lost"), "{because}");
        let summary = gpulane.events_of("map_finished")[0]["summary"].as_str().unwrap().to_owned();
        assert!(summary.contains("replaced after failures in a row"), "{summary}");
        assert!(gpulane.call(&["status", "r"]).stdout.contains("replaced after failures in a row"));
        gpulane.assert_nothing_left();
    }
}

#[test]
fn items_that_break_fresh_workers_as_well_cost_themselves() {
    for (batch, places) in [("1", [5, 20, 21, 22]), ("1", [0, 8, 30, 31]), ("8", [1, 2, 3, 4])] {
        let gpulane = gpulane();
        list(&gpulane, 300);
        let bad: Vec<String> = places.iter().map(|at| format!("item-{at}")).collect();
        let model = format!(
            "broken = False\ndef Model(batch):\n    global broken\n    broken = broken or any(item in {bad:?} for item in batch)\n    \
             if broken: raise RuntimeError('broken')\n    return batch\n"
        );
        let more = ["--decode", "value", "--batch", batch, "--workers", "1", "--threads", "1"];
        let finished = gpulane.map(&model, &["@items.txt"], &more);
        assert_eq!(finished.code, 3, "{finished:?}");
        let mut failed: Vec<String> = gpulane.failed_items().into_iter().map(|(item, _)| item).collect();
        failed.sort_by_key(|item| bad.iter().position(|known| known == item));
        assert_eq!(failed, bad, "in batches of {batch}");
        assert!(gpulane.events_of("worker_restarted").len() <= 12);
    }
}

#[test]
fn bad_items_cost_few_replacements() {
    let gpulane = gpulane();
    list(&gpulane, 300);
    // A result at first, so that the map goes on; then nothing but bad items.
    let model = "def Model(batch):\n    if any(int(item[5:]) >= 20 for item in batch):\n        raise ValueError('bad')\n    return [1] * len(batch)\n";
    let finished = gpulane.map(
        model,
        &["@items.txt"],
        &["--decode", "value", "--batch", "4", "--workers", "1", "--threads", "1"],
    );
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_all_once(&gpulane, 300);
    assert_eq!(gpulane.failed_items().len(), 280);
    // After 8, 8, 8, 32 and 128 of them: each could have been broken by the first item it was given.
    assert!(gpulane.events_of("worker_restarted").len() <= 5);
}

#[test]
fn a_few_bad_items_replace_nobody() {
    let gpulane = gpulane();
    list(&gpulane, 300);
    let model = "def Model(batch):\n    if any(item.endswith('7') for item in batch):\n        raise ValueError('seven')\n    return [1] * len(batch)\n";
    let finished =
        gpulane.map(model, &["@items.txt"], &["--decode", "value", "--batch", "16", "--workers", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.failed_items().len(), 30);
    assert!(gpulane.events_of("worker_restarted").is_empty());
}

/// Everything is killed while failures are held back and while their worker is replaced: each item ends once, the good ones in the results.
#[test]
fn a_kill_while_a_worker_is_replaced_loses_and_doubles_nothing() {
    let slow = BREAKS
        .replace("import gpulane\n", "import gpulane, time\n")
        .replace("        self.broken = ", "        time.sleep(0.02)\n        self.broken = ");
    let gpulane = gpulane();
    list(&gpulane, 240);
    let more = ["--decode", "value", "--batch", "4", "--workers", "1"];
    let mut live = gpulane.start_map(&slow, &["@items.txt"], &more);
    for seen in ["map_opened", "worker_restarted"] {
        wait_until(seen, || !gpulane.events_of(seen).is_empty());
        live.signal(Signal::KILL);
        live.wait();
        live = gpulane.spawn(&["resume", "r"]);
    }
    let finished = live.wait();
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_all_once(&gpulane, 240);
    let names: Vec<String> = gpulane.failed_items().into_iter().map(|(item, _)| item).collect();
    assert_eq!(names, ["item-100"]);
    gpulane.assert_nothing_left();
}

const ENDLESS: &str = "import gpulane, time\n\nclass Model(gpulane.Model):\n    decode = 'value'\n\n    def predict_batch(self, batch):\n        \
    for item in batch:\n            if item == 'item-5':\n                self.never()\n        return [len(item) for item in batch]\n\n    \
    def never(self):\n        while True:\n            WAIT\n";

#[test]
fn an_item_the_model_never_comes_back_from_fails_with_its_stack_and_the_others_go_on() {
    for wait in ["pass", "time.sleep(3600)"] {
        let gpulane = gpulane();
        list(&gpulane, 20);
        let more = ["--decode", "value", "--batch", "8", "--workers", "1", "--item-timeout", "300ms"];
        let finished = gpulane.map(&ENDLESS.replace("WAIT", wait), &["@items.txt"], &more);
        assert_eq!(finished.code, 3, "{finished:?}");
        let failed = gpulane.failed_items();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!(failed[0].0, "item-5");
        for words in ["item_timeout, 0.3 s", " in never, called from model.py:9 in predict_batch"] {
            assert!(failed[0].1.contains(words), "{words}: {failed:?}");
        }
        assert_all_once(&gpulane, 20);
        let restarted = gpulane.events_of("worker_restarted");
        assert!(
            restarted[0]["because"].as_str().unwrap().contains("did not come back from 8 items"),
            "{restarted:?}"
        );
        let command = failed[0].1.split('`').nth(1).unwrap();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(gpulane.call(&words).stdout.contains("in never"), "{command}");
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_load_that_never_returns_costs_its_item() {
    let gpulane = gpulane();
    for number in 0..12 {
        gpulane.workspace.file(&format!("texts/{number}.txt"), "text");
    }
    let model = "import gpulane, time\n\nclass Model(gpulane.Model):\n    def load(self, path):\n        if path.endswith('/5.txt'):\n            \
        time.sleep(3600)\n        return path\n\n    def predict_batch(self, batch):\n        return [len(item) for item in batch]\n";
    let finished = gpulane.map(
        model,
        &["texts"],
        &["--decode", "load", "--threads", "2", "--workers", "1", "--item-timeout", "500ms"],
    );
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].0.ends_with("5.txt") && failed[0].1.contains("item_timeout, 0.5 s, at model.py:6 in load"),
        "{failed:?}"
    );
    assert_eq!(gpulane.rows().len(), 11);
    gpulane.assert_nothing_left();
}

/// Twenty pictures of 224 by 224 are 3 MB; their ring took 1.2 GB.
#[test]
fn a_map_of_few_items_takes_little_memory() {
    let gpulane = gpulane();
    // The smallest picture there is: a GIF of one pixel.
    let gif = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    std::fs::create_dir(gpulane.workspace.path().join("photos")).unwrap();
    for number in 0..20 {
        std::fs::write(gpulane.workspace.path().join(format!("photos/{number}.gif")), gif).unwrap();
    }
    let model = "def Model(batch):\n    return [1] * len(batch)\n";
    for (decode, most) in [("rgb:224x224", 64 << 20), ("rgb", 64 << 20), ("bytes", 64 << 20)] {
        let finished = gpulane.map(model, &["photos"], &["--decode", decode, "--workers", "1"]);
        assert_eq!(finished.code, 0, "{decode}: {finished:?}");
        let live: serde_json::Value =
            serde_json::from_slice(&std::fs::read(gpulane.dir().join("live.json")).unwrap()).unwrap();
        let ring = live["ring"].as_u64().unwrap();
        assert!(ring > 0 && ring < most, "{decode}: {ring} bytes");
        std::fs::remove_dir_all(gpulane.dir()).unwrap();
    }
}
