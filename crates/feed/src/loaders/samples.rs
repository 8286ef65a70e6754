//! The other members of an item's sample, where they are asked for: which there are, whether the item can have them, and how they stand in
//! its slot.
//!
//! In a plain tar they are found by their headers and read where they lie. A compressed one is read on to the sample's end, and what is asked
//! for is held until the item has its place. What is held follows from budgets and from the room in a slot, never from what a tar says.

mod walk;

use std::fs::File;
use std::sync::Arc;

use gpulane_model::{Bytes, Members};

use super::reading::fill;
pub(super) use walk::{InPlace, Packed, walk};

/// Members of one sample that are handed over at most.
const MOST_PARTS: usize = 10_000;
/// Bytes of all their extensions.
const MOST_NAMES: usize = 1 << 20;
/// What of a sample of a compressed tar is held for the next item of the same sample.
pub(super) const KEPT: u64 = 16 << 20;
/// Characters of a member's name in a reason.
const SHOWN: usize = 200;
/// What stands before a member in its slot: the lengths of its extension and of its data.
const LENGTHS: u64 = 8;

/// Data that a sample and an item hold together.
pub(super) type HeldData = Arc<Vec<u8>>;

/// A member that is asked for.
#[derive(Debug)]
struct Part {
    extension: String,
    /// For a person.
    name: String,
    /// Where its data are in the tar, or in its contents.
    offset: u64,
    bytes: u64,
    /// Its data, where they were read on the way.
    data: Option<HeldData>,
    /// Why it cannot be read.
    wrong: Option<String>,
}

/// The members of a sample, as far as they are asked for.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Which tar, and where in it the sample begins.
    pub(super) archive: u32,
    pub(super) start: u64,
    parts: Vec<Part>,
    /// Bytes of the parts' extensions.
    names: usize,
    /// There are more than are handed over.
    too_many: bool,
    /// Data of members behind the item that are not asked for: they may be items of the same sample.
    others: Vec<(u64, HeldData)>,
    /// Why it is not known what follows.
    lost: Option<String>,
}

/// The members that go with one item.
#[derive(Debug, Default)]
pub(super) struct Beside {
    parts: Vec<(String, u64, Lies)>,
    /// What they take in a slot.
    bytes: u64,
}

/// Where a member's data are.
#[derive(Debug)]
enum Lies {
    Held(HeldData),
    InTar(u64),
}

impl Sample {
    /// One of which nothing is read yet.
    pub(super) fn at(archive: u32, start: u64) -> Self {
        Self { archive, start, ..Self::default() }
    }

    /// Notes a member that is asked for.
    fn add(&mut self, part: Part) {
        self.names += part.extension.len();
        self.too_many |= self.parts.len() >= MOST_PARTS || self.names > MOST_NAMES;
        if self.too_many {
            self.parts.clear();
        } else {
            self.parts.push(part);
        }
    }

    fn clear(&mut self) {
        (self.parts, self.others) = (Vec::new(), Vec::new());
        (self.names, self.too_many) = (0, false);
    }

    /// The data of the member at this offset, if they are held and all that is asked for beside it as well.
    pub(super) fn held(&self, offset: u64) -> Option<HeldData> {
        let is_held = |part: &Part| part.offset == offset || part.data.is_some() || part.wrong.is_some();
        if !self.parts.iter().all(is_held) {
            return None;
        }
        let part = self.parts.iter().find(|part| part.offset == offset).and_then(|part| part.data.clone());
        part.or_else(|| self.others.iter().find(|(at, _)| *at == offset).map(|(_, data)| Arc::clone(data)))
    }

    /// Whether it is small enough to be kept for the next item.
    pub(super) fn is_light(&self) -> bool {
        let parts = self.parts.iter().filter_map(|part| part.data.as_ref());
        parts.chain(self.others.iter().map(|(_, data)| data)).map(|data| data.len() as u64).sum::<u64>()
            <= KEPT
    }

