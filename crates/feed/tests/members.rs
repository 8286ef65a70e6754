//! The other members of an item's sample: the same ones from plain and compressed tars, whatever their order, for any number of threads; and
//! an item that cannot have what was asked for fails with the reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)] // a test fails by panicking

#[path = "loaders/feeder.rs"]
mod feeder;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use feeder::{Feeder, Seen};
use gpulane_feed::ring::Geometry;
use gpulane_items::{Item, Wanted};

const GEOMETRY: Geometry = Geometry { slots: 3, slot_bytes: 512 << 10, capacity: 32 };
const KINDS: [&str; 3] = ["s.tar", "s.tar.gz", "s.tar.zst"];

/// A tar, member by member.
struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn of(members: &[(&str, &[u8])]) -> Self {
        members.iter().fold(Self::new(), |tar, (name, data)| tar.file(name, data))
    }

    fn file(mut self, name: &str, data: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        self.0.append_data(&mut header, name, data).unwrap();
        self
    }

    fn link(mut self, name: &str, kind: tar::EntryType) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        self.0.append_link(&mut header, name, "elsewhere").unwrap();
        self
    }

    fn directory(mut self, name: &str) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        self.0.append_data(&mut header, name, std::io::empty()).unwrap();
        self
    }

    fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// Writes a tar as its name says: plain, gzip or Zstandard.
fn write(path: &Path, tar: &[u8]) {
    let file = fs::File::create(path).unwrap();
    match path.extension().unwrap().to_str().unwrap() {
        "gz" => {
            let mut to = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            to.write_all(tar).unwrap();
            to.finish().unwrap();
        }
        "zst" => {
            let mut to = zstd::stream::write::Encoder::new(file, 1).unwrap();
            to.write_all(tar).unwrap();
            to.finish().unwrap();
        }
        _ => fs::write(path, tar).unwrap(),
    }
}

/// Lists a shard and loads its items with members.
struct Shard {
    dir: tempfile::TempDir,
    name: &'static str,
    archives: Vec<std::path::PathBuf>,
    items: Vec<Item>,
}

impl Shard {
    fn new(name: &'static str, tar: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join(name), tar);
        let mut shard = Self { dir, name, archives: Vec::new(), items: Vec::new() };
        shard.list();
        shard
    }

    fn list(&mut self) {
        let inputs = [self.name.to_owned()];
        let wanted = Wanted { inputs: &inputs, base: self.dir.path(), decode: None };
        let list = gpulane_items::freeze(&wanted, self.dir.path(), &mut |_| true).unwrap();
        self.archives = list.archives().to_vec();
        self.items.clear();
        list.cursor().next_in(&|_| true, 1 << 20, &mut self.items).unwrap();
    }

    fn load(&self, members: &str, threads: u32) -> Seen {
        self.load_some(members, threads, |_| true)
    }

    fn load_some(&self, members: &str, threads: u32, wanted: impl Fn(&Item) -> bool) -> Seen {
        let feeder = Feeder::new("bytes".parse().unwrap(), GEOMETRY).threads(threads);
        let items = self.items.iter().filter(|item| wanted(item)).cloned().collect();
        feeder.archives(self.archives.clone()).members(members).run(items)
    }
}

type Named = BTreeMap<String, Vec<(String, Vec<u8>)>>;

/// Members by the item's name within the shard.
fn members(seen: &Seen) -> Named {
    let named = |got: &feeder::Got| (got.name.split_once('/').unwrap().1.to_owned(), got.members.clone());
    seen.items.values().map(named).collect()
}

fn right(of: &[(&str, &[(&str, &str)])]) -> Named {
    let each = |(name, members): &(&str, &[(&str, &str)])| {
        let members =
            members.iter().map(|(extension, data)| ((*extension).to_owned(), data.as_bytes().to_vec()));
        ((*name).to_owned(), members.collect())
    };
    of.iter().map(each).collect()
}

