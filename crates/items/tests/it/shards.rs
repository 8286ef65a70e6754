//! Tar shards.

use std::fs;
use std::os::unix::fs::FileExt;

use gpulane_items::{Item, ItemList, Place};
use gpulane_model::Decode;

use crate::place::{Scene, all, reason};

pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, data) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, *data).unwrap();
    }
    builder.into_inner().unwrap()
}

/// What the item's place holds.
fn content(list: &ItemList, item: &Item) -> Vec<u8> {
    let Place::Member { archive, offset, bytes, .. } = item.place else { panic!("{item:?}") };
    let file = fs::File::open(&list.archives()[archive as usize]).unwrap();
    let mut data = vec![0; usize::try_from(bytes).unwrap()];
    file.read_exact_at(&mut data, offset).unwrap();
    data
}

#[test]
fn shards_give_an_item_per_key_and_its_bytes_in_place() {
    let scene = Scene::new(&[]);
    scene.write(
        "s-00.tar",
        tar(&[("a.cls", b"3"), ("a.jpg", b"JPEG-a"), ("a.json", b"{}"), ("b.json", b"{}")]),
    );
    scene.write("s-01.tar", tar(&[("dir/c.txt", b"caption"), ("dir/c.webp", b"WEBP"), ("dir/d.bin", b"")]));
    let list = scene.freeze(&["s-{00..01}.tar"]).unwrap();
    let items = all(&list);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["s-00.tar/a.jpg", "s-00.tar/b.json", "s-01.tar/dir/c.webp", "s-01.tar/dir/d.bin"]);
    let contents: Vec<_> = items.iter().map(|item| content(&list, item)).collect();
    assert_eq!(contents, [b"JPEG-a".as_slice(), b"{}", b"WEBP", b""]);
    assert_eq!(list.archives(), [scene.base().join("s-00.tar"), scene.base().join("s-01.tar")]);
}

#[test]
fn globs_and_directories_find_shards_too() {
    let scene = Scene::new(&[]);
    scene.write("d/s1.tar", tar(&[("a.png", b"1")]));
    scene.write("d/s0.tar", tar(&[("a.png", b"0")]));
    for input in ["d/*.tar", "d"] {
        assert_eq!(scene.names(&[input]), ["d/s0.tar/a.png", "d/s1.tar/a.png"], "{input}");
    }
    assert_eq!(scene.names(&["d/s1.tar"]), ["d/s1.tar/a.png"]);
}

#[test]
fn what_is_decoded_decides_which_members_are_items() {
    let mut scene = Scene::new(&[]);
    scene.write("s.tar", tar(&[("a.mask.png", b"m"), ("a.jpg", b"j"), ("a.npy", b"n"), ("a.txt", b"t")]));
    for (decode, names) in [
        (None, &["s.tar/a.mask.png", "s.tar/a.jpg"][..]),
        (Some(Decode::RGB), &["s.tar/a.mask.png", "s.tar/a.jpg"]),
        (Some(Decode::Npy), &["s.tar/a.npy"]),
        (Some(Decode::Text), &["s.tar/a.txt"]),
    ] {
        scene.decode = decode;
        assert_eq!(scene.names(&["s.tar"]), names, "{decode:?}");
    }
}

#[test]
fn every_member_of_a_keys_best_kind_is_an_item() {
    let mut scene = Scene::new(&[]);
    let cases: [(Option<Decode>, &[&str], &[&str]); 6] = [
        (None, &["hopper.jpg", "hopper.png"], &["hopper.jpg", "hopper.png"]),
        (None, &["k.json", "k.PNG", "k.cls", "k.heic"], &["k.PNG", "k.heic"]),
        (
            None,
            &["IMG.2020.1.jpg", "IMG.2020.2.jpg", "IMG.jpg"],
            &["IMG.2020.1.jpg", "IMG.2020.2.jpg", "IMG.jpg"],
        ),
        (None, &["k.wav", "k.json", "k.dcm"], &["k.wav", "k.dcm"]),
        (None, &["k.json", "k.cls", "l.json"], &["k.json", "k.cls", "l.json"]),
        (Some(Decode::Text), &["k.en.txt", "k.jpg", "k.fr.txt"], &["k.en.txt", "k.fr.txt"]),
    ];
    for (decode, members, wanted) in cases {
        scene.decode = decode;
        let members: Vec<(&str, &[u8])> = members.iter().map(|name| (*name, b"x".as_slice())).collect();
        scene.write("s.tar", tar(&members));
        let wanted: Vec<String> = wanted.iter().map(|name| format!("s.tar/{name}")).collect();
        assert_eq!(scene.names(&["s.tar"]), wanted);
    }
}

