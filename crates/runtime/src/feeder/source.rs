//! What is still to be done, in the order of the list.

use std::io;
use std::sync::Arc;

use gpulane_feed::loaders::Source;
use gpulane_items::{Cursor, Item};
use gpulane_parts::Bits;

/// The items of the list that are not settled, once each.
pub(crate) struct Remaining {
    cursor: Cursor,
    /// Settled before this feeder began, or refused by it.
    settled: Arc<Bits>,
}

impl Remaining {
    pub(crate) fn new(cursor: Cursor, settled: Arc<Bits>) -> Self {
        Self { cursor, settled }
    }
}

impl Source for Remaining {
    fn more(&mut self, most: usize, out: &mut Vec<Item>) -> io::Result<()> {
        let settled = &self.settled;
        self.cursor.next_in(&|number| !settled.contains(number), most, out)
    }
}
