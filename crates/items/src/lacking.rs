//! What a list lacks: directories that could not be listed, shards that could not be read to their end, and rows and members
//! that cannot be items. Each is an item that fails; here they are counted, so that it can be said, and so that a map that
//! must be whole is not begun.

use serde::{Deserialize, Serialize};

use crate::gather::{Taker, gather};
use crate::input::resolve;
use crate::problem::Stop;
use crate::record::Found;
use crate::stamp::Stamp;
use crate::{Wanted, escape};

/// Of how many the name and the reason are kept.
const NAMED: usize = 5;

/// What was found and cannot be an item, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lacking {
    /// Directories that could not be listed, or not to their end.
    pub folders: u64,
    /// Shards that could not be read to their end.
    pub shards: u64,
    /// Rows of tables, lines of lists and members of shards that cannot be items.
    pub others: u64,
    /// The first of all these, each with its reason.
    pub first: Vec<(String, String)>,
}

impl Lacking {
    pub(crate) fn note(&mut self, found: &Found<'_>) {
        let (name, reason) = match found {
            Found::Unlisted { name, reason } => {
                self.folders += 1;
                (escape::shown(name), reason)
            }
            Found::BrokenShard { name, reason } => {
                self.shards += 1;
                (escape::shown(name), reason)
            }
            Found::BadMember { name, reason } => {
                self.others += 1;
                (escape::shown(name), reason)
            }
            Found::Bad { name, reason } => {
                self.others += 1;
                ((*name).to_owned(), reason)
            }
            Found::File(_) | Found::Member { .. } | Found::Row { .. } | Found::Value(_) => return,
        };
        if self.first.len() < NAMED {
            self.first.push((name, (*reason).to_owned()));
        }
    }

    /// How many there are.
    pub const fn len(&self) -> u64 {
        self.folders + self.shards + self.others
    }

    /// Whether nothing is lacking.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counted for a person: `1 folder could not be listed, 2 tar files could not be read to their end`; nothing where nothing is
    /// lacking.
    pub fn in_words(&self) -> String {
        let said = [
            (self.folders, "folder could not be listed", "folders could not be listed"),
            (
                self.shards,
                "tar file could not be read to its end",
                "tar files could not be read to their end",
            ),
            (self.others, "row or member cannot be an item", "rows or members cannot be items"),
        ];
        let said = said.into_iter().filter(|(count, ..)| *count > 0);
        let said = said.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
        said.collect::<Vec<_>>().join(", ")
    }

    /// The first of them with their reasons, and how many more there are.
    pub fn named(&self) -> String {
        let mut named: Vec<String> =
            self.first.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        if let more @ 1.. = self.len().saturating_sub(self.first.len() as u64) {
            named.push(format!("and {more} more"));
        }
        named.join("; ")
    }
}

/// What the inputs lack as they are now; an input that is wrong altogether is [`crate::check`]'s to say. Goes through all of
/// them and keeps nothing.
pub fn lacking(wanted: &Wanted) -> Lacking {
    let mut counting = Counting(Lacking::default());
    for input in wanted.inputs {
        if let Ok(source) = resolve(input, wanted) {
            // Nothing here ends it but what is wrong with the input itself.
            let _: Result<(), Stop> = gather(&source, wanted, &mut counting);
        }
    }
    counting.0
}

struct Counting(Lacking);

impl Taker for Counting {
    fn item(&mut self, found: Found<'_>) -> std::io::Result<()> {
        self.0.note(&found);
        Ok(())
    }

    fn shard(&mut self, _: Stamp) -> std::io::Result<bool> {
        Ok(true)
    }
}
