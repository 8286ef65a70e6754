//! Tar shards in `WebDataset` layout: members that share a key (their path up to the first dot of the base
//! name) and follow each other are one sample, of which the members of the best kind are items. Nothing is
//! unpacked: an item is a range of bytes. What cannot be one is handed over with its reason and does not vanish.

mod bounded;
mod head;
mod member;
mod sample;
mod stream;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gpulane_model::Decode;

use crate::escape;
use crate::packed::Packing;
use crate::problem::Stop;
use bounded::Bounded;
pub use head::{Head, Next, next_head};
use member::Found;
use sample::Sample;
pub use sample::{extension, key as sample_key};

/// The longest tar without any member that is taken for an empty one: GNU tar writes 10 KiB.
const MOST_EMPTY: u64 = 1 << 20;
/// Bytes of a block: a tar is made of them.
const BLOCK: u64 = 512;
/// Characters of the tar reader's own words: they may hold what stands where a header should be.
const MOST_WORDS: usize = 120;

/// What a shard gives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Member<'m> {
    /// An item, by its name within the shard; its sample begins `before` bytes ahead of its data.
    Data { name: &'m [u8], offset: u64, bytes: u64, before: u64 },
    /// A member that should be an item and cannot be.
    Bad { name: &'m [u8], reason: &'m str },
    /// The shard itself cannot be read, or not from some byte on; comes last.
    Broken(&'m str),
}

/// Takes what a shard gives.
pub(crate) type Each<'e> = dyn FnMut(Member<'_>) -> Result<(), Stop> + 'e;

/// Calls `each` with every item of the shard, in order. A shard that is broken gives those before that place.
pub(crate) fn read(path: &Path, decode: Option<Decode>, each: &mut Each) -> Result<(), Stop> {
    // A pipe would be waited for.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return each(Member::Broken("is no regular file"));
    }
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
    let (length, file) = match opened {
        Ok(opened) => opened,
        Err(error) => return each(Member::Broken(&format!("cannot be opened: {error}"))),
    };
    let mut sample = Sample::new(decode);
    let broken = match Packing::of(path.as_os_str().as_bytes()) {
        Some(packing) => stream::read_members(file, packing, &mut sample, each)?,
        None => read_members(file, length, &mut sample, each)?,
    };
    sample.flush(each)?;
    match broken {
        None => Ok(()),
        Some(Broken { what, members: 0 }) => each(Member::Broken(&format!(
            "is no whole tar file: {what}; make it again, or name it in a list file, `@files.txt`, if it is no tar"
        ))),
        Some(Broken { what, .. }) => each(Member::Broken(&format!(
            "is no whole tar file: {what}; only the members before that are items: make it again, and map it by itself"
        ))),
    }
}

/// Where a shard cannot be read on.
struct Broken {
    what: String,
    /// Of any kind, before that place.
    members: u64,
}

/// Reads to the end, or to where it is broken.
fn read_members(
    file: File,
    length: u64,
    sample: &mut Sample,
    each: &mut Each,
) -> Result<Option<Broken>, Stop> {
    let again = file.try_clone();
    let (reader, allowance) = Bounded::new(BufReader::with_capacity(1 << 13, file));
    let mut archive = tar::Archive::new(reader);
    // Behind the end of one tar another may follow (`cat a.tar b.tar`), or what was zeroed may go on.
    archive.set_ignore_zeros(true);
    let (mut end, mut members) = (0, 0);
    let entries = match archive.entries_with_seek() {
        Ok(entries) => entries,
        Err(error) => return Ok(Some(Broken { what: error.to_string(), members })),
    };
    for entry in entries {
        let mut entry = match entry {
            Ok(entry) => entry,
            // Cut within its padding: what there is of it is whole.
            Err(_) if members > 0 && again.is_ok_and(|file| is_zero_from(file, end)) => {
                return Ok(unmarked(length, end, members));
            }
            Err(error) => {
                let what = format!("what follows after byte {end} is no member ({})", words(&error));
                return Ok(Some(Broken { what, members }));
            }
        };
        let start = end.next_multiple_of(BLOCK);
        end = member::end(&entry);
        allowance.renew(end);
        let found = member::look(&mut entry);
        if end > length {
            let name = found.as_ref().map_or(&[][..], |found| &found.name);
            let what = format!(
                "it ends at byte {length}, within the member {}, which goes on to byte {end}",
                escape::shown(name)
            );
            sample.lose(name);
            return Ok(Some(Broken { what, members }));
        }
        members += 1;
        if let Some(Found { name, place }) = found {
            sample.take(name, place, start, each)?;
        }
    }
    if members > 0 {
        return Ok(unmarked(length, end, members));
    }
    Ok(empty(length))
}

/// Whether a tar without any member is broken, by how long it is.
fn empty(length: u64) -> Option<Broken> {
    let broken = !(512..=MOST_EMPTY).contains(&length);
    broken.then(|| Broken { what: format!("there is no member in its {length} bytes"), members: 0 })
}

/// Whether a tar whose last member ends there lacks the empty block that should follow: then it may have been cut between two
/// members. Behind that member nothing but zeros was found. Two blocks are the rule, one is enough: nothing can be lost behind it.
fn unmarked(length: u64, end: u64, members: u64) -> Option<Broken> {
    let marked = length >= end.next_multiple_of(BLOCK).saturating_add(BLOCK);
    let what =
        || format!("it ends without the end-of-archive mark: members may be missing behind byte {end}");
    (!marked).then(|| Broken { what: what(), members })
}

/// Whether nothing but zeros stands from there on.
fn is_zero_from(mut file: File, from: u64) -> bool {
    let mut buffer = [0; 1 << 12];
    let looked = file.seek(io::SeekFrom::Start(from)).and_then(|_| {
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(true),
                read if buffer[..read].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    });
    looked.unwrap_or(false)
}

fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.chars()
        .map(|letter| if letter.is_control() { '\u{fffd}' } else { letter })
        .take(MOST_WORDS)
        .collect()
}
