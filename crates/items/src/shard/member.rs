//! One member of a tar file: where its bytes are, or why they cannot be read in place.

use std::io::Read;

use tar::{Entry, EntryType};

use crate::escape;

/// A member that may be an item.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: Vec<u8>,
    /// Offset and length, or the reason why there are none.
    pub(super) place: Result<(u64, u64), String>,
}

/// The byte behind a member's data.
pub(super) fn end<R: Read>(entry: &Entry<'_, R>) -> u64 {
    // Of a sparse one the size is what it would have unpacked.
    let sparse = entry.header().entry_type().is_gnu_sparse();
    let stored = if sparse { entry.header().entry_size().unwrap_or(0) } else { entry.size() };
    entry.raw_file_position().saturating_add(stored)
}

/// What an entry is; `None`: something without data of its own, such as a directory or a device.
pub(super) fn look<R: Read>(entry: &mut Entry<'_, R>) -> Option<Found> {
    let name = entry.path_bytes().into_owned();
    let kind = entry.header().entry_type();
    let linked = |entry: &Entry<'_, R>| escape::shown(&entry.link_name_bytes().unwrap_or_default());
    let reason = match kind {
        // Tar files older than POSIX know a directory by its slash alone.
        EntryType::Regular if name.ends_with(b"/") && entry.size() == 0 => return None,
        EntryType::Regular | EntryType::Continuous => {
            if let Some(real) = sparse_name(entry) {
                return Some(Found { name: real.unwrap_or(name), place: Err(sparse()) });
            }
            let place = Ok((entry.raw_file_position(), entry.size()));
            return Some(Found { name, place });
        }
        EntryType::GNUSparse => sparse(),
        EntryType::Link => format!(
            "is a hard link to {}, and links in a tar are not followed; make it with `tar --hard-dereference`",
            linked(entry)
        ),
        EntryType::Symlink => format!(
            "is a symbolic link to {}, and links in a tar are not followed; make it with `tar --dereference`",
            linked(entry)
        ),
        EntryType::Directory
        | EntryType::Char
        | EntryType::Block
        | EntryType::Fifo
        | EntryType::XGlobalHeader => return None,
        // GNU's directory lists and volume names.
        other if matches!(other.as_byte(), b'D' | b'V') => return None,
        other => format!("is a member of a kind that is not known ({:?})", char::from(other.as_byte())),
    };
    Some(Found { name, place: Err(reason) })
}

fn sparse() -> String {
    "is stored as a sparse file, which cannot be read in place; make the tar without `--sparse`".to_owned()
}

/// Whether PAX headers say that a member is sparse, and the name they give it.
#[allow(clippy::option_option)] // sparse or not, and with a name or without
fn sparse_name<R: Read>(entry: &mut Entry<'_, R>) -> Option<Option<Vec<u8>>> {
    let extensions = entry.pax_extensions().ok()??;
    let mut found = None;
    for extension in extensions.flatten() {
        if extension.key_bytes() == b"GNU.sparse.name" {
            found = Some(Some(extension.value_bytes().to_vec()));
        } else if extension.key_bytes().starts_with(b"GNU.sparse.") {
            found = found.or(Some(None));
        }
    }
    found
}
