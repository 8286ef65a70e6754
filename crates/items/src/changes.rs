//! What changed in the inputs since their items were frozen. Lists, tables and shards count as unchanged
//! while length and time are; otherwise they are read again and their items compared. Directories and globs
//! are walked again. What the items' own files hold is not looked at. The first item that differs is named.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use gpulane_model::Decode;

use crate::gather::{Taker, each_path, gather, members};
use crate::input::{Source, resolve};
use crate::list::{Archive, Cursor, ItemList, Origin};
use crate::problem::Stop;
use crate::record::Found;
use crate::stamp::Stamp;
use crate::walk::Walked;
use crate::{Wanted, escape};

/// What is different from when the list was frozen, a sentence each; empty: nothing.
pub fn changes(list: &ItemList, wanted: &Wanted) -> io::Result<Vec<String>> {
    differences(list, wanted, true)
}

/// The same of what can be known without walking directories, which may take minutes: single files, lists, tables and
/// shards.
pub fn changes_at_hand(list: &ItemList, wanted: &Wanted) -> io::Result<Vec<String>> {
    differences(list, wanted, false)
}

fn differences(list: &ItemList, wanted: &Wanted, walk: bool) -> io::Result<Vec<String>> {
    let meta = list.meta();
    let mut told = Vec::new();
    let base = escape::escape(wanted.base.as_os_str().as_bytes());
    if meta.inputs != wanted.inputs {
        told.push(format!("the inputs were {}, now {}", meta.inputs.join(" "), wanted.inputs.join(" ")));
    }
    if meta.base != base {
        told.push(format!("inputs were relative to {}, now to {base}", meta.base));
    }
    if meta.values != (wanted.decode == Some(Decode::Value)) {
        told.push("whether inputs hold texts or paths (decode `value`)".to_owned());
    }
    if !told.is_empty() {
        return Ok(told);
    }
    let mut before = 0;
    for origin in &meta.origins {
        told.extend(change_of(origin, wanted, walk, &mut |source| {
            first_difference(list, before..before + origin.items, source, wanted)
        })?);
        before += origin.items;
    }
    for archive in &meta.archives {
        told.extend(change_of_archive(archive, wanted, list.knows_samples())?);
    }
    Ok(told)
}

/// `name` finds the first item that differs, for a person; asked only if there is one.
fn change_of(
    origin: &Origin,
    wanted: &Wanted,
    walk: bool,
    name: &mut dyn FnMut(&Source) -> Option<String>,
) -> io::Result<Option<String>> {
    let input = &origin.input;
    let source = match resolve(input, wanted) {
        Ok(source) => source,
        Err(Stop::Input(what, _)) => return Ok(Some(format!("`{input}`: {what}"))),
        Err(Stop::Taker(error)) => return Err(error),
    };
    if !walk && source.walks() || unchanged(origin, wanted, &source) {
        return Ok(None);
    }
    let mut digest = Digest::default();
    match gather(&source, wanted, &mut digest) {
        Err(Stop::Input(what, _)) => return Ok(Some(format!("`{input}`: {what}"))),
        Err(Stop::Taker(error)) => return Err(error),
        Ok(()) => {}
    }
    let (items, shards) = (digest.items, digest.shards);
    if digest.hasher.finalize() == origin.digest {
        return Ok(None);
    }
    let first = name(&source).map_or_else(String::new, |first| format!(" ({first})"));
    // Members are counted in the frozen list, shards are not read again here.
    Ok(Some(if shards == 0 && items != origin.items {
        format!("`{input}`: {} items when the run began, {items} now{first}", origin.items)
    } else {
        format!("`{input}`: other items than when the run began, or in another order{first}")
    }))
}

/// The first item of an input that is not where it was, in words. `numbers` are those its items have in the list; where that
/// is not known, because inputs overlap or hold shards, nothing is said.
fn first_difference(
    list: &ItemList,
    numbers: Range<u64>,
    source: &Source,
    wanted: &Wanted,
) -> Option<String> {
    if list.repeated() > 0 || !list.meta().archives.is_empty() {
        return None;
    }
    let mut compared =
        Compared { cursor: list.cursor_at(numbers.start), left: numbers.end - numbers.start, first: None };
    gather(source, wanted, &mut compared).ok()?;
    match compared.first.take() {
        Some((Some(was), is)) => Some(format!("the first that differs: `{is}`, where `{was}` was")),
        Some((None, is)) => Some(format!("the first that is new: `{is}`")),
        None => compared.next().map(|was| format!("the first that is gone: `{was}`")),
    }
}

