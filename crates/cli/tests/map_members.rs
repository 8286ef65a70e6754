//! Members of samples that come with the items of tar shards: asked for by the class, the command line or a plan, with the same results from
//! plain and compressed tars, and after a resume.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use gpulane_testkit::Gpulane;

/// Shows what it gets, with members by default.
const MODEL: &str = "class Model:
    decode = 'bytes'
    members = ['json', 'txt']
    def predict_batch(self, batch):
        return [{'own': own.decode(), 'beside': {key: data.decode() for key, data in sample.items()}}
                for own, sample in zip(batch, self.samples)]
";

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// A tar of these members, in this order.
fn tar(gpulane: &Gpulane, name: &str, members: &[(&str, &str)]) -> PathBuf {
    let scratch = gpulane.workspace.path().join("members");
    fs::create_dir_all(&scratch).unwrap();
    for (member, data) in members {
        fs::write(scratch.join(member), data).unwrap();
    }
    let tar = gpulane.workspace.path().join(name);
    let mut command = Command::new("tar");
    command.arg("-cf").arg(&tar).arg("-C").arg(&scratch).args(members.iter().map(|(member, _)| member));
    assert!(command.status().unwrap().success());
    tar
}

fn compress(tar: &PathBuf) {
    assert!(Command::new("gzip").arg("-qk").arg(tar).status().unwrap().success());
}

/// The name of each item, its data and what came with it.
fn seen(gpulane: &Gpulane) -> Vec<(String, String, serde_json::Value)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let row = |row: serde_json::Value| (text(&row["item"]), text(&row["own"]), row["beside"].clone());
    gpulane.rows().into_iter().map(row).collect()
}

const SAMPLES: [(&str, &str); 8] = [
    ("a.json", "{1}"),
    ("a.jpg", "A"),
    ("a.cls", "0"),
    ("b.jpg", "B"),
    ("b.TXT", "two"),
    ("b.json", "{2}"),
    ("c.png", "C"),
    ("d.jpg", "D"),
];

#[test]
fn the_class_asks_and_every_item_has_its_own_members() {
    let gpulane = gpulane();
    let plain = tar(&gpulane, "s.tar", &SAMPLES);
    compress(&plain);
    gpulane.workspace.file("z.jpg", "L");
    for shard in ["s.tar", "s.tar.gz"] {
        let _ = fs::remove_dir_all(gpulane.workspace.path().join("r"));
        let finished = gpulane.map(MODEL, &[shard, "z.jpg"], &[]);
        assert_eq!(finished.code, 0, "{finished:?}");
        let of = |name: &str| if name == "z.jpg" { name.to_owned() } else { format!("{shard}/{name}") };
        let right = [
            ("a.jpg", "A", serde_json::json!({"json": "{1}"})),
            ("b.jpg", "B", serde_json::json!({"json": "{2}", "txt": "two"})),
            ("c.png", "C", serde_json::json!({})),
            ("d.jpg", "D", serde_json::json!({})),
            ("z.jpg", "L", serde_json::json!({})),
        ];
        let right = right.map(|(name, own, beside)| (of(name), own.to_owned(), beside));
        assert_eq!(seen(&gpulane), right);
    }
}