#[test]
fn names_of_members_are_kept_as_they_are() {
    let scene = Scene::new(&[]);
    let names = ["./a.jpg", ".hidden.jpg", "._a.jpg", "d//b.jpg", "a.jpg", "a.jpg", "z.jpg", "a.jpg"];
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    }
    scene.write("s.tar", builder.into_inner().unwrap());
    assert_eq!(scene.names(&["s.tar"]), names.map(|name| format!("s.tar/{name}")));
}

#[test]
fn long_names_are_whole_in_both_dialects() {
    let long = format!("{}/{}.jpg", "d".repeat(90), "n".repeat(140));
    let scene = Scene::new(&[]);
    scene.write("gnu.tar", tar(&[(&long, b"x")]));
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_pax_extensions([("path", long.as_bytes())]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_size(1);
    header.set_mode(0o644);
    header.set_path("short.jpg").unwrap();
    header.set_cksum();
    builder.append(&header, b"y".as_slice()).unwrap();
    scene.write("pax.tar", builder.into_inner().unwrap());
    assert_eq!(scene.names(&["gnu.tar", "pax.tar"]), [format!("gnu.tar/{long}"), format!("pax.tar/{long}")]);
}

#[test]
fn a_shard_that_ends_early_gives_what_is_whole_and_fails_with_the_place() {
    let whole = tar(&[("a.jpg", &[7; 3000]), ("b.json", b"{}"), ("b.jpg", &[8; 3000])]);
    let scene = Scene::new(&["d/1.jpg", "d/t.jpg"]);
    let cases: [(usize, &[&str], &str); 6] = [
        (0, &[], "no member in its 0 bytes"),
        (300, &[], "after byte 0"),
        (2000, &[], "ends at byte 2000, within the member a.jpg, which goes on to byte 3512"),
        (4000, &["d/s.tar/a.jpg"], "after byte 3512"),
        (5000, &["d/s.tar/a.jpg", "d/s.tar/b.json"], "after byte 4098"),
        // What is said about the lost one is not taken in its place.
        (7000, &["d/s.tar/a.jpg"], "ends at byte 7000, within the member b.jpg"),
    ];
    for (length, whole_ones, words) in cases {
        scene.write("d/s.tar", &whole[..length]);
        let items = scene.items(&["d"]);
        let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, [&["d/1.jpg"], whole_ones, &["d/s.tar", "d/t.jpg"]].concat(), "{length}");
        let told = reason(&items[items.len() - 2]);
        assert!(told.contains("is no whole tar") && told.contains(words), "{length}: {told}");
    }
}

#[test]
fn a_shard_cut_within_its_padding_is_whole() {
    let whole = tar(&[("a.jpg", &[7; 3000])]);
    let scene = Scene::new(&[]);
    for length in [4096, 4200, whole.len()] {
        scene.write("s.tar", &whole[..length]);
        assert_eq!(scene.names(&["s.tar"]), ["s.tar/a.jpg"], "{length}");
    }
}

