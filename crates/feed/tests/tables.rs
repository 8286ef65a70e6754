//! Rows of Parquet tables as items: every value once and unchanged, whatever the table is written with; damage costs the rows it hits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)] // a test fails by panicking

#[path = "loaders/feeder.rs"]
mod feeder;
#[path = "loaders/table.rs"]
mod table;

use std::fs;
use std::path::Path;

use feeder::{Feeder, Seen};
use gpulane_feed::loaders::read_alone;
use gpulane_feed::ring::Geometry;
use gpulane_items::{Place, Table};
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;
use table::{Row, bytes_of, items, plain, table, write};

const GEOMETRY: Geometry = Geometry { slots: 4, slot_bytes: 256 << 10, capacity: 40 };

fn rows(count: u64) -> Vec<Row> {
    (0..count)
        .map(|row| match row % 11 {
            3 => (None, None),
            7 => (None, Some("beside")),
            5 => (Some(Vec::new()), None),
            _ => (Some(bytes_of(row, (row as usize * 613) % 3000)), Some("a name")),
        })
        .collect()
}

fn run(file: &Path, rows: impl IntoIterator<Item = u64>, threads: u32) -> Seen {
    let feeder = Feeder::new("bytes".parse().unwrap(), GEOMETRY).threads(threads).tables(vec![table(file)]);
    feeder.run(items(rows))
}

/// What must come of a row whose table lies beside a file `beside`.
fn expect(seen: &Seen, row: u64, wanted: &Row, beside: &[u8]) {
    match wanted {
        (Some(data), _) => assert_eq!(seen.items[&row].data, *data, "row {row}"),
        (None, Some(_)) => assert_eq!(seen.items[&row].data, beside, "row {row}"),
        (None, None) => assert_eq!(
            seen.failed[&row],
            format!("neither `image.bytes` nor `image.path` has a value in row {row}")
        ),
    }
}

#[test]
fn every_row_comes_once_and_unchanged_whatever_the_table_is_written_with() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let mut rows = rows(400);
    let beside = dir.path().join("beside");
    fs::write(&beside, "a file").unwrap();
    let path: &'static str = Box::leak(beside.display().to_string().into_boxed_str());
    rows.iter_mut().filter(|row| row.1 == Some("beside")).for_each(|row| row.1 = Some(path));
    let dictionary = WriterProperties::builder().set_dictionary_page_size_limit(20_000);
    let delta = plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY);
    for (properties, what) in [
        (plain().set_compression(Compression::UNCOMPRESSED), "nothing"),
        (plain().set_compression(Compression::SNAPPY), "snappy"),
        (plain().set_compression(Compression::ZSTD(parquet::basic::ZstdLevel::default())), "zstd"),
        (plain().set_compression(Compression::GZIP(parquet::basic::GzipLevel::default())), "gzip"),
        (plain().set_compression(Compression::LZ4_RAW), "lz4"),
        (plain().set_compression(Compression::LZ4), "old lz4"),
        (dictionary.clone().set_compression(Compression::SNAPPY), "dictionary"),
        (dictionary.set_writer_version(WriterVersion::PARQUET_2_0), "dictionary, pages v2"),
        (
            plain()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_compression(Compression::GZIP(parquet::basic::GzipLevel::default())),
            "gzip, pages v2",
        ),
        (delta.set_writer_version(WriterVersion::PARQUET_2_0), "delta lengths"),
        (plain().set_encoding(Encoding::DELTA_BYTE_ARRAY), "shared beginnings"),
    ] {
        for (per_group, threads) in [(400, 1), (37, 5), (3, 3)] {
            write(&file, &rows, per_group, properties.clone());
            let seen = run(&file, 0..400, threads);
            assert_eq!(seen.items.len() + seen.failed.len(), 400, "{what}");
            for (row, wanted) in (0..).zip(&rows) {
                expect(&seen, row, wanted, b"a file");
            }
        }
    }
}

#[test]
fn some_rows_of_a_table_are_found_by_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let rows = rows(300);
    write(&file, &rows, 50, plain());
    let wanted: Vec<u64> = (0..300).filter(|row| matches!(row % 11, 0 | 5) && row % 3 == 0).collect();
    let seen = run(&file, wanted.iter().copied(), 3);
    assert_eq!(seen.items.keys().copied().collect::<Vec<_>>(), wanted);
    for row in wanted {
        expect(&seen, row, &rows[row as usize], b"");
    }
    let alone = read_alone(&Place::Row { table: 0, row: 299 }, &[], &[table(&file)], Path::new(""));
    assert_eq!(alone, Ok(rows[299].0.clone().unwrap()));
    let gone = run(&file, [300], 1).failed;
    assert_eq!(gone[&300], "the table has 300 rows now, and this is row 300 from 0: it was changed");
}

