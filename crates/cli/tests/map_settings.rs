//! What can be said to a map beside its model and inputs: arguments of the model, placeholders, what changes when it goes on; and what it
//! says of itself before and after.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, rows};
use rustix::process::Signal;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn list(gpulane: &Gpulane, count: usize) {
    let items: Vec<String> = (0..count).map(|number| format!("item-{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
}

const REPEAT: &str = r#"
import time
import gpulane

class Model(gpulane.Model):
    decode = "value"
    batch = 8

    def __init__(self, times, end="!"):
        self.times, self.end = times, end

    def predict_batch(self, batch):
        time.sleep(0.05)
        return [{"text": item * self.times + str(self.end)} for item in batch]
"#;

#[test]
fn arguments_reach_the_model_and_are_part_of_what_it_is() {
    let gpulane = gpulane();
    list(&gpulane, 400);
    let live =
        gpulane.start_map(REPEAT, &["@items.txt"], &["--set", "times=2", "--set", "end=?", "--workers", "1"]);
    gpulane.wait_for_events("batch_committed", 1);
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    assert_eq!(gpulane.rows()[0]["text"], "item-0item-0?");
    let plan = std::fs::read_to_string(gpulane.dir().join("plan.json")).unwrap();
    assert!(plan.contains(r#""args":{"times":2,"end":"?"}"#), "{plan}");

    let refused = gpulane.call(&["resume", "r", "--set", "times=3"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--set cannot change"), "{refused:?}");
    std::fs::write(gpulane.dir().join("plan.json"), plan.replace("\"times\":2", "\"times\":3")).unwrap();
    let refused = gpulane.call(&["resume", "r"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("the model's arguments were"), "{refused:?}");
    std::fs::write(gpulane.dir().join("plan.json"), plan).unwrap();
    assert_eq!(gpulane.call(&["resume", "r"]).code, 0);
    assert!(gpulane.rows().iter().all(|row| row["text"].as_str().unwrap().ends_with('?')));
    assert_eq!(gpulane.rows().len(), 400);
}

#[test]
fn arguments_the_model_does_not_take_are_named_with_those_it_does() {
    for (given, word) in [(["--set", "time=2"], "it takes times, end"), (["--set", "end=2"], "needs `times`")]
    {
        let gpulane = gpulane();
        list(&gpulane, 10);
        let finished = gpulane.map(REPEAT, &["@items.txt"], &given);
        assert_eq!(finished.code, 3, "{finished:?}");
        let stopped = gpulane.events_of("map_stopped");
        assert!(stopped[0]["because"].as_str().unwrap().contains(word), "{stopped:?}");
    }
    let gpulane = gpulane();
    list(&gpulane, 10);
    let finished = gpulane.map(REPEAT, &["@items.txt"], &["--set", "times", "--set", "a-b=1"]);
    assert_eq!(finished.code, 2, "{finished:?}");
    for word in ["`--set` needs a name and its value", "`a-b` cannot be"] {
        assert!(finished.stderr.contains(word), "{word}: {}", finished.stderr);
    }
}

#[test]
fn loaders_get_the_arguments_too() {
    let gpulane = gpulane();
    gpulane.workspace.file("a.raw", "abc");
    let model = "class Model:\n    decode = 'load'\n    def __init__(self, skip): self.skip = skip\n    def load(self, path): return open(path).read()[self.skip:]\n    def predict_batch(self, batch): return list(batch)\n";
    let finished = gpulane.map(model, &["a.raw"], &["--set", "skip=1"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(gpulane.rows()[0]["result"], "bc");
}

#[test]
fn a_map_works_on_what_an_earlier_stage_made() {
    let gpulane = gpulane();
    gpulane.workspace.file(
        "model.py",
        "import gpulane\nclass Model(gpulane.Model):\n    def __init__(self, end): self.end = end\n    def predict_batch(self, batch): return [text + self.end for text in batch]\n",
    );
    let plan = r#"
[[stage]]
name = "train"
command = ["sh", "-c", "echo {n} > {out}/weights.txt"]
matrix = { n = [1, 2, 3] }

[[stage]]
name = "look"
after = "train"
map = { model = "model.py:Model", input = ["{run}/jobs/train/*/out/*.{txt,md}", "{name}-*.txt"], decode = "text", format = "jsonl", args = { end = "!" } }
"#;
    gpulane.workspace.file("look-0.txt", "zero");
    let finished = gpulane.run(plan, "none");
    assert_eq!(finished.code, 0, "{finished:?}");
    let results: Vec<String> = rows(&gpulane.dir().join("maps/look"))
        .iter()
        .map(|row| row["result"].as_str().unwrap().replace('\n', ""))
        .collect();
    assert_eq!(results, ["1!", "2!", "3!", "zero!"]);

    gpulane.workspace.file("wrong.toml", &plan.replace("{name}-*", "{nam}-*").replace("{run}/", "{runs}/"));
    let refused = gpulane.call(&["check", "wrong.toml"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    for word in ["unknown placeholder `{nam}` in `input`", "did you mean `name`", "{runs}", "wrong.toml:10"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
}

#[test]
fn a_resume_changes_what_results_do_not_depend_on_and_says_so() {
    let gpulane = gpulane();
    list(&gpulane, 400);
    let live = gpulane.start_map(REPEAT, &["@items.txt"], &["--set", "times=1", "--workers", "1"]);
    gpulane.wait_for_events("batch_committed", 1);
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    let frozen = || std::fs::read_to_string(gpulane.dir().join("plan.json")).unwrap();
    let before = frozen();

    for (flags, word) in [
        (&["--decode", "text"][..], "--decode cannot change"),
        (&["--format", "parquet"][..], "--format cannot change"),
        (&["--nan", "fail"][..], "--nan cannot change"),
        (&["--damaged", "warn"][..], "--damaged cannot change"),
        (&["--batch", "none"][..], "`batch`"),
        (&["--python", "./no-python"][..], "no such program"),
    ] {
        let refused = gpulane.call(&[&["resume", "r"], flags].concat());
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        assert_eq!(frozen(), before, "{flags:?}");
    }

    let more =
        ["--batch", "50", "--max-failures", "5%", "--ring", "64MiB", "--workers", "2", "--python", "python3"];
    let finished = gpulane.call(&[&["resume", "r"][..], &more].concat());
    assert_eq!(finished.code, 0, "{finished:?}");
    let line = finished.stderr.lines().find(|line| line.contains("from now on")).unwrap();
    for word in [
        "batch 50 (was auto)",
        "max-failures 5% (was any)",
        "ring 64 MiB",
        "workers 2 (was 1)",
        "python python3",
    ] {
        assert!(line.contains(word), "{word}: {line}");
    }
    assert!(frozen().contains("\"batch\":50"));
    assert_eq!(gpulane.rows().len(), 400);
}

#[test]
fn files_beside_the_model_do_not_stand_in_for_pythons_or_ours() {
    for decode in ["text", "load"] {
        let gpulane = gpulane();
        for name in ["queue.py", "json.py", "gpulane.py", "base64.py"] {
            gpulane.workspace.file(name, "raise SystemExit('taken for another')\n");
        }
        gpulane.workspace.file("helper.py", "def long(text):\n    return len(text)\n");
        gpulane.workspace.file("texts/a.txt", "abc");
        let model = "import gpulane, json, queue\nimport helper\n\nclass Model(gpulane.Model):\n    def load(self, path):\n        return open(path).read()\n\n    def predict_batch(self, batch):\n        assert queue.Queue and json.dumps\n        return [helper.long(text) for text in batch]\n";
        let finished = gpulane.map(model, &["texts"], &["--decode", decode]);
        assert_eq!(finished.code, 0, "{decode}: {finished:?}");
        assert_eq!(gpulane.rows()[0]["result"], 3, "{decode}");
    }
}

#[test]
fn bytes_that_were_copied_are_told_at_the_end_and_by_status() {
    let gpulane = gpulane();
    gpulane.workspace.file("texts/a.txt", &"x".repeat(3 << 10));
    let finished = gpulane.map(
        "def Model(batch):\n    return [len(data) for data in batch]\n",
        &["texts"],
        &["--decode", "bytes"],
    );
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(finished.stderr.contains("3 KiB copied on the host"), "{}", finished.stderr);
    let status = gpulane.call(&["status", "r"]);
    assert!(status.stdout.contains("3 KiB copied on the host"), "{}", status.stdout);
}

#[test]
fn a_dry_run_says_what_would_happen() {
    let gpulane = gpulane();
    list(&gpulane, 123);
    let settings = [
        "--dry-run",
        "--workers",
        "3",
        "--decode",
        "value",
        "--batch",
        "32",
        "--set",
        "times=2",
        "--ring",
        "64MiB",
    ];
    let shown = gpulane.map(REPEAT, &["@items.txt"], &settings);
    assert_eq!(shown.code, 0, "{shown:?}");
    for word in [
        "123 items, 3 workers",
        "decode  value",
        "batch   32",
        "at most 64 MiB",
        "lanes",
        "r/part-*.jsonl",
        "\"times\":2",
    ] {
        assert!(shown.stdout.contains(word), "{word}: {}", shown.stdout);
    }
    let open = gpulane.map(REPEAT, &["@items.txt"], &["--dry-run", "--workers", "3"]);
    assert!(open.stdout.contains("as the model's class says"), "{}", open.stdout);
    let json = gpulane.map(REPEAT, &["@items.txt"], &[&settings[..], &["--json"]].concat());
    let told: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (told["items"].as_u64(), told["more"].as_bool(), told["batch"].as_u64()),
        (Some(123), Some(false), Some(32))
    );
    assert!(!gpulane.dir().exists());
}

#[test]
fn a_map_that_is_done_changes_nothing_and_says_only_that() {
    let gpulane = gpulane();
    list(&gpulane, 20);
    assert_eq!(gpulane.map(REPEAT, &["@items.txt"], &["--set", "times=1", "--workers", "1"]).code, 0);
    let plan = std::fs::read_to_string(gpulane.dir().join("plan.json")).unwrap();
    let over = gpulane.call(&["resume", "r", "--batch", "4"]);
    assert_eq!(over.code, 4, "{over:?}");
    assert!(over.stderr.contains("nothing to do") && !over.stderr.contains("from now on"), "{over:?}");
    assert_eq!(std::fs::read_to_string(gpulane.dir().join("plan.json")).unwrap(), plan);
}

#[test]
fn a_wrong_argument_takes_a_new_map() {
    let gpulane = gpulane();
    list(&gpulane, 20);
    for given in ["tims=1", "end=?"] {
        let _ = std::fs::remove_dir_all(gpulane.dir());
        let finished = gpulane.map(REPEAT, &["@items.txt"], &["--set", given, "--workers", "1"]);
        assert_eq!(finished.code, 3, "{finished:?}");
        for told in
            [&finished.stderr, &gpulane.call(&["status", "r"]).stdout, &gpulane.call(&["doctor", "r"]).stdout]
        {
            assert!(told.contains("gpulane map model.py:Model … --out ANOTHER"), "{told}");
            assert!(!told.contains("--failed"), "it would meet the same model: {told}");
        }
    }
}

#[test]
fn a_map_that_was_skipped_is_over_until_what_it_follows_is_tried_again() {
    let gpulane = gpulane();
    list(&gpulane, 20);
    gpulane.workspace.file("model.py", REPEAT);
    gpulane.workspace.file(
        "plan.toml",
        r#"
[[stage]]
name = "train"
gpus = 0
command = ["test", "-e", "mended"]

[[stage]]
name = "tag"
after = "train"
map = { model = "model.py:Model", input = "@items.txt", format = "jsonl", workers = 1, args = { times = 1 } }
"#,
    );
    let finished = gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let over = gpulane.call(&["resume", "r"]);
    assert_eq!(over.code, 4, "{over:?}");
    gpulane.workspace.file("mended", "");
    assert_eq!(gpulane.call(&["resume", "r", "--failed"]).code, 0);
}

#[test]
fn what_was_skipped_for_a_map_that_stopped_runs_when_resume_has_completed_the_map() {
    let gpulane = gpulane();
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [{'n': 1} for _ in batch]\n");
    list(&gpulane, 2);
    let items = gpulane.workspace.path().join("items.txt");
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"rm\", \"ITEMS\"]\n[[stage]]\nname = \"m\"\nafter = [\"s\"]\n\
                map = { model = \"model.py:Model\", input = [\"@items.txt\"], decode = \"value\" }\n\
                [[stage]]\nname = \"t\"\nafter = [\"m\"]\ncommand = [\"true\"]\n";
    gpulane.workspace.file("plan.toml", &plan.replace("ITEMS", items.to_str().unwrap()));
    let stopped = gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    assert_ne!(stopped.code, 0, "{}", stopped.stderr);
    list(&gpulane, 2);
    let resumed = gpulane.call(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let journal = std::fs::read_to_string(gpulane.workspace.path().join("r/journal.jsonl")).unwrap();
    assert!(journal.contains("\"event\":\"job_succeeded\",\"job\":\"t"), "{journal}");
}