#[test]
fn a_shard_cut_between_two_members_says_that_some_may_be_missing() {
    let whole = tar(&[("a.jpg", &[7; 3000]), ("b.jpg", &[8; 3000])]);
    let scene = Scene::new(&["d/t.jpg"]);
    // At the end of the first member, within the padding of the second, and behind it.
    for (length, members) in [(3584, &["a"][..]), (7100, &["a", "b"]), (7168, &["a", "b"])] {
        scene.write("d/s.tar", &whole[..length]);
        let list = scene.freeze(&["d"]).unwrap();
        let items = all(&list);
        let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
        let members = members.iter().map(|member| format!("d/s.tar/{member}.jpg"));
        let wanted: Vec<_> = members.chain(["d/s.tar".to_owned(), "d/t.jpg".to_owned()]).collect();
        assert_eq!(names, wanted, "{length}");
        let told = reason(&items[items.len() - 2]);
        assert!(told.contains("end-of-archive mark: members may be missing"), "{length}: {told}");
        assert_eq!(list.lacking().shards, 1);
        assert!(list.lacking().in_words().contains("1 tar file could not be read to its end"));
        assert!(scene.with(&["d"], |wanted| gpulane_items::changes(&list, wanted)).unwrap().is_empty());
    }
}

#[test]
fn what_stands_behind_the_end_of_a_tar_is_not_lost() {
    let scene = Scene::new(&[]);
    let mut two = [tar(&[("a.jpg", b"a")]), tar(&[("b.jpg", b"b")])].concat();
    scene.write("two.tar", &two);
    two.extend([b'?'; 512]);
    scene.write("junk.tar", &two);
    assert_eq!(scene.names(&["two.tar"]), ["two.tar/a.jpg", "two.tar/b.jpg"]);
    assert_eq!(scene.names(&["junk.tar"]), ["junk.tar/a.jpg", "junk.tar/b.jpg", "junk.tar"]);
}

#[test]
fn files_named_tar_that_are_none_fail_and_the_others_go_on() {
    let scene = Scene::new(&["d/a.jpg", "d/z.jpg"]);
    scene.write("d/gzip.tar", [&b"\x1f\x8b\x08"[..], &[9; 900]].concat());
    scene.write("d/zeros.tar", vec![0; 3 << 20]);
    scene.write("d/none.tar", vec![0; 10240]);
    std::os::unix::fs::symlink("nowhere", scene.base().join("d/link.tar")).unwrap();
    let items = scene.items(&["d"]);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["d/a.jpg", "d/gzip.tar", "d/link.tar", "d/z.jpg", "d/zeros.tar"]);
    for (item, words) in
        [(1, "is no whole tar"), (2, "cannot be opened"), (4, "no member in its 3145728 bytes")]
    {
        assert!(reason(&items[item]).contains(words), "{:?}", items[item]);
    }
    assert!(!reason(&items[1]).contains(char::is_control), "{:?}", items[1]);
}

#[test]
fn a_broken_shard_that_two_inputs_name_fails_once() {
    let scene = Scene::new(&[]);
    scene.write("s.tar", &tar(&[("a.jpg", &[7; 3000]), ("b.jpg", &[8; 3000])])[..5000]);
    scene.write("l.txt", "s.tar\n");
    let list = scene.freeze(&["@l.txt", "s.tar", "*.tar"]).unwrap();
    let items = all(&list);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["s.tar", "s.tar/a.jpg", "s.tar"]);
    assert!(matches!(items[0].place, Place::File(_)) && matches!(items[2].place, Place::Bad(_)), "{items:?}");
}

