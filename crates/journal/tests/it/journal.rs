//! The journal on a real file: written, read again, torn, damaged, deleted.

use std::fs;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::run::sample::{self, facts, started, succeeded};
use crate::run::{new_run, open};
use gpulane_journal::{Commit, Journal, JournalError, Mode, decode, encode};
use gpulane_model::{Event, Millis};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_record_is_one_line_with_its_checksum_last() {
    for record in sample::records() {
        let line = encode(&record);
        assert!(!line.contains('\n'));
        assert_eq!(line.rfind(r#","crc":""#), Some(line.len() - 18));
        assert_eq!(decode(&line).unwrap(), record);
        assert!(decode(&line.replace("\"crc\":\"", "\"crc\": \"")).is_err());
    }
}

#[test]
fn what_was_appended_is_there_again_and_numbers_go_on() {
    let (_temp, dir) = new_run();
    let events = sample::events();
    let (first, second) = events.split_at(20);
    for part in [first, second] {
        let (journal, state, repair) = open(&dir, Mode::Strict).unwrap();
        assert_eq!(repair.describe(), None);
        assert!(state.last_seq == 0 || state.last_seq == 20);
        for (offset, event) in (state.last_seq + 1..).zip(part) {
            journal.append(Millis(1_700_000_000_000 + offset * 10), event.clone());
        }
        assert!(journal.close(SOON));
    }
    assert_eq!(fs::read(dir.journal_file()).unwrap(), sample::journal());
    let (_journal, state, _) = open(&dir, Mode::Strict).unwrap();
    assert_eq!(facts(&state), facts(&sample::state(&sample::records())));
}

#[test]
fn cut_anywhere_it_goes_on_where_it_was_whole() {
    let (_temp, dir) = new_run();
    let bytes = sample::journal();
    // The ends of lines and every seventh place between; the folding itself is tested at every byte.
    for cut in (0..=bytes.len())
        .filter(|cut| cut % 7 == 0 || bytes[..*cut].iter().rev().take(3).any(|b| *b == b'\n'))
    {
        fs::write(dir.journal_file(), &bytes[..cut]).unwrap();
        let (journal, state, repair) = open(&dir, Mode::Strict).unwrap();
        assert_eq!(repair.cut > 0, !repair.ended && cut > 0 && bytes[cut - 1] != b'\n', "cut at {cut}");
        let event = if state.last_seq == 0 { sample::run_started() } else { succeeded(11, 1) };
        journal.append(Millis(1_700_000_000_000), event);
        assert!(journal.close(SOON));
        let (_journal, again, repair) = open(&dir, Mode::Strict).unwrap();
        assert_eq!(
            (again.last_seq, repair),
            (state.last_seq + 1, gpulane_journal::Repair::default()),
            "cut at {cut}"
        );
    }
}

#[test]
fn damage_is_refused_with_its_place_and_the_way_out() {
    let (_temp, dir) = new_run();
    let mut bytes = sample::journal();
    let third = bytes.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum::<usize>();
    bytes[third + 40] ^= 4;
    fs::write(dir.journal_file(), &bytes).unwrap();
    let error = open(&dir, Mode::Strict).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{} is damaged at line 3 (byte {third}): its checksum does not match",
            dir.journal_file().display()
        )
    );
    let command = format!("`gpulane resume {} --salvage`", dir.root().display());
    assert!(error.hint().unwrap().contains(&command));
    assert_eq!(fs::read(dir.journal_file()).unwrap(), bytes, "a refused journal is left as it is");
}

