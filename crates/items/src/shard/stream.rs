//! The members of a compressed tar, found by reading all of it once.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use super::bounded::Bounded;
use super::member::{self, Found};
use super::sample::Sample;
use super::{BLOCK, Broken, Each, empty, unmarked, words};
use crate::escape;
use crate::packed::{Packing, Unpacked};
use crate::problem::Stop;

/// The contents, read by the tar reader and asked about beside it.
struct Shared(Rc<RefCell<Unpacked>>);

impl Read for Shared {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(to)
    }
}

/// A member that was begun and may turn out to be cut.
struct Begun {
    found: Option<Found>,
    /// Where its headers begin.
    start: u64,
    end: u64,
}

/// Reads to the end, or to where it is broken. A member is handed over when what follows it has been reached.
pub(super) fn read_members(
    file: File,
    packing: Packing,
    sample: &mut Sample,
    each: &mut Each,
) -> Result<Option<Broken>, Stop> {
    let mut members = 0;
    let contents = match Unpacked::of(file, packing) {
        Ok(contents) => Rc::new(RefCell::new(contents)),
        Err(error) => return Ok(Some(Broken { what: words(&error), members })),
    };
    // As large as a block: what is behind a member must not be read before it is known to be whole.
    let (reader, allowance) = Bounded::new(BufReader::with_capacity(512, Shared(Rc::clone(&contents))));
    let mut archive = tar::Archive::new(reader);
    archive.set_ignore_zeros(true);
    let mut entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return Ok(Some(Broken { what: words(&error), members })),
    };
    let (mut begun, mut end): (Option<Begun>, u64) = (None, 0);
    loop {
        let entry = entries.next();
        let failed = entry.as_ref().and_then(|entry| entry.as_ref().err()).map(words);
        let read = contents.borrow();
        if let Some(member) = begun.take() {
            if read.position() < member.end {
                let name = member.found.map_or_else(Vec::new, |found| found.name);
                sample.lose(&name);
                return Ok(Some(cut(&read, packing, &name, member.end, failed, members)));
            }
            (members, end) = (members + 1, member.end);
            if let Some(Found { name, place }) = member.found {
                sample.take(name, place, member.start, each)?;
            }
        }
        match entry {
            None => break,
            Some(Ok(mut entry)) => {
                drop(read);
                let start = end.next_multiple_of(BLOCK);
                let end = member::end(&entry);
                allowance.renew(end);
                begun = Some(Begun { start, end, found: member::look(&mut entry) });
            }
            Some(Err(_)) if members > 0 && !read.has_failed() && read.is_zero_from(end) => {
                return Ok(unmarked(read.position(), end, members));
            }
            Some(Err(error)) => {
                let why = words(&error);
                let what = if read.has_failed() {
                    format!(
                        "it cannot be decompressed by {} behind byte {end} of its contents ({why})",
                        packing.word()
                    )
                } else {
                    format!("what follows after byte {end} of its contents is no member ({why})")
                };
                return Ok(Some(Broken { what, members }));
            }
        }
    }
    let length = contents.borrow().position();
    Ok(if members > 0 { unmarked(length, end, members) } else { empty(length) })
}

/// A member that is not all there.
fn cut(
    contents: &Unpacked,
    packing: Packing,
    name: &[u8],
    end: u64,
    failed: Option<String>,
    members: u64,
) -> Broken {
    let (at, name) = (contents.position(), escape::shown(name));
    let why = failed.filter(|_| contents.has_failed()).map_or_else(
        || "its contents end".to_owned(),
        |why| format!("it cannot be decompressed by {} ({why})", packing.word()),
    );
    let what = format!("{why} at byte {at}, within the member {name}, which goes on to byte {end}");
    Broken { what, members }
}