#[test]
fn the_command_line_wins_over_the_class_and_the_plan_does() {
    let gpulane = gpulane();
    tar(&gpulane, "s.tar", &SAMPLES);
    for (asked, beside) in
        [("cls", serde_json::json!({"cls": "0"})), ("*", serde_json::json!({"json": "{1}", "cls": "0"}))]
    {
        let _ = fs::remove_dir_all(gpulane.workspace.path().join("r"));
        let finished = gpulane.map(MODEL, &["s.tar"], &["--members", asked]);
        assert_eq!(finished.code, 0, "{finished:?}");
        assert_eq!(seen(&gpulane)[0].2, beside, "{asked}");
    }
    let plan = "[[stage]]\nname = \"m\"\nmap = { model = \"model.py:Model\", input = \"s.tar\", members = [\"CLS\"], format = \"jsonl\" }\n";
    gpulane.workspace.file("plan.toml", plan);
    let finished = gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "p"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let parts = fs::read_to_string(gpulane.workspace.path().join("p/maps/m/part-00000.jsonl")).unwrap();
    assert!(parts.contains(r#""beside":{"cls":"0"}"#), "{parts}");
}

#[test]
fn mistakes_are_said_all_at_once_and_nothing_is_started() {
    let gpulane = gpulane();
    tar(&gpulane, "s.tar", &SAMPLES);
    let refused = gpulane.map(MODEL, &["s.tar"], &["--members", ".json,a/b", "--batch", "many"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    for words in ["write `json`", "`a/b` is no extension", "batch"] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    let plan = "[[stage]]\nname = \"m\"\nmap = { model = \"model.py:Model\", input = \"s.tar\", members = 3, decode = \"rbg\" }\n\
                [[stage]]\nname = \"n\"\nmap = { model = \"model.py:Model\", input = \"s.tar\", member = [\"json\"] }\n";
    gpulane.workspace.file("plan.toml", plan);
    let checked = gpulane.call(&["check", "plan.toml"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    for words in [
        "`members` must be a list of extensions",
        r#"members = ["json", "txt"]"#,
        "rbg",
        "did you mean `members`",
    ] {
        assert!(checked.stderr.contains(words), "{words}: {checked:?}");
    }
    let model = MODEL.replace("['json', 'txt']", "['*', '.json']");
    let stopped = gpulane.map(&model, &["s.tar"], &[]);
    assert_ne!(stopped.code, 0, "{stopped:?}");
    for words in ["the model's `members`", "write `*` alone", "write `json`"] {
        assert!(stopped.stderr.contains(words), "{words}: {stopped:?}");
    }
}

#[test]
fn a_dry_run_says_which_members() {
    let gpulane = gpulane();
    tar(&gpulane, "s.tar", &SAMPLES);
    for (flags, words) in [
        (&["--dry-run"][..], "members as the model's class says, otherwise none"),
        (&["--dry-run", "--members", "txt,json"], "members json, txt"),
    ] {
        let shown = gpulane.map(MODEL, &["s.tar"], flags);
        assert_eq!(shown.code, 0, "{shown:?}");
        assert!(shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{shown:?}");
    }
}

#[test]
fn an_item_that_cannot_have_its_members_fails_and_the_others_go_on() {
    let gpulane = gpulane();
    let scratch = gpulane.workspace.path().join("members");
    fs::create_dir_all(&scratch).unwrap();
    std::os::unix::fs::symlink("elsewhere", scratch.join("b.json")).unwrap();
    let tar = gpulane.workspace.path().join("s.tar");
    for (name, data) in [("a.jpg", "A"), ("a.json", "{}"), ("b.jpg", "B"), ("c.jpg", "C")] {
        fs::write(scratch.join(name), data).unwrap();
    }
    let names = ["a.jpg", "a.json", "b.jpg", "b.json", "c.jpg"];
    assert!(
        Command::new("tar")
            .arg("-cf")
            .arg(&tar)
            .arg("-C")
            .arg(&scratch)
            .args(names)
            .status()
            .unwrap()
            .success()
    );
    let finished = gpulane.map(MODEL, &["s.tar"], &[]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let failed = gpulane.failed_items();
    assert_eq!((failed.len(), failed[0].0.as_str()), (1, "s.tar/b.jpg"));
    assert!(failed[0].1.contains("b.json") && failed[0].1.contains("symbolic link"), "{failed:?}");
    assert_eq!(seen(&gpulane).len(), 2);
}

/// Fails for half of the items the first time; then goes on in the middle of a compressed shard.
#[test]
fn a_resume_finds_the_members_again_and_may_not_ask_for_others() {
    let gpulane = gpulane();
    let numbers: Vec<(String, String)> = (0..60)
        .flat_map(|number| {
            let beside = if number % 2 == 0 { "json" } else { "txt" };
            let picture = (format!("{number:02}.jpg"), format!("picture {number}"));
            let beside = (format!("{number:02}.{beside}"), format!("beside {number}"));
            if number % 4 < 2 { [picture, beside] } else { [beside, picture] }
        })
        .collect();
    let members: Vec<(&str, &str)> =
        numbers.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
    compress(&tar(&gpulane, "s.tar", &members));
    let model = "import os
class Model:
    decode = 'bytes'
    members = ['*']
    def predict_batch(self, batch):
        if any(int(own.split()[1]) % 3 for own in batch) and not os.path.exists('go'):
            raise ValueError('not yet')
        return [f'{own.decode()}: {sorted(sample.items())}' for own, sample in zip(batch, self.samples)]
";
    for (shard, threads) in [("s.tar.gz", "1"), ("s.tar.gz", "3"), ("s.tar", "2")] {
        let _ = fs::remove_dir_all(gpulane.workspace.path().join("r"));
        let _ = fs::remove_file(gpulane.workspace.path().join("go"));
        let finished =
            gpulane.map(model, &[shard], &["--max-failures", "100%", "--threads", threads, "--batch", "4"]);
        assert_eq!(finished.code, 3, "{finished:?}");
        assert_eq!(gpulane.rows().len(), 20);
        let refused = gpulane.call(&["resume", "r", "--failed", "--members", "json"]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains("--members"), "{refused:?}");
        gpulane.workspace.file("go", "");
        let again = gpulane.call(&["resume", "r", "--failed"]);
        assert_eq!(again.code, 0, "{again:?}");
        let rows = gpulane.rows();
        assert_eq!(rows.len(), 60);
        for (number, row) in rows.iter().enumerate() {
            let kind = if number % 2 == 0 { "json" } else { "txt" };
            assert_eq!(
                row["result"],
                format!("picture {number}: [('{kind}', b'beside {number}')]"),
                "{shard}"
            );
        }
    }
}

/// A worker that knows nothing of members is given them and works on.
#[test]
fn a_plain_function_does_not_see_them() {
    let gpulane = gpulane();
    tar(&gpulane, "s.tar", &SAMPLES);
    let model = "def Model(batch):\n    return [len(item) for item in batch]\n";
    let finished = gpulane.map(model, &["s.tar"], &["--members", "*"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    assert_eq!(gpulane.rows().len(), 4);
}
