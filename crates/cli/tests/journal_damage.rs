//! A real journal, cut at every byte and with every byte flipped: resume goes on or refuses, and no job is lost or
//! run twice. Through the binary, as a person would meet it.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpulane_journal::{decode, encode};
use gpulane_model::Record;
use gpulane_testkit::{Gpulane, Workspace};
use serde_json::Value;

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
    let mut args = vec!["resume", run.to_str().unwrap(), "--quiet"];
    args.extend(salvage.then_some("--salvage"));
    let finished = Gpulane::new(BINARY).call(&args);
    (finished.code, finished.stderr)
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

/// The first try fails, the second succeeds.
const SECOND_TRY: &str = r#"
[[stage]]
name = "s"
retries = 1
command = ["sh", "-c", "echo x >> {run}/starts; echo $GPULANE_ATTEMPT > $GPULANE_OUT/n; test $GPULANE_ATTEMPT != 1"]
"#;

/// What is found on the disk beside a journal whose end is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Found {
    /// All as it was: the output in its place.
    Published,
    /// The output in its place, no attempt: somebody has tidied up.
    PublishedAlone,
    /// An output in its place that no attempt lacks.
    Unexplained,
    /// The output where it was written.
    Written,
    /// Neither output nor attempt.
    Nothing,
}

impl Found {
    fn arrange(self, job: &Path) {
        let (out, second) = (job.join("out"), job.join("attempt-2"));
        match self {
            Self::Published => {}
            Self::PublishedAlone => {
                for name in ["attempt-1", "attempt-2"] {
                    std::fs::remove_dir_all(job.join(name)).unwrap();
                }
            }
            Self::Unexplained => {
                std::fs::create_dir(second.join("out")).unwrap();
                std::fs::write(out.join("n"), "by nobody\n").unwrap();
            }
            Self::Written => std::fs::rename(&out, second.join("out")).unwrap(),
            Self::Nothing => std::fs::remove_dir_all(job).unwrap(),
        }
    }
}