#[test]
fn members_without_bytes_of_their_own_fail_with_the_reason() {
    let scene = Scene::new(&[]);
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name) in [
        (tar::EntryType::Directory, "d/"),
        (tar::EntryType::Regular, "old-directory/"),
        (tar::EntryType::Fifo, "fifo.jpg"),
        (tar::EntryType::Symlink, "symbolic.jpg"),
        (tar::EntryType::Regular, "a.jpg"),
        (tar::EntryType::Link, "a.json"),
        (tar::EntryType::Link, "hard.jpg"),
        (tar::EntryType::new(b'M'), "rest.jpg"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_path(name).unwrap();
        header.set_link_name("a.jpg").unwrap();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    }
    builder
        .append_pax_extensions([("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.name", b"holes.jpg")])
        .unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("GNUSparseFile.0/holes.jpg").unwrap();
    header.set_size(512);
    header.set_cksum();
    builder.append(&header, [b'0'; 512].as_slice()).unwrap();
    scene.write("s.tar", builder.into_inner().unwrap());
    let items = scene.items(&["s.tar"]);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    let wanted = ["s.tar/symbolic.jpg", "s.tar/a.jpg", "s.tar/hard.jpg", "s.tar/rest.jpg", "s.tar/holes.jpg"];
    assert_eq!(names, wanted);
    let told =
        [(0, "symbolic link to a.jpg"), (2, "hard link to a.jpg"), (3, "not known ('M')"), (4, "sparse")];
    for (item, words) in told {
        assert!(reason(&items[item]).contains(words), "{:?}", items[item]);
    }
}

/// As GNU tar writes a file with holes, `--format=gnu --sparse`: 8 MiB of it in 512 bytes.
#[test]
fn a_sparse_member_fails_alone() {
    let scene = Scene::new(&[]);
    let mut header = tar::Header::new_gnu();
    header.set_path("holes.jpg").unwrap();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(512);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.sparse[0].offset.copy_from_slice(b"00037777000\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000001000\0");
    gnu.realsize.copy_from_slice(b"00040000000\0");
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, [7; 512].as_slice()).unwrap();
    let tail = tar(&[("z.jpg", b"z")]);
    let mut bytes = builder.into_inner().unwrap();
    bytes.truncate(1024);
    scene.write("s.tar", [bytes, tail].concat());
    let items = scene.items(&["s.tar"]);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["s.tar/holes.jpg", "s.tar/z.jpg"]);
    assert!(reason(&items[0]).contains("sparse"), "{items:?}");
}

/// A tar with two members before one whose long name, or PAX header, claims and has so many bytes.
fn with_a_long_header(kind: u8, bytes: usize) -> Vec<u8> {
    let mut whole = tar(&[("a.jpg", b"a"), ("b.jpg", b"b")]);
    whole.truncate(4 * 512);
    let mut header = tar::Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_size(bytes as u64);
    header.set_cksum();
    whole.extend_from_slice(header.as_bytes());
    whole.resize(whole.len() + bytes.next_multiple_of(512), b'n');
    whole.extend_from_slice(&tar(&[("c.jpg", b"c")]));
    whole
}

#[test]
fn a_name_without_end_breaks_the_tar_at_its_place_and_takes_no_memory() {
    for kind in [b'L', b'K', b'x'] {
        let whole = with_a_long_header(kind, 80 << 10);
        let scene = Scene::new(&[]);
        scene.write("s.tar", &whole);
        scene.write("t.tar.zst", crate::packed::packed(&whole, gpulane_items::Packing::Zstd));
        for input in ["s.tar", "t.tar.zst"] {
            let items = scene.items(&[input]);
            let names: Vec<_> = items.iter().map(|item| item.name.clone()).collect();
            assert_eq!(names, [format!("{input}/a.jpg"), format!("{input}/b.jpg"), input.to_owned()]);
            let reason = reason(&items[2]);
            assert!(reason.contains("more than 64 KiB") && reason.contains("byte 1537"), "{reason}");
        }
    }
    // As long as any path, and more.
    let scene = Scene::new(&[]);
    scene.write("s.tar", with_a_long_header(b'L', 20_000));
    assert_eq!(scene.names(&["s.tar"])[2], format!("s.tar/{}", "n".repeat(20_000)));
}

#[test]
fn zeros_between_tars_do_not_count_as_headers() {
    let scene = Scene::new(&[]);
    scene.write("s.tar", [tar(&[("a.jpg", b"a")]), vec![0; 300 << 10], tar(&[("b.jpg", b"b")])].concat());
    assert_eq!(scene.names(&["s.tar"]), ["s.tar/a.jpg", "s.tar/b.jpg"]);
}
