//! The frozen list: read back, skipped through, damaged, compared with what is there now.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::{Duration, SystemTime};

use gpulane_items::{ItemList, Opened, Place, changes, open};

use crate::place::{Scene, all};
use crate::shards::tar;

fn opened(scene: &Scene) -> ItemList {
    match open(&scene.out()).unwrap() {
        Opened::List(list) => list,
        other => panic!("{other:?}"),
    }
}

fn damage(scene: &Scene) -> String {
    match open(&scene.out()).unwrap() {
        Opened::Damaged(why) => why,
        other => panic!("{other:?}"),
    }
}

/// A list file of so many lines, frozen.
fn numbered(scene: &Scene, lines: u64) -> ItemList {
    let mut file = BufWriter::new(File::create(scene.base().join("l.txt")).unwrap());
    (0..lines).for_each(|line| writeln!(file, "photos/{line:09}.jpg").unwrap());
    drop(file);
    scene.freeze(&["@l.txt"]).unwrap()
}

#[test]
fn a_list_opened_again_is_the_same_list() {
    let scene = Scene::new(&["d/a b.jpg", "d/new\nline"]);
    scene.write("s.tar", tar(&[("k.jpg", b"x")]));
    scene.write("t.csv", "p\nx.jpg\n\"\"\n");
    let frozen = scene.freeze(&["d", "s.tar", "t.csv:p"]).unwrap();
    let again = opened(&scene);
    assert_eq!(all(&again), all(&frozen));
    assert_eq!(again.archives(), frozen.archives());
    assert_eq!(all(&again).len(), 5);
}

#[test]
fn there_is_no_list_where_none_was_frozen() {
    let scene = Scene::new(&[]);
    assert!(matches!(open(&scene.out()).unwrap(), Opened::None));
}

#[test]
fn any_item_is_found_by_its_number() {
    let scene = Scene::new(&[]);
    let list = numbered(&scene, 5000);
    for number in [0, 1, 1023, 1024, 1025, 2047, 4999] {
        let item = list.get(number).unwrap();
        assert_eq!((item.number, item.name), (number, format!("photos/{number:09}.jpg")));
    }
    assert!(list.get(5000).is_err());
}

#[test]
fn a_cursor_gives_what_is_wanted_in_chunks_and_skips_the_rest() {
    let scene = Scene::new(&[]);
    let list = numbered(&scene, 5000);
    let wanted = |number: u64| number == 3 || (1500..1503).contains(&number) || number > 4997;
    let (mut cursor, mut numbers) = (list.cursor(), Vec::new());
    loop {
        let mut chunk = Vec::new();
        cursor.next_in(&wanted, 2, &mut chunk).unwrap();
        if chunk.is_empty() {
            break;
        }
        numbers.push(chunk.iter().map(|item| item.number).collect::<Vec<_>>());
    }
    assert_eq!(numbers, [vec![3, 1500], vec![1501, 1502], vec![4998, 4999]]);
}

#[test]
fn blocks_without_wanted_items_are_not_read() {
    let scene = Scene::new(&[]);
    numbered(&scene, 5000);
    // The second block is damaged, and nobody notices who does not need it.
    let path = scene.out().join("items.list");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(13).position(|window| window == b"000001500.jpg").unwrap();
    bytes[at] = b'X';
    fs::write(&path, &bytes).unwrap();
    let list = opened(&scene);
    let mut out = Vec::new();
    list.cursor().next_in(&|number| !(1024..2048).contains(&number), usize::MAX, &mut out).unwrap();
    assert_eq!(out.len(), 5000 - 1024);
    let error = list.get(1600).unwrap_err().to_string();
    assert!(error.contains("damaged at item 1024"), "{error}");
}

#[test]
fn a_million_lines_are_frozen_with_progress() {
    let scene = Scene::new(&[]);
    let mut file = BufWriter::new(File::create(scene.base().join("l.txt")).unwrap());
    (0..1_000_000).for_each(|line| writeln!(file, "photos/{line}.jpg").unwrap());
    drop(file);
    let mut words = Vec::new();
    let list = scene.with(&["@l.txt"], |wanted| {
        gpulane_items::freeze(wanted, &scene.out(), &mut |items| {
            words.push(items);
            true
        })
        .unwrap()
    });
    assert_eq!(list.len(), 1_000_000);
    assert_eq!((words.len(), words.last()), (245, Some(&1_000_000)));
    let stopped = scene.with(&["@l.txt"], |wanted| {
        gpulane_items::freeze(wanted, &scene.out(), &mut |items| items < 100_000).unwrap_err()
    });
    assert!(matches!(stopped, gpulane_items::Refused::Enough { items: 102_400 }), "{stopped:?}");
    let list = scene.freeze(&["@l.txt"]).unwrap();
    assert_eq!(list.get(999_999).unwrap().name, "photos/999999.jpg");
    let place = list.get(524_288).unwrap().place;
    assert_eq!(place, Place::File(scene.base().join("photos/524288.jpg")));
}

