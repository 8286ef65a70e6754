//! Inputs nobody meant to write: no panic, and no item out of nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use gpulane_items::check;
use parquet::basic::Compression;
use proptest::prelude::*;

use crate::place::{Scene, all};
use crate::shards::tar;
use crate::tables::{write_images, write_parquet};

/// A file with some bytes changed and perhaps cut short.
fn mutated(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)], keep: prop::sample::Index) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes.truncate(keep.index(bytes.len() + bytes.len() / 2));
    bytes
}

fn survive(scene: &Scene, input: &str) {
    scene.with(&[input], check);
    if let Ok(list) = scene.freeze(&[input]) {
        all(&list);
    }
}

/// Bytes of which most are these.
fn text(letters: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => prop::sample::select(letters), 1 => any::<u8>()], 0..200)
}

type Changes = Vec<(prop::sample::Index, u8)>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn tars(changes in any::<Changes>(), keep in any::<prop::sample::Index>()) {
        let scene = Scene::new(&[]);
        let long = "n".repeat(150);
        let whole = tar(&[("a.jpg", b"xyz"), (&long, b"0"), ("b.txt", b"")]);
        scene.write("s.tar", mutated(whole, &changes, keep));
        survive(&scene, "s.tar");
    }

    #[test]
    fn any_bytes_as_a_tar(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let scene = Scene::new(&[]);
        scene.write("s.tar", bytes);
        survive(&scene, "s.tar");
    }

    #[test]
    fn tables_of_text(bytes in text(b"\"\n,{}:\\ap\r")) {
        let scene = Scene::new(&[]);
        for input in ["t.csv", "t.tsv", "t.jsonl"] {
            scene.write(input, [b"{\"p\":1}p,q\n".as_slice(), &bytes].concat());
            survive(&scene, input);
            survive(&scene, &format!("{input}:p"));
        }
    }

    #[test]
    fn parquets(changes in any::<Changes>(), keep in any::<prop::sample::Index>()) {
        let scene = Scene::new(&[]);
        let path = scene.base().join("t.parquet");
 write_parquet(&path, &[Some("a"), None, Some("b"), Some("c")], Compression::SNAPPY);
 let whole = std::fs::read(&path).unwrap();
 scene.write("t.parquet", mutated(whole, &changes[..changes.len().min(4)], keep));
        survive(&scene, "t.parquet:path");
    }

    #[test]
    fn tables_of_data(changes in any::<Changes>(), keep in any::<prop::sample::Index>()) {
        let scene = Scene::new(&[]);
        let path = scene.base().join("t.parquet");
        write_images(&path, &[(Some(b"data"), Some("a")), (None, Some("b")), (Some(b"more"), None)]);
        let whole = std::fs::read(&path).unwrap();
        scene.write("t.parquet", mutated(whole, &changes[..changes.len().min(4)], keep));
        survive(&scene, "t.parquet:image");
        survive(&scene, "t.parquet:raw");
    }

    #[test]
    fn any_text_as_an_input(input in "[@a.*?{}\\[\\]/,:0-9cstvr\u{e9}-]{0,24}") {
        // Only its own directory, however the text goes.
        prop_assume!(!input.contains("..") && !input.starts_with('/') && !input.starts_with("@/"));
        let scene = Scene::new(&["a/b.jpg", "a.csv"]);
        survive(&scene, &input);
    }

    #[test]
    fn a_list_of_any_bytes_has_an_item_per_line(bytes in text(b"\n\r\t\\")) {
        let scene = Scene::new(&[]);
        scene.write("l.txt", &bytes);
        let clean = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let lines = clean.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines = lines.filter(|line| !line.is_empty());
        let wanted: Vec<_> = lines.map(|line| scene.base().join(OsStr::from_bytes(line))).collect();
        let read: Vec<_> = match scene.freeze(&["@l.txt"]) {
            Err(_) => Vec::new(),
            Ok(list) => all(&list).into_iter().map(|item| match item.place {
                gpulane_items::Place::File(path) => path,
                other => panic!("{other:?}"),
            }).collect(),
        };
        prop_assert_eq!(read, wanted);
    }
}
