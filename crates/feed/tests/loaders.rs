//! Loaders at work: everything that goes in comes out once, in the right place, with the right content.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)] // a test fails by panicking

#[path = "loaders/feeder.rs"]
mod feeder;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use feeder::{Feeder, Seen, file_items, one_by_one};
use gpulane_decode::{Element, Form, Kind};
use gpulane_feed::loaders::{InHand, Outside, OutsideAnswer, Source, Told};
use gpulane_feed::ring::Geometry;
use gpulane_items::{Item, Place};
use gpulane_model::{DamagePolicy, Decode};
use proptest::prelude::*;

fn decode(text: &str) -> Decode {
    text.parse().expect("a way to decode")
}

fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number as usize).wrapping_mul(31).wrapping_add(at * 7) as u8).collect()
}

/// An image of the decoder's own tests.
fn picture(name: &str) -> Vec<u8> {
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../decode/tests/images");
    fs::read(format!("{images}/{name}")).unwrap()
}

/// Runs loaders over these files until all are told; their news.
fn told_of(feeder: &Feeder, files: &[Vec<u8>]) -> (Vec<Told>, gpulane_feed::loaders::Rates) {
    let folder = tempfile::tempdir().unwrap();
    for (number, bytes) in files.iter().enumerate() {
        fs::write(folder.path().join(number.to_string()), bytes).unwrap();
    }
    let items = (0..files.len() as u64).map(|number| Item {
        number,
        name: number.to_string(),
        place: Place::File(folder.path().join(number.to_string())),
    });
    let (loaders, told) = feeder.start(one_by_one(items.collect()));
    loaders.set_on_device(1.0);
    let news: Vec<Told> = told.iter().take_while(|word| !matches!(word, Told::Drained)).collect();
    (news, loaders.rates())
}

#[test]
fn the_share_on_the_device_counts_what_went_there_and_nothing_else() {
    let geometry = Geometry { slots: 4, slot_bytes: 1 << 20, capacity: 64 };
    let feeder = Feeder::new(decode("rgb:24x18"), geometry).device();
    let (webp, png) = (picture("webp-lossy.webp"), picture("png-rgb.png"));
    let (plain, progressive) = (picture("jpeg-420.jpg"), picture("jpeg-progressive.jpg"));
    for (files, share) in [
        (vec![webp.clone(), webp.clone(), png.clone()], 0.0),
        (vec![progressive.clone(), webp.clone()], 0.0),
        (vec![plain.clone(), webp, progressive, plain], 0.5),
        (vec![], 0.0),
    ] {
        let (_, rates) = told_of(&feeder, &files);
        assert_eq!(rates.items, files.len() as u64);
        assert!((rates.share_on_device() - share).abs() < 1e-9, "{rates:?} instead of {share}");
    }
}

#[test]
fn damaged_pictures_are_told_with_their_slot_or_have_failed() {
    let (good, half) = (picture("jpeg-420.jpg"), picture("bad-truncated.jpg"));
    let files = [good.clone(), half.clone(), good, half];
    for (policy, damaged, failed) in [(DamagePolicy::Fail, vec![], 2), (DamagePolicy::Warn, vec![1, 3], 0)] {
        let geometry = Geometry { slots: 4, slot_bytes: 1 << 20, capacity: 64 };
        let feeder = Feeder::new(decode("rgb:24x18"), geometry).damaged(policy);
        let (news, rates) = told_of(&feeder, &files);
        let of_slots: Vec<u64> = news
            .iter()
            .filter_map(|word| if let Told::Filled(filled) = word { Some(&filled.damaged) } else { None })
            .flatten()
            .map(|(number, what)| {
                assert!(what.starts_with("truncated: "), "{what}");
                *number
            })
            .collect();
        assert_eq!((of_slots, rates.failed), (damaged, failed));
    }
}

