//! Whatever the bytes are: no panic, no more room than the limits allow, and it is asked for at most once.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

mod place;

use std::sync::LazyLock;

use gpulane_decode::{Decoder, Finish, Kind, Limits};
use gpulane_model::DamagePolicy;
use place::{Room, images};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const MOST_BYTES: u64 = 3 << 20;

fn limits() -> Limits {
    Limits { max_pixels: 1 << 20, max_bytes: MOST_BYTES, ..Limits::default() }
}

/// All images of these tests, good and bad.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let image = ["jpg", "png", "webp", "gif", "bmp", "tif"];
    let mut paths: Vec<_> =
        std::fs::read_dir(images()).expect("images").map(|entry| entry.expect("entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| image.iter().any(|known| end == *known)));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
});

const MAGICS: [&[u8]; 11] = [
    b"",
    b"\xff\xd8\xff",
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    b"II\x2a\0\x08\0\0\0",
    b"MM\0\x2a\0\0\0\x08",
    b"II\x2b\0\x08\0\0\0",
    b"RIFF\xff\0\0\0WEBPVP8 ",
    b"RIFF\xff\0\0\0WEBPVP8X",
    b"GIF89a",
    b"BM",
    b"\x93NUMPY\x01\0",
];

fn file() -> impl Strategy<Value = Vec<u8>> {
    any::<Index>().prop_map(|index| index.get(&FILES).clone())
}

/// A file with some bytes changed; most changes are near its beginning, where the meaning is.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    (file(), vec((any::<Index>(), any::<bool>(), any::<u8>()), 1..6)).prop_map(|(mut file, changes)| {
        for (at, early, byte) in changes {
            let reach = if early { file.len().min(256) } else { file.len() };
            if reach > 0 {
                file[at.index(reach)] = byte;
            }
        }
        file
    })
}

fn cut() -> impl Strategy<Value = Vec<u8>> {
    (file(), any::<Index>()).prop_map(|(mut file, at)| {
        file.truncate(at.index(file.len() + 1));
        file
    })
}

/// The beginning of one file and the end of another.
fn spliced() -> impl Strategy<Value = Vec<u8>> {
    (file(), file(), any::<Index>(), any::<Index>()).prop_map(|(one, other, end, begin)| {
        [&one[..end.index(one.len() + 1)], &other[begin.index(other.len() + 1)..]].concat()
    })
}

fn made_up() -> impl Strategy<Value = Vec<u8>> {
    (select(&MAGICS), vec(any::<u8>(), 0..300)).prop_map(|(magic, rest)| [magic, &rest].concat())
}

fn decodes() -> impl Strategy<Value = &'static str> {
    const ALL: [&str; 10] = [
        "rgb",
        "rgb:24x18",
        "rgb:200x1:crop",
        "rgb:7x30:pad",
        "gray",
        "gray:9x9",
        "gray:30x3:pad",
        "bytes",
        "npy",
        "text",
    ];
    select(&ALL)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hostile_bytes_do_no_harm(
        encoded in prop_oneof![mutated(), mutated(), cut(), spliced(), made_up()],
        decode in decodes(),
        finish in select(&[Finish::Here, Finish::Planes, Finish::Encoded]),
        damaged in select(&[DamagePolicy::Fail, DamagePolicy::Warn]),
    ) {
        let mut room = Room::of(MOST_BYTES);
        let decoder = Decoder::new(decode.parse().expect(decode), limits());
        let made = decoder.with_damaged(damaged).decode(&encoded, finish, &mut room);
        prop_assert!(room.asked <= 1);
        prop_assert!(room.bytes.len() as u64 <= MOST_BYTES);
        if let Ok(form) = made {
            prop_assert_eq!(room.asked, 1);
            prop_assert_eq!(room.bytes.len() as u64, form.bytes);
            prop_assert!((1..=8).contains(&form.orientation));
            if form.kind == Kind::Array {
                let sides = form.dims[..form.ndim as usize].iter().map(|side| u64::from(*side));
                prop_assert_eq!(sides.product::<u64>() * form.element.bytes(), form.bytes);
            }
        }
    }
}
