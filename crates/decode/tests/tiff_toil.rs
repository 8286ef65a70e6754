//! Small TIFFs that would keep a decoder busy are refused: strips that share their data, directories that lie on each other.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod bombs;
mod place;

use std::time::{Duration, Instant};

use bombs::{Entry, long, short, tiff};
use gpulane_decode::{Finish, Rejection};
use place::decoded;

/// The tags of a page of one pixel a row, a strip each, all of which have the first `bytes` of its data.
fn shared(rows: u32, bytes: u32, kind: [u16; 4]) -> Vec<Entry> {
    let [bits, compression, meaning, samples] = kind;
    let repeated = |tag: u16, value: u32| {
        let values = value.to_le_bytes().repeat(rows as usize);
        (tag, 4, rows, values)
    };
    vec![
        long(256, 1),
        long(257, rows),
        short(258, &vec![bits; usize::from(samples)]),
        short(259, &[compression]),
        short(262, &[meaning]),
        short(277, &[samples]),
        long(278, 1),
        repeated(273, 8),
        repeated(279, bytes),
    ]
}

/// Refused with these words, and soon.
fn assert_refused(file: &[u8], decode: &str, words: &str) {
    let began = Instant::now();
    let refused = decoded(file, decode, Finish::Here);
    assert!(
        matches!(&refused, Err(Rejection::Broken(reason)) if reason.contains(words)),
        "{words}: {:?}",
        refused.map(|(form, _)| form)
    );
    assert!(began.elapsed() < Duration::from_secs(5), "{words}: {:?}", began.elapsed());
}

/// Tags that nothing reads, for where data lies.
const NOWHERE: (u16, u16) = (65_000, 65_001);

#[test]
fn strips_that_hold_many_samples_and_share_their_data() {
    let mut entries = shared(10_000, 64, [8, 8, 2, 60_000]);
    entries.push(short(338, &vec![0; 59_997]));
    entries.retain(|entry| entry.0 != 256);
    entries.push(long(256, 10_000));
    assert_refused(&tiff(entries, &[0; 64], NOWHERE), "rgb", "60000 samples");
}

#[test]
fn strips_that_share_more_data_than_their_pixels_take() {
    let length = 1 << 20;
    // PackBits that does nothing; LZW's code that clears the table; Deflate's empty blocks.
    let nothing = [vec![0x80; length], vec![0, 7]].concat();
    let clear = [0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01, 0x00].repeat(length / 9);
    let empty = [&[0x78, 0x01][..], &[0, 0, 0, 0xff, 0xff].repeat(length / 5)].concat();
    let segments = [&[0xff, 0xd8][..], &[0xff, 0xef, 0, 2].repeat(length / 4)].concat();
    for (compression, data) in [(32_773, nothing), (5, clear), (8, empty), (7, segments)] {
        let bytes = u32::try_from(data.len()).expect("short");
        let file = tiff(shared(100_000, bytes, [8, compression, 1, 1]), &data, NOWHERE);
        assert_refused(&file, "rgb", "share their data");
    }
}

#[test]
fn tables_of_jpegs_count_for_each_of_them() {
    let tables = [&[0xff, 0xd8][..], &[0xff, 0xef, 0, 2].repeat(1 << 18)].concat();
    let mut entries = shared(100_000, 16, [8, 7, 1, 1]);
    entries.push((347, 7, u32::try_from(tables.len()).expect("short"), tables));
    assert_refused(&tiff(entries, &[0; 16], NOWHERE), "rgb", "share their data");
}

#[test]
fn strips_that_share_no_more_than_their_pixels_take_are_read() {
    let data = [0, 7];
    let file = tiff(shared(20_000, 2, [8, 32_773, 1, 1]), &data, NOWHERE);
    let (_, pixels) = decoded(&file, "gray", Finish::Here).expect("blank strips may be one");
    assert_eq!(pixels, vec![7; 20_000]);
}

/// Pages whose directories all lie within one run of entries, each beginning and ending one entry behind the one before.
fn overlapping(pages: u16) -> Vec<u8> {
    const START: u32 = 4096;
    let needed = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (278, 1), (279, 1)];
    // As many entries in each: those that nothing reads, those that are needed, and places of later directories.
    let count = pages + 8;
    let at = |page: u16| START + 12 * u32::from(page);
    let mut file = b"II\x2a\0".to_vec();
    file.extend(START.to_le_bytes());
    file.resize(START as usize, 7);
    file.extend(count.to_le_bytes());
    let mut entry = |tag: u16, value: u16| {
        for half in [tag, 3, 1, 0, value] {
            file.extend(half.to_le_bytes());
        }
        // The upper half of a short value is free: the count of the directory that begins here.
        file.extend(count.to_le_bytes());
    };
    for _ in 0..pages {
        entry(60_000, 0);
    }
    for (tag, value) in needed {
        entry(tag, value);
    }
    for page in 1..=pages {
        // Where the next one is; for the others an entry of a tag that nothing reads.
        let next = if page == pages { 0 } else { at(page) };
        file.extend(next.to_le_bytes());
        file.extend([0; 8]);
    }
    file
}

#[test]
fn directories_that_lie_on_each_other() {
    let (form, pixels) = decoded(&overlapping(3), "gray", Finish::Here).expect("few pages");
    assert_eq!((form.dims, pixels), ([3, 1, 1, 0], vec![7; 3]));
    assert_refused(&overlapping(4000), "gray", "share their data");
}

#[test]
fn pages_that_share_their_strips() {
    let mut file = tiff(shared(20_000, 2, [8, 32_773, 1, 1]), &[0, 7], NOWHERE);
    let directory = u32::from_le_bytes(file[4..8].try_into().expect("four"));
    let page = file[directory as usize..].to_vec();
    for _ in 0..2_000 {
        let next = u32::try_from(file.len()).expect("short");
        let at = file.len() - 4;
        file[at..].copy_from_slice(&next.to_le_bytes());
        file.extend(&page);
    }
    assert_refused(&file, "gray", "share their data");
}
