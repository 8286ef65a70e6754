//! Maps as a person would look at them: the rows of their parts, what failed, and models in a few lines.

use std::path::Path;

use serde_json::Value;

use crate::{Finished, Gpulane, Live};

impl Gpulane {
    /// Writes the model and maps `inputs` with it into [`dir`](Self::dir), as JSON lines, without GPUs.
    pub fn map(&self, model: &str, inputs: &[&str], more: &[&str]) -> Finished {
        self.workspace.file("model.py", model);
        self.call(&map_args(inputs, more))
    }

    /// The same, without waiting for its end.
    pub fn start_map(&self, model: &str, inputs: &[&str], more: &[&str]) -> Live {
        self.workspace.file("model.py", model);
        self.spawn(&map_args(inputs, more))
    }

    /// The rows of all parts of a lone map, by item.
    pub fn rows(&self) -> Vec<Value> {
        rows(&self.dir())
    }

    /// The items in `failed.jsonl`, each with its reason.
    pub fn failed_items(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = std::fs::read_to_string(self.dir().join("failed.jsonl")).unwrap_or_default();
        let rows = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut items: Vec<_> = rows.map(|row| (text(&row["item"]), text(&row["reason"]))).collect();
        items.sort();
        items
    }
}

fn map_args<'a>(inputs: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["map", "model.py:Model"];
    args.extend(inputs);
    args.extend(["--out", "r", "--gpus", "none", "--format", "jsonl"]);
    args.extend(more);
    args
}

/// The rows of the JSON lines parts in a directory, sorted by item.
pub fn rows(dir: &Path) -> Vec<Value> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_part = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("part-") && name.ends_with(".jsonl")
    };
    let texts =
        entries.filter(|path| is_part(path)).map(|path| std::fs::read_to_string(path).expect("a part"));
    let mut rows: Vec<Value> = texts
        .flat_map(|text| {
            let parsed = text.lines().map(|line| serde_json::from_str(line).expect("a row"));
            parsed.collect::<Vec<Value>>()
        })
        .collect();
    rows.sort_by_key(|row| row["item"].as_str().unwrap_or_default().to_owned());
    rows
}
