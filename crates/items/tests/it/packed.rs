//! Compressed tar shards: the same items as of the tar within, and what is whole before damage.

use std::io::{Read, Write};

use gpulane_items::{Packing, Place, Unpacked};
use proptest::prelude::*;

use crate::place::{Scene, all, reason};
use crate::shards::tar;

pub(crate) fn packed(bytes: &[u8], packing: Packing) -> Vec<u8> {
    match packing {
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Zstd => zstd::stream::encode_all(bytes, 1).unwrap(),
    }
}

const KINDS: [(Packing, &str); 2] = [(Packing::Gzip, "s.tar.gz"), (Packing::Zstd, "s.tar.zst")];

/// Bytes that do not become much fewer.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_compressed_tar_has_the_items_of_the_tar_within() {
    let long = format!("{}.jpg", "n".repeat(150));
    let (one, two) = (noise(1, 5000), noise(2, 700));
    let whole = tar(&[("a.cls", b"3"), ("a.jpg", &one), ("b.json", b"{}"), (&long, &two), ("c.png", b"")]);
    let scene = Scene::new(&[]);
    scene.write("s.tar", &whole);
    let plain = all(&scene.freeze(&["s.tar"]).unwrap());
    for (packing, name) in KINDS {
        scene.write(name, packed(&whole, packing));
        let list = scene.freeze(&[name]).unwrap();
        let items = all(&list);
        assert_eq!(items.len(), 4);
        for (item, plain) in items.iter().zip(&plain) {
            assert_eq!(item.name.replace(name, "s.tar"), plain.name);
            assert_eq!(item.place, plain.place, "places are those in the contents");
        }
        let Place::Member { offset, bytes, .. } = items[0].place else { panic!("{items:?}") };
        let mut unpacked = Unpacked::open(&list.archives()[0], packing).unwrap();
        unpacked.skip_to(offset).unwrap();
        let mut data = vec![0; usize::try_from(bytes).unwrap()];
        unpacked.read_exact(&mut data).unwrap();
        assert_eq!(data, one);
    }
    assert_eq!(scene.items(&["."]).len(), 12, "below a folder as well");
}

#[test]
fn of_a_cut_or_damaged_one_the_members_before_are_items_and_it_fails() {
    let data: Vec<Vec<u8>> = (0..40).map(|seed| noise(seed, 20_000)).collect();
    let names: Vec<String> = (0..40).map(|number| format!("{number}.jpg")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().zip(&data).map(|(n, d)| (n.as_str(), &d[..])).collect();
    for (packing, name) in KINDS {
        let whole = packed(&tar(&members), packing);
        let mut damaged = whole.clone();
        let middle = whole.len() / 2;
        // Within a member of noise, which both store nearly as it is: their checksums or blocks tell.
        damaged[middle..middle + 3000].fill(0x55);
        for (bytes, words) in [(&whole[..middle], "cannot be decompressed"), (&damaged[..], "")] {
            let scene = Scene::new(&[]);
            scene.write(name, bytes);
            let items = scene.items(&[name]);
            let broken = items.last().unwrap();
            assert!((2..=41).contains(&items.len()), "{packing:?}: {}", items.len());
            if matches!(broken.place, Place::Bad(_)) {
                assert!(reason(broken).contains("is no whole tar file"), "{broken:?}");
                assert!(reason(broken).contains(words), "{broken:?}");
                assert_eq!(broken.name, name);
            } else {
                assert!(words.is_empty(), "a cut is always told: {packing:?}");
            }
        }
        let scene = Scene::new(&[]);
        scene.write(name, packed(&tar(&members)[..50_000], packing));
        let items = scene.items(&[name]);
        assert_eq!(items.len(), 3, "two whole members and the tar");
        assert!(
            reason(&items[2]).contains("its contents end at byte 50000, within the member 2.jpg"),
            "{items:?}"
        );
        // Cut between two members: whole ones, but the mark of the end is missing.
        scene.write(name, packed(&tar(&members[..2])[..2 * (512 + 20_480)], packing));
        let items = scene.items(&[name]);
        assert_eq!(items.len(), 3);
        assert!(reason(&items[2]).contains("without the end-of-archive mark"), "{items:?}");
    }
}

#[test]
fn zeros_behind_gzip_are_filling_and_anything_else_is_told() {
    let whole = tar(&[("a.jpg", &noise(1, 5000)), ("b.jpg", b"xyz")]);
    let (head, tail) = whole.split_at(4000);
    let parts = |between: &[u8], behind: &[u8]| {
        [&packed(head, Packing::Gzip), between, &packed(tail, Packing::Gzip), behind].concat()
    };
    let scene = Scene::new(&[]);
    for bytes in [parts(&[], &[]), parts(&[], &vec![0; 300_000]), parts(&[0; 512], &[0])] {
        scene.write("s.tar.gz", bytes);
        let names: Vec<_> = scene.items(&["s.tar.gz"]).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["s.tar.gz/a.jpg", "s.tar.gz/b.jpg"]);
    }
    scene.write("s.tar.gz", parts(&[], b"\0garbage"));
    let items = scene.items(&["s.tar.gz"]);
    assert_eq!(items.len(), 3, "both members and the tar");
    assert!(reason(&items[2]).contains("what follows is neither zeros nor gzip"), "{items:?}");
}

