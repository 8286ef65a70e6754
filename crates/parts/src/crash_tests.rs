//! The process ends at any instant: each item is in the results exactly once all the same.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gpulane_model::Format;
use proptest::prelude::*;
use serde_json::json;

use crate::sample::{add, add_items, census, copy_dir, open, parts, read_lines, results, three};
use crate::writer::Step;
use crate::{Recorded, Writer, forget_failed, read_commits};

const STEPS: [Step; 4] = [Step::PartWritten, Step::FailuresWritten, Step::LineWritten, Step::PartNamed];

type Hook = Box<dyn FnMut(Step) -> io::Result<()> + Send>;

/// Ends a commit after this step.
fn stop_at(step: Step) -> Hook {
    Box::new(move |at| if at == step { Err(io::ErrorKind::Other.into()) } else { Ok(()) })
}

/// Keeps a copy of the directory as it is after each step.
fn copy_at_each_step(writer: &mut Writer, dir: &Path, copies: &Path) -> Arc<Mutex<Vec<(Step, PathBuf)>>> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let (from, copies, list) = (dir.to_owned(), copies.to_owned(), Arc::clone(&made));
    writer.hook = Some(Box::new(move |step| {
        let mut list = list.lock().unwrap();
        let to = copies.join(list.len().to_string());
        copy_dir(&from, &to);
        list.push((step, to));
        Ok(())
    }));
    made
}

#[test]
fn which_pictures_are_damaged_is_as_durable_as_their_rows() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("out");
    let (mut writer, settled) = open(&dir, Format::Jsonl);
    assert_eq!(settled.damaged, 0);
    add(&mut writer, 0, &three());
    note(&mut writer, &[0, 2]);
    writer.hook = Some(stop_at(Step::PartWritten));
    writer.commit().unwrap_err();
    // What was begun is finished first, with its own count.
    writer.hook = None;
    add(&mut writer, 10, &three());
    note(&mut writer, &[11]);
    let counts = [writer.commit(), writer.commit()].map(|commit| commit.unwrap().unwrap().damaged);
    assert_eq!(counts, [2, 1]);
    add(&mut writer, 20, &three());
    note(&mut writer, &[20, 21, 22]);
    writer.hook = Some(stop_at(Step::FailuresWritten));
    writer.commit().unwrap_err();
    drop(writer);
    let (writer, settled) = open(&dir, Format::Jsonl);
    assert_eq!((settled.rows, settled.damaged), (6, 3), "what was not committed does not count");
    let told: Vec<u64> = read_commits(&dir, 0).unwrap().iter().map(|known| known.commit.damaged).collect();
    assert_eq!(told, [2, 1]);
    assert_eq!(listed(&dir), ["0", "2", "11"]);
    drop(writer);
    // It follows from the ledger, also where somebody has removed it, or a part of the results.
    fs::remove_file(dir.join("damaged.jsonl")).unwrap();
    open(&dir, Format::Jsonl);
    assert_eq!(listed(&dir), ["0", "2", "11"]);
    fs::remove_file(dir.join("part-00000.jsonl")).unwrap();
    let (_, settled) = Writer::open(&dir, Format::Jsonl, true).unwrap();
    assert_eq!((settled.damaged, listed(&dir)), (1, vec!["11".to_owned()]));
}

/// Notes that these items are damaged.
fn note(writer: &mut Writer, numbers: &[u64]) {
    for number in numbers {
        writer.note_damaged(&number.to_string(), "truncated: no end");
    }
}