#[test]
fn a_missing_or_wrong_index_is_made_again() {
    let scene = Scene::new(&[]);
    let frozen = all(&numbered(&scene, 3000));
    let index = scene.out().join("items.index");
    let right = fs::read(&index).unwrap();
    let mut wrong = right.clone();
    wrong[30] ^= 1;
    for content in [None, Some(&wrong[..]), Some(&right[..40]), Some(b"".as_slice())] {
        match content {
            None => fs::remove_file(&index).unwrap(),
            Some(content) => fs::write(&index, content).unwrap(),
        }
        assert_eq!(all(&opened(&scene)), frozen);
        assert_eq!(fs::read(&index).unwrap(), right);
    }
}

#[test]
fn damage_is_told_and_not_read() {
    let scene = Scene::new(&[]);
    let list = scene.out().join("items.list");
    numbered(&scene, 3000);
    let right = fs::read(&list).unwrap();
    fs::write(&list, &right[..right.len() - 1]).unwrap();
    assert!(damage(&scene).contains("should have"));
    let mut flipped = right.clone();
    flipped[1000] ^= 1;
    fs::write(&list, &flipped).unwrap();
    fs::remove_file(scene.out().join("items.index")).unwrap();
    assert!(damage(&scene).contains("checksum"));
    fs::remove_file(&list).unwrap();
    assert!(damage(&scene).contains("items.list"));
    let meta = scene.out().join("items.json");
    let text = fs::read_to_string(&meta).unwrap();
    fs::write(&meta, text.replacen("\"version\": 1", "\"version\": 9", 1)).unwrap();
    assert!(damage(&scene).contains("newer gpulane"));
    fs::write(&meta, &text[..50]).unwrap();
    assert!(damage(&scene).contains("items.json is damaged"));
}

#[test]
fn a_list_frozen_anew_takes_the_place_of_the_old_one() {
    let scene = Scene::new(&["a.jpg", "b.jpg"]);
    scene.freeze(&["a.jpg"]).unwrap();
    scene.freeze(&["lack.jpg"]).unwrap_err();
    assert!(matches!(open(&scene.out()).unwrap(), Opened::None), "an old list is not taken for the new one");
    scene.freeze(&["b.jpg"]).unwrap();
    assert_eq!(all(&opened(&scene))[0].name, "b.jpg");
}

/// Makes a file look changed without changing it.
fn touch(scene: &Scene, name: &str) {
    let file = File::options().append(true).open(scene.base().join(name)).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_mins(1)).unwrap();
}

fn changed(scene: &Scene, inputs: &[&str]) -> Vec<String> {
    scene.with(inputs, |wanted| changes(&opened(scene), wanted).unwrap())
}

#[test]
fn what_did_not_change_is_not_told() {
    let scene = Scene::new(&["d/a.jpg"]);
    scene.write("l.txt", "x\ny\n");
    scene.write("t.csv", "p\nz\n");
    scene.write("s.tar", tar(&[("k.jpg", b"x")]));
    let inputs = ["d", "d/*.jpg", "@l.txt", "t.csv:p", "s.tar"];
    scene.freeze(&inputs).unwrap();
    assert_eq!(changed(&scene, &inputs), Vec::<String>::new());
    for name in ["l.txt", "t.csv", "s.tar", "d/a.jpg"] {
        touch(&scene, name);
    }
    assert_eq!(changed(&scene, &inputs), Vec::<String>::new(), "touched, but the same items");
}

#[test]
fn a_broken_shard_is_no_change_until_it_is_mended() {
    let whole = tar(&[("a.jpg", &[7; 3000]), ("b.jpg", &[8; 3000])]);
    let scene = Scene::new(&["d/a.jpg"]);
    scene.write("d/s.tar", &whole[..5000]);
    std::os::unix::fs::symlink("nowhere", scene.base().join("d/t.tar")).unwrap();
    scene.freeze(&["d"]).unwrap();
    assert_eq!(changed(&scene, &["d"]), Vec::<String>::new());
    touch(&scene, "d/s.tar");
    assert_eq!(changed(&scene, &["d"]), Vec::<String>::new(), "touched, but the same items");
    scene.write("d/s.tar", tar(&[("a.jpg", &[7; 3000]), ("b.jpg", &[8; 3000]), ("c.jpg", b"")]));
    let told = changed(&scene, &["d"]);
    assert_eq!(told, ["d/s.tar: 2 items when the run began, 3 now, or in other places"]);
}