/// A BMP image of one colour.
fn bmp(width: u32, height: u32, [red, green, blue]: [u8; 3]) -> Vec<u8> {
    let row = (width * 3).next_multiple_of(4);
    let mut file = b"BM".to_vec();
    for word in [54 + row * height, 0, 54, 40, width, height, 1 | 24 << 16, 0, row * height, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    for _ in 0..height {
        let start = file.len();
        (0..width).for_each(|_| file.extend([blue, green, red]));
        file.resize(start + row as usize, 0);
    }
    file
}

#[test]
fn files_of_any_size_come_through_once_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let sizes: Vec<usize> = (0..600).map(|n| (n * n * 37) % 9000).collect();
    let mut items = file_items(dir.path(), sizes.iter().enumerate().map(|(n, len)| bytes_of(n as u64, *len)));
    items[17].place = Place::File(dir.path().join("nothing"));
    items[400].place = Place::File(dir.path().to_owned());
    items[599].place = Place::Bad("the cell is empty".to_owned());
    let geometry = Geometry { slots: 4, slot_bytes: 64 << 10, capacity: 40 };
    let seen = Feeder::new(decode("bytes"), geometry).threads(4).batch(33).run(items);
    assert_eq!(
        seen.failed,
        BTreeMap::from([
            (17, "no such file".to_owned()),
            (400, "is a directory".to_owned()),
            (599, "the cell is empty".to_owned())
        ])
    );
    assert_eq!(seen.items.len(), 597);
    for (number, item) in &seen.items {
        assert_eq!(item.data, bytes_of(*number, sizes[usize::try_from(*number).unwrap()]), "{number}");
        assert_eq!((item.kind, item.name.as_str()), (4, format!("item {number}").as_str()));
    }
    assert_eq!(seen.counters.copied_in, 0);
    assert_eq!(seen.counters.in_place, seen.items.values().map(|item| item.data.len() as u64).sum::<u64>());
}

#[test]
fn images_of_one_size_are_one_array_whatever_failed_between_them() {
    let dir = tempfile::tempdir().unwrap();
    let colour = |n: u64| [n as u8, (n / 2) as u8, 255 - n as u8];
    let files = (0..250).map(|n| if n % 7 == 3 { b"BM no image".to_vec() } else { bmp(9, 7, colour(n)) });
    let items = file_items(dir.path(), files);
    let geometry = Geometry::plan(16 << 20, 2, 16, Some(8 * 6 * 3), 0).unwrap();
    let seen = Feeder::new(decode("rgb:8x6"), geometry).threads(3).run(items);
    assert_eq!(
        seen.failed.keys().copied().collect::<Vec<_>>(),
        (0..250).filter(|n| n % 7 == 3).collect::<Vec<_>>()
    );
    assert!(seen.packed.iter().all(|packed| *packed), "every slot is one array");
    assert!(
        seen.sizes.iter().filter(|size| **size < 16).count() <= 1,
        "only the last may be short: {:?}",
        seen.sizes
    );
    for (number, item) in &seen.items {
        let right: Vec<u8> = colour(*number).repeat(8 * 6);
        assert_eq!((item.kind, item.element, item.dims.as_slice()), (1, 1, [6, 8, 3].as_slice()));
        assert_eq!(item.data, right, "{number}");
    }
    assert_eq!(seen.items.len() + seen.failed.len(), 250);
}

#[test]
fn values_are_text_and_nothing_is_read() {
    let items = (0..5000).map(|number| Item {
        number,
        name: format!("n{number}"),
        place: Place::Value(format!("värde {number}")),
    });
    let geometry = Geometry { slots: 3, slot_bytes: 256 << 10, capacity: 500 };
    let seen = Feeder::new(decode("value"), geometry).threads(2).run(items.collect());
    assert_eq!(seen.items.len(), 5000);
    for (number, item) in &seen.items {
        assert_eq!((item.kind, item.data.as_slice()), (5, format!("värde {number}").as_bytes()));
    }
}

#[test]
fn members_of_archives_are_read_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let archives: Vec<_> = (0..3).map(|n| dir.path().join(format!("{n}.tar"))).collect();
    for (n, path) in archives.iter().enumerate() {
        fs::write(path, bytes_of(n as u64, 5000)).unwrap();
    }
    let items = (0..60).map(|number| {
        let place = Place::Member {
            archive: (number / 20) as u32,
            offset: (number % 20) * 250,
            bytes: 250,
            before: None,
        };
        Item { number, name: format!("item {number}"), place }
    });
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 8 };
    let seen = Feeder::new(decode("bytes"), geometry).archives(archives).threads(2).run(items.collect());
    for (number, item) in &seen.items {
        let at = (number % 20) as usize * 250;
        assert_eq!(item.data, bytes_of(number / 20, 5000)[at..at + 250]);
    }
    assert_eq!(seen.items.len(), 60);
}