/// The items in `damaged.jsonl`.
fn listed(dir: &Path) -> Vec<String> {
    let lines = fs::read_to_string(dir.join("damaged.jsonl")).unwrap_or_default();
    let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["item"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_crash_between_any_two_steps_settles_all_or_nothing() {
    for format in [Format::Parquet, Format::Jsonl] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("out");
        let (mut writer, _) = open(&dir, format);
        add(&mut writer, 0, &three());
        writer.fail(3, "3", "first");
        writer.commit().unwrap();
        let copies = copy_at_each_step(&mut writer, &dir, temp.path());
        add(&mut writer, 10, &three());
        writer.fail(13, "13", "broken");
        writer.commit().unwrap();

        let copies = copies.lock().unwrap().clone();
        assert_eq!(copies.iter().map(|(step, _)| *step).collect::<Vec<_>>(), STEPS);
        for (step, copy) in copies {
            let committed = matches!(step, Step::LineWritten | Step::PartNamed);
            let (mut writer, settled) = open(&copy, format);
            assert_eq!(settled.done.contains(10), committed, "{step:?}");
            assert_eq!(settled.failed.contains(13), committed, "{step:?}");
            assert_eq!((settled.rows, settled.commits), if committed { (6, 2) } else { (3, 1) });
            // What is not settled is done again, as a feeder would.
            if !committed {
                add(&mut writer, 10, &three());
                writer.fail(13, "13", "broken again");
                assert_eq!(writer.commit().unwrap().unwrap().commit, 1);
            }
            let once: Vec<_> =
                ["0", "1", "10", "11", "12", "13", "2", "3"].map(|name| (name.to_owned(), 1)).into();
            assert_eq!(census(&copy).into_iter().collect::<Vec<_>>(), once, "{step:?}");
            let names =
                fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(names.into_iter().all(|name| !name.starts_with('.')), "{step:?}");
        }
    }
}

#[test]
fn a_ledger_cut_at_any_byte_settles_whole_commits_only() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("out");
    let (mut writer, _) = open(&dir, Format::Jsonl);
    add(&mut writer, 0, &three());
    writer.commit().unwrap();
    let before = fs::metadata(dir.join("commits.jsonl")).unwrap().len();
    add(&mut writer, 3, &three());
    writer.hook = Some(stop_at(Step::LineWritten));
    writer.commit().unwrap_err();
    let ledger = fs::read(dir.join("commits.jsonl")).unwrap();
    for length in usize::try_from(before).unwrap()..=ledger.len() {
        let copy = temp.path().join(length.to_string());
        copy_dir(&dir, &copy);
        fs::write(copy.join("commits.jsonl"), &ledger[..length]).unwrap();
        let (_, settled) = open(&copy, Format::Jsonl);
        assert_eq!(settled.rows, if length == ledger.len() { 6 } else { 3 }, "{length}");
        assert_eq!(census(&copy).len() as u64, settled.rows);
    }
}

#[test]
fn commits_are_told_again_with_their_failures() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    writer.fail(7, "seven", "no \"file\"\n");
    let first = writer.commit().unwrap().unwrap();
    add(&mut writer, 0, &three());
    writer.fail(8, "eight", "broken");
    let second = writer.commit().unwrap().unwrap();
    assert_eq!(writer.commit().unwrap(), None);
    assert_eq!((first.part.as_deref(), second.part.as_deref()), (None, Some("part-00001.parquet")));
    let told = |recorded: &[Recorded]| {
        let reasons =
            |each: &Recorded| each.failed.iter().map(|failure| failure.reason.clone()).collect::<Vec<_>>();
        recorded.iter().map(|each| (each.commit.clone(), reasons(each))).collect::<Vec<_>>()
    };
    let all = [(first, vec!["no \"file\"\n".to_owned()]), (second, vec!["broken".to_owned()])];
    assert_eq!(told(&read_commits(temp.path(), 0).unwrap()), all);
    assert_eq!(told(&read_commits(temp.path(), 1).unwrap()), all[1..]);
    assert_eq!(read_commits(temp.path(), 2).unwrap(), []);
}

#[test]
fn failed_items_can_be_forgotten_and_done_again() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Jsonl);
    add(&mut writer, 0, &three());
    writer.fail(3, "3", "a");
    writer.fail(5, "5", "b");
    writer.commit().unwrap();
    drop(writer);
    assert_eq!(forget_failed(temp.path()).unwrap(), 2);
    assert_eq!(forget_failed(temp.path()).unwrap(), 0);
    assert_eq!(read_commits(temp.path(), 0).unwrap()[0].failed, []);
    let (mut writer, settled) = open(temp.path(), Format::Jsonl);
    assert_eq!((settled.rows, settled.failures), (3, 0));
    add(&mut writer, 3, &results(json!([1])));
    writer.fail(5, "5", "still");
    writer.commit().unwrap();
    assert!(census(temp.path()).values().all(|count| *count == 1));
    assert_eq!(read_lines(&temp.path().join("failed.jsonl")), [json!({"item": "5", "reason": "still"})]);
    assert_eq!(read_commits(temp.path(), 0).unwrap()[1].failed[0].reason, "still");
}

#[test]
fn an_item_is_never_settled_twice() {
    let temp = tempfile::tempdir().unwrap();
    let (mut writer, _) = open(temp.path(), Format::Parquet);
    add(&mut writer, 0, &three());
    writer.fail(1, "1", "too late");
    assert!(writer.add(&[(2, "2")], &results(json!([1]))).is_err());
    writer.commit().unwrap();
    assert!(writer.add(&[(2, "2")], &results(json!([1]))).is_err());
    writer.fail(2, "2", "too late");
    assert_eq!(writer.commit().unwrap(), None);
    assert_eq!(writer.pending(), crate::Pending::default());
}

