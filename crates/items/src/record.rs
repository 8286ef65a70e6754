//! One item as one line of `items.list`: a letter for its place, then fields with tabs between them.
//!
//! `f NAME` a file, `m NAME ARCHIVE OFFSET BYTES BEFORE` within a shard (its sample begins BEFORE bytes ahead of it; older lists have no BEFORE), `r NAME TABLE ROW` the data in a table's row, `v TEXT` a text,
//! `b NAME REASON` a bad one.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::escape::{escape_into, shown, unescape};
use crate::{Item, Place};

/// An item as an input gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    File(&'a [u8]),
    /// Of the shard that was announced last.
    Member {
        name: &'a [u8],
        offset: u64,
        bytes: u64,
        /// Where its sample begins: so many bytes ahead of it.
        before: u64,
    },
    /// A member of the shard that was announced last, which cannot be read: no item of its input
    /// by itself, so that a resume compares it where it compares the shard's members.
    BadMember {
        name: &'a [u8],
        reason: &'a str,
    },
    /// The shard that was announced last, which cannot be read to its end; compared as its members are.
    BrokenShard {
        name: &'a [u8],
        reason: &'a str,
    },
    /// A directory that cannot be listed.
    Unlisted {
        name: &'a [u8],
        reason: &'a str,
    },
    /// A row, from 0, of the table that was announced last.
    Row {
        name: &'a [u8],
        row: u64,
    },
    Value(&'a str),
    Bad {
        name: &'a str,
        reason: &'a str,
    },
}

impl Found<'_> {
    /// Appends the line; `of`: the number of its shard or table.
    pub(crate) fn write(&self, out: &mut Vec<u8>, of: u32) {
        match self {
            Self::File(name) => {
                out.extend_from_slice(b"f\t");
                escape_into(out, name);
            }
            Self::Member { name, offset, bytes, before } => {
                out.extend_from_slice(b"m\t");
                escape_into(out, name);
                // A vector takes everything.
                let _ = write!(out, "\t{of}\t{offset}\t{bytes}\t{before}");
            }
            Self::Row { name, row } => {
                out.extend_from_slice(b"r\t");
                escape_into(out, name);
                let _ = write!(out, "\t{of}\t{row}");
            }
            Self::Value(text) => {
                out.extend_from_slice(b"v\t");
                escape_into(out, text.as_bytes());
            }
            Self::Bad { name, reason } => bad(out, name.as_bytes(), reason),
            Self::BadMember { name, reason }
            | Self::BrokenShard { name, reason }
            | Self::Unlisted { name, reason } => bad(out, name, reason),
        }
        out.push(b'\n');
    }
}

fn bad(out: &mut Vec<u8>, name: &[u8], reason: &str) {
    out.extend_from_slice(b"b\t");
    escape_into(out, name);
    out.push(b'\t');
    escape_into(out, reason.as_bytes());
}

/// The item in a line without its newline; `None` if it is no such line.
pub(crate) fn read(line: &[u8], number: u64, base: &Path) -> Option<Item> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split('\t');
    let letter = fields.next()?;
    let first = unescape(fields.next()?)?;
    let name = shown(&first);
    let place = match letter {
        "f" => Place::File(base.join(OsString::from_vec(first.into_owned()))),
        "m" => Place::Member {
            archive: fields.next()?.parse().ok()?,
            offset: fields.next()?.parse().ok()?,
            bytes: fields.next()?.parse().ok()?,
            before: fields.next().map(str::parse).transpose().ok()?,
        },
        "r" => Place::Row { table: fields.next()?.parse().ok()?, row: fields.next()?.parse().ok()? },
        "v" => Place::Value(String::from_utf8(first.into_owned()).ok()?),
        "b" => Place::Bad(shown(&unescape(fields.next()?)?)),
        _ => return None,
    };
    fields.next().is_none().then_some(Item { number, name, place })
}
