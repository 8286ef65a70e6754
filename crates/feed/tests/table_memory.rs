//! Decoded pages of tables take no more memory than they were given. Alone in its process, whose size is measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)] // a test fails by panicking

#[path = "loaders/feeder.rs"]
mod feeder;
#[path = "loaders/table.rs"]
mod table;

use std::fs;

use feeder::Feeder;
use gpulane_decode::Limits;
use gpulane_feed::loaders::Told;
use gpulane_feed::ring::Geometry;
use parquet::basic::Compression;
use table::{Row, bytes_of, items, plain, table, write};

#[test]
fn decoded_pages_stay_within_their_memory() {
    const MIB: u64 = 1 << 20;
    const THREADS: u32 = 6;
    let figure = |name: &str| {
        let status = fs::read_to_string("/proc/self/status").expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("known");
        1024 * line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number")
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.parquet");
    // Pages of 16 MiB, each of which takes half of what there is while it is decoded.
    let rows: Vec<Row> = (0..48).map(|row| (Some(bytes_of(row, 4 << 20)), None)).collect();
    write(&file, &rows, 16, plain().set_compression(Compression::SNAPPY).set_data_page_size_limit(9 << 20));
    let digest: Vec<u8> = rows.iter().map(|row| row.0.as_ref().unwrap()[999]).collect();
    drop(rows);
    let geometry = Geometry { slots: 4, slot_bytes: 16 << 20, capacity: 4 };
    let budget = 64 * MIB;
    let limits = Limits { max_memory: budget, ..Limits::default() };
    let feeder = Feeder::new("bytes".parse().unwrap(), geometry).threads(THREADS).limits(limits);
    let feeder = feeder.tables(vec![table(&file)]);
    fs::write("/proc/self/clear_refs", "5").expect("the largest size begins anew");
    let before = figure("VmRSS");
    let (loaders, told) = feeder.start(feeder::one_by_one(items(0..48)));
    let mut seen = 0;
    for word in &told {
        match word {
            Told::Filled(filled) => {
                assert!(filled.failed.is_empty());
                seen += filled.items.len();
                loaders.give_back(filled.slot);
            }
            Told::Drained => break,
            other => panic!("{other:?}"),
        }
    }
    let peak = figure("VmHWM").saturating_sub(before);
    assert_eq!(seen, digest.len());
    // Beside the budget, each thread may use what is not counted anywhere, among it what the allocator keeps for it.
    let most = budget + u64::from(THREADS) * (16 * MIB + budget / 16) + geometry.bytes();
    assert!(peak <= most, "{} MiB, of {}", peak / MIB, most / MIB);
}
