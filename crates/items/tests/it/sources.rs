//! Files, directories, globs, lists.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use gpulane_items::{Place, check};
use gpulane_model::Decode;

use crate::place::{Scene, all, reason};

#[test]
fn a_file_is_an_item_by_the_name_it_was_given() {
    let scene = Scene::new(&["a b/c.jpg"]);
    let items = scene.items(&["a b/c.jpg"]);
    assert_eq!(items[0].name, "a b/c.jpg");
    assert_eq!(items[0].place, Place::File(scene.base().join("a b/c.jpg")));
}

#[test]
fn a_directory_is_all_that_is_below_it_in_bytewise_order() {
    let scene =
        Scene::new(&["d/b.jpg", "d/a/z.jpg", "d/a.jpg", "d/B.jpg", "d/.hidden.jpg", "d/.git/x", "e.jpg"]);
    let names = ["d/B.jpg", "d/a/z.jpg", "d/a.jpg", "d/b.jpg"];
    assert_eq!(scene.names(&["d"]), names);
    assert_eq!(scene.names(&["d/"]), names);
}

#[test]
fn links_to_files_are_followed_and_links_to_directories_are_not() {
    let scene = Scene::new(&["d/a.jpg", "other/b.jpg"]);
    symlink("../other/b.jpg", scene.base().join("d/link.jpg")).unwrap();
    symlink("nowhere", scene.base().join("d/loose.jpg")).unwrap();
    symlink("..", scene.base().join("d/round")).unwrap();
    assert_eq!(scene.names(&["d"]), ["d/a.jpg", "d/link.jpg", "d/loose.jpg"]);
    assert_eq!(scene.names(&["d/**/*.jpg"]), ["d/a.jpg", "d/link.jpg", "d/loose.jpg"]);
    assert_eq!(
        scene.names(&["d/ro*/other/*"]),
        ["d/round/other/b.jpg"],
        "a pattern that names it follows it"
    );
}

#[test]
fn globs_match_as_in_a_shell() {
    let scene =
        Scene::new(&["p/a.jpg", "p/b.png", "p/x/c.jpg", "p/x/y/d.jpg", "p/.h/e.jpg", "p/.f.jpg", "p/b/b/c"]);
    for (glob, names) in [
        ("p/*.jpg", vec!["p/a.jpg"]),
        ("p/**/*.jpg", vec!["p/a.jpg", "p/x/c.jpg", "p/x/y/d.jpg"]),
        ("p/*.{jpg,png}", vec!["p/a.jpg", "p/b.png"]),
        ("p/?.png", vec!["p/b.png"]),
        ("p/[a-b].*", vec!["p/a.jpg", "p/b.png"]),
        ("p/*/*.jpg", vec!["p/x/c.jpg"]),
        ("p/.*/*.jpg", vec!["p/.h/e.jpg"]),
        ("p/x/**", vec!["p/x/c.jpg", "p/x/y/d.jpg"]),
        ("**/d.jpg", vec!["p/x/y/d.jpg"]),
        ("./p/*.png", vec!["./p/b.png"]),
        ("p/**/b/**/c", vec!["p/b/b/c"]),
        ("p/**/**/d.jpg", vec!["p/x/y/d.jpg"]),
    ] {
        assert_eq!(scene.names(&[glob]), names, "{glob}");
    }
}

#[test]
fn absolute_globs_have_absolute_names() {
    let scene = Scene::new(&["a.jpg"]);
    let glob = scene.base().join("*.jpg");
    assert_eq!(scene.names(&[glob.to_str().unwrap()]), [scene.base().join("a.jpg").to_str().unwrap()]);
}

#[test]
fn a_path_that_is_there_is_no_glob() {
    let scene = Scene::new(&["a[1].jpg", "a1.jpg", "x{1,2}.jpg"]);
    assert_eq!(scene.names(&["a[1].jpg"]), ["a[1].jpg"]);
    assert_eq!(scene.names(&["x{1,2}.jpg"]), ["x{1,2}.jpg"]);
}

