//! A real journal, cut at every byte and with every byte flipped: resume goes on or refuses, and no job is lost or
//! run twice. Through the binary, as a person would meet it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulane_testkit::{Gpulane, Workspace};

const BINARY: &str = env!("CARGO_BIN_EXE_gpulane");
/// Each start of a job leaves a line, so that a job run again after its success would show.
const PLAN: &str = r#"
[[stage]]
name = "s"
retries = 1
command = ["sh", "-c", "echo x >> {run}/starts-{n}; echo {n} > $GPULANE_OUT/n; test {n} != 3"]
[stage.matrix]
n = [1, 2, 3]
"#;

/// A finished run and its journal.
fn original() -> (Gpulane, Vec<u8>) {
    let gpulane = Gpulane::new(BINARY);
    let finished = gpulane.run(PLAN, "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let journal = std::fs::read(gpulane.dir().join("journal.jsonl")).unwrap();
    (gpulane, journal)
}

/// Works on the indices on as many threads as there are cores, each in a copy of the run.
fn on_copies(original: &Gpulane, count: usize, check: impl Fn(usize, &Path) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let workspace = Workspace::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let copy = fresh_copy(&original.dir(), &workspace.path());
                    check(index, &copy);
                }
            });
        }
    });
}

fn fresh_copy(from: &Path, workspace: &Path) -> PathBuf {
    let to = workspace.join("r");
    let _ = std::fs::remove_dir_all(&to);
    let status = Command::new("cp").arg("-a").arg(from).arg(&to).status().unwrap();
    assert!(status.success());
    to
}

fn resume(run: &Path, salvage: bool) -> (i32, String) {
    let mut command = Command::new(BINARY);
    command.arg("resume").arg(run).arg("--quiet").stdin(Stdio::null());
    if salvage {
        command.arg("--salvage");
    }
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Two jobs are done, and were started once: their outputs were there all along. The third has failed, and has no
/// output; it may have been tried again where the record of its failure was lost.
fn assert_whole(run: &Path, context: &str) {
    for n in [1, 2] {
        let out = std::fs::read_to_string(run.join(format!("jobs/s/n={n}/out/n"))).unwrap();
        assert_eq!(out, format!("{n}\n"), "{context}");
        let starts = std::fs::read_to_string(run.join(format!("starts-{n}"))).unwrap();
        assert_eq!(starts, "x\n", "{context}: started again after its success");
    }
    assert!(!run.join("jobs/s/n=3/out").exists(), "{context}: a failed job has no output");
    assert!(std::fs::read_to_string(run.join("starts-3")).unwrap().len() >= 4, "{context}: a try was lost");
}

#[test]
fn cut_at_every_byte() {
    let (gpulane, journal) = original();
    on_copies(&gpulane, journal.len(), |cut, run| {
        std::fs::write(run.join("journal.jsonl"), &journal[..cut]).unwrap();
        let (code, stderr) = resume(run, false);
        assert!([3, 4].contains(&code), "cut at {cut}: exit {code}: {stderr}");
        assert_whole(run, &format!("cut at {cut}"));
    });
}

#[test]
fn every_byte_flipped() {
    let (gpulane, journal) = original();
    let (refused, continued) = (AtomicUsize::new(0), AtomicUsize::new(0));
    on_copies(&gpulane, journal.len(), |at, run| {
        let mut damaged = journal.clone();
        damaged[at] ^= 1 << (at % 8);
        std::fs::write(run.join("journal.jsonl"), &damaged).unwrap();
        let (code, stderr) = resume(run, false);
        if code == 2 {
            refused.fetch_add(1, Ordering::Relaxed);
            assert!(stderr.contains("--salvage") && stderr.contains("journal.jsonl"), "byte {at}: {stderr}");
            // Every tenth is salvaged too: the whole way takes its time.
            if at % 10 == 0 {
                let (code, stderr) = resume(run, true);
                assert!([3, 4].contains(&code), "byte {at}, salvage: exit {code}: {stderr}");
            }
        } else {
            continued.fetch_add(1, Ordering::Relaxed);
            assert!([3, 4].contains(&code), "byte {at}: exit {code}: {stderr}");
        }
        assert_whole(run, &format!("byte {at} flipped"));
    });
    let (refused, continued) = (refused.into_inner(), continued.into_inner());
    println!("{refused} refused, {continued} continued, of {} bytes", journal.len());
    // Only the last newline can be told from the record before it.
    assert_eq!((refused, continued), (journal.len() - 1, 1));
}
