//! The ring: one memfd of equal slots that loaders fill and workers read, and how large it may be.
//!
//! `mapping.rs`, `numbers.rs` and `piece.rs` are the only places of this crate with `unsafe`. A slot is claimed whole and cut into pieces
//! that never overlap, so that threads fill one slot at once without a lock and without a way to write to each other's.

mod budget;
mod geometry;
mod mapping;
mod numbers;
mod piece;
mod table;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gpulane_model::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

pub use budget::{budget, decoding_budget};
pub use geometry::Geometry;
pub(crate) use numbers::Numbers;
pub use piece::Piece;
pub use table::{ENTRY, entry};

use mapping::Mapping;

/// What is got of the kernel at once, at the beginning of a slot and at its end, where names are.
const STEP: u64 = 1 << 20;
const STEP_BACK: u64 = 64 << 10;

/// The memory that loaders, feeder and workers share.
#[derive(Debug)]
pub struct Ring {
    /// How it is divided.
    geometry: Geometry,
    /// This process's view of it.
    mapping: Mapping,
    /// What workers are given to map it themselves.
    memory: OwnedFd,
    /// What of each slot the kernel has given: bytes from its beginning, and from its end.
    got: Vec<(AtomicU64, AtomicU64)>,
    /// Slots of which pieces exist. Makes a second claim of one impossible.
    claimed: Vec<AtomicBool>,
    /// Bytes of items that were written where they stay.
    in_place: AtomicU64,
    /// Bytes of items that were moved after they had been written.
    copied_in: AtomicU64,
}

/// Bytes that came into a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Written by a decoder, a read or a loader to where they stay.
    pub in_place: u64,
    /// Moved after they had been written, to close a hole.
    pub copied_in: u64,
}

