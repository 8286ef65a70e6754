//! `gpulane demo map`: a small model in plain Python over two thousand texts, which are made here.

use std::fmt::Write;
use std::io;
use std::path::Path;

use gpulane_model::{Bytes, ExitCode};

use super::demo::{fresh, unpack};
use super::map::map;
use crate::args::{Demo, Map, MapSettings, Sharing, Show};
use crate::say;

const FILES: [(&str, &str); 1] = [("words.py", include_str!("../../../../examples/map/words.py"))];

/// How many texts there are.
const TEXTS: u32 = 2000;

/// What they are made of.
const WORDS: [&str; 24] = [
    "a", "and", "of", "the", "to", "lane", "river", "lantern", "harbour", "quiet", "morning", "window",
    "copper", "orchard", "letter", "mountain", "signal", "paper", "thunder", "garden", "violin", "station",
    "winter", "compass",
];

pub(crate) fn demo_map(args: &Demo) -> ExitCode {
    let made = unpack(&args.dir, &FILES).and_then(|()| write_texts(&args.dir.join("texts")));
    if let Err(error) = made {
        say::error(format!("cannot write the demo's files into {}: {error}", args.dir.display()));
        return ExitCode::BadInput;
    }
    let out = fresh(&args.dir);
    say::progress(format!(
        "demo: one model over {TEXTS} texts; the model is {}, the texts are in {}",
        args.dir.join("words.py").display(),
        args.dir.join("texts").display()
    ));
    let code = map(&Map {
        model: format!("{}:Words", args.dir.join("words.py").display()),
        inputs: vec![args.dir.join("texts").display().to_string()],
        out: out.clone(),
        gpus: args.gpus.clone().unwrap_or_else(|| "none".to_owned()),
        lanes: None,
        headroom: Bytes(0),
        only_show: false,
        settings: MapSettings { format: Some("jsonl".to_owned()), ..MapSettings::default() },
        show: Show { json: false, quiet: false, detach: false, trust: Vec::new() },
        sharing: Sharing::default(),
    });
    if code == ExitCode::Success {
        show_some(&out);
    }
    code
}

fn write_texts(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut state = 1_u32;
    for number in 0..TEXTS {
        let mut text = String::new();
        for _ in 0..40 + number % 160 {
            // Any spread of words will do, as long as it is the same each time.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let word = WORDS[(state >> 16) as usize % WORDS.len()];
            let _ = write!(text, "{word} ");
        }
        let path = dir.join(format!("{number:04}.txt"));
        if !path.exists() {
            std::fs::write(path, text.trim_end())?;
        }
    }
    Ok(())
}

/// A few of the results, and where all of them are.
fn show_some(out: &Path) {
    let parts = std::fs::read_dir(out).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut parts: Vec<_> =
        parts.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect();
    parts.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("part-")));
    parts.sort();
    let text = parts.first().and_then(|part| std::fs::read_to_string(part).ok()).unwrap_or_default();
    for line in text.lines().take(3) {
        say::json(line);
    }
    say::progress(format!("all results: {}/part-*.jsonl, one row for each text", out.display()));
}