/// A hand-made shard and what `webdataset` makes of it: names are split at the first dot of the base name, extensions compared in lower
/// case, members that follow each other and share what stands before the dot are one sample.
#[test]
fn samples_are_those_of_webdataset() {
    let tar = Tar::new()
        .directory("train/")
        .file("train/a.b/001.json", b"{1}")
        .file("train/a.b/001.jpg", b"J1")
        .file("train/a.b/001.TXT", b"one")
        .directory("train/c/")
        .file("train/002.seg.png", b"S2")
        .file("train/002.cls", b"2")
        .file("train/003.jpg", b"J3")
        .file("train/001.jpg", b"J4")
        .file("train/003.json", b"{3}")
        .file("train/004.jpg", b"J5")
        .done();
    let wanted = right(&[
        ("train/a.b/001.jpg", &[("json", "{1}"), ("txt", "one")]),
        ("train/002.seg.png", &[("cls", "2")]),
        ("train/003.jpg", &[]),
        ("train/001.jpg", &[]),
        ("train/003.json", &[]),
        ("train/004.jpg", &[]),
    ]);
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        for threads in [1, 3] {
            let seen = shard.load("*", threads);
            assert_eq!((members(&seen), seen.failed.len()), (wanted.clone(), 0), "{kind}: {:?}", seen.failed);
            let data = |number: u64| String::from_utf8_lossy(&seen.items[&number].data).into_owned();
            assert_eq!([data(0), data(1), data(2), data(5)], ["J1", "S2", "J3", "J5"], "{kind}");
        }
    }
}

#[test]
fn only_what_is_asked_for_comes_and_its_order_in_the_tar_makes_no_difference() {
    let mut all = vec![("k.json", &b"{}"[..]), ("k.jpg", b"J"), ("k.txt", b"t"), ("k.npy", b"n")];
    for kind in KINDS {
        for _ in 0..all.len() {
            all.rotate_left(1);
            let around =
                [&[("j.jpg", &b"before"[..]), ("j.json", b"{0}")][..], &all, &[("l.jpg", b"after")]].concat();
            let shard = Shard::new(kind, &Tar::of(&around).done());
            for (asked, beside) in [
                ("txt,JSON", &[("json", "{}"), ("txt", "t")][..]),
                ("txt", &[("txt", "t")]),
                ("cls", &[]),
                ("", &[]),
                ("*", &[("json", "{}"), ("npy", "n"), ("txt", "t")]),
            ] {
                let seen = shard.load(asked, 2);
                assert_eq!(members(&seen)["k.jpg"], right(&[("", beside)])[""], "{kind} {asked} {all:?}");
                assert_eq!(seen.items.len(), 3, "{:?}", seen.failed);
            }
        }
    }
}

#[test]
fn pictures_of_one_sample_have_the_same_members_and_each_other() {
    let tar = Tar::of(&[
        ("k.jpg", b"J"),
        ("k.json", b"{}"),
        ("k.mask.png", b"M"),
        ("k.txt", b"t"),
        ("l.jpg", b"L"),
    ]);
    let tar = tar.done();
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        for threads in [1, 4] {
            let seen = shard.load("*", threads);
            let wanted = right(&[
                ("k.jpg", &[("json", "{}"), ("mask.png", "M"), ("txt", "t")]),
                ("k.mask.png", &[("jpg", "J"), ("json", "{}"), ("txt", "t")]),
                ("l.jpg", &[]),
            ]);
            assert_eq!(members(&seen), wanted, "{kind}");
            assert_eq!(seen.items[&1].data, b"M", "{kind}");
            let seen = shard.load("json,jpg", threads);
            let wanted = right(&[
                ("k.jpg", &[("json", "{}")]),
                ("k.mask.png", &[("jpg", "J"), ("json", "{}")]),
                ("l.jpg", &[]),
            ]);
            assert_eq!(members(&seen), wanted, "{kind}");
            // What is done is passed over, also within a sample.
            let seen = shard.load_some("json", threads, |item| item.number > 0);
            assert_eq!(members(&seen), right(&[("k.mask.png", &[("json", "{}")]), ("l.jpg", &[])]), "{kind}");
        }
    }
}

/// More than is held of a sample: what is not is read again from the beginning.
#[test]
fn a_sample_of_many_large_pictures_comes_whole() {
    let (large, mut tar) = (vec![7; 300 << 10], Tar::new());
    for number in 0..80 {
        tar = tar.file(&format!("clip.{number:03}.jpg"), &large);
    }
    let tar = tar.file("clip.json", b"{}").file("d.jpg", b"D").done();
    for kind in ["s.tar", "s.tar.zst"] {
        let seen = Shard::new(kind, &tar).load("json", 2);
        assert_eq!((seen.items.len(), seen.failed.len()), (81, 0), "{kind}: {:?}", seen.failed);
        let whole =
            |got: &&feeder::Got| got.data == large && got.members == [("json".to_owned(), b"{}".to_vec())];
        assert_eq!(seen.items.values().filter(whole).count(), 80, "{kind}");
    }
}

#[test]
fn a_sample_with_two_members_of_one_extension_fails_where_that_is_asked_for() {
    let tar = Tar::of(&[("k.json", b"1"), ("k.jpg", b"J"), ("k.JSON", b"2"), ("k.txt", b"t")]).done();
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        for asked in ["json", "*"] {
            let seen = shard.load(asked, 1);
            assert!(
                seen.failed[&0].contains("two members `.json`, k.json and k.JSON"),
                "{kind}: {:?}",
                seen.failed
            );
        }
        assert_eq!(members(&shard.load("txt", 1)), right(&[("k.jpg", &[("txt", "t")])]), "{kind}");
    }
}