#[test]
fn an_item_larger_than_a_slot_fails_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let items = file_items(dir.path(), [bytes_of(0, 10), bytes_of(1, 70_000), bytes_of(2, 60_000)]);
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 8 };
    let seen = Feeder::new(decode("bytes"), geometry).run(items);
    assert_eq!(seen.items.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert!(
        seen.failed[&1].contains("needs 68.4 KiB") && seen.failed[&1].contains("larger --ring"),
        "{seen:?}"
    );
}

/// A model's `load` that writes to the ring as another process would.
struct Model {
    ring: OwnedFd,
    slot_bytes: u64,
}

fn loaded_len(number: u64) -> u64 {
    if number == 5 { 3 << 20 } else { (number * number * 997) % 30_000 / 4 * 4 }
}

impl Outside for Model {
    fn load(&self, _: usize, path: &str, slot: u32, offset: u64, room: u64) -> OutsideAnswer {
        let number: u64 = path.parse().unwrap();
        let bytes = loaded_len(number);
        match number {
            n if n % 13 == 4 => return OutsideAnswer::Failed("OSError: no".to_owned()),
            n if n % 17 == 6 => panic!("no loader {n}"),
            _ if bytes > room => return OutsideAnswer::TooLarge { bytes },
            _ => {}
        }
        let ring = fs::File::from(self.ring.try_clone().unwrap());
        let at = u64::from(slot) * self.slot_bytes + offset;
        ring.write_all_at(&bytes_of(number, usize::try_from(bytes).unwrap()), at).unwrap();
        let dims = [u32::try_from(bytes / 4).unwrap(), 0, 0, 0];
        let form = Form {
            kind: Kind::Array,
            element: Element::F32,
            orientation: 1,
            chroma: 0,
            dims,
            ndim: 1,
            bytes,
            damaged: false,
        };
        OutsideAnswer::Loaded { form }
    }
}

#[test]
fn what_a_model_loads_itself_is_asked_for_again_until_it_fits() {
    let items = (0..120).map(|number| Item {
        number,
        name: format!("item {number}"),
        place: Place::Value(number.to_string()),
    });
    let geometry = Geometry { slots: 3, slot_bytes: 8 << 20, capacity: 16 };
    let feeder = Feeder::new(decode("load"), geometry);
    let ring = feeder.ring.fd().try_clone_to_owned().unwrap();
    let model = Arc::new(Model { ring, slot_bytes: geometry.slot_bytes });
    let seen = feeder.load(model).threads(3).run(items.collect());
    for number in 0..120 {
        match seen.items.get(&number) {
            Some(item) => {
                assert_eq!(item.data, bytes_of(number, usize::try_from(loaded_len(number)).unwrap()));
            }
            None => assert!(number % 13 == 4 || number % 17 == 6, "{number}"),
        }
    }
    assert!(seen.failed[&6].contains("no loader 6"), "a panic is told with the item");
    assert_eq!(seen.items.len() + seen.failed.len(), 120);
}

/// A source that gives what the test sends it.
struct Slow(Mutex<std::sync::mpsc::Receiver<Item>>);

impl Source for Slow {
    fn more(&mut self, _: usize, out: &mut Vec<Item>) -> io::Result<()> {
        out.extend(self.0.lock().unwrap().recv());
        Ok(())
    }
}

#[test]
fn a_slow_source_does_not_keep_an_idle_worker_waiting() {
    let (more, items) = channel();
    let geometry = Geometry { slots: 3, slot_bytes: 64 << 10, capacity: 100 };
    let (loaders, told) =
        Feeder::new(decode("value"), geometry).threads(1).start(Box::new(Slow(Mutex::new(items))));
    for number in 0..3 {
        let place = Place::Value("x".to_owned());
        more.send(Item { number, name: String::new(), place }).unwrap();
        // The source has not ended and the slot is far from full; it comes all the same.
        let Told::Filled(filled) = told.recv().unwrap() else { panic!("a slot") };
        assert_eq!(filled.items, [(number, String::new())]);
        loaders.give_back(filled.slot);
    }
    more.send(Item { number: 3, name: String::new(), place: Place::Bad("bad".to_owned()) }).unwrap();
    assert_eq!(told.recv().unwrap(), Told::Failed(vec![(3, String::new(), "bad".to_owned())]));
    drop(more);
    assert_eq!(told.recv().unwrap(), Told::Drained);
    loaders.stop();
    assert!(told.recv().is_err(), "nothing follows");
}

