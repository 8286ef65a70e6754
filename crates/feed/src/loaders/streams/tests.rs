//! Samples of a compressed tar: each is read once, and the stream stands where the next one begins.

use std::io::Write;

use super::*;

const ASKED: Members = Members::All;

/// Where each member's data begin in a tar of members of one block each.
const fn data(number: u64) -> u64 {
    1024 * number + 512
}

fn compressed(dir: &Path, names: &[&str]) -> PathBuf {
    let mut tar = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(name.len() as u64);
        tar.append_data(&mut header, name, name.as_bytes()).unwrap();
    }
    let path = dir.join("s.tar.gz");
    let file = std::fs::File::create(&path).unwrap();
    let mut to = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    to.write_all(&tar.into_inner().unwrap()).unwrap();
    to.finish().unwrap();
    path
}

/// The item's own data and the number of bytes of what goes with it.
fn read(streams: &Streams, path: &Path, start: u64, number: u64, asked: &Members) -> (String, u64) {
    let heavy = Heavy::new(1 << 30);
    let item = InSample { start, offset: data(number), bytes: 5, asked, most: 1 << 20 };
    let (sample, own, load) = streams.turn(0).unwrap().sample(path, &item, &heavy).unwrap();
    assert!(load.is_none(), "it is light");
    let beside = sample.beside(item.offset, asked, item.most).unwrap();
    (String::from_utf8_lossy(&own).into_owned(), beside.bytes())
}

/// How far the stream was read; none: it was not begun.
fn position(streams: &Streams) -> Option<u64> {
    match &streams.lock().get(&0)?.contents {
        Contents::Open(contents) => Some(contents.position()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stream_stands_where_the_next_sample_begins_and_pictures_of_one_sample_are_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = compressed(dir.path(), &["a.json", "a.jpg", "b.jpg", "b.png", "b.txt", "c.jpg"]);
    let streams = Streams::new(std::slice::from_ref(&path));
    assert_eq!(position(&streams), None);
    assert_eq!(read(&streams, &path, 0, 1, &ASKED), ("a.jpg".to_owned(), 8 + 4 + 6));
    assert_eq!(position(&streams), Some(2048), "the header of the next sample is read again");
    let text = Members::from_line("txt").unwrap();
    assert_eq!(read(&streams, &path, 2048, 2, &text), ("b.jpg".to_owned(), 8 + 3 + 5));
    assert_eq!(position(&streams), Some(5 * 1024));
    streams.lock().get_mut(&0).unwrap().contents = Contents::Broken("not needed".to_owned());
    assert_eq!(read(&streams, &path, 2048, 3, &text), ("b.png".to_owned(), 8 + 3 + 5), "it was held");
    let again = streams.turn(0).unwrap();
    assert_eq!(again.wait(&path, data(5), 5).map(|_| ()), Err("not needed".to_owned()));
}

/// A tar that was changed after it was listed: what stands between the old beginning and the sample is not taken for a part of it.
#[test]
fn members_of_another_key_before_the_item_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = compressed(dir.path(), &["0.json", "a.jpg", "a.txt", "b.jpg"]);
    let streams = Streams::new(std::slice::from_ref(&path));
    assert_eq!(read(&streams, &path, 0, 1, &ASKED), ("a.jpg".to_owned(), 8 + 3 + 5));
}

#[test]
fn a_tar_that_was_found_broken_is_not_decompressed_again_to_find_that() {
    fn byte(streams: &Streams, archive: u32, path: &Path, offset: u64) -> Result<u8, String> {
        let mut byte = [0];
        let turn = streams.turn(archive).unwrap();
        turn.wait(path, offset, 1).and_then(|mut member| member.read_into(&mut byte)).map(|()| byte[0])
    }
    let dir = tempfile::tempdir().unwrap();
    let paths = [dir.path().join("cut.tar.gz"), dir.path().join("whole.tar.gz")];
    let contents: Vec<u8> =
        (0..200_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&contents).unwrap();
    let packed = encoder.finish().unwrap();
    std::fs::write(&paths[0], &packed[..packed.len() / 2]).unwrap();
    std::fs::write(&paths[1], &packed).unwrap();
    let streams = Streams::new(&paths);
    let why = byte(&streams, 0, &paths[0], 150_000).unwrap_err();
    assert!(why.contains("its tar"), "{why}");
    // Another archive's turn lets go what nobody waits for; without its file only the verdict is left.
    assert_eq!(byte(&streams, 1, &paths[1], 150_000), Ok(contents[150_000]));
    std::fs::remove_file(&paths[0]).unwrap();
    assert_eq!(byte(&streams, 0, &paths[0], 160_000), Err(why));
}
