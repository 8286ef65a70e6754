//! Where a decoder puts an item: a place in a slot that is reserved when the decoder knows how much it needs.

use std::time::{Duration, Instant};

use gpulane_decode::Place;
use gpulane_model::Bytes;

use super::heavy::Load;
use super::shared::Shared;
use super::slots::{NoPlace, Reserved};

/// The place of one item.
pub(super) struct Spot<'s> {
    shared: &'s Shared,
    /// Bytes of the item's name.
    name: u64,
    /// Bytes of the members that go with it.
    beside: u64,
    /// The place, once it is known how large.
    pub(super) reserved: Option<Reserved>,
    /// Why there is none.
    refusal: Option<NoPlace>,
    /// The memory that decoding takes beside the place.
    load: Option<Load<'s>>,
    /// How long it waited for memory or for a slot, which is nobody's work.
    pub(super) waited: Duration,
}

/// Why an item is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It has failed; why, for a person.
    Failed(String),
    /// It is over, and nobody asks any more.
    Stopping,
}

impl<'s> Spot<'s> {
    pub(super) fn new(shared: &'s Shared, name: &str) -> Self {
        Self {
            shared,
            name: name.len() as u64,
            beside: 0,
            reserved: None,
            refusal: None,
            load: None,
            waited: Duration::ZERO,
        }
    }

    /// Members of so many bytes are to have a place beside the item's.
    pub(super) const fn set_beside(&mut self, bytes: u64) {
        self.beside = bytes;
    }

    /// Room for an item of so many bytes.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<&mut Reserved, Unfit> {
        self.give_back();
        match self.shared.reserve(bytes, self.name, self.beside, &mut self.waited) {
            Ok(reserved) => Ok(self.reserved.insert(reserved)),
            Err(refusal) => {
                self.refusal = Some(refusal);
                Err(self.no_room(bytes))
            }
        }
    }

    /// Most an item with this name and these members can have.
    pub(super) fn most(&self) -> u64 {
        self.shared.ring.geometry().most_item().saturating_sub(self.name).saturating_sub(self.beside)
    }

    /// Gives the place back, if there is one.
    pub(super) fn give_back(&mut self) {
        if let Some(reserved) = self.reserved.take() {
            self.shared.release(reserved);
        }
    }

    /// What to say when there was no room for so many bytes.
    pub(super) fn no_room(&self, bytes: u64) -> Unfit {
        match self.refusal {
            Some(NoPlace::Stopping) => Unfit::Stopping,
            Some(NoPlace::TooLarge { most }) if self.beside > 0 => Unfit::Failed(format!(
                "needs {} and its members {}, but a slot of the ring has room for {}; use a larger --ring, or ask for fewer --members",
                Bytes(bytes),
                Bytes(self.beside),
                Bytes(most)
            )),
            Some(NoPlace::TooLarge { most }) => Unfit::Failed(format!(
                "needs {}, but a slot of the ring has room for {}; use a larger --ring",
                Bytes(bytes),
                Bytes(most)
            )),
            Some(NoPlace::Odd) | None => {
                Unfit::Failed(format!("came out with {bytes} bytes, which is not the size asked for"))
            }
        }
    }
}

impl Place for Spot<'_> {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.reserve(bytes).ok().map(|reserved| reserved.piece.bytes_mut())
    }

    fn claim(&mut self, bytes: u64) {
        // Who holds a place in a slot keeps others from it, and must not wait.
        self.give_back();
        let began = Instant::now();
        self.load = self.shared.heavy.take(bytes);
        self.waited += began.elapsed();
    }
}