#[test]
fn without_a_free_slot_nothing_moves_until_one_is_given_back() {
    let items =
        (0..2000).map(|number| Item { number, name: String::new(), place: Place::Value("x".to_owned()) });
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 2 };
    let (loaders, told) =
        Feeder::new(decode("value"), geometry).threads(2).start(one_by_one(items.collect()));
    let mut held = Vec::new();
    let next = || match told.recv().unwrap() {
        Told::Filled(filled) => Some(filled.slot),
        Told::Drained => None,
        other => panic!("{other:?}"),
    };
    held.extend(next());
    held.extend(next());
    assert_ne!(held[0], held[1], "a slot is out once");
    for _ in 0..998 {
        let slot = held.remove(0);
        if loaders.rates().waiting_for_slots == 0.0 {
            // A moment for a loader to run into it: nothing forces it to be that quick.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        loaders.give_back(slot);
        assert_eq!(next(), Some(slot), "the only one that can be filled");
        held.push(slot);
    }
    assert_eq!(next(), None);
    assert!(loaders.rates().waiting_for_slots > 0.0);
}

#[test]
fn stopping_does_not_wait_for_slots_and_nothing_is_told_afterwards() {
    let items: Vec<Item> = (0..1000)
        .map(|number| Item { number, name: String::new(), place: Place::Value("x".to_owned()) })
        .collect();
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 2 };
    let (loaders, told) = Feeder::new(decode("value"), geometry).threads(3).start(one_by_one(items));
    let _first = told.recv().unwrap();
    loaders.stop();
    assert!(told.iter().all(|told| matches!(told, Told::Filled(_))), "and the channel has ended");
}

#[test]
fn a_source_that_fails_is_told_and_ends_it() {
    struct Broken(u32);
    impl Source for Broken {
        fn more(&mut self, _: usize, out: &mut Vec<Item>) -> io::Result<()> {
            self.0 += 1;
            if self.0 > 2 {
                return Err(io::Error::other("items.list is cut off"));
            }
            out.push(Item { number: 0, name: String::new(), place: Place::Value(String::new()) });
            Ok(())
        }
    }
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 100 };
    let (loaders, told) = Feeder::new(decode("value"), geometry).threads(2).start(Box::new(Broken(0)));
    let broken = told.iter().find(|told| !matches!(told, Told::Filled(_)));
    assert_eq!(broken, Some(Told::Broken("items.list is cut off".to_owned())));
    loaders.stop();
    assert_eq!(told.iter().count(), 0, "nothing follows");
}

#[test]
fn nothing_is_in_hand_when_all_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let items = file_items(dir.path(), (0..20).map(|n| bmp(4, 4, [n, n, n])));
    let geometry = Geometry { slots: 2, slot_bytes: 64 << 10, capacity: 8 };
    let feeder = Feeder::new(decode("gray:4x4"), geometry).threads(2);
    let path = feeder.hands.path().join("in-hand");
    let seen: Seen = feeder.run(items);
    assert_eq!(seen.items.len(), 20);
    assert_eq!(InHand::left_by(&path).unwrap(), Vec::<u64>::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the sizes, names, failures, threads and slots: everything comes out once. The feeder checks every slot.
    #[test]
    fn every_item_comes_out_once(
        sizes in prop::collection::vec((0..20_000_usize, 0..300_usize, 0..10_u8), 0..300),
        threads in 1..5_u32, slots in 1..5_u32, capacity in 1..40_u32,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut items = file_items(dir.path(), sizes.iter().enumerate().map(|(n, size)| bytes_of(n as u64, size.0)));
        for (item, (_, name, fate)) in items.iter_mut().zip(&sizes) {
            item.name = "n".repeat(*name);
            if *fate == 0 {
                item.place = Place::Bad("bad".to_owned());
            }
        }
        let geometry = Geometry { slots, slot_bytes: 32 << 10, capacity };
        let seen = Feeder::new(decode("bytes"), geometry).threads(threads).run(items);
        for (number, (size, name, fate)) in (0..).zip(&sizes) {
            if *fate == 0 {
                prop_assert_eq!(&seen.failed[&number], "bad");
            } else {
                prop_assert_eq!(&seen.items[&number].data, &bytes_of(number, *size));
                prop_assert_eq!(seen.items[&number].name.len(), *name);
            }
        }
        prop_assert_eq!(seen.items.len() + seen.failed.len(), sizes.len());
    }
}
