//! However many threads decode however large images, together they take no more memory than they were given.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

#[path = "../../decode/tests/bombs/mod.rs"]
mod bombs;
#[path = "loaders/feeder.rs"]
mod feeder;

use bombs::{bmp, gif, jpeg, lossless, plain_jpeg, png, tiff_strip, webp};
use feeder::{Feeder, file_items};
use gpulane_decode::Limits;
use gpulane_feed::ring::Geometry;

const MIB: u64 = 1 << 20;

/// What all threads have together.
const BUDGET: u64 = 128 * MIB;

const THREADS: u32 = 6;

/// A figure of this process, in bytes.
fn figure(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("known");
    1024 * line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number")
}

/// Images that take from 70 to 120 MiB each, and one that takes more than all threads may.
fn images() -> Vec<Vec<u8>> {
    let progressive = include_bytes!("../../decode/tests/images/jpeg-progressive.jpg");
    let each = [
        webp(&[(b"VP8L", lossless((4000, 3000), false))], 38),
        gif((5000, 4000)),
        png((3500, 3000), (16, 6, 0), &[]),
        tiff_strip((3000, 3000), 4, 16),
        bmp((5000, 5000)),
        jpeg(progressive, (6000, 5000)),
    ];
    let giant = webp(&[(b"VP8L", lossless((13_300, 13_300), false))], 38);
    let small = plain_jpeg((300, 200));
    let mut images = Vec::new();
    for image in [&each[..], &each[..], &each[..]].concat() {
        images.extend([image, small.clone(), giant.clone()]);
    }
    images
}

#[test]
fn all_threads_together_stay_within_their_memory() {
    let dir = tempfile::tempdir().unwrap();
    let items = file_items(dir.path(), images());
    let geometry = Geometry { slots: 4, slot_bytes: 256 << 10, capacity: 8 };
    let limits = Limits { max_memory: BUDGET, ..Limits::default() };
    let feeder = Feeder::new("rgb:64x64".parse().unwrap(), geometry).threads(THREADS).limits(limits);
    // What was needed to make the files is not counted.
    std::fs::write("/proc/self/clear_refs", "5").expect("the largest size begins anew");
    let before = figure("VmRSS");
    let seen = feeder.run(items);
    let peak = figure("VmHWM").saturating_sub(before);
    // Beside the budget, each thread may use 16 MiB that are not counted, and keep buffers of a sixteenth of the budget. The
    // C library's allocator keeps some of what was given back.
    let kept_by_allocator = 16 * MIB;
    let most = BUDGET + u64::from(THREADS) * (16 * MIB + BUDGET / 16) + kept_by_allocator + geometry.bytes();
    assert!(peak <= most, "{} MiB, of {}", peak / MIB, most / MIB);
    let giants: Vec<_> = seen.failed.values().filter(|reason| reason.contains("13300×13300")).collect();
    assert_eq!(giants.len(), 18, "{:?}", seen.failed);
    assert!(giants.iter().all(|reason| reason.contains("128 MiB")), "{giants:?}");
    // Three progressive ones lack most of their data, and libwebp stops at the data of three WebPs once it has its memory.
    assert_eq!((seen.items.len(), seen.failed.len()), (30, 24), "{:?}", seen.failed);
}