/// A list of before it was noted where samples begin: it is read, and a resume compares with it.
#[test]
fn a_list_of_an_older_gpulane_is_read_and_compared_as_ever() {
    const OLD: &str =
        "m\ts.tar/a.jpg\t0\t1536\t4\nm\ts.tar/b.json\t0\t2560\t2\nm\ts.tar/d/c.txt\t0\t3584\t1\n";
    let scene = Scene::new(&[]);
    scene.write("s.tar", tar(&[("a.cls", b"3"), ("a.jpg", b"JPEG"), ("b.json", b"{}"), ("d/c.txt", b"c")]));
    assert!(scene.freeze(&["s.tar"]).unwrap().knows_samples());
    let (list, meta) = (scene.out().join("items.list"), scene.out().join("items.json"));
    fs::write(&list, format!("gpulane items 1\n{OLD}")).unwrap();
    let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    old["version"] = 1.into();
    old["list"]["bytes"] = (16 + OLD.len()).into();
    old["list"]["crc"] = crc32fast::hash(OLD.as_bytes()).into();
    old["archives"][0]["digest"] = 2_153_382_844_u64.into();
    fs::write(&meta, old.to_string()).unwrap();
    let Opened::List(opened) = gpulane_items::open(&scene.out()).unwrap() else { panic!("not opened") };
    assert!(!opened.knows_samples());
    let place = Place::Member { archive: 0, offset: 1536, bytes: 4, before: None };
    assert_eq!(opened.get(0).unwrap().place, place);
    touch(&scene, "s.tar");
    assert_eq!(changed(&scene, &["s.tar"]), Vec::<String>::new(), "touched, but the same items");
    scene.write("s.tar", tar(&[("a.jpg", b"JPEG"), ("b.json", b"{}"), ("d/c.txt", b"c")]));
    assert_eq!(changed(&scene, &["s.tar"]), ["s.tar: 3 items when the run began, 3 now, or in other places"]);
}

#[test]
fn where_samples_begin_is_frozen_and_compared() {
    let scene = Scene::new(&[]);
    scene.write("s.tar", tar(&[("a.cls", b"3"), ("a.jpg", b"JPEG"), ("b.json", b"{}")]));
    scene.freeze(&["s.tar"]).unwrap();
    let list = fs::read_to_string(scene.out().join("items.list")).unwrap();
    assert_eq!(list, "gpulane items 1\nm\ts.tar/a.jpg\t0\t1536\t4\t1536\nm\ts.tar/b.json\t0\t2560\t2\t512\n");
    // The same items at the same places, but what stood before the first was made another sample.
    scene.write("s.tar", tar(&[("0.cls", b"3"), ("a.jpg", b"JPEG"), ("b.json", b"{}")]));
    assert_eq!(changed(&scene, &["s.tar"]).len(), 1);
}

type Change = fn(&Scene);

#[test]
fn what_changed_is_told_by_its_input() {
    let files = |scene: &Scene| {
        scene.write("l.txt", "x\ny\n");
        scene.write("t.csv", "p\nz\n");
        scene.write("s.tar", tar(&[("k.jpg", b"x")]));
    };
    let inputs = ["d", "d/*.jpg", "@l.txt", "t.csv:p", "s.tar"];
    let cases: [(Change, &[&str]); 7] = [
        (|scene| _ = scene.write("d/b.txt", ""), &["`d`: 1 items when the run began, 2 now"]),
        (
            |scene| fs::remove_file(scene.base().join("d/a.jpg")).unwrap(),
            &["`d`: 1 items", "`d/*.jpg`: 1 items"],
        ),
        (|scene| _ = scene.write("l.txt", "x\nz\nq\n"), &["`@l.txt`: 2 items when the run began, 3 now"]),
        (
            |scene| {
                scene.write("l.txt", "y\nx\n");
                touch(scene, "l.txt");
            },
            &["`@l.txt`: other items"],
        ),
        (|scene| fs::remove_file(scene.base().join("l.txt")).unwrap(), &["`@l.txt`: cannot open"]),
        (|scene| _ = scene.write("t.csv", "p\nzz\n"), &["`t.csv:p`: other items"]),
        (|scene| _ = scene.write("s.tar", tar(&[("k.jpg", b"x"), ("l.jpg", b"")])), &["s.tar: 1 items"]),
    ];
    for (change, wanted) in cases {
        let scene = Scene::new(&["d/a.jpg"]);
        files(&scene);
        scene.freeze(&inputs).unwrap();
        change(&scene);
        let told = changed(&scene, &inputs);
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        for (told, wanted) in told.iter().zip(wanted) {
            assert!(told.starts_with(wanted), "{told} / {wanted}");
        }
    }
}

#[test]
fn other_inputs_are_a_change() {
    let scene = Scene::new(&["a.jpg", "b.jpg"]);
    scene.freeze(&["a.jpg"]).unwrap();
    assert_eq!(changed(&scene, &["b.jpg"]), ["the inputs were a.jpg, now b.jpg"]);
}
