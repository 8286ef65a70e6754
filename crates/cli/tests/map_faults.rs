//! Models and inputs that are wrong altogether: the map stops and says so instead of running through every item. And processes of a map
//! that end, by themselves or by a signal: nothing the model has written is lost, and what is not as usual is said.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;

use gpulane_testkit::{Gpulane, tagged, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn list(gpulane: &Gpulane, count: usize) {
    let items: Vec<String> = (0..count).map(|number| format!("item-{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
}

#[test]
fn a_model_that_crashes_over_everything_stops_the_map() {
    let gpulane = gpulane();
    list(&gpulane, 400);
    let model = "import os\ndef Model(batch):\n    os._exit(9)\n";
    let finished = gpulane.map(model, &["@items.txt"], &["--decode", "value", "--batch", "8"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let stopped = gpulane.events_of("map_stopped");
    let because = stopped[0]["because"].as_str().unwrap();
    assert!(because.contains("died in a row"), "{because}");
    assert!(gpulane.failed_items().len() < 100, "it did not run through all of them");
    gpulane.assert_nothing_left();
}

#[test]
fn a_model_that_raises_over_everything_stops_the_map() {
    let gpulane = gpulane();
    list(&gpulane, 30_000);
    let wrong = "def Model(batch):\n    raise ValueError(f'not {batch[0]}')\n";
    let finished = gpulane.map(wrong, &["@items.txt"], &["--decode", "value", "--batch", "16"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let stopped = gpulane.events_of("map_stopped");
    let because = stopped[0]["because"].as_str().unwrap();
    for word in ["failed the same way", "ValueError: not item-", "nothing succeeded", "--failed"] {
        assert!(because.contains(word), "{word}: {because}");
    }
    let failed = gpulane.failed_items().len();
    assert!((64..25_000).contains(&failed), "it did not run through all of them: {failed}");
    gpulane.assert_nothing_left();
    // As it says: the model is mended, and there are no results of the old one that it could be at odds with.
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [len(item) for item in batch]\n");
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (30_000, 0));
}

#[test]
fn a_model_that_works_once_or_fails_in_many_ways_goes_on() {
    let once = "def Model(batch):\n    if 'item-7' in batch and len(batch) == 1:\n        return [1]\n    raise ValueError('no')\n";
    let many = "def Model(batch):\n    raise (ValueError if batch[0].endswith('7') else KeyError)('no')\n";
    let told = "def Model(batch):\n    raise ValueError('no')\n";
    for (model, more, failed) in
        [(once, &[][..], 299), (many, &[][..], 300), (told, &["--max-failures", "100%"][..], 300)]
    {
        let gpulane = gpulane();
        list(&gpulane, 300);
        let mut settings = vec!["--decode", "value", "--batch", "8", "--workers", "1"];
        settings.extend(more);
        let finished = gpulane.map(model, &["@items.txt"], &settings);
        assert_eq!(finished.code, 3, "{finished:?}");
        assert_eq!(gpulane.failed_items().len(), failed, "{model}");
        assert_eq!(gpulane.events_of("map_finished").len(), 1, "{model}");
    }
}

#[test]
fn a_result_nested_too_deeply_costs_its_item_only() {
    let model = "def deep(levels):\n    value = 1\n    for _ in range(levels):\n        value = [value]\n    return value\n\n\ndef Model(batch):\n    levels = {'item-3': 300, 'item-5': 100000}\n    return [{'tree': deep(levels.get(item, 20))} for item in batch]\n";
    for format in ["jsonl", "parquet"] {
        let gpulane = gpulane();
        list(&gpulane, 40);
        gpulane.workspace.file("model.py", model);
        let args =
            ["map", "model.py:Model", "@items.txt", "--out", "r", "--gpus", "none", "--decode", "value"];
        let finished = gpulane.call(&[&args[..], &["--batch", "20", "--format", format]].concat());
        assert_eq!(finished.code, 3, "{finished:?}");
        let failed = gpulane.failed_items();
        let names: Vec<&str> = failed.iter().map(|(item, _)| item.as_str()).collect();
        assert_eq!(names, ["item-3", "item-5"], "{failed:?}");
        assert!(
            failed.iter().all(|(_, reason)| reason.contains("`tree`") && reason.contains("nested")),
            "{failed:?}"
        );
        assert_eq!(gpulane.events_of("map_finished")[0]["rows"].as_u64(), Some(38));
    }
}

#[test]
fn a_model_without_the_load_it_is_asked_for_stops_the_map() {
    let gpulane = gpulane();
    list(&gpulane, 50);
    let model = "import gpulane\nclass Model(gpulane.Model):\n    def predict_batch(self, batch):\n        return list(batch)\n";
    let finished = gpulane.map(model, &["@items.txt"], &["--decode", "load"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let stopped = gpulane.events_of("map_stopped");
    let because = stopped[0]["because"].as_str().unwrap();
    assert!(because.contains("load"), "{because}");
    assert!(gpulane.failed_items().len() < 10, "it did not run through all of them");
    gpulane.assert_nothing_left();
}

#[test]
fn items_that_all_cannot_be_loaded_stop_the_map() {
    let gpulane = gpulane();
    let folder = gpulane.workspace.path().join("photos");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..400_u32 {
        let bytes = [&[0xff, 0xd8, 0xff][..], &number.to_le_bytes()].concat();
        std::fs::write(folder.join(format!("{number}.jpg")), bytes).unwrap();
    }
    let model = "def Model(batch):\n    return [len(text) for text in batch]\n";
    let finished = gpulane.map(model, &["photos"], &["--decode", "text"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let stopped = gpulane.events_of("map_stopped");
    let because = stopped[0]["because"].as_str().unwrap();
    for words in
        ["no item so far could be loaded", "not UTF-8 text", "`text`", "--decode", "--max-failures 100%"]
    {
        assert!(because.contains(words), "{words}: {because}");
    }
    let all = gpulane.call(&["resume", "r", "--failed", "--max-failures", "100%"]);
    assert_eq!(all.code, 3, "{all:?}");
    assert_eq!(gpulane.failed_items().len(), 400);
    // One that can be loaded, and the others are bad items.
    std::fs::remove_dir_all(gpulane.dir()).unwrap();
    std::fs::write(folder.join("0.jpg"), "text").unwrap();
    let finished = gpulane.map(model, &["photos"], &["--decode", "text", "--threads", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (1, 399));
}

#[test]
fn results_below_the_input_are_no_input() {
    let gpulane = gpulane();
    for number in 0..5 {
        gpulane.workspace.file(&format!("{number}.txt"), "text");
    }
    let model = "def Model(batch):\n    return [len(text) for text in batch]\n";
    let finished = gpulane.map(model, &["."], &["--decode", "text"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let items: BTreeSet<String> =
        gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect();
    assert!(items.iter().any(|item| item.ends_with("4.txt")), "{items:?}");
    assert!(!items.iter().any(|item| item.contains("journal")), "{items:?}");
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4, "and nothing has changed by it");
}

#[test]
fn a_map_stopped_by_its_failures_goes_on_once_the_model_is_right() {
    let gpulane = gpulane();
    list(&gpulane, 300);
    let wrong = "def Model(batch):\n    raise ValueError('no')\n";
    let settings = ["--decode", "value", "--max-failures", "10"];
    assert_eq!(gpulane.map(wrong, &["@items.txt"], &settings).code, 3);
    assert!(gpulane.failed_items().len() > 10);
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [len(item) for item in batch]\n");
    let finished = gpulane.call(&["resume", "r", "--failed", "--accept-changes"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (300, 0));
}

#[test]
fn one_result_for_the_whole_batch_does_not_pass_for_one_each() {
    let gpulane = gpulane();
    list(&gpulane, 40);
    let model = "def Model(batch):\n    return [sum(len(item) for item in batch)]\n";
    let finished = gpulane.map(model, &["@items.txt"], &["--decode", "value", "--batch", "20"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    assert!(failed.len() >= 38, "all but those that were alone in their batch: {failed:?}");
    assert!(failed[0].1.contains("1 result"), "{failed:?}");
}

const SEVENS: &str = "def one(text):\n    if text.endswith('7'):\n        raise ValueError('seven')\n    return 1\n\n\ndef Model(batch):\n    return [one(text) for text in batch]\n";

#[test]
fn what_is_advised_after_a_change_is_not_refused_again() {
    let gpulane = gpulane();
    for number in 0..20 {
        gpulane.workspace.file(&format!("texts/{number}.txt"), &number.to_string());
    }
    let finished = gpulane.map(SEVENS, &["texts"], &["--decode", "text", "--workers", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    gpulane.workspace.file("texts/more.txt", "x");
    let refused = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(refused.stderr.matches("20 items when the run began").count(), 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("/r --failed --accept-changes`"), "{}", refused.stderr);
    gpulane.workspace.file("model.py", &SEVENS.replace("'7'", "'8'"));
    let model_too = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(model_too.code, 2, "{model_too:?}");
    assert!(model_too.stderr.contains("/r --failed --accept-changes`"), "{model_too:?}");
    let accepted = gpulane.call(&["resume", "r", "--failed", "--accept-changes"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (20, 0));
}

/// What a person and a script see of a run, and the files that say what is done.
fn seen(gpulane: &Gpulane) -> Vec<String> {
    // The first line of `status` says how long ago the run ended.
    let (status, json) =
        (gpulane.call(&["status", "r"]).stdout, gpulane.call(&["status", "r", "--json"]).stdout);
    let shown = [status.split_once('\n').expect("more than a line").1.to_owned(), json];
    let files = ["journal.jsonl", "commits.jsonl", "failed.jsonl"]
        .map(|name| std::fs::read_to_string(gpulane.dir().join(name)).unwrap());
    shown.into_iter().chain(files).collect()
}

#[test]
fn a_refused_resume_of_failed_items_leaves_the_run_as_it_was() {
    let gpulane = gpulane();
    for number in 0..20 {
        gpulane.workspace.file(&format!("texts/{number}.txt"), &number.to_string());
    }
    let finished = gpulane.map(SEVENS, &["texts"], &["--decode", "text", "--workers", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let before = seen(&gpulane);
    assert!(before[0].contains("2 failed"), "{}", before[0]);
    let file = gpulane.workspace.path().join("texts/3.txt");
    std::fs::remove_file(&file).unwrap();
    let refused = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("20 items when the run began, 19 now"), "{refused:?}");
    assert_eq!(seen(&gpulane), before, "inputs that changed");
    std::fs::write(&file, "3").unwrap();
    let part = std::fs::read_dir(gpulane.dir()).unwrap().map(|entry| entry.unwrap().path());
    let part = part.into_iter().find(|path| path.to_string_lossy().contains("/part-")).unwrap();
    let aside = gpulane.workspace.path().join("aside");
    std::fs::rename(&part, &aside).unwrap();
    let refused = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("is not there any more"), "{refused:?}");
    assert_eq!(seen(&gpulane), before, "results that are gone");
    std::fs::rename(&aside, &part).unwrap();
    gpulane.workspace.file("texts/7.txt", "mended");
    gpulane.workspace.file("texts/17.txt", "mended");
    let again = gpulane.call(&["resume", "r", "--failed"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!((gpulane.rows().len(), gpulane.failed_items().len()), (20, 0));
}

#[test]
fn an_item_that_crashes_its_worker_names_the_log_that_tells_how() {
    let gpulane = gpulane();
    list(&gpulane, 20);
    let model = "import os\ndef Model(batch):\n    if 'item-7' in batch:\n        print('dying of', len(batch), flush=True)\n        os._exit(9)\n    return [1 for _ in batch]\n";
    let finished = gpulane.map(model, &["@items.txt"], &["--decode", "value", "--workers", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    let command = failed[0].1.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let log = gpulane.call(&words);
    assert!(log.stdout.contains("dying of 1"), "{command}: {log:?}");
}

/// Writes to files of its own, which it never closes: as a worker, and as a loader. Waits at the item `wait`.
const KEEPS_FILES: &str = r#"
import os, time
import gpulane

files = {}

class Model(gpulane.Model):
    def kept(self, who):
        if who not in files:
            files[who] = open(f"{who}-{os.getpid()}.txt", "w")
        return files[who]

    def load(self, path):
        self.kept("loader").write(path + "\n")
        self.wait(path, "load")
        return path

    def predict_batch(self, batch):
        self.kept("worker").writelines(text + "\n" for text in batch)
        for text in batch:
            self.wait(text, "predict")
        return [len(text) for text in batch]

    def wait(self, text, where):
        if text.endswith(f"wait in {where}"):
            open("waiting", "w").close()
            time.sleep(3600)
"#;

/// The lines in the files that begin with this, sorted.
fn written(gpulane: &Gpulane, who: &str) -> Vec<String> {
    let names = std::fs::read_dir(gpulane.workspace.path()).unwrap().flatten();
    let files = names.filter(|entry| entry.file_name().to_string_lossy().starts_with(who));
    let texts = files.map(|entry| std::fs::read_to_string(entry.path()).unwrap());
    let mut lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.sort();
    lines
}

#[test]
fn files_a_model_has_not_closed_are_whole_when_the_map_is_done() {
    let gpulane = gpulane();
    list(&gpulane, 40);
    let finished = gpulane.map(KEEPS_FILES, &["@items.txt"], &["--decode", "load", "--threads", "2"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let mut items: Vec<String> = (0..40).map(|number| format!("item-{number}")).collect();
    items.sort();
    for who in ["worker", "loader"] {
        let lines = written(&gpulane, who);
        let names: Vec<&str> = lines.iter().filter_map(|line| line.rsplit('/').next()).collect();
        assert_eq!(names, items, "{who}");
    }
    gpulane.assert_nothing_left();
}

#[test]
fn files_a_model_has_not_closed_are_whole_when_the_map_is_interrupted() {
    for (item, who) in [("wait in predict", "worker"), ("wait in load", "loader")] {
        let gpulane = gpulane();
        gpulane.workspace.file("table.jsonl", &format!("{{\"text\": \"{item}\"}}\n"));
        let decode = if who == "worker" { "value" } else { "load" };
        let more = ["--decode", decode, "--threads", "1", "--workers", "1"];
        let live = gpulane.start_map(KEEPS_FILES, &["table.jsonl:text"], &more);
        wait_until("the model to be at work", || gpulane.workspace.path().join("waiting").exists());
        live.signal(Signal::INT);
        let finished = live.wait();
        assert_eq!(finished.code, 130, "{finished:?}");
        let lines = written(&gpulane, who);
        assert!(lines.len() == 1 && lines[0].ends_with(item), "{who}: {lines:?}");
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_worker_that_does_not_end_says_what_keeps_it() {
    let gpulane = gpulane();
    gpulane.workspace.file("notes/one.txt", "text");
    gpulane.workspace.file(
        "model.py",
        "import atexit, time\nkept = open('kept.txt', 'w')\natexit.register(lambda: time.sleep(3600))\n\
         def Model(batch):\n    kept.write('all')\n    return batch\n",
    );
    let plan = "[[stage]]\nname = 'tag'\ngrace = '1s'\n\
                map = { model = 'model.py:Model', input = ['notes'], decode = 'text', workers = 1, format = 'jsonl' }\n";
    let finished = gpulane.run(plan, "none");
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(std::fs::read_to_string(gpulane.workspace.path().join("kept.txt")).unwrap(), "all");
    let log = gpulane.call(&["logs", "r", "tag/worker-0"]);
    assert!(log.stdout.contains("did not end within 0.7 s (it is at "), "{log:?}");
    assert!(log.stdout.contains("model.py:3, in <lambda>"), "{log:?}");
}

#[test]
fn a_feeder_that_somebody_ends_is_started_again_and_that_is_said() {
    for (signal, words) in
        [(Signal::TERM, "ended by a signal that"), (Signal::KILL, "which gpulane did not send")]
    {
        let gpulane = gpulane();
        list(&gpulane, 60);
        let model = "import os, time\ndef Model(batch):\n    open('begun', 'w').close()\n    \
                     while not os.path.exists('go on'):\n        time.sleep(0.01)\n    return batch\n";
        let live = gpulane.start_map(model, &["@items.txt"], &["--decode", "value", "--batch", "8"]);
        wait_until("the model to be at work", || gpulane.workspace.path().join("begun").exists());
        let feeder = || {
            let all = tagged(&gpulane.dir());
            all.iter().find(|process| process.command.starts_with("lane-feeder")).map(|process| process.pid)
        };
        let first = wait_for("the feeder", feeder);
        kill_process(Pid::from_raw(first).unwrap(), signal).unwrap();
        wait_until("another feeder", || feeder().is_some_and(|pid| pid != first));
        gpulane.workspace.file("go on", "");
        let finished = live.wait();
        assert_eq!(finished.code, 0, "{finished:?}");
        assert_eq!(gpulane.rows().len(), 60);
        assert!(gpulane.events_of("map_stopped").is_empty());
        let told = finished.stderr.lines().find(|line| line.contains(&format!("the feeder (pid {first})")));
        let told = told.unwrap_or_else(|| panic!("{}", finished.stderr));
        assert!(told.contains(words) && told.contains("started again"), "{told}");
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_feeder_or_loader_that_somebody_has_stopped_goes_on() {
    for stopped in ["lane-feeder", "loader"] {
        let gpulane = gpulane();
        list(&gpulane, 60);
        let items: Vec<String> = (0..60).map(|number| format!("item-{number}")).collect();
        for item in &items {
            gpulane.workspace.file(item, item);
        }
        let model = "import os, time\nclass Model:\n    decode = 'load'\n    \
                     def load(self, path):\n        open('loading', 'w').close()\n        \
                     while not os.path.exists('go on'): time.sleep(0.01)\n        return path\n    \
                     def predict_batch(self, batch): return [len(item) for item in batch]\n";
        let live = gpulane.start_map(model, &["@items.txt"], &["--batch", "8"]);
        wait_until("the first load", || gpulane.workspace.path().join("loading").exists());
        let is_meant = |command: &str| match stopped {
            "loader" => command.contains("_start.py loader"),
            _ => command.starts_with(stopped),
        };
        let found: Vec<i32> = tagged(&gpulane.dir())
            .into_iter()
            .filter(|process| is_meant(&process.command))
            .map(|process| process.pid)
            .collect();
        assert!(!found.is_empty(), "{stopped}");
        for pid in found {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
        }
        gpulane.workspace.file("go on", "");
        let finished = live.wait();
        assert_eq!(finished.code, 0, "{finished:?}");
        assert!(finished.stderr.contains("was stopped; it goes on"), "{}", finished.stderr);
        assert_eq!(gpulane.rows().len(), 60);
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_map_that_was_complete_before_its_journal_said_so_keeps_no_worker_waiting() {
    let gpulane = gpulane();
    list(&gpulane, 40);
    let model = "def Model(batch):\n    return [len(item) for item in batch]\n";
    let settings = ["--decode", "value", "--batch", "8", "--workers", "2"];
    assert_eq!(gpulane.map(model, &["@items.txt"], &settings).code, 0);
    let path = gpulane.dir().join("journal.jsonl");
    let journal = std::fs::read_to_string(&path).unwrap();
    let end = journal.lines().position(|line| line.contains("\"map_finished\"")).unwrap();
    std::fs::write(&path, journal.split_inclusive('\n').take(end).collect::<String>()).unwrap();
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    assert_eq!(gpulane.rows().len(), 40);
    assert_eq!(gpulane.events_of("map_finished").len(), 1);
    assert_eq!(gpulane.events_of("job_lingered").len(), 0, "workers that came too late were told at once");
    gpulane.assert_nothing_left();
}

#[test]
fn a_worker_that_called_done_and_crashes_is_replaced_like_any_other() {
    let gpulane = gpulane();
    list(&gpulane, 7);
    let model = "import os, signal\ndef Model(batch):\n    open(os.environ['GPULANE_DONE'], 'w').close()\n    \
                 if any('item-3' in item for item in batch): os.kill(os.getpid(), signal.SIGSEGV)\n    return batch\n";
    let more = ["--decode", "value", "--batch", "1", "--workers", "1"];
    let finished = gpulane.map(model, &["@items.txt"], &more);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 6, "{finished:?}");
}

#[test]
fn a_model_that_ends_its_worker_with_code_0_costs_its_item_and_not_the_map() {
    for leave in ["sys.exit(0)", "os._exit(0)"] {
        let gpulane = gpulane();
        list(&gpulane, 60);
        let model = format!(
            "import os, sys\ndef Model(batch):\n    if 'item-40' in batch:\n        {leave}\n    return batch\n"
        );
        let more = ["--decode", "value", "--batch", "4", "--workers", "1"];
        let finished = gpulane.map(&model, &["@items.txt"], &more);
        assert_eq!(finished.code, 3, "{finished:?}");
        let failed = gpulane.failed_items();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert_eq!((failed[0].0.as_str(), gpulane.rows().len()), ("item-40", 59));
        assert_eq!(gpulane.events_of("map_finished").len(), 1);
        let because = gpulane.events_of("worker_restarted")[0]["because"].as_str().unwrap().to_owned();
        assert!(because.contains("ended by itself before the map was done"), "{because}");
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_plan_goes_on_behind_a_map_whose_model_ends_its_worker() {
    let gpulane = gpulane();
    list(&gpulane, 20);
    let model =
        "import sys\ndef Model(batch):\n    if 'item-7' in batch:\n        sys.exit(0)\n    return batch\n";
    gpulane.workspace.file("model.py", model);
    gpulane.workspace.file(
        "plan.toml",
        "[[stage]]\nname = \"tag\"\nmap = { model = \"model.py:Model\", input = [\"@items.txt\"], decode = \"value\", batch = 4 }\n\
         [[stage]]\nname = \"after\"\nafter = [\"tag\"]\ngpus = 0\ncommand = [\"true\"]\n",
    );
    let finished = gpulane.call(&["run", "plan.toml", "--run-dir", "r", "--gpus", "none", "--lanes", "1"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(gpulane.events_of("map_finished")[0]["rows"].as_u64(), Some(19));
    let succeeded = gpulane.events_of("job_succeeded");
    assert!(
        succeeded.iter().any(|event| event["job"].as_str().unwrap().starts_with("after/")),
        "{succeeded:?}"
    );
    gpulane.assert_nothing_left();
}
