//! Someone or something changed the files: it is noticed, told, and repaired only where that is asked for.

use std::fs;
use std::path::Path;

use gpulane_model::Format;
use proptest::prelude::*;
use serde_json::json;

use crate::sample::{add, add_items, census, open, parts, results, three};
use crate::{PartsError, Writer, first_failures, forget_failed, read_commits};

/// Two commits of three rows and a failure each.
fn two_commits(dir: &Path) {
    let (mut writer, _) = open(dir, Format::Parquet);
    for first in [0, 10] {
        add(&mut writer, first, &three());
        writer.fail(first + 3, &(first + 3).to_string(), "broken");
        writer.commit().unwrap();
    }
}

fn refused(dir: &Path) -> PartsError {
    Writer::open(dir, Format::Parquet, false).err().expect("should be refused")
}

#[test]
fn a_part_that_is_gone_or_changed_is_named() {
    for damage in [None, Some(b"short".as_slice())] {
        let temp = tempfile::tempdir().unwrap();
        two_commits(temp.path());
        let part = temp.path().join("part-00000.parquet");
        damage.map_or_else(|| fs::remove_file(&part), |content| fs::write(&part, content)).unwrap();
        let error = refused(temp.path());
        assert!(matches!(&error, PartsError::Lost { path, .. } if *path == part), "{error}");
        assert!(error.hint().unwrap().contains("--accept-changes"));

        let (mut writer, settled) = Writer::open(temp.path(), Format::Parquet, true).unwrap();
        assert_eq!(settled.done.iter().collect::<Vec<_>>(), [10, 11, 12], "its items are to be done again");
        add(&mut writer, 0, &three());
        writer.commit().unwrap();
        assert_eq!(parts(temp.path()), ["part-00001.parquet", "part-00002.parquet"]);
        assert_eq!(census(temp.path()).len(), 8);
        assert!(census(temp.path()).values().all(|count| *count == 1));
        drop(writer);
        open(temp.path(), Format::Parquet);
    }
}

#[test]
fn a_part_that_was_given_up_and_comes_back_is_put_aside() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let (part, away) = (temp.path().join("part-00000.parquet"), temp.path().join("away"));
    fs::rename(&part, &away).unwrap();
    Writer::open(temp.path(), Format::Parquet, true).unwrap();
    fs::rename(&away, &part).unwrap();
    open(temp.path(), Format::Parquet);
    assert_eq!(parts(temp.path()), ["part-00001.parquet"]);
    assert!(temp.path().join("given-up-part-00000.parquet").exists());
}

#[test]
fn a_part_the_ledger_does_not_know_is_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    fs::remove_file(temp.path().join("commits.jsonl")).unwrap();
    assert!(matches!(refused(temp.path()), PartsError::Stray { .. }));
    assert_eq!(parts(temp.path()).len(), 2);
}

#[test]
fn a_last_line_damaged_after_its_part_was_named_is_not_taken_for_torn() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let ledger = temp.path().join("commits.jsonl");
    let mut bytes = fs::read(&ledger).unwrap();
    let at = bytes.len() - 40;
    bytes[at] ^= 1;
    fs::write(&ledger, &bytes).unwrap();
    assert!(matches!(refused(temp.path()), PartsError::Stray { .. }));
    assert_eq!(fs::read(&ledger).unwrap(), bytes, "nothing was cut");
}

#[test]
fn damage_in_the_middle_of_the_ledger_is_named_by_its_line() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let ledger = temp.path().join("commits.jsonl");
    let right = fs::read_to_string(&ledger).unwrap();
    let lines: Vec<&str> = right.lines().collect();
    for (text, line, word) in [
        (format!("{}\n{}\n{}\n", lines[0], lines[1].replacen("0-2", "0-3", 1), lines[2]), 2, "checksum"),
        (format!("{}\n{}\n", lines[0], lines[2]), 2, "commit 1 where 0"),
        (format!("{}\n{}\n{}\n", lines[1], lines[1], lines[2]), 1, "beginning"),
        (format!("{}\n{}\n{}\n{}\n", lines[0], lines[1], lines[1], lines[2]), 3, "commit 0 where 1"),
    ] {
        fs::write(&ledger, &text).unwrap();
        let PartsError::Damaged { line: at, reason, .. } = refused(temp.path()) else { panic!("{text}") };
        assert_eq!(at, line);
        assert!(reason.contains(word), "{reason}");
    }
}

#[test]
fn failures_that_are_gone_are_named_or_done_again() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let path = temp.path().join("failed.jsonl");
    let right = fs::read(&path).unwrap();
    fs::write(&path, &right[..right.len() - 1]).unwrap();
    assert!(matches!(refused(temp.path()), PartsError::Lost { .. }));
    let (_, settled) = Writer::open(temp.path(), Format::Parquet, true).unwrap();
    assert_eq!((settled.rows, settled.failures), (6, 0));
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn failures_beyond_the_last_commit_are_cut() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let path = temp.path().join("failed.jsonl");
    let right = fs::read(&path).unwrap();
    fs::write(&path, [&right[..], b"{\"item\":\"half"].concat()).unwrap();
    open(temp.path(), Format::Parquet);
    assert_eq!(fs::read(&path).unwrap(), right);
}

#[test]
fn another_format_or_a_newer_ledger_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    two_commits(temp.path());
    let error = Writer::open(temp.path(), Format::Jsonl, false).err().unwrap();
    assert_eq!(error.hint().as_deref(), Some("go on with --format parquet, or choose another directory"));
    let line = crate::ledger::seal(&crate::ledger::Line::Header { ledger: 3, format: Format::Parquet });
    fs::write(temp.path().join("commits.jsonl"), line).unwrap();
    assert!(matches!(refused(temp.path()), PartsError::Newer { version: 3, .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_ledger_with_any_byte_changed_never_panics_nor_doubles(
        at in any::<prop::sample::Index>(),
        byte: u8,
        forgive: bool,
    ) {
        let temp = tempfile::tempdir().unwrap();
        two_commits(temp.path());
        let ledger = temp.path().join("commits.jsonl");
        let mut bytes = fs::read(&ledger).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        fs::write(&ledger, &bytes).unwrap();
        let _ = read_commits(temp.path(), 0);
        if let Ok((mut writer, _)) = Writer::open(temp.path(), Format::Parquet, forgive) {
            let rest: Vec<u64> = (0..20).filter(|number| !writer.has(*number)).collect();
            let ones = vec![json!({"x": 1}); rest.len()];
            add_items(&mut writer, &rest, &results(ones.into()));
            writer.commit().unwrap();
            prop_assert!(census(temp.path()).values().all(|count| *count == 1));
        }
        let _ = forget_failed(temp.path());
    }
}

#[test]
fn a_look_at_failures_takes_the_first_and_what_is_whole() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("failed.jsonl");
    fs::write(
        &path,
        "{\"item\":\"a\",\"reason\":\"x\"}\n{\"item\":\"b\",\"reason\":\"y\"}\n{\"item\":\"half",
    )
    .unwrap();
    let names = |most| -> Vec<String> {
        first_failures(temp.path(), most).unwrap().into_iter().map(|failure| failure.item).collect()
    };
    assert_eq!(names(1), ["a"]);
    assert_eq!(names(10), ["a", "b"]);
    fs::remove_file(&path).unwrap();
    assert!(first_failures(temp.path(), 1).unwrap_err().to_string().contains("failed.jsonl"));
}
