//! Pictures that are damaged: they fail with what is damaged, or are used and counted wherever a map is told of.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::Path;

use gpulane_testkit::Gpulane;
use serde_json::Value;

const MODEL: &str = r#"
import gpulane

class Model(gpulane.Model):
    decode = "rgb:24x18"

    def predict_batch(self, batch):
        return [{"bytes": len(bytes(pixels))} for pixels in batch]
"#;

/// Four good pictures, one of them without its end mark; three that are damaged; one that is none.
fn pictures() -> Gpulane {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/images");
    let good = std::fs::read(fixtures.join("jpeg-420.jpg")).unwrap();
    let progressive = std::fs::read(fixtures.join("jpeg-progressive.jpg")).unwrap();
    let folder = gpulane.workspace.path().join("images");
    std::fs::create_dir_all(&folder).unwrap();
    let half = &good[..good.len() / 2];
    for (name, bytes) in [
        ("good-plain.jpg", good.clone()),
        ("good-progressive.jpg", progressive.clone()),
        ("good-without-end.jpg", good[..good.len() - 2].to_vec()),
        ("good-with-trailer.jpg", [&good, &b"trailer"[..]].concat()),
        ("damaged-half.jpg", half.to_vec()),
        ("damaged-half-with-end.jpg", [half, &[0xff, 0xd9]].concat()),
        ("damaged-progressive.jpg", progressive[..progressive.len() * 2 / 3].to_vec()),
        ("none.jpg", b"<html>".to_vec()),
    ] {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    gpulane
}

/// The pictures that are damaged, and how the reason begins.
const DAMAGED: [(&str, &str); 3] = [
    ("images/damaged-half-with-end.jpg", "damaged JPEG"),
    ("images/damaged-half.jpg", "truncated"),
    ("images/damaged-progressive.jpg", "truncated"),
];

/// What `damaged.jsonl` has, sorted: items, and what is said of them before the colon.
fn listed(gpulane: &Gpulane) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(gpulane.dir().join("damaged.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let pair = |line: Value| {
        let reason = line["reason"].as_str().unwrap().split(':').next().unwrap().to_owned();
        (line["item"].as_str().unwrap().to_owned(), reason)
    };
    let mut found: Vec<_> = lines.map(pair).collect();
    found.sort();
    found
}

fn items(gpulane: &Gpulane) -> Vec<String> {
    gpulane.rows().iter().map(|row| row["item"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn damaged_pictures_fail_with_what_is_damaged() {
    let gpulane = pictures();
    let finished = gpulane.map(MODEL, &["images"], &[]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let rows = items(&gpulane);
    assert!(rows.len() == 4 && rows.iter().all(|item| item.starts_with("images/good-")), "{rows:?}");
    for (item, reason) in gpulane.failed_items() {
        let word = if item.contains("with-end") { "damaged JPEG: " } else { "truncated: " };
        assert!(item.ends_with("none.jpg") || reason.contains(word), "{item}: {reason}");
    }
    assert!(!finished.stderr.contains("damaged picture"), "nothing of it is used: {}", finished.stderr);
    assert!(!gpulane.dir().join("damaged.jsonl").exists());
}

#[test]
fn damaged_pictures_are_used_and_counted_where_that_is_asked_for() {
    let gpulane = pictures();
    let finished = gpulane.map(MODEL, &["images"], &["--damaged", "warn"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    assert_eq!(items(&gpulane).len(), 7);
    assert_eq!(gpulane.failed_items().len(), 1, "what is no picture still fails");
    let status = gpulane.call(&["status", "r"]);
    for said in [&finished.stderr, &status.stdout] {
        assert!(said.contains("3 damaged pictures used"), "{said}");
        assert!(said.contains("/damaged.jsonl"), "{said}");
    }
    assert_eq!(listed(&gpulane), DAMAGED.map(|(item, why)| (item.to_owned(), why.to_owned())));
    let json: Value = serde_json::from_str(&gpulane.call(&["status", "r", "--json"]).stdout).unwrap();
    assert_eq!(json["maps"][0]["damaged"], 3, "{json}");
    let told: u64 =
        gpulane.events_of("batch_committed").iter().filter_map(|event| event["damaged"].as_u64()).sum();
    assert_eq!(told, 3);
    assert_eq!(gpulane.events_of("map_finished")[0]["damaged"], 3);
    // Tried again, and failed again: what was counted stays counted.
    assert_eq!(gpulane.call(&["resume", "r", "--failed"]).code, 3);
    let json: Value = serde_json::from_str(&gpulane.call(&["status", "r", "--json"]).stdout).unwrap();
    assert_eq!(json["maps"][0]["damaged"], 3, "{json}");
    assert_eq!(listed(&gpulane), DAMAGED.map(|(item, why)| (item.to_owned(), why.to_owned())));
}

#[test]
fn damaged_pictures_whose_result_is_refused_are_not_listed() {
    let gpulane = pictures();
    let model = MODEL.replace("[{\"bytes\"", "[object() if \"progressive\" in name else {\"bytes\"");
    let model = model.replace("for pixels in batch", "for name, pixels in zip(self.items, batch)");
    let finished = gpulane.map(&model, &["images"], &["--damaged", "warn"]);
    assert_eq!(finished.code, 3, "{finished:?}");
    let items: Vec<String> = listed(&gpulane).into_iter().map(|(item, _)| item).collect();
    assert_eq!(items, ["images/damaged-half-with-end.jpg", "images/damaged-half.jpg"]);
}

#[test]
fn what_becomes_of_damaged_pictures_cannot_change_on_the_way() {
    let gpulane = pictures();
    assert_eq!(gpulane.map(MODEL, &["images"], &[]).code, 3);
    let refused = gpulane.call(&["resume", "r", "--failed", "--damaged", "warn"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--damaged cannot change"), "{}", refused.stderr);
    let wrong = gpulane.map(MODEL, &["images"], &["--damaged", "mend"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("warn"), "{}", wrong.stderr);
}
