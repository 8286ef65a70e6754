//! Tar shards.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;

use gpulane_items::{Item, ItemList, Place};
use gpulane_model::Decode;

use crate::place::{Scene, all};

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
    let Place::Member { archive, offset, bytes } = item.place else { panic!("{item:?}") };
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
fn what_is_decoded_decides_which_member_is_the_item() {
    let mut scene = Scene::new(&[]);
    scene.write("s.tar", tar(&[("a.mask.png", b"m"), ("a.jpg", b"j"), ("a.npy", b"n"), ("a.txt", b"t")]));
    for (decode, name) in [
        (None, "s.tar/a.jpg"),
        (Some(Decode::Rgb(None)), "s.tar/a.jpg"),
        (Some(Decode::Npy), "s.tar/a.npy"),
        (Some(Decode::Text), "s.tar/a.txt"),
    ] {
        scene.decode = decode;
        assert_eq!(scene.names(&["s.tar"]), [name], "{decode:?}");
    }
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
fn a_shard_that_ends_early_is_named_with_the_place() {
    let whole = tar(&[("a.jpg", &[7; 3000]), ("b.jpg", &[8; 3000])]);
    let scene = Scene::new(&[]);
    for (length, words) in
        [(2000, "ends at byte 2000"), (4000, "after byte 3512"), (5000, "ends at byte 5000")]
    {
        scene.write("s.tar", &whole[..length]);
        let problems = scene.freeze(&["s.tar"]).unwrap_err();
        assert!(problems[0].what.contains("s.tar is no whole tar"), "{problems:?}");
        assert!(problems[0].what.contains(words), "{length}: {problems:?}");
    }
}

#[test]
fn directories_and_links_in_a_shard_are_no_items() {
    let scene = Scene::new(&[]);
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name) in [
        (tar::EntryType::Directory, "d/"),
        (tar::EntryType::Symlink, "l.jpg"),
        (tar::EntryType::Regular, "a.jpg"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_data(&mut header, name, std::io::empty().take(0)).unwrap();
    }
    scene.write("s.tar", builder.into_inner().unwrap());
    assert_eq!(scene.names(&["s.tar"]), ["s.tar/a.jpg"]);
}