#[test]
fn salvage_keeps_the_damaged_journal_aside_and_goes_on() {
    let (_temp, dir) = new_run();
    let sound = sample::journal();
    for round in 1..=2 {
        let mut bytes = sound.clone();
        bytes[900] ^= 4;
        bytes.extend_from_slice(b"{\"seq\":99,\"torn");
        fs::write(dir.journal_file(), &bytes).unwrap();
        let (journal, state, repair) = open(&dir, Mode::Salvage).unwrap();
        let salvage = repair.salvage.unwrap();
        assert_eq!(salvage.aside, dir.root().join(format!("journal.damaged-{round}.jsonl")));
        assert_eq!(fs::read(&salvage.aside).unwrap(), bytes);
        assert_eq!((salvage.kept, salvage.lost), (sample::events().len() as u64 - 1, 1));
        assert_eq!(state.last_seq, salvage.kept);
        journal.append(Millis(1_700_000_000_000), started(0, 9));
        assert!(journal.close(SOON));
        assert_eq!(open(&dir, Mode::Strict).unwrap().1.last_seq, salvage.kept + 1);
    }
    assert!(!dir.root().join("journal.jsonl.tmp").exists());
}

#[test]
fn salvage_of_a_sound_journal_changes_nothing() {
    let (_temp, dir) = new_run();
    fs::write(dir.journal_file(), sample::journal()).unwrap();
    let (_journal, _, repair) = open(&dir, Mode::Salvage).unwrap();
    assert_eq!(repair, gpulane_journal::Repair::default());
    assert_eq!(fs::read(dir.journal_file()).unwrap(), sample::journal());
}

#[test]
fn many_threads_append_and_each_one_keeps_its_order() {
    let (_temp, dir) = new_run();
    let (journal, ..) = open(&dir, Mode::Strict).unwrap();
    journal.append(Millis(1), sample::run_started());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let journal = &journal;
            scope.spawn(move || {
                for index in 0..500 {
                    journal.append(
                        Millis(1),
                        Event::ProcessesLeft { job: format!("s/{thread}"), count: index, who: vec![] },
                    );
                    if index % 100 == 0 {
                        assert!(journal.flush(SOON));
                    }
                }
            });
        }
    });
    assert!(journal.close(SOON));
    let text = fs::read_to_string(dir.journal_file()).unwrap();
    let mut next = [0; 8];
    for (line, seq) in text.lines().zip(1..) {
        let record = decode(line).unwrap();
        assert_eq!(record.seq, seq);
        if let Event::ProcessesLeft { job, count, .. } = record.event {
            let thread: usize = job["s/".len()..].parse().unwrap();
            assert_eq!(count, next[thread]);
            next[thread] += 1;
        }
    }
    assert_eq!(next, [500; 8]);
}

#[test]
fn what_is_announced_is_the_length_and_number_on_disk() {
    let (_temp, dir) = new_run();
    let (said, heard) = channel();
    let on_commit = Box::new(move |commit| said.send(commit).unwrap());
    let (journal, ..) = Journal::open(&dir, &sample::plan(), Mode::Strict, on_commit).unwrap();
    journal.append(Millis(1), sample::run_started());
    assert!(journal.flush(SOON));
    let bytes = fs::metadata(dir.journal_file()).unwrap().len();
    assert_eq!(heard.try_iter().last(), Some(Commit::Durable { bytes, seq: 1 }));
}

#[test]
fn a_journal_deleted_under_a_run_blocks_it_with_a_reason() {
    let (_temp, dir) = new_run();
    let (said, heard) = channel();
    let on_commit = Box::new(move |commit| said.send(commit).unwrap_or_default());
    let (journal, ..) = Journal::open(&dir, &sample::plan(), Mode::Strict, on_commit).unwrap();
    fs::remove_file(dir.journal_file()).unwrap();
    journal.append(Millis(1), sample::run_started());
    let commit = heard.recv_timeout(SOON).unwrap();
    assert!(matches!(&commit, Commit::Blocked { because } if because.contains("was deleted")), "{commit:?}");
    assert!(!journal.close(Duration::from_millis(50)));
}

#[test]
fn a_newer_journal_is_refused_even_for_salvage() {
    let (_temp, dir) = new_run();
    let mut record = sample::records().remove(0);
    if let Event::RunStarted { format, .. } = &mut record.event {
        *format = 2;
    }
    fs::write(dir.journal_file(), encode(&record) + "\n").unwrap();
    for mode in [Mode::Strict, Mode::Salvage] {
        let error = open(&dir, mode).unwrap_err();
        assert!(matches!(error, JournalError::NewerFormat { format: 2, .. }), "{error}");
    }
}