#[test]
fn links_fail_the_item_where_they_are_asked_for() {
    for (kind, word) in [(tar::EntryType::Link, "hard link"), (tar::EntryType::Symlink, "symbolic link")] {
        let tar = Tar::of(&[("k.jpg", b"J")]).link("k.json", kind).file("k.txt", b"t").done();
        for name in KINDS {
            let shard = Shard::new(name, &tar);
            let reason = &shard.load("json,txt", 1).failed[&0];
            assert!(reason.contains("its member k.json") && reason.contains(word), "{name}: {reason}");
            assert_eq!(members(&shard.load("txt", 1)), right(&[("k.jpg", &[("txt", "t")])]), "{name}");
        }
    }
}

#[test]
fn members_too_large_for_a_slot_fail_their_item_alone() {
    let large = vec![3; 600 << 10];
    let tar =
        Tar::of(&[("k.npy", &large), ("k.jpg", b"J"), ("k.json", b"{}"), ("l.jpg", b"L"), ("l.npy", b"n")])
            .done();
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        let seen = shard.load("npy,json", 2);
        let reason = &seen.failed[&0];
        for word in ["its members take 600.0 KiB", "k.npy", "room for 50", "--ring", "fewer --members"] {
            assert!(reason.contains(word), "{kind}: {reason}");
        }
        assert_eq!(members(&seen), right(&[("l.jpg", &[("npy", "n")])]), "{kind}");
        assert_eq!(members(&shard.load("json", 2))["k.jpg"].len(), 1, "what is not asked for takes no room");
    }
}

/// Each fits, both do not.
#[test]
fn an_item_and_its_members_must_fit_together() {
    let half = vec![3; 300 << 10];
    let tar = Tar::of(&[("k.npy", &half), ("k.jpg", &half)]).done();
    for kind in KINDS {
        let reason = Shard::new(kind, &tar).load("npy", 1).failed[&0].clone();
        assert!(reason.starts_with("needs 300 KiB and its members 300.0 KiB"), "{kind}: {reason}");
    }
}

/// A header that says ten gigabytes, and 100,000 members of one sample.
#[test]
fn what_a_tar_says_takes_no_memory() {
    let mut header = tar::Header::new_gnu();
    header.set_path("k.npy").unwrap();
    header.set_size(10 << 30);
    header.set_cksum();
    let mut cut = Tar::of(&[("k.jpg", b"J")]).done();
    cut.truncate(1024);
    cut.extend_from_slice(header.as_bytes());
    cut.extend_from_slice(&[0; 4096]);
    for kind in KINDS {
        let reason = Shard::new(kind, &cut).load("npy", 1).failed[&0].clone();
        assert!(reason.contains("k.npy") && reason.contains("cut short"), "{kind}: {reason}");
    }
    let many =
        (0..100_000).fold(Tar::of(&[("k.jpg", b"J")]), |tar, number| tar.file(&format!("k.{number}"), b""));
    let many = many.file("k.json", b"{}").file("l.jpg", b"L").done();
    for kind in [KINDS[0], KINDS[2]] {
        let shard = Shard::new(kind, &many);
        let seen = shard.load("*", 2);
        assert!(seen.failed[&0].contains("more than 10000 members"), "{kind}: {:?}", seen.failed);
        assert_eq!(members(&seen), right(&[("l.jpg", &[])]), "{kind}");
        assert_eq!(members(&shard.load("json", 2))["k.jpg"], right(&[("", &[("json", "{}")])])[""], "{kind}");
    }
}

#[test]
fn a_member_that_is_cut_off_fails_the_item_only_where_it_is_asked_for() {
    let json = [b'x'; 4000];
    let whole =
        Tar::of(&[("j.jpg", b"1"), ("j.json", b"{}"), ("k.txt", b"t"), ("k.jpg", b"J"), ("k.json", &json)])
            .done();
    // Within the data of the last member, within its header, and behind it, without the end mark.
    for (length, asked, failed) in [
        (7 * 512 + 9 * 512, "json", "its member k.json, which `members` asks for, is cut short"),
        (8 * 512 + 100, "json", "cannot be read on behind it"),
        (8 * 512, "json", "without the end-of-archive mark"),
        (8 * 512, "*", "without the end-of-archive mark"),
        (8 * 512, "txt", ""),
        (9 * 512 + 700, "txt", ""),
        (9 * 512 + 4096, "json", ""),
    ] {
        for kind in KINDS {
            let seen = Shard::new(kind, &whole[..length]).load(asked, 1);
            assert_eq!(seen.items[&0].data, b"1", "{kind} {length}");
            let reason = seen.failed.get(&1).cloned().unwrap_or_default();
            assert!(
                reason.contains(failed) && reason.is_empty() == failed.is_empty(),
                "{kind} {length} {asked}: {reason}"
            );
        }
    }
}