#[test]
fn odd_names_come_back_as_they_are() {
    let scene = Scene::new(&["d/with\ttab", "d/new\nline", "d/🦊 ö", "d/back\\slash", "d/cr\r"]);
    let bytes = OsStr::from_bytes(b"d/not-\xff-utf8\\");
    scene.write(bytes, "x");
    let items = scene.items(&["d"]);
    let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(
        names,
        ["d/back\\slash", "d/cr\r", "d/new\nline", "d/not-\\xff-utf8\\\\", "d/with\ttab", "d/🦊 ö"]
    );
    assert_eq!(items[3].place, Place::File(scene.base().join(Path::new(bytes))), "the path keeps its bytes");
    for item in &items {
        let Place::File(path) = &item.place else { panic!("{item:?}") };
        assert!(path.exists(), "{item:?}");
    }
}

#[test]
fn a_list_file_is_taken_line_by_line() {
    let scene = Scene::new(&[]);
    scene.write("l.txt", b"\xef\xbb\xbfa.jpg\r\n\n/abs/b.jpg\n t.csv\nshard.tar\nlast");
    assert_eq!(scene.names(&["@l.txt"]), ["a.jpg", "/abs/b.jpg", " t.csv", "shard.tar", "last"]);
    let items = scene.items(&["@l.txt"]);
    assert_eq!(items[0].place, Place::File(scene.base().join("a.jpg")));
    assert_eq!(items[1].place, Place::File("/abs/b.jpg".into()));
}

#[test]
fn with_value_a_line_is_the_text_itself() {
    let mut scene = Scene::new(&["d/a.txt"]);
    scene.decode = Some(Decode::Value);
    scene.write("l.txt", b"one text\nwith\ttab\nbad \xff\n");
    let items = scene.items(&["@l.txt"]);
    assert_eq!(items[0].place, Place::Value("one text".to_owned()));
    assert_eq!(items[1].place, Place::Value("with\ttab".to_owned()));
    assert!(reason(&items[2]).contains("UTF-8"));
    assert!(scene.mistake("d").contains("hold"), "files are no texts");
}

#[test]
fn what_two_inputs_name_is_one_item_and_what_one_repeats_stays() {
    let scene = Scene::new(&["d/a.jpg", "d/b.jpg"]);
    scene.write("l.txt", "d/b.jpg\nd/b.jpg\nd/c.jpg\nd/c.jpg\n");
    let inputs = ["d/a.jpg", "./d", "@l.txt", "d"];
    assert_eq!(scene.names(&inputs), ["d/a.jpg", "./d/b.jpg", "d/c.jpg", "d/c.jpg"]);
    assert_eq!(scene.freeze(&inputs).unwrap().repeated(), 5);
    assert_eq!(scene.names(&["@l.txt"]), ["d/b.jpg", "d/b.jpg", "d/c.jpg", "d/c.jpg"]);
}