impl Ring {
    /// Maps the ring. Its memory is got piece by piece, when it is first used: see [`Ring::get`].
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        let size = geometry.bytes();
        let said = |error: io::Error| {
            let hint = "use a smaller --ring";
            io::Error::new(
                error.kind(),
                format!("cannot get {} of memory for the ring: {error}; {hint}", Bytes(size)),
            )
        };
        if !geometry.is_sound() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("no ring can be {geometry:?}")));
        }
        let memory = create(size).map_err(said)?;
        let mapping = Mapping::new(&memory, size).map_err(said)?;
        let got = (0..geometry.slots).map(|_| Default::default()).collect();
        let claimed = (0..geometry.slots).map(|_| AtomicBool::new(false)).collect();
        let (in_place, copied_in) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { geometry, mapping, memory, got, claimed, in_place, copied_in })
    }

    /// What a worker maps.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// How it is divided.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What has come in so far.
    pub fn counters(&self) -> Counters {
        Counters {
            in_place: self.in_place.load(Ordering::Relaxed),
            copied_in: self.copied_in.load(Ordering::Relaxed),
        }
    }

    /// Gets the memory of a slot from the kernel, from its beginning up to a byte and so many bytes at its end, unless it is there. A lack
    /// of memory is an error here, and not a fatal signal when it is written to.
    pub fn get(&self, slot: u32, up_to: u64, back: u64) -> io::Result<()> {
        let Some((front_got, back_got)) = self.got.get(slot as usize) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let size = self.geometry.slot_bytes;
        let has = front_got.load(Ordering::Relaxed);
        if up_to > has {
            let until = up_to.next_multiple_of(STEP).min(size);
            self.populate(u64::from(slot) * size + has, until - has)?;
            // Two threads may do this at once: then each has got it.
            front_got.fetch_max(until, Ordering::Relaxed);
        }
        let has = back_got.load(Ordering::Relaxed);
        if back > has {
            let until = back.next_multiple_of(STEP_BACK).min(size);
            self.populate((u64::from(slot) + 1) * size - until, until - has)?;
            back_got.fetch_max(until, Ordering::Relaxed);
        }
        Ok(())
    }

    fn populate(&self, at: u64, bytes: u64) -> io::Result<()> {
        let said = |error: io::Error| {
            let hint = "close something that needs memory, or use a smaller --ring, then resume";
            io::Error::new(error.kind(), format!("cannot get memory for the ring: {error}; {hint}"))
        };
        let place = usize::try_from(at).ok().zip(usize::try_from(bytes).ok());
        let (first, length) = place.ok_or_else(|| said(io::ErrorKind::OutOfMemory.into()))?;
        if !self.mapping.populate(first, length).map_err(said)? {
            allocate(&self.memory, at, bytes).map_err(said)?;
        }
        Ok(())
    }

    /// Memory the kernel has given by now.
    pub fn bytes_got(&self) -> u64 {
        let both =
            self.got.iter().map(|(front, back)| front.load(Ordering::Relaxed) + back.load(Ordering::Relaxed));
        both.map(|got| got.min(self.geometry.slot_bytes)).sum()
    }

    /// All of a slot. None: there is no such slot, or pieces of it exist.
    pub fn claim(self: &Arc<Self>, slot: u32) -> Option<Piece> {
        Piece::claim(self, slot)
    }

    /// Counts bytes of an item that were written where they stay.
    pub fn count_in_place(&self, bytes: u64) {
        self.in_place.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Moves an item's bytes from one piece to another as long, and counts them.
    pub fn copy_in(&self, from: &Piece, to: &mut Piece) {
        let bytes = from.bytes().len().min(to.bytes().len());
        to.bytes_mut()[..bytes].copy_from_slice(&from.bytes()[..bytes]);
        self.copied_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn create(size: u64) -> io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("gpulane-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, size)?;
    // Whoever maps it can rely on its size: nobody can take the memory away under a reader.
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

/// Gets the memory where the kernel cannot do so through a mapping.
fn allocate(memory: &OwnedFd, at: u64, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(memory, FallocateFlags::empty(), at, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const SMALL: Geometry = Geometry { slots: 3, slot_bytes: 8192, capacity: 4 };

    #[test]
    fn what_is_written_to_a_piece_is_seen_through_the_descriptor() {
        let ring = Arc::new(Ring::new(SMALL).unwrap());
        let mut piece = ring.claim(2).unwrap().cut_back(5).unwrap();
        piece.bytes_mut().copy_from_slice(b"hallo");
        let mut seen = [0; 5];
        File::from(ring.fd().try_clone_to_owned().unwrap()).read_exact_at(&mut seen, 3 * 8192 - 5).unwrap();
        assert_eq!(&seen, b"hallo");
    }

    #[test]
    fn memory_is_got_as_it_is_used() {
        let geometry = Geometry { slots: 4, slot_bytes: 16 << 20, capacity: 4 };
        let ring = Ring::new(geometry).unwrap();
        let taken = || {
            use std::os::unix::fs::MetadataExt;
            File::from(ring.fd().try_clone_to_owned().unwrap()).metadata().unwrap().blocks() * 512
        };
        assert_eq!((ring.bytes_got(), taken()), (0, 0), "a ring that is not used takes no memory");
        ring.get(2, 100, 10).unwrap();
        assert_eq!((ring.bytes_got(), taken()), (STEP + STEP_BACK, STEP + STEP_BACK));
        ring.get(2, STEP, STEP_BACK).unwrap();
        assert_eq!(taken(), STEP + STEP_BACK, "what is there is not got again");
        ring.get(2, 16 << 20, 16 << 20).unwrap();
        assert_eq!((ring.bytes_got(), taken()), (16 << 20, 16 << 20));
        assert!(ring.get(4, 1, 1).is_err(), "there is no such slot");
    }

    #[test]
    fn nobody_can_take_the_memory_away() {
        let ring = Ring::new(SMALL).unwrap();
        assert!(rustix::fs::ftruncate(ring.fd(), 0).is_err());
        assert!(rustix::fs::ftruncate(ring.fd(), 1 << 20).is_err());
    }

    #[test]
    fn too_much_memory_is_an_error_with_a_way_out() {
        let geometry = Geometry { slots: u32::MAX, slot_bytes: (1 << 32) - 4096, capacity: 4 };
        let error = Ring::new(geometry).expect_err("nobody has that much").to_string();
        assert!(error.contains("use a smaller --ring"), "{error}");
    }

    #[test]
    fn a_geometry_that_cannot_be_is_refused() {
        for geometry in [
            Geometry { slots: 0, ..SMALL },
            Geometry { slot_bytes: 4096, ..SMALL },
            Geometry { slot_bytes: 8193, ..SMALL },
            Geometry { slot_bytes: 1 << 32, ..SMALL },
        ] {
            assert_eq!(
                Ring::new(geometry).map(|_| ()).map_err(|error| error.kind()),
                Err(io::ErrorKind::InvalidInput)
            );
        }
    }
}
