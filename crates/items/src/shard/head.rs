//! The members of a tar, header by header, from any place on where one begins: for who knows that place from the list.

use std::io::{self, Read};

use super::bounded::MOST_HEADERS;
use super::{BLOCK, MOST_EMPTY, member};

/// A member, as its headers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// As it stands in the tar.
    pub name: Vec<u8>,
    /// Offset and length of its data, or the reason why they cannot be read.
    pub place: Result<(u64, u64), String>,
    /// The byte behind its data; the next member begins at the next multiple of 512.
    pub end: u64,
}

/// What comes next in a tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A member that may hold data.
    Member(Head),
    /// Something without data of its own, such as a directory.
    Other {
        /// As of a member.
        end: u64,
    },
    /// Nothing more.
    End {
        /// An empty block says so. Otherwise the tar may have been cut.
        marked: bool,
    },
}

/// Reads the headers that begin at byte `at` of a tar, which is where `from` stands. No more is read than they are, and empty blocks before
/// them. An error: what stands there is no member, or cannot be read.
pub fn next_head(mut from: impl Read, at: u64) -> io::Result<Next> {
    let (mut block, mut passed) = ([0; 512], 0);
    loop {
        let read = read_block(&mut from, &mut block)?;
        if read < block.len() {
            let empty = block[..read].iter().all(|byte| *byte == 0);
            let cut = || io::Error::new(io::ErrorKind::UnexpectedEof, "it ends within a header");
            return if empty { Ok(Next::End { marked: passed > 0 }) } else { Err(cut()) };
        }
        if block.iter().any(|byte| *byte != 0) {
            break;
        }
        passed += BLOCK;
        if passed > MOST_EMPTY {
            return Ok(Next::End { marked: true });
        }
    }
    let at = at.saturating_add(passed);
    let mut archive = tar::Archive::new(block.chain(from.take(MOST_HEADERS)));
    let Some(entry) = archive.entries()?.next() else { return Ok(Next::End { marked: passed > 0 }) };
    let mut entry = entry?;
    let end = at.saturating_add(member::end(&entry));
    Ok(match member::look(&mut entry) {
        None => Next::Other { end },
        Some(found) => {
            let place = found.place.map(|(offset, bytes)| (at.saturating_add(offset), bytes));
            Next::Member(Head { name: found.name, place, end })
        }
    })
}

/// As much of a block as there is.
fn read_block(from: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < block.len() {
        match from.read(&mut block[got..]) {
            Ok(0) => break,
            Ok(read) => got += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