#[test]
fn mistakes_say_what_to_do() {
    let scene = Scene::new(&["only/dirs/here/a.jpg", "s.tar.bz2"]);
    std::fs::create_dir(scene.base().join("empty")).unwrap();
    scene.write("empty.txt", "\n\n");
    for (input, words) in [
        ("nothere.jpg", "cannot find nothere.jpg"),
        ("*.jpeg", "matches nothing"),
        ("only/*", "matches nothing"),
        ("empty", "matches nothing"),
        ("@empty.txt", "matches nothing"),
        ("@lack.txt", "cannot open the list"),
        ("@only", "write `only`"),
        ("@-", "standard input"),
        ("s.tar.bz2", "unpack it"),
        ("*.txz", "unpack it"),
        ("", "is empty"),
        ("http://x/y.jpg", "address"),
        ("a/***.jpg", "no glob"),
        ("s-{0..99999999}.tar", "more than 1000000"),
        ("s-{0..3}.tar", "cannot find s-0.tar"),
        ("lack.csv:path", "cannot find lack.csv"),
    ] {
        let told = scene.mistake(input);
        assert!(told.contains(words), "{input}: {told}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let scene = Scene::new(&["a.jpg"]);
    let inputs = ["lack.jpg", "a.jpg", "*.png", "@lack.txt"];
    let told: Vec<_> = scene.with(&inputs, check).into_iter().map(|problem| problem.input).collect();
    assert_eq!(told, ["lack.jpg", "*.png", "@lack.txt"]);
    let mut frozen: Vec<_> =
        scene.freeze(&inputs).unwrap_err().into_iter().map(|problem| problem.input).collect();
    frozen.sort();
    assert_eq!(frozen, ["*.png", "@lack.txt", "lack.jpg"]);
    assert_eq!(scene.freeze(&[]).unwrap_err().len(), 1, "no input at all");
    assert!(
        std::fs::read_dir(scene.out()).unwrap().next().is_none(),
        "nothing is left of a list with mistakes"
    );
}

/// Whether this user is kept out of a directory by its mode; root is not.
fn modes_count(scene: &Scene) -> bool {
    let locked = scene.base().join("probe");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let counts = fs::read_dir(&locked).is_err();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir(&locked).unwrap();
    counts
}

/// Makes a directory that nobody can list: its path, put together from two, is longer than a path may be.
fn beyond_a_paths_length(scene: &Scene, top: &str) {
    let chain = |from: &Path| (0..12).fold(from.to_owned(), |path, _| path.join("n".repeat(250)));
    let (upper, lower) = (chain(&scene.base().join(top)), scene.base().join("lower"));
    fs::create_dir_all(&upper).unwrap();
    fs::create_dir_all(chain(&lower)).unwrap();
    fs::rename(&lower, upper.join("lower")).unwrap();
}

#[test]
fn a_directory_that_cannot_be_listed_fails_and_the_others_go_on() {
    let scene = Scene::new(&["d/a/1.jpg", "d/z/2.jpg"]);
    fs::create_dir(scene.base().join("d/deep")).unwrap();
    beyond_a_paths_length(&scene, "d/deep");
    for input in ["d", "d/**/*.jpg"] {
        let list = scene.freeze(&[input]).unwrap();
        let items = all(&list);
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[2]), (3, "d/a/1.jpg", "d/z/2.jpg"), "{input}: {names:?}");
        assert!(names[1].starts_with("d/deep/nnn"), "{input}: {names:?}");
        assert!(reason(&items[1]).contains("cannot be listed: File name too long"), "{:?}", items[1]);
        assert_eq!((list.lacking().folders, list.lacking().len()), (1, 1));
        assert_eq!(list.lacking().in_words(), "1 folder could not be listed");
        let now = scene.with(&[input], gpulane_items::lacking);
        assert_eq!(&now, list.lacking(), "as it can be known beforehand");
        assert!(scene.with(&[input], |wanted| gpulane_items::changes(&list, wanted)).unwrap().is_empty());
    }
    let both = scene.freeze(&["d", "d/**/*.jpg"]).unwrap();
    assert_eq!((both.len(), both.repeated()), (3, 3), "named by two inputs it fails once");
}

#[test]
fn a_directory_whose_mode_forbids_it_fails_and_one_that_was_named_is_refused() {
    let scene = Scene::new(&["d/a.jpg", "d/locked/b.jpg", "d/z.jpg"]);
    if !modes_count(&scene) {
        return;
    }
    let locked = scene.base().join("d/locked");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let items = scene.items(&["d"]);
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["d/a.jpg", "d/locked", "d/z.jpg"]);
    assert!(reason(&items[1]).contains("cannot be listed: Permission denied"), "{:?}", items[1]);
    assert!(scene.mistake("d/locked").contains("cannot list"));
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn links_that_lead_round_in_circles_are_walked_once() {
    let scene = Scene::new(&["d/a.jpg"]);
    symlink(scene.base().join("d"), scene.base().join("d/up")).unwrap();
    symlink("loop", scene.base().join("d/loop")).unwrap();
    assert_eq!(scene.names(&["d"]), ["d/a.jpg", "d/loop"], "a link to itself is an item, which fails");
    assert_eq!(scene.names(&["d/**/*.jpg"]), ["d/a.jpg"]);
}
