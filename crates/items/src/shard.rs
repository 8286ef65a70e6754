//! Tar shards in `WebDataset` layout: members that share a key (their path up to the first dot of the base
//! name) and follow each other are one sample, of which one member is the item. Nothing is unpacked: an item
//! is a range of bytes.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use gpulane_model::Decode;

use crate::problem::Stop;

const IMAGES: [&str; 12] =
    ["jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp", "gif", "ppm", "pgm", "pbm", "jp2"];
/// What is said about a sample rather than being it.
const METADATA: [&str; 6] = ["json", "cls", "cls2", "id", "index", "meta"];

/// Takes a member's name, offset and length.
pub(crate) type Each<'e> = dyn FnMut(&[u8], u64, u64) -> Result<(), Stop> + 'e;

/// A member that may become its key's item.
struct Candidate {
    name: Vec<u8>,
    offset: u64,
    bytes: u64,
    /// Less is better.
    rank: u8,
}

/// Calls `each` with name within the shard, offset and length of every item.
pub(crate) fn read(path: &Path, decode: Option<Decode>, each: &mut Each) -> Result<(), Stop> {
    let file = File::open(path).map_err(Stop::io("open", path))?;
    let length = file.metadata().map_err(Stop::io("look at", path))?.len();
    let broken = |what: String| {
        Stop::input(
            format!("{} is no whole tar file: {what}", path.display()),
            "make that shard again, or leave it out",
        )
    };
    let mut archive = tar::Archive::new(BufReader::with_capacity(1 << 13, file));
    let entries = archive.entries_with_seek().map_err(|error| broken(error.to_string()))?;
    let mut best: Option<Candidate> = None;
    let mut end = 0;
    for entry in entries {
        let entry = entry.map_err(|error| broken(format!("after byte {end}: {error}")))?;
        let (offset, bytes) = (entry.raw_file_position(), entry.size());
        end = offset.saturating_add(bytes);
        if end > length {
            return Err(broken(format!(
                "it ends at byte {length}, within a member that goes on to byte {end}"
            )));
        }
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_contiguous()) {
            continue;
        }
        let name = entry.path_bytes().into_owned();
        let rank = rank(&name, decode);
        match &best {
            Some(other) if key(&other.name) == key(&name) && other.rank <= rank => continue,
            Some(other) if key(&other.name) != key(&name) => each(&other.name, other.offset, other.bytes)?,
            _ => {}
        }
        best = Some(Candidate { name, offset, bytes, rank });
    }
    best.map_or(Ok(()), |last| each(&last.name, last.offset, last.bytes))
}

/// The path up to the first dot of the base name.
fn key(name: &[u8]) -> &[u8] {
    &name[..name.len() - suffix(name).len()]
}

/// From the first dot of the base name on.
fn suffix(name: &[u8]) -> &[u8] {
    let base = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    // A name that begins with its dot has no key otherwise.
    let from = (base + 1).min(name.len());
    memchr::memchr(b'.', &name[from..]).map_or(&[], |dot| &name[from + dot..])
}

/// How much a member is the item of its key rather than something said about it.
fn rank(name: &[u8], decode: Option<Decode>) -> u8 {
    let suffix = String::from_utf8_lossy(suffix(name)).to_ascii_lowercase();
    let whole = suffix.trim_start_matches('.');
    let last = whole.rsplit('.').next().unwrap_or_default();
    let wanted = match decode {
        Some(Decode::Text) => whole == "txt",
        Some(Decode::Npy) => whole == "npy",
        _ => IMAGES.contains(&whole),
    };
    match last {
        _ if wanted => 0,
        // `0001.mask.png` beside `0001.jpg`: second to it, but an image.
        last if IMAGES.contains(&last) => 1,
        "npy" => 2,
        "txt" => 4,
        last if METADATA.contains(&last) => 5,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_at_the_first_dot_of_the_base_name() {
        for (name, wanted) in [
            ("a/b.c/0001.seg.png", "a/b.c/0001"),
            ("0001.jpg", "0001"),
            ("dir/none", "dir/none"),
            (".hidden.jpg", ".hidden"),
            ("a/", "a/"),
            ("", ""),
        ] {
            assert_eq!(key(name.as_bytes()), wanted.as_bytes(), "{name}");
        }
    }
}
