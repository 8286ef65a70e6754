//! Every way a journal can be cut or changed, in memory: what is folded is a true part of what was written, or
//! the damage is named.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use proptest::prelude::*;

use crate::reader::{self, Folded, Tail};
use crate::sample::{facts, journal, plan, records, state};
use crate::{JournalError, salvage};

fn fold(bytes: &[u8]) -> Result<Folded, JournalError> {
    reader::fold(Path::new("/run/journal.jsonl"), bytes, &plan())
}

/// The fold of the first so many records, for comparison.
fn prefixes() -> Vec<String> {
    let records = records();
    (0..=records.len()).map(|count| facts(&state(&records[..count]))).collect()
}

/// Where each line is, newline included.
fn lines(journal: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let ends = journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.map(|end| std::mem::replace(&mut start, end)..end).collect()
}

#[test]
fn the_sample_is_a_real_journal() {
    let journal = journal();
    let folded = fold(&journal).unwrap();
    assert!(records().len() >= 40, "{}", records().len());
    assert_eq!((folded.end, folded.tail), (journal.len() as u64, Tail::Clean));
    assert_eq!(facts(&folded.state), *prefixes().last().unwrap());
}

#[test]
fn cut_at_every_byte_it_folds_to_what_was_whole() {
    let (journal, prefixes) = (journal(), prefixes());
    let lines = lines(&journal);
    for cut in 0..=journal.len() {
        let folded = fold(&journal[..cut]).unwrap();
        // A record is whole even when only its newline is missing.
        let whole = lines.iter().filter(|line| line.end - 1 <= cut).count();
        assert_eq!(facts(&folded.state), prefixes[whole], "cut at {cut}");
        let unended = lines.iter().any(|line| line.end - 1 == cut);
        let kept = lines.iter().map(|line| line.end).filter(|end| *end <= cut).max().unwrap_or(0);
        assert_eq!(folded.end, kept as u64, "cut at {cut}");
        assert_eq!(matches!(folded.tail, Tail::Unended { junk: 0, .. }), unended, "cut at {cut}");
    }
}

#[test]
fn cut_at_every_byte_and_filled_with_nuls_it_folds_to_what_was_whole() {
    let (journal, prefixes) = (journal(), prefixes());
    let lines = lines(&journal);
    for cut in (0..=journal.len()).step_by(3) {
        let mut torn = journal[..cut].to_vec();
        torn.resize(cut + 5000, 0);
        let folded = fold(&torn).unwrap();
        let whole = lines.iter().filter(|line| line.end - 1 <= cut).count();
        assert_eq!(facts(&folded.state), prefixes[whole], "cut at {cut}");
    }
}

/// The eight single bits, and bytes with a meaning of their own.
fn changes(byte: u8) -> impl Iterator<Item = u8> {
    let bits = (0..8).map(move |bit| byte ^ (1 << bit));
    let special = [b'\n', 0, b'"', b'}', 0xff].into_iter().filter(move |other| *other != byte);
    bits.chain(special)
}

/// Changes every byte, to each `step`th of its other values, another one at each byte.
fn flips_are_refused_or_harmless(step: usize) {
    let mut journal = journal();
    let whole = prefixes().pop().unwrap();
    let lines = lines(&journal);
    let last = journal.len() - 1;
    for at in 0..journal.len() {
        let original = journal[at];
        for changed in changes(original).skip(at % step).step_by(step) {
            journal[at] = changed;
            match fold(&journal) {
                // Only where the last newline was: the record before it is whole.
                Ok(folded) => {
                    assert_eq!(at, last, "byte {at} as {changed} was not noticed");
                    assert_eq!(facts(&folded.state), whole);
                    assert!(matches!(folded.tail, Tail::Unended { junk: 1, .. }));
                }
                Err(JournalError::Damaged { line, offset, .. }) => {
                    assert_ne!(at, last);
                    let hit = lines.iter().position(|line| line.contains(&at)).unwrap();
                    assert_eq!((line, offset), (hit as u64 + 1, lines[hit].start as u64), "byte {at}");
                }
                Err(other) => panic!("byte {at} as {changed}: {other}"),
            }
        }
        journal[at] = original;
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    flips_are_refused_or_harmless(6);
}

#[test]
#[ignore = "every value of every byte takes half a minute without optimisation"]
fn every_flip_of_every_byte_is_noticed() {
    flips_are_refused_or_harmless(1);
}

#[test]
fn every_flip_inside_a_line_makes_it_no_record() {
    for record in records() {
        let mut line = crate::encode(&record).into_bytes();
        for at in 0..line.len() {
            let original = line[at];
            for changed in changes(original) {
                line[at] = changed;
                assert!(
                    crate::line::unseal(&mut line.clone()).is_err(),
                    "{record:?}: byte {at} as {changed}"
                );
            }
            line[at] = original;
        }
    }
}

/// Everything but the numbers and the rebuilt first record.
fn kept_events(bytes: &[u8]) -> Vec<gpulane_model::Event> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.lines().map(|line| crate::decode(line).unwrap().event).collect()
}

