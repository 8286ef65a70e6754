//! A follower sees what was appended: all of it, once, in order, and nothing that is not yet durable.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::Duration;

use crate::run::sample;
use crate::run::{new_run, open};
use gpulane_journal::{Follower, JournalError, Mode, encode};
use gpulane_model::{Event, Millis, Record};

fn drain(follower: &mut Follower, limit: Option<u64>) -> Vec<Record> {
    let mut seen = Vec::new();
    while follower.poll(limit, &mut |record, _| seen.push(record.clone())).unwrap() > 0 {}
    seen
}

#[test]
fn it_waits_for_the_file_and_takes_whole_lines_only() {
    let (_temp, dir) = new_run();
    let mut follower = Follower::open(&dir);
    assert_eq!(drain(&mut follower, None), []);
    let mut file = OpenOptions::new().create(true).append(true).open(dir.journal_file()).unwrap();
    let mut seen = Vec::new();
    // 61 is prime to nothing in the journal, so cuts fall everywhere.
    for piece in sample::journal().chunks(61) {
        file.write_all(piece).unwrap();
        seen.extend(drain(&mut follower, None));
    }
    assert_eq!(seen, sample::records());
}

#[test]
fn it_stops_at_the_limit() {
    let (_temp, dir) = new_run();
    let bytes = sample::journal();
    fs::write(dir.journal_file(), &bytes).unwrap();
    let mut follower = Follower::open(&dir);
    let mut seen = Vec::new();
    let mut end = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        end += line.len() as u64;
        let new = drain(&mut follower, Some(end));
        assert_eq!(new.len(), 1);
        assert_eq!(drain(&mut follower, Some(end - 1)), []);
        seen.extend(new);
    }
    assert_eq!(seen, sample::records());
}

#[test]
fn lines_are_handed_out_as_json_without_the_checksum() {
    let (_temp, dir) = new_run();
    fs::write(dir.journal_file(), sample::journal()).unwrap();
    let mut texts = Vec::new();
    Follower::open(&dir).poll(None, &mut |_, text| texts.push(text.to_owned())).unwrap();
    let read: Vec<Record> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(read, sample::records());
    assert!(texts[0].starts_with(r#"{"seq":1,"time":"#) && !texts[0].contains("crc"));
}

#[test]
fn chunks_and_lines_longer_than_a_chunk_lose_nothing() {
    let (_temp, dir) = new_run();
    let (journal, ..) = open(&dir, Mode::Strict).unwrap();
    journal.append(Millis(1), sample::run_started());
    for index in 0..9000 {
        let because = "x".repeat(if index == 4000 { 3 << 20 } else { 200 + index % 97 });
        journal.append(Millis(1), Event::StartsHeld { because });
    }
    assert!(journal.close(Duration::from_secs(20)));
    let mut follower = Follower::open(&dir);
    let (mut polls, mut next) = (0, 1);
    while follower
        .poll(None, &mut |record, _| {
            assert_eq!(record.seq, next);
            next += 1;
        })
        .unwrap()
        > 0
    {
        polls += 1;
    }
    assert_eq!(next, 9002);
    assert!((3..=10).contains(&polls), "{polls} polls for 5 MiB");
}

#[test]
fn it_sees_a_live_journal_grow() {
    let (_temp, dir) = new_run();
    let (journal, ..) = open(&dir, Mode::Strict).unwrap();
    let mut follower = Follower::open(&dir);
    let mut seen = 0;
    for (time, event) in (0..).zip(sample::events()) {
        journal.append(Millis(time), event);
        if time % 5 == 0 {
            assert!(journal.flush(Duration::from_secs(10)));
            seen += drain(&mut follower, None).len() as u64;
            assert_eq!(seen, time + 1);
        }
    }
}

#[test]
fn a_torn_end_that_is_written_anew_is_read_as_it_is_now() {
    let (_temp, dir) = new_run();
    let records = sample::records();
    let first = encode(&records[0]) + "\n";
    fs::write(dir.journal_file(), first.clone() + &encode(&records[1])[..50]).unwrap();
    let mut follower = Follower::open(&dir);
    assert_eq!(drain(&mut follower, None).len(), 1);
    let other = Record { seq: 2, ..records[9].clone() };
    let file = OpenOptions::new().write(true).open(dir.journal_file()).unwrap();
    file.set_len(first.len() as u64).unwrap();
    OpenOptions::new()
        .append(true)
        .open(dir.journal_file())
        .unwrap()
        .write_all((encode(&other) + "\n").as_bytes())
        .unwrap();
    assert_eq!(drain(&mut follower, None), [other]);
}

#[test]
fn damage_and_replacement_are_errors_and_not_silence() {
    let (_temp, dir) = new_run();
    let mut bytes = sample::journal();
    fs::write(dir.journal_file(), &bytes).unwrap();
    let mut follower = Follower::open(&dir);
    drain(&mut follower, None);
    bytes[700] ^= 1;
    fs::write(dir.root().join("new"), &bytes).unwrap();
    fs::rename(dir.root().join("new"), dir.journal_file()).unwrap();
    let error = follower.poll(None, &mut |_, _| ()).unwrap_err();
    assert!(matches!(error, JournalError::Replaced { .. }), "{error}");
    let mut good = 0;
    let error = Follower::open(&dir).poll(None, &mut |_, _| good += 1).unwrap_err();
    assert!(matches!(error, JournalError::Damaged { line, .. } if line == good + 1), "{error}");
}