#[test]
fn a_commit_that_failed_at_any_step_is_finished_by_the_next() {
    for step in [Step::PartWritten, Step::FailuresWritten, Step::LineWritten, Step::PartNamed] {
        let temp = tempfile::tempdir().unwrap();
        let (mut writer, _) = open(temp.path(), Format::Parquet);
        add(&mut writer, 0, &three());
        writer.fail(9, "9", "broken");
        let mut refused = 0;
        writer.hook = Some(Box::new(move |at| {
            refused += u32::from(at == step);
            if at == step && refused <= 2 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }));
        writer.commit().unwrap_err();
        writer.commit().unwrap_err();
        // What comes in meanwhile waits for a commit of its own.
        add(&mut writer, 3, &three());
        let commit = writer.commit().unwrap().unwrap();
        assert_eq!((commit.commit, commit.rows, commit.failed), (0, 3, 1), "{step:?}");
        assert_eq!(writer.commit().unwrap().unwrap().commit, 1);
        assert_eq!(parts(temp.path()).len(), 2);
        assert!(census(temp.path()).values().all(|count| *count == 1));
        drop(writer);
        let (_, settled) = open(temp.path(), Format::Parquet);
        assert_eq!((settled.rows, settled.failures, settled.commits), (6, 1, 2));
        assert_eq!(fs::read_to_string(temp.path().join("failed.jsonl")).unwrap().lines().count(), 1);
    }
}

/// What a feeder does, and where it ends.
#[derive(Clone, Debug)]
enum Act {
    Results(BTreeSet<u64>),
    Fail(u64),
    Commit,
    /// A commit during which everything ends after this step.
    Crash(usize),
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop::collection::btree_set(0..60_u64, 1..8).prop_map(Act::Results),
        2 => (0..60_u64).prop_map(Act::Fail),
        2 => Just(Act::Commit),
        3 => (0..STEPS.len()).prop_map(Act::Crash),
        1 => Just(Act::Forget),
    ]
}

/// Whatever is not settled or waiting yet of these.
fn free(writer: &Writer, numbers: &BTreeSet<u64>) -> Vec<u64> {
    numbers.iter().copied().filter(|number| !writer.has(*number)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn whatever_happens_every_item_is_there_exactly_once(
        acts in prop::collection::vec(act(), 1..25),
        parquet in any::<bool>(),
    ) {
        let format = if parquet { Format::Parquet } else { Format::Jsonl };
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        let (mut writer, _) = open(dir, format);
        for act in acts {
            match act {
                Act::Results(numbers) => {
                    let numbers = free(&writer, &numbers);
                    let list = numbers.iter().map(|number| json!(number)).collect::<Vec<_>>();
                    prop_assert_eq!(add_items(&mut writer, &numbers, &results(list.into())), vec![]);
                    note(&mut writer, &numbers.into_iter().filter(|number| number % 3 == 0).collect::<Vec<_>>());
                }
                Act::Fail(number) => writer.fail(number, &number.to_string(), "because"),
                Act::Commit => _ = writer.commit().unwrap(),
                Act::Crash(step) => {
                    writer.hook = Some(stop_at(STEPS[step]));
                    let _ = writer.commit();
                    drop(writer);
                    writer = open(dir, format).0;
                }
                Act::Forget => {
                    drop(writer);
                    forget_failed(dir).unwrap();
                    writer = open(dir, format).0;
                }
            }
        }
        drop(writer);
        let (mut writer, settled) = open(dir, format);
        let there = census(dir);
        prop_assert!(there.values().all(|count| *count == 1));
        let numbers = settled.done.iter().chain(settled.failed.iter());
        let names: BTreeSet<String> = numbers.map(|number| number.to_string()).collect();
        prop_assert!(there.keys().eq(&names));
        let damaged = settled.done.iter().filter(|number| number % 3 == 0).map(|number| number.to_string());
        let mut said = listed(dir);
        said.sort();
        let mut damaged: Vec<String> = damaged.collect();
        damaged.sort();
        prop_assert_eq!(said, damaged, "exactly those in the results");
        // And the rest can still be done.
        let rest = free(&writer, &(0..60).collect());
        let list = rest.iter().map(|_| json!(1)).collect::<Vec<_>>();
        add_items(&mut writer, &rest, &results(list.into()));
        writer.commit().unwrap();
        let there = census(dir);
        prop_assert_eq!(there.len(), 60);
        prop_assert!(there.values().all(|count| *count == 1));
    }
}