    /// Why it cannot be read on, if it cannot.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// What goes with the item whose data are at `item`, in at most so many bytes of a slot; or why the item cannot have it, for a person.
    pub(super) fn beside(&self, item: u64, asked: &Members, most: u64) -> Result<Beside, String> {
        if self.too_many {
            return Err(format!(
                "its sample has more than {MOST_PARTS} members that `members` asks for; ask for fewer"
            ));
        }
        let mut parts: Vec<&Part> = self.parts.iter().collect();
        parts.sort_by(|one, other| one.extension.cmp(&other.extension));
        if let Some(two) = parts.windows(2).find(|two| two[0].extension == two[1].extension) {
            let (one, other) = (two[0], two[1]);
            return Err(format!(
                "its sample has two members `.{}`, {} and {}, and `members` asks for it; give them different extensions",
                one.extension, one.name, other.name
            ));
        }
        parts.retain(|part| part.offset != item);
        if let Some((part, wrong)) = parts.iter().find_map(|part| Some((part, part.wrong.as_ref()?))) {
            return Err(format!("its member {}, which `members` asks for, {wrong}", part.name));
        }
        let is_there = |name: &String| self.parts.iter().any(|part| part.extension == *name);
        let complete = matches!(asked, Members::Named(named) if named.iter().all(is_there));
        if let Some(lost) = self.lost.as_ref().filter(|_| !complete) {
            return Err(format!(
                "its tar cannot be read on behind it, where members may stand that `members` asks for: {lost}"
            ));
        }
        let of =
            |part: &&Part| LENGTHS.saturating_add(part.extension.len() as u64).saturating_add(part.bytes);
        let bytes = parts.iter().map(of).fold(0, u64::saturating_add);
        if bytes > most {
            return Err(too_large(&parts, bytes, most));
        }
        let lies = |part: &Part| part.data.clone().map_or(Lies::InTar(part.offset), Lies::Held);
        let parts = parts.into_iter().map(|part| (part.extension.clone(), part.bytes, lies(part))).collect();
        Ok(Beside { parts, bytes })
    }
}

fn too_large(parts: &[&Part], bytes: u64, most: u64) -> String {
    const NAMED: usize = 3;
    let mut named: Vec<&&Part> = parts.iter().collect();
    named.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let more = if parts.len() > NAMED { ", …" } else { "" };
    let named: Vec<String> =
        named.iter().take(NAMED).map(|part| format!("{} {}", part.name, Bytes(part.bytes))).collect();
    format!(
        "its members take {} ({}{more}), but a slot of the ring has room for {}; use a larger --ring, or ask for fewer --members",
        Bytes(bytes),
        named.join(", "),
        Bytes(most)
    )
}

impl Beside {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes them to a place of their size, as `docs/map-protocol.md` has it. `tar`: where those lie that were not read before.
    pub(super) fn write(&self, mut to: &mut [u8], tar: Option<&File>) -> Result<(), String> {
        const LACKS: &str = "its members have no place";
        for (extension, bytes, lies) in &self.parts {
            let length = u32::try_from(*bytes).map_err(|_| LACKS)?;
            for word in [
                &u32::try_from(extension.len()).map_err(|_| LACKS)?.to_le_bytes()[..],
                &length.to_le_bytes()[..],
                extension.as_bytes(),
            ] {
                to.split_off_mut(..word.len()).ok_or(LACKS)?.copy_from_slice(word);
            }
            let place = to.split_off_mut(..length as usize).ok_or(LACKS)?;
            match lies {
                Lies::Held(data) if data.len() == place.len() => place.copy_from_slice(data),
                Lies::Held(_) => return Err(LACKS.to_owned()),
                Lies::InTar(offset) => fill(tar.ok_or(LACKS)?, place, *offset)
                    .map_err(|why| format!("its member `.{extension}` {why}"))?,
            }
        }
        Ok(())
    }
}
