//! Compressed tars: every member once and unchanged by any number of threads, in turn; what cannot be read on is told for each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)] // a test fails by panicking

#[path = "loaders/feeder.rs"]
mod feeder;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use feeder::{Feeder, Seen};
use gpulane_feed::loaders::read_alone;
use gpulane_feed::ring::Geometry;
use gpulane_items::{Item, Place};

const GEOMETRY: Geometry = Geometry { slots: 4, slot_bytes: 256 << 10, capacity: 40 };
/// Bytes between two members: a header would stand there.
const GAP: u64 = 512;

fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize).wrapping_mul(31).wrapping_add(at * 7 + at / 300) as u8).collect()
}

/// Members of these sizes with gaps between them, compressed, and where they are.
fn write(path: &Path, sizes: &[usize]) -> Vec<(u64, u64)> {
    let (mut contents, mut places) = (Vec::new(), Vec::new());
    for (number, size) in (0..).zip(sizes) {
        contents.extend([0; GAP as usize]);
        places.push((contents.len() as u64, *size as u64));
        contents.extend(bytes_of(number, *size));
    }
    let mut encoder =
        flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::fast());
    encoder.write_all(&contents).unwrap();
    encoder.finish().unwrap();
    places
}

fn items(places: &[(u64, u64)], archive: u32, first: u64) -> Vec<Item> {
    let item = |(number, (offset, bytes)): (u64, &(u64, u64))| {
        let place = Place::Member { archive, offset: *offset, bytes: *bytes, before: None };
        Item { number, name: format!("s/{number}"), place }
    };
    (first..).zip(places).map(item).collect()
}

fn run(archives: &[PathBuf], items: Vec<Item>, threads: u32) -> Seen {
    Feeder::new("bytes".parse().unwrap(), GEOMETRY).threads(threads).archives(archives.to_vec()).run(items)
}

#[test]
fn every_member_comes_once_and_unchanged_whoever_reads() {
    let dir = tempfile::tempdir().unwrap();
    let archives = [dir.path().join("a.tar.gz"), dir.path().join("b.tgz")];
    let sizes: Vec<usize> = (0..300).map(|number| (number * number * 37) % 9000).collect();
    let first = write(&archives[0], &sizes);
    let second = write(&archives[1], &sizes[..100]);
    for threads in [1, 2, 7] {
        let both = [items(&first, 0, 0), items(&second, 1, 300)].concat();
        let seen = run(&archives, both, threads);
        assert_eq!((seen.items.len(), seen.failed.len()), (400, 0), "{:?}", seen.failed);
        for (number, item) in &seen.items {
            let member = number % 300;
            assert_eq!(item.data, bytes_of(member, sizes[member as usize]), "{number}");
        }
    }
}

#[test]
fn what_is_done_is_passed_over_and_any_member_is_found_alone() {
    let dir = tempfile::tempdir().unwrap();
    let archives = [dir.path().join("a.tar.gz")];
    let places = write(&archives[0], &[3000; 90]);
    let some: Vec<Item> = items(&places, 0, 0).into_iter().filter(|item| item.number % 7 == 3).collect();
    let seen = run(&archives, some, 3);
    assert_eq!(seen.items.keys().copied().collect::<Vec<_>>(), (3..90).step_by(7).collect::<Vec<_>>());
    assert!(seen.items.iter().all(|(number, item)| item.data == bytes_of(*number, 3000)));
    let alone = read_alone(&items(&places, 0, 0)[88].place, &archives, &[], Path::new(""));
    assert_eq!(alone, Ok(bytes_of(88, 3000)));
    // Before what was read: begun anew.
    let mut back = items(&places[..30], 0, 0);
    back.reverse();
    let seen = run(&archives, back, 2);
    assert!(
        seen.items.len() == 30
            && seen.items.iter().all(|(number, item)| item.data == bytes_of(*number, 3000))
    );
}

#[test]
fn members_behind_a_place_that_cannot_be_read_fail_each_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let archives = [dir.path().join("a.tar.gz"), dir.path().join("gone.tar.zst")];
    let places = write(&archives[0], &[3000; 60]);
    let whole = fs::read(&archives[0]).unwrap();
    fs::write(&archives[0], &whole[..whole.len() / 2]).unwrap();
    let all = [items(&places, 0, 0), items(&places[..2], 1, 60)].concat();
    let seen = run(&archives, all, 4);
    assert_eq!(seen.items.len() + seen.failed.len(), 62);
    let first_lost = *seen.failed.keys().next().unwrap();
    assert!((5..60).contains(&first_lost), "{first_lost}");
    assert_eq!(seen.items.len() as u64, first_lost, "all before it are there");
    assert!(seen.failed[&first_lost].contains("its tar"), "{}", seen.failed[&first_lost]);
    assert_eq!(seen.failed[&61], "no such file");
}

#[test]
fn members_that_do_not_fit_or_fail_early_keep_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let archives = [dir.path().join("a.tar.gz")];
    let places = write(&archives[0], &[2000, 400_000, 2000, 400_000, 2000, 2000]);
    let seen = run(&archives, items(&places, 0, 0), 3);
    assert_eq!(seen.items.keys().copied().collect::<Vec<_>>(), [0, 2, 4, 5]);
    assert!(seen.failed[&1].contains("--ring"), "{:?}", seen.failed);
    let feeder = Feeder::new("load".parse().unwrap(), GEOMETRY).threads(3).archives(archives.to_vec());
    assert_eq!(feeder.run(items(&places, 0, 0)).failed.len(), 6);
}