/// Goes through a list beside what an input gives now, until they part.
struct Compared {
    cursor: Cursor,
    /// Items of this input that the list still has.
    left: u64,
    /// What was at the place where they part, and what is.
    first: Option<(Option<String>, String)>,
}

impl Compared {
    /// The name of the list's next item.
    fn next(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        let mut found = Vec::new();
        self.cursor.next_in(&|_| true, 1, &mut found).ok()?;
        found.pop().map(|item| item.name)
    }
}

impl Taker for Compared {
    fn item(&mut self, found: Found<'_>) -> io::Result<()> {
        let is = match found {
            Found::File(name)
            | Found::Member { name, .. }
            | Found::Row { name, .. }
            | Found::BadMember { name, .. }
            | Found::BrokenShard { name, .. }
            | Found::Unlisted { name, .. } => escape::shown(name),
            Found::Value(text) => text.to_owned(),
            Found::Bad { name, .. } => name.to_owned(),
        };
        let was = self.next();
        if was.as_ref() == Some(&is) {
            return Ok(());
        }
        self.first = Some((was, is));
        Err(io::ErrorKind::Interrupted.into())
    }

    fn shard(&mut self, _: Stamp) -> io::Result<bool> {
        Ok(false)
    }
}

/// Whether the same lists and tables are there, as old and as long as they were. What cannot be looked at is
/// not.
fn unchanged(origin: &Origin, wanted: &Wanted, source: &Source) -> bool {
    let mut stamps = Vec::new();
    let mut look = |name: &[u8]| {
        let path = wanted.base.join(OsString::from_vec(name.to_vec()));
        stamps.push(Stamp::of(name, &path).map_err(Stop::Taker)?);
        Ok(())
    };
    let looked = match source {
        Source::List(list) => look(list.as_bytes()),
        Source::Tables(tables, _) => each_path(tables, wanted, &mut |walked| match walked {
            Walked::File(name) => look(name),
            Walked::Unlisted { .. } => Err(Stop::Taker(io::ErrorKind::PermissionDenied.into())),
        }),
        Source::Paths(_) => return false,
    };
    looked.is_ok() && stamps == origin.files
}

/// `samples`: the digest of when the list was frozen has it where each member's sample begins.
fn change_of_archive(archive: &Archive, wanted: &Wanted, samples: bool) -> io::Result<Option<String>> {
    let shown = &archive.stamp.path;
    let name = escape::unescape(shown).unwrap_or_default().into_owned();
    let path = wanted.base.join(OsString::from_vec(name.clone()));
    match Stamp::of(&name, &path) {
        Ok(stamp) if stamp == archive.stamp => return Ok(None),
        Err(error) => return Ok(Some(format!("{shown}: {error}"))),
        Ok(_) => {}
    }
    let mut digest = Digest { without_samples: !samples, ..Digest::default() };
    match members(&name, &path, wanted.decode, &mut digest) {
        Err(Stop::Input(what, _)) => Ok(Some(what)),
        Err(Stop::Taker(error)) => Err(error),
        Ok(()) if Some(digest.hasher.finalize()) == archive.digest => Ok(None),
        Ok(()) => Ok(Some(format!(
            "{shown}: {} items when the run began, {} now, or in other places",
            archive.items, digest.items
        ))),
    }
}

/// The same digest as was made when the list was frozen.
#[derive(Default)]
struct Digest {
    hasher: crc32fast::Hasher,
    items: u64,
    shards: u64,
    line: Vec<u8>,
    /// As an older gpulane made it.
    without_samples: bool,
}

impl Taker for Digest {
    fn item(&mut self, found: Found<'_>) -> io::Result<()> {
        self.items += 1;
        self.line.clear();
        found.write(&mut self.line, 0);
        if let (Found::Member { .. }, true) = (found, self.without_samples) {
            let end = memchr::memrchr(b'\t', &self.line).unwrap_or(self.line.len());
            self.line.truncate(end);
            self.line.push(b'\n');
        }
        self.hasher.update(&self.line);
        Ok(())
    }

    fn shard(&mut self, shard: Stamp) -> io::Result<bool> {
        self.shards += 1;
        self.hasher.update(shard.path.as_bytes());
        self.hasher.update(b"\n");
        Ok(false)
    }
}
