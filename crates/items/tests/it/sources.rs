//! Files, directories, globs, lists.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use gpulane_items::{Place, check};
use gpulane_model::Decode;

use crate::place::{Scene, reason};

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
    let scene = Scene::new(&["only/dirs/here/a.jpg", "s.tar.gz"]);
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
        ("s.tar.gz", "unpack it"),
        ("*.tgz", "unpack it"),
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