#[test]
fn an_output_that_no_record_explains_counts_or_is_put_aside_but_never_blocks() {
    let gpulane = Gpulane::new(BINARY);
    assert_eq!(gpulane.run(SECOND_TRY, "none").code, 0);
    let journal = std::fs::read_to_string(gpulane.dir().join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.split_inclusive('\n').collect();
    let end = lines.iter().position(|line| line.contains("\"job_succeeded\"")).unwrap();
    let failed = lines.iter().position(|line| line.contains("\"job_failed\"")).unwrap();
    let all = [Found::Published, Found::PublishedAlone, Found::Unexplained, Found::Written, Found::Nothing];
    // Unknown, waiting, running, failed, waiting again, running again.
    let cells: Vec<_> = (0..=end).flat_map(|kept| all.map(|found| (kept, found))).collect();
    on_copies(&gpulane, cells.len(), |at, run| {
        let (kept, found) = cells[at];
        let cell = format!("{found:?} after {:?}", lines.get(kept.wrapping_sub(1)));
        found.arrange(&run.join("jobs/s/main"));
        std::fs::write(run.join("journal.jsonl"), lines[..kept].concat()).unwrap();
        let (code, stderr) = resume(run, false);
        assert_eq!(code, 0, "{cell}: {stderr}");
        let counts = match found {
            Found::Published => true,
            Found::PublishedAlone => kept != failed + 1,
            _ => false,
        };
        let starts = std::fs::read_to_string(run.join("starts")).unwrap();
        assert_eq!(starts == "x\nx\n", counts, "{cell}: started again: {starts:?}");
        let out = std::fs::read_to_string(run.join("jobs/s/main/out/n")).unwrap();
        assert_ne!(out, "by nobody\n", "{cell}");
        let journal = std::fs::read_to_string(run.join("journal.jsonl")).unwrap();
        assert_eq!(journal.matches("\"job_succeeded\"").count(), 1, "{cell}: {journal}");
        assert!(!journal.contains("\"publish\""), "{cell}: {journal}");
        let aside = run.join("jobs/s/main/out.lost-1").exists();
        assert_eq!(aside, !counts && ![Found::Written, Found::Nothing].contains(&found), "{cell}");
        assert_eq!(resume(run, false).0, 4, "{cell}: nothing is left to do");
    });
}

#[test]
fn jobs_that_failed_or_were_skipped_before_the_journal_lost_their_success_have_succeeded() {
    let gpulane = Gpulane::new(BINARY);
    let plan = r#"
[[stage]]
name = "a"
command = ["sh", "-c", "echo x >> {run}/starts; echo a > $GPULANE_OUT/n; test -e {run}/mended"]
[[stage]]
name = "b"
after = ["a"]
command = ["sh", "-c", "echo x >> {run}/starts; echo b > $GPULANE_OUT/n"]
"#;
    assert_eq!(gpulane.run(plan, "none").code, 3);
    let journal = std::fs::read(gpulane.dir().join("journal.jsonl")).unwrap();
    std::fs::write(gpulane.dir().join("mended"), "").unwrap();
    assert_eq!(gpulane.call(&["resume", "r", "--failed"]).code, 0);
    for again in [&["resume", "r"][..], &["resume", "r", "--failed"]] {
        std::fs::write(gpulane.dir().join("journal.jsonl"), &journal).unwrap();
        let resumed = gpulane.call(again);
        assert_eq!(resumed.code, 0, "{}", resumed.stderr);
        assert_eq!(gpulane.jobs_in("job_succeeded").len(), 2, "{again:?}");
        let starts = std::fs::read_to_string(gpulane.dir().join("starts")).unwrap();
        assert_eq!(starts, "x\nx\nx\n", "{again:?}: nothing runs again");
    }
}

/// Stage, follower of one job, stage after a follower: each skipped for the one failure whose record is damaged.
#[test]
fn what_was_skipped_for_a_failure_that_the_journal_lost_runs_once_that_is_mended() {
    let gpulane = Gpulane::new(BINARY);
    let plan = r#"
[[stage]]
name = "a"
command = ["sh", "-c", "test {n} = 1 || test -e {run}/mended"]
max_failures = 1
parallel = 1
[stage.matrix]
n = [1, 2, 3, 4]
[[stage]]
name = "all"
after = ["a"]
command = ["true"]
[[stage]]
name = "each"
foreach = "a"
command = ["true"]
[[stage]]
name = "last"
after = ["each"]
command = ["true"]
"#;
    assert_eq!(gpulane.run(plan, "none").code, 3);
    assert_eq!(gpulane.jobs_in("job_skipped").len(), 7);
    let journal = std::fs::read_to_string(gpulane.dir().join("journal.jsonl")).unwrap();
    let damaged = journal.replace("\"job_failed\"", "\"job_fbiled\"");
    std::fs::write(gpulane.dir().join("journal.jsonl"), damaged).unwrap();
    // As long as it fails, all of them stay skipped.
    assert_eq!(gpulane.call(&["resume", "r", "--salvage"]).code, 3);
    assert_eq!(gpulane.jobs_in("job_succeeded").len(), 2);
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);

    let journal = std::fs::read_to_string(gpulane.dir().join("journal.jsonl")).unwrap();
    let damaged = journal.replace("\"job_failed\"", "\"job_fbiled\"");
    std::fs::write(gpulane.dir().join("journal.jsonl"), damaged).unwrap();
    std::fs::write(gpulane.dir().join("mended"), "").unwrap();
    let resumed = gpulane.call(&["resume", "r", "--salvage"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(gpulane.jobs_in("job_succeeded").len(), 10);
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);
}

/// Events that a short run has none of, as they stand in a journal.
const OTHERS: &str = r#"
{"event":"job_retrying","job":"s/a","attempt":1,"delay":1.0}
{"event":"processes_left","job":"s/a","count":1}
{"event":"processes_stuck","job":"s/a","pids":[1],"because":"x"}
{"event":"job_done","job":"s/a","attempt":1}
{"event":"hang_suspected","job":"s/a","attempt":1,"quiet":1.0,"frozen":false,"cause":"x","evidence":"x"}
{"event":"job_revived","job":"s/a","attempt":1,"quiet":1.0}
{"event":"memory_measured","stage":"s","peak":1,"reserve":1}
{"event":"memory_guessed","stage":"s","reserve":1}
{"event":"memory_exceeded","job":"s/a","peak":1,"reserved":1}
{"event":"vram_held","gpu":"x","pids":[1],"bytes":1,"because":"x"}
{"event":"map_opened","stage":"m","items":1,"settled":1}
{"event":"batch_committed","stage":"m","commit":1,"rows":1,"failed":1}
{"event":"batch_committed","stage":"m","commit":1,"rows":1,"failed":1}
{"event":"map_finished","stage":"m","rows":1,"failed":1,"summary":"x"}
{"event":"map_reopened","stage":"m"}
{"event":"job_failed","job":"s/a","attempt":1,"reason":"oom","seconds":1.0,"peak_vram":1}
{"event":"job_started","job":"s/a","attempt":1,"lane":1,"gpus":[],"pid":1}
"#;

/// Makes every number in it the largest that can still be read.
fn enlarge(whole: &mut Value, at: &str) {
    let numbers: Vec<String> = match whole.pointer(at).unwrap() {
        Value::Object(fields) => fields.keys().map(|key| format!("{at}/{key}")).collect(),
        Value::Array(all) => (0..all.len()).map(|place| format!("{at}/{place}")).collect(),
        Value::Number(_) if at != "/seq" => {
            let usual = whole.pointer(at).unwrap().clone();
            for large in [Value::from(u64::MAX), Value::from(u32::MAX), Value::from(u8::MAX), usual] {
                *whole.pointer_mut(at).unwrap() = large;
                if serde_json::from_value::<Record>(whole.clone()).is_ok() {
                    return;
                }
            }
            return;
        }
        _ => return,
    };
    for place in numbers {
        enlarge(whole, &place);
    }
}

#[test]
fn absurd_numbers_in_a_whole_journal_bring_nothing_down() {
    let gpulane = Gpulane::new(BINARY);
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"true\"]\n[stage.matrix]\nn = [1, 2]\n\
                [[stage]]\nname = \"m\"\nmap = { model = \"model.py:Model\", input = [\"@items.txt\"], decode = \"value\", format = \"jsonl\" }\n";
    gpulane.workspace.file("items.txt", "a\nb\n");
    gpulane.workspace.file("model.py", "def Model(batch):\n    return [len(item) for item in batch]\n");
    let run = gpulane.run(plan, "sim:2x8GiB");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let path = gpulane.dir().join("journal.jsonl");
    let journal = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Record> = journal.lines().map(|line| decode(line).unwrap()).collect();
    let time = serde_json::to_value(&records[0]).unwrap()["time"].clone();
    let mut events: Vec<Value> = records.iter().map(|record| serde_json::to_value(record).unwrap()).collect();
    events.extend(OTHERS.trim().replace("s/a", "s/n=1").lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        (event["time"], event["seq"]) = (time.clone(), Value::from(1));
        assert_ne!(
            serde_json::from_value::<Record>(event.clone()).unwrap().event,
            gpulane_model::Event::Unknown
        );
        event
    }));
    // The run as it was, then every event in its absurd form.
    let mut text = journal.clone();
    for (at, mut event) in events.into_iter().enumerate() {
        event["seq"] = Value::from(records.len() + at + 1);
        enlarge(&mut event, "");
        text.push_str(&encode(&serde_json::from_value(event).unwrap()));
        text.push('\n');
    }
    std::fs::write(&path, &text).unwrap();
    for args in [
        &["status", "r"][..],
        &["status", "r", "--json"],
        &["status", "r", "s/n=1"],
        &["logs", "r"],
        &["watch", "r"],
        &["doctor", "r"],
        &["doctor", "r", "--json"],
        &["resume", "r", "--gpus", "sim:2x8GiB"],
        &["resume", "r", "--failed", "--gpus", "sim:2x8GiB"],
        &["status", "r"],
    ] {
        let seen = gpulane.call(args);
        assert!(![101, 134, 70].contains(&seen.code), "{args:?}: {seen:?}");
        assert!(!seen.stderr.contains("panicked"), "{args:?}: {}", seen.stderr);
    }
    let log = std::fs::read_to_string(gpulane.dir().join("engine.log")).unwrap_or_default();
    assert!(!log.contains("panicked"), "{log}");
}