#[test]
fn a_damaged_page_costs_its_rows_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let rows: Vec<Row> = (0..120).map(|row| (Some(bytes_of(row, 2000)), None)).collect();
    // A checksum tells of any change; without one a header must be hit, which costs the rest of the row group.
    let gzip = Compression::GZIP(parquet::basic::GzipLevel::default());
    for (compression, bytes_hit, most) in [(gzip, 40, 4), (Compression::SNAPPY, 6000, 50)] {
        write(&file, &rows, 60, plain().set_compression(compression));
        let mut bytes = fs::read(&file).unwrap();
        let within = bytes.len() / 4;
        bytes[within..within + bytes_hit].fill(0xFF);
        fs::write(&file, &bytes).unwrap();
        let seen = run(&file, 0..120, 4);
        assert_eq!(seen.items.len() + seen.failed.len(), 120);
        assert!((1..=most).contains(&seen.failed.len()), "{compression:?}: {:?}", seen.failed.keys());
        assert!(seen.failed.values().all(|why| why.contains("row group 0 of the table is damaged")));
        let others =
            seen.items.iter().filter(|(row, item)| Some(&item.data) != rows[**row as usize].0.as_ref());
        assert!(others.count() <= bytes_hit / 2000 + 1);
    }
}

#[test]
fn a_table_that_is_gone_or_no_table_fails_its_rows_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let reason = |seen: Seen| seen.failed[&0].clone();
    assert!(reason(run(&file, [0], 2)).contains("no such file"));
    fs::write(&file, "PAR1 no table").unwrap();
    assert!(reason(run(&file, [0], 2)).contains("cannot read"));
    write(&file, &rows(5), 5, plain());
    let other = Table { data: "picture".to_owned(), path: None, ..table(&file) };
    let feeder = Feeder::new("bytes".parse().unwrap(), GEOMETRY).tables(vec![other]);
    assert!(reason(feeder.run(items([0]))).contains("it has no column `picture` any more"));
}

#[test]
fn a_page_that_becomes_more_than_it_says_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let rows: Vec<Row> = vec![(Some(vec![7; 3 << 20]), None)];
    write(&file, &rows, 1, plain().set_compression(Compression::GZIP(parquet::basic::GzipLevel::default())));
    let mut bytes = fs::read(&file).unwrap();
    // The lowest bits of the size it says.
    assert_eq!(bytes[4..7], [0x15, 0x00, 0x15], "a page of data");
    bytes[7] = 0x80 | (bytes[7] & 0x7F) ^ 0x40;
    fs::write(&file, &bytes).unwrap();
    let seen = run(&file, [0], 1);
    assert!(seen.failed[&0].contains("not as large as its header says"), "{:?}", seen.failed);
}

#[test]
fn values_that_share_their_beginnings_become_no_more_than_is_claimed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    let shared = plain().set_encoding(Encoding::DELTA_BYTE_ARRAY).set_compression(Compression::SNAPPY);
    // 300 MB in a page of some 100 KB.
    let rows: Vec<Row> = vec![(Some(bytes_of(1, 100_000)), None); 3000];
    write(&file, &rows, 3000, shared.clone());
    let seen = run(&file, [0, 2999], 2);
    assert!(seen.failed[&2999].contains("share their beginnings (DELTA_BYTE_ARRAY)"), "{:?}", seen.failed);
    assert_eq!(seen.failed.len(), 2);
    let rows: Vec<Row> =
        (0..100).map(|row| (Some([bytes_of(1, 500), bytes_of(row, 300)].concat()), None)).collect();
    write(&file, &rows, 100, shared);
    let seen = run(&file, 0..100, 3);
    assert!((0..).zip(&rows).all(|(row, wanted)| Some(&seen.items[&row].data) == wanted.0.as_ref()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Bytes changed anywhere in a table: every row is told once, nothing panics or waits for ever.
    #[test]
    fn a_table_with_changed_bytes_is_told_row_by_row(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), threads in 1..4_u32,
        codec in 0..4_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.parquet");
        let codec = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW,
            Compression::GZIP(parquet::basic::GzipLevel::default())][codec];
        write(&file, &rows(60), 25, plain().set_compression(codec));
        let mut bytes = fs::read(&file).unwrap();
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        fs::write(&file, &bytes).unwrap();
        let seen = run(&file, 0..60, threads);
        prop_assert_eq!(seen.items.len() + seen.failed.len(), 60);
    }
}
