//! Parts of a slot that belong to one owner each.
//!
//! A slot is claimed as one piece. Pieces can be split and joined again, never made otherwise, so no byte is ever in two
//! of them. When the last piece of a slot is gone, the slot can be claimed again.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Ring;

/// Some bytes of a slot, owned.
#[derive(Debug)]
pub struct Piece {
    /// Keeps the slot claimed and the memory mapped.
    claim: Arc<Claim>,
    /// Offset of the first byte in the slot.
    at: u64,
    /// How many.
    len: u64,
}

/// That a slot is in use. One exists per claimed slot.
#[derive(Debug)]
struct Claim {
    ring: Arc<Ring>,
    slot: u32,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Release: what was done through pieces happens before the next claim.
        self.ring.claimed[self.slot as usize].store(false, Ordering::Release);
    }
}

impl Piece {
    pub(super) fn claim(ring: &Arc<Ring>, slot: u32) -> Option<Self> {
        let taken = ring.claimed.get(slot as usize)?;
        taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let claim = Arc::new(Claim { ring: Arc::clone(ring), slot });
        Some(Self { claim, at: 0, len: ring.geometry.slot_bytes })
    }

    /// The slot it is of.
    pub fn slot(&self) -> u32 {
        self.claim.slot
    }

    /// Offset of its first byte in the slot.
    pub const fn start(&self) -> u64 {
        self.at
    }

    /// Offset behind its last byte.
    pub const fn end(&self) -> u64 {
        self.at + self.len
    }

    /// How many bytes it has.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Cuts the first `bytes` off. None, and nothing is cut: it has fewer.
    pub fn cut_front(&mut self, bytes: u64) -> Option<Self> {
        let rest = self.len.checked_sub(bytes)?;
        let front = Self { claim: Arc::clone(&self.claim), at: self.at, len: bytes };
        self.at += bytes;
        self.len = rest;
        Some(front)
    }

    /// Cuts the last `bytes` off. None, and nothing is cut: it has fewer.
    pub fn cut_back(&mut self, bytes: u64) -> Option<Self> {
        self.len = self.len.checked_sub(bytes)?;
        Some(Self { claim: Arc::clone(&self.claim), at: self.end(), len: bytes })
    }

    /// Puts a piece that ends where this begins back in front of it; gives it back if it does not.
    pub fn join_front(&mut self, front: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&front.claim, &self.claim) || front.end() != self.at {
            return Err(front);
        }
        self.at = front.at;
        self.len += front.len;
        Ok(())
    }

    /// Puts a piece that begins where this ends back behind it; gives it back if it does not.
    pub fn join_back(&mut self, back: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&back.claim, &self.claim) || self.end() != back.at {
            return Err(back);
        }
        self.len += back.len;
        Ok(())
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let (start, bytes) = self.memory();
        // SAFETY: the memory is mapped as long as the claim lives, which is longer than this borrow; u8 has no invalid
        // values; and it is this piece's alone within the process: pieces come from one claim of the slot and by
        // splitting only. Other processes: workers only read, and a loader writes to a piece only between the request
        // and its answer, while its owner waits and holds no reference.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, bytes) = self.memory();
        // SAFETY: as in `bytes`; `&mut self` makes it the only reference to this piece's bytes.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }

    fn memory(&self) -> (NonNull<u8>, usize) {
        let ring = &self.claim.ring;
        let first = u64::from(self.claim.slot) * ring.geometry.slot_bytes + self.at;
        let place = usize::try_from(first).ok().zip(usize::try_from(self.len).ok());
        // Cannot miss, since a piece lies within its slot and the slot within the mapping; if it did, it has no bytes.
        place
            .and_then(|(first, len)| Some((ring.mapping.at(first, len)?, len)))
            .unwrap_or((NonNull::dangling(), 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Geometry;

    fn ring() -> Arc<Ring> {
        Arc::new(Ring::new(Geometry { slots: 2, slot_bytes: 8192, capacity: 4 }).unwrap())
    }

    #[test]
    fn a_slot_is_claimed_once_until_its_last_piece_is_gone() {
        let ring = ring();
        let mut all = ring.claim(0).expect("free");
        let front = all.cut_front(100).unwrap();
        drop(all);
        assert!(ring.claim(0).is_none());
        drop(front);
        assert!(ring.claim(0).is_some());
        assert!(ring.claim(2).is_none(), "there are two slots");
    }

    #[test]
    fn cut_pieces_touch_and_do_not_overlap() {
        let mut rest = ring().claim(1).unwrap();
        let mut front = rest.cut_front(100).unwrap();
        let mut back = rest.cut_back(92).unwrap();
        assert_eq!((front.end(), rest.start(), rest.end(), back.start()), (100, 100, 8100, 8100));
        assert!(rest.cut_front(8001).is_none() && rest.cut_back(8001).is_none());
        front.bytes_mut().fill(1);
        rest.bytes_mut().fill(2);
        back.bytes_mut().fill(3);
        for (piece, value, len) in [(&front, 1, 100), (&rest, 2, 8000), (&back, 3, 92)] {
            assert_eq!(piece.bytes(), vec![value; len]);
        }
    }

    #[test]
    fn only_neighbours_of_one_claim_are_joined() {
        let ring = ring();
        let (mut one, mut other) = (ring.claim(0).unwrap(), ring.claim(1).unwrap());
        let first = one.cut_front(64).unwrap();
        let second = one.cut_front(64).unwrap();
        let stranger = other.cut_front(128).unwrap();
        assert!(one.join_front(stranger).is_err());
        let first = one.join_front(first).expect_err("there is one in between");
        one.join_front(second).unwrap();
        one.join_front(first).unwrap();
        assert_eq!((one.start(), one.len()), (0, 8192));
    }
}