/// Compressed data that are cut: the member that cannot be decompressed fails its item, what stands before it is there.
#[test]
fn a_compressed_tar_that_is_cut_gives_what_stands_before() {
    let mut state = 1_u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(400_000)
    .collect();
    let tar = Tar::of(&[("j.jpg", b"1"), ("j.json", b"{}"), ("k.jpg", b"J"), ("k.json", &noise)]).done();
    for kind in &KINDS[1..] {
        let mut shard = Shard::new(kind, &tar);
        let path = shard.dir.path().join(kind);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        shard.list();
        let seen = shard.load("json", 2);
        assert_eq!(members(&seen), right(&[("j.jpg", &[("json", "{}")])]), "{kind}");
        assert!(seen.failed[&1].contains("its member k.json"), "{kind}: {:?}", seen.failed);
        assert_eq!(members(&shard.load("txt", 2)).len(), 1, "whether there is a k.txt is not known");
    }
}

#[test]
fn long_names_and_tars_behind_each_other_are_followed() {
    let long = format!("{}/{}", "d".repeat(120), "n".repeat(140));
    let (json, jpg) = (format!("{long}.json"), format!("{long}.jpg"));
    let first = Tar::of(&[("a.jpg", b"A"), (&json, b"{}"), (&jpg, b"J")]).done();
    let second = Tar::of(&[("z.txt", b"t"), ("z.jpg", b"Z")]).done();
    let both = [first, second].concat();
    for kind in KINDS {
        let seen = Shard::new(kind, &both).load("*", 2);
        let wanted = right(&[("a.jpg", &[]), (&jpg, &[("json", "{}")]), ("z.jpg", &[("txt", "t")])]);
        assert_eq!(members(&seen), wanted, "{kind}: {:?}", seen.failed);
    }
}

/// Many samples by many threads: as from one.
#[test]
fn threads_make_no_difference() {
    let tar = (0..300).fold(Tar::new(), |tar, number: usize| {
        let (json, text) = (format!("{{{number}}}"), "t".repeat(number * 17 % 3000));
        let tar =
            if number.is_multiple_of(3) { tar.file(&format!("{number}.txt"), text.as_bytes()) } else { tar };
        let tar = tar.file(&format!("{number}.jpg"), &vec![number as u8; number * 31 % 2000]);
        if number.is_multiple_of(2) { tar.file(&format!("{number}.json"), json.as_bytes()) } else { tar }
    });
    let tar = tar.done();
    let alone = members(&Shard::new("s.tar", &tar).load("json,txt", 1));
    assert_eq!(alone.len(), 300);
    assert_eq!(alone["6.jpg"], right(&[("", &[("json", "{6}"), ("txt", &"t".repeat(102))])])[""]);
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        let seen = shard.load("json,txt", 7);
        assert_eq!(members(&seen), alone, "{kind}: {:?}", seen.failed);
        let some = shard.load_some("json,txt", 3, |item| item.number % 7 == 3);
        assert!(
            some.items.len() == 43 && members(&some).iter().all(|(name, members)| alone[name] == *members)
        );
    }
}

/// Pictures of one size stay one array, members or not.
#[test]
fn pictures_beside_members_are_still_one_array() {
    let picture = {
        let mut bytes = b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
        bytes.resize(0x36, 0);
        bytes.extend([1, 2, 3, 0]);
        bytes
    };
    let tar = (0..40).fold(Tar::new(), |tar, number| {
        tar.file(&format!("{number}.bmp"), &picture).file(&format!("{number}.json"), &vec![b'j'; number * 40])
    });
    let tar = tar.done();
    for kind in KINDS {
        let shard = Shard::new(kind, &tar);
        let feeder =
            Feeder::new("rgb:8x8".parse().unwrap(), GEOMETRY).threads(3).archives(shard.archives.clone());
        let seen = feeder.members("json").run(shard.items.clone());
        assert_eq!(
            (seen.items.len(), seen.packed.iter().all(|packed| *packed)),
            (40, true),
            "{:?}",
            seen.failed
        );
        assert!(seen.items.iter().all(|(number, got)| got.members[0].1.len() as u64 == number * 40));
    }
}
