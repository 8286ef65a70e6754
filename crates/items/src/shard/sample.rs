//! The members of one key, and which of them are items: all of the best kind there is. Holds only members that
//! a better one may still follow.

use gpulane_model::Decode;

use super::member::Found;
use super::{Each, Member};
use crate::escape;
use crate::problem::Stop;

/// Also images that gpulane does not decode: what a shard holds is told, not left out.
const IMAGES: [&str; 22] = [
    "jpg", "jpeg", "jpe", "jfif", "png", "apng", "webp", "tif", "tiff", "bmp", "dib", "gif", "ppm", "pgm",
    "pbm", "pnm", "jp2", "jxl", "avif", "heic", "heif", "dng",
];
/// What is said about a sample rather than being it.
const METADATA: [&str; 6] = ["json", "cls", "cls2", "id", "index", "meta"];
/// The rank that nothing can be better than.
const BEST: u8 = 0;

/// Members that follow each other and share a key.
pub(super) struct Sample {
    decode: Option<Decode>,
    key: Vec<u8>,
    /// Where its first member's headers begin.
    start: u64,
    /// The best so far.
    rank: u8,
    /// Members of that rank which are not handed over yet.
    waiting: Vec<Found>,
}

impl Sample {
    pub(super) const fn new(decode: Option<Decode>) -> Self {
        Self { decode, key: Vec::new(), start: 0, rank: u8::MAX, waiting: Vec::new() }
    }

    /// Takes the next member, whose headers begin at `start`.
    pub(super) fn take(
        &mut self,
        name: Vec<u8>,
        place: Result<(u64, u64), String>,
        start: u64,
        each: &mut Each,
    ) -> Result<(), Stop> {
        if self.rank == u8::MAX || key(&name) != self.key {
            self.flush(each)?;
            key(&name).clone_into(&mut self.key);
            self.start = start;
        }
        let rank = rank(&name, self.decode);
        if rank > self.rank {
            return Ok(());
        }
        if rank < self.rank {
            self.waiting.clear();
            self.rank = rank;
        }
        let found = Found { name, place };
        if rank == BEST {
            return hand_over(&found, self.start, each);
        }
        self.waiting.push(found);
        Ok(())
    }

    /// A member that is cut short: what is only said about it is no item in its place.
    pub(super) fn lose(&mut self, name: &[u8]) {
        if key(name) == self.key && rank(name, self.decode) < self.rank {
            self.waiting.clear();
        }
    }

    /// Hands over what has waited: nothing better came.
    pub(super) fn flush(&mut self, each: &mut Each) -> Result<(), Stop> {
        self.rank = u8::MAX;
        self.waiting.drain(..).try_for_each(|found| hand_over(&found, self.start, each))
    }
}

fn hand_over(found: &Found, start: u64, each: &mut Each) -> Result<(), Stop> {
    let name = &found.name;
    each(match &found.place {
        Ok((offset, bytes)) => {
            Member::Data { name, offset: *offset, bytes: *bytes, before: offset.saturating_sub(start) }
        }
        Err(reason) => Member::Bad { name, reason },
    })
}

/// A member's key, the path up to the first dot of the base name. Members that follow each other and share it are one sample.
pub fn key(name: &[u8]) -> &[u8] {
    let base = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    // A name that begins with its dot has no key otherwise.
    let from = (base + 1).min(name.len());
    memchr::memchr(b'.', &name[from..]).map_or(name, |dot| &name[..from + dot])
}

/// A member's extension in lower case, by which it is asked for: all behind the first dot of the base name. None: it has none.
pub fn extension(name: &[u8]) -> Option<String> {
    let suffix = name.get(key(name).len() + 1..)?;
    (!suffix.is_empty()).then(|| escape::shown(suffix).to_lowercase())
}

/// How much a member is an item of its key rather than something said about it; less is better.
fn rank(name: &[u8], decode: Option<Decode>) -> u8 {
    let suffix = String::from_utf8_lossy(&name[key(name).len()..]).to_ascii_lowercase();
    let last = suffix.rsplit('.').next().unwrap_or_default();
    let wanted = match decode {
        Some(Decode::Text) => last == "txt",
        Some(Decode::Npy) => last == "npy",
        _ => IMAGES.contains(&last),
    };
    match last {
        _ if wanted => BEST,
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
    fn extensions_are_all_behind_the_first_dot_of_the_base_name() {
        for (name, wanted) in [
            ("a/b.c/0001.seg.PNG", Some("seg.png")),
            ("0001.JSON", Some("json")),
            (".hidden.jpg", Some("jpg")),
            ("dir/none", None),
            ("dir.d/none", None),
            ("a.", None),
            (".a", None),
        ] {
            assert_eq!(extension(name.as_bytes()).as_deref(), wanted, "{name}");
        }
    }

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