fn salvage_costs_one_record_at_most(stride: usize, step: usize) {
    let mut journal = journal();
    let events: Vec<_> = records().into_iter().map(|record| record.event).collect();
    let lines = lines(&journal);
    let newline = |at: usize| lines.iter().any(|line| line.end == at + 1);
    for at in (0..journal.len()).filter(|at| at % stride == 0 || newline(*at)) {
        let original = journal[at];
        for changed in changes(original).skip(at % step).step_by(step) {
            journal[at] = changed;
            let mut rescued = Vec::new();
            let (kept, lost) = salvage::rescue(&plan(), &journal[..], &mut rescued).unwrap();
            fold(&rescued).unwrap_or_else(|error| panic!("byte {at} as {changed}: {error}"));
            let hit = lines.iter().position(|line| line.contains(&at)).unwrap();
            let mut expected = events.clone();
            // A newline is between records: both are still there.
            let was_newline = newline(at);
            if !was_newline {
                expected.remove(hit);
            }
            let mut found = kept_events(&rescued);
            if hit == 0 && !was_newline {
                assert!(matches!(found.remove(0), gpulane_model::Event::RunStarted { pid: 0, .. }));
            }
            assert_eq!(found, expected, "byte {at} as {changed}");
            assert_eq!((kept, lost), (expected.len() as u64, u64::from(!was_newline)), "byte {at}");
        }
        journal[at] = original;
    }
}

#[test]
fn flipped_bytes_and_newlines_can_be_salvaged() {
    salvage_costs_one_record_at_most(4, 13);
}

#[test]
#[ignore = "every value of every byte takes minutes without optimisation"]
fn every_flip_of_every_byte_can_be_salvaged() {
    salvage_costs_one_record_at_most(1, 1);
}

#[test]
fn lines_doubled_lost_or_exchanged_are_refused() {
    let journal = journal();
    let lines = lines(&journal);
    let assemble = |order: &[usize]| -> Vec<u8> {
        order.iter().flat_map(|line| journal[lines[*line].clone()].to_vec()).collect()
    };
    for order in [&[0, 1, 1, 2][..], &[0, 2], &[0, 2, 1], &[1], &[0, 1, 0]] {
        let bytes = assemble(order);
        assert!(matches!(fold(&bytes), Err(JournalError::Damaged { .. })), "{order:?}");
        let mut rescued = Vec::new();
        salvage::rescue(&plan(), &bytes[..], &mut rescued).unwrap();
        fold(&rescued).unwrap();
    }
}

#[test]
fn an_endless_line_is_a_torn_end_or_damage_and_does_not_fill_the_memory() {
    let journal = journal();
    let nuls = reader::LONGEST_LINE + (1 << 20);
    let read = |end: &[u8]| {
        let file = journal.chain(std::io::repeat(0).take(nuls)).chain(end);
        reader::fold(Path::new("/run/journal.jsonl"), file, &plan())
    };
    let torn = read(b"").unwrap();
    assert_eq!((torn.end, torn.tail), (journal.len() as u64, Tail::Torn(nuls)));
    let lines = lines(&journal).len() as u64;
    assert!(matches!(read(b"\n"), Err(JournalError::Damaged { line, .. }) if line == lines + 1));
}

#[test]
fn a_newer_format_is_not_called_damage() {
    for first in [
        r#"{"seq":1,"time":"2023-11-14T22:13:20.123Z","event":"run_started","format":2,"shape":"new"}"#,
        r#"{"seq":1,"time":1700000000,"event":"run_started","format":7}"#,
    ] {
        let mut line = Vec::new();
        crate::line::renumber(&mut line, first, 1);
        line.push(b'\n');
        assert!(matches!(fold(&line), Err(JournalError::NewerFormat { format: 2 | 7, .. })), "{first}");
    }
}

#[test]
fn events_of_a_newer_gpulane_survive_a_salvage_word_for_word() {
    let mut journal = journal();
    let future = r#"{"seq":1,"time":"2023-11-14T22:13:20.123Z","event":"from_the_future","x":[1]}"#;
    crate::line::renumber(&mut journal, future, records().len() as u64 + 1);
    journal.push(b'\n');
    journal[300] ^= 1;
    let mut rescued = Vec::new();
    salvage::rescue(&plan(), &journal[..], &mut rescued).unwrap();
    assert!(String::from_utf8(rescued).unwrap().contains(r#""event":"from_the_future","x":[1],"crc""#));
}

proptest! {
    #[test]
    fn garbage_never_panics_and_salvage_always_ends_in_a_sound_journal(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60),
                (0_usize..40).prop_map(|line| journal()[lines(&journal())[line].clone()].to_vec()),
                Just(b"\n".to_vec()),
                Just(br#"{"seq":1,"crc":""#.to_vec()),
                Just(vec![0; 40]),
            ],
            0..12,
        )
    ) {
        let bytes = pieces.concat();
        let _ = fold(&bytes);
        let mut rescued = Vec::new();
        salvage::rescue(&plan(), &bytes[..], &mut rescued).unwrap();
        let folded = fold(&rescued).unwrap();
        prop_assert_eq!((folded.end, folded.tail), (rescued.len() as u64, Tail::Clean));
    }
}