#[test]
fn what_is_no_compressed_tar_fails_and_other_compressions_are_refused() {
    let scene = Scene::new(&[]);
    scene.write("s.tar.gz", "no gzip at all");
    scene.write("t.tgz", packed(b"no tar", Packing::Gzip));
    scene.write("empty.tar.zst", packed(&[0; 10_240], Packing::Zstd));
    for (name, words) in [("s.tar.gz", "cannot be decompressed by gzip"), ("t.tgz", "is no whole tar file")] {
        let items = scene.items(&[name]);
        assert_eq!(items.len(), 1);
        assert!(reason(&items[0]).contains(words), "{items:?}");
    }
    assert_eq!(scene.freeze(&["empty.tar.zst"]).unwrap_err()[0].what, "it matches nothing");
    scene.write("x.tar.xz", "x");
    assert!(scene.mistake("x.tar.xz").contains("only .tar.gz and .tar.zst are read"));
    assert!(scene.mistake("*.tar.bz2").contains("pack it as .tar.zst"));
}

#[test]
fn a_list_with_compressed_tars_is_of_a_format_that_an_older_program_refuses() {
    let scene = Scene::new(&[]);
    scene.write("s.tgz", packed(&tar(&[("a.jpg", b"x")]), Packing::Gzip));
    let list = scene.freeze(&["s.tgz"]).unwrap();
    let meta = std::fs::read_to_string(scene.out().join("items.json")).unwrap();
    assert!(meta.contains("\"version\": 3"), "{meta}");
    let changed = || scene.with(&["s.tgz"], |wanted| gpulane_items::changes(&list, wanted).unwrap());
    assert!(changed().is_empty());
    scene.write("s.tgz", packed(&tar(&[("a.jpg", b"x"), ("b.jpg", b"y")]), Packing::Gzip));
    assert!(changed()[0].contains("1 items when the run began, 2 now"), "{:?}", changed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn changed_bytes_make_no_panic_and_no_item_out_of_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        keep in any::<prop::sample::Index>(), zstd in any::<bool>(),
    ) {
        let (packing, name) = KINDS[usize::from(zstd)];
        let whole = tar(&[("a.jpg", &noise(3, 900)), ("b.jpg", b"xyz"), ("c.txt", b"")]);
        let mut bytes = packed(&whole, packing);
        for (at, byte) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        bytes.truncate(keep.index(bytes.len() + bytes.len() / 2).max(1));
        let scene = Scene::new(&[]);
        scene.write(name, bytes);
        if let Ok(list) = scene.freeze(&[name]) {
            prop_assert!(all(&list).len() <= 4);
        }
    }
}
