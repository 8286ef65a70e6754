//! Room on the disk of the run: looked at when a job has failed, and while starts are held for want of it. Says whether there is
//! any, and when one job may try whether there is.

use std::os::fd::BorrowedFd;

use gpulane_model::{JobId, Millis};
use rustix::fs::fstatvfs;

/// Less than this is nothing, or a sixteenth of a small disk: ext4 says that it is full before all is used.
const NOTHING: u64 = 1 << 20;
/// What ext4 keeps for itself, or a fiftieth.
const OWN: u64 = 16 << 20;
/// What a disk of any size may have left and still be the one that a job found full.
const LITTLE: (u64, u64) = (16 << 20, 10 << 30);
/// By how much the free space of a disk of any size must grow.
const GROWTH: (u64, u64) = (64 << 10, 1 << 30);
/// The same for inodes.
const MORE_FILES: u64 = 16;

/// Until the first job tries, where the disk is full, and where a job says so of one that has a little left; doubled each time.
const FIRST_TRY: Millis = Millis::seconds(60);
const FIRST_TRY_IN_DOUBT: Millis = Millis::seconds(15);
const LONGEST: Millis = Millis::seconds(15 * 60);

/// What a file system has left for this user. Quotas do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    bytes: u64,
    total: u64,
    files: u64,
}

impl Space {
    /// `None`: it does not tell.
    pub(super) fn of(directory: BorrowedFd<'_>) -> Option<Self> {
        let found = fstatvfs(directory).ok().filter(|found| found.f_blocks > 0)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        let total = bytes(found.f_blocks);
        // What is reserved for root, root can use, but for what a file system keeps for itself.
        let is_root = rustix::process::geteuid().is_root();
        let own = if found.f_bfree > found.f_bavail { OWN.min(total / 50) } else { 0 };
        let for_root = bytes(found.f_bfree).saturating_sub(own);
        Some(Self {
            bytes: if is_root { for_root } else { bytes(found.f_bavail) },
            total,
            // Some file systems have no fixed number of them.
            files: if found.f_files == 0 { u64::MAX } else { found.f_favail },
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes < NOTHING.min(self.total / 16) || self.files == 0
    }

    /// So little that a job which says that its disk is full may mean this one.
    pub(super) fn is_little(&self) -> bool {
        let (least, most) = LITTLE;
        self.bytes < (self.total / 20).clamp(least.min(self.total / 4), most) || self.files < MORE_FILES
    }

    fn has_grown_since(&self, before: &Self) -> bool {
        let (least, most) = GROWTH;
        let bytes = before.bytes.saturating_add((self.total / 100).clamp(least, most));
        let files = before.files.saturating_add(MORE_FILES);
        !self.is_full() && (self.bytes >= bytes || self.files >= files && before.files < MORE_FILES)
    }
}

/// Whether jobs find room, as far as is known.
#[derive(Default)]
pub(super) struct Room(Option<Full>);

/// A job failed on a full disk, and none has succeeded since.
struct Full {
    /// The least that was seen left.
    least: Space,
    /// When one job may try.
    next: Millis,
    /// How long the one after that waits.
    pause: Millis,
    /// Those that try.
    trying: Vec<JobId>,
}

/// Whether a job may be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Yes,
    /// There is space again.
    Again,
    /// One may, to see whether it can write.
    Try,
    No,
}

impl Room {
    /// A job failed for want of room, where this is left.
    pub(super) fn on_full(&mut self, job: JobId, found: Space, now: Millis) {
        let pause = if found.is_full() { FIRST_TRY } else { FIRST_TRY_IN_DOUBT };
        let full = self.0.get_or_insert(Full {
            least: found,
            next: now.after(pause),
            pause: Millis(pause.0 * 2),
            trying: vec![],
        });
        full.note(found);
        full.trying.retain(|other| *other != job);
    }

    /// A job could do its work, or failed for another reason. Only what was started since says that there is room.
    pub(super) fn on_other_end(&mut self, job: JobId) {
        if self.0.as_ref().is_some_and(|full| full.trying.contains(&job)) {
            self.0 = None;
        }
    }

    /// Whether this job may be started. `look` is taken only while there is no room.
    pub(super) fn leave(&mut self, job: JobId, now: Millis, look: impl FnOnce() -> Option<Space>) -> Leave {
        let Some(full) = &mut self.0 else { return Leave::Yes };
        if let Some(found) = look() {
            if found.has_grown_since(&full.least) {
                self.0 = None;
                return Leave::Again;
            }
            full.note(found);
        }
        if now < full.next {
            return Leave::No;
        }
        full.next = now.after(full.pause);
        full.pause = Millis(full.pause.0 * 2).min(LONGEST);
        full.trying.push(job);
        Leave::Try
    }
}

impl Full {
    fn note(&mut self, found: Space) {
        self.least.bytes = self.least.bytes.min(found.bytes);
        self.least.files = self.least.files.min(found.files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn space(bytes: u64, total: u64) -> Space {
        Space { bytes, total, files: u64::MAX }
    }

    #[test]
    fn full_and_little_go_by_the_size_of_the_disk() {
        let small = 12 << 20;
        assert!(space(0, small).is_full() && space(100 << 10, small).is_full());
        assert!(!space(900 << 10, small).is_full() && space(900 << 10, small).is_little());
        assert!(!space(6 << 20, small).is_little());
        assert!(space(900 << 10, 1000 * GIB).is_full() && !space(2 << 20, 1000 * GIB).is_full());
        assert!(space(9 * GIB, 1000 * GIB).is_little() && !space(11 * GIB, 1000 * GIB).is_little());
        assert!(Space { files: 0, ..space(5 * GIB, 10 * GIB) }.is_full());
    }

    #[test]
    fn starts_wait_for_space_and_one_tries_after_ever_longer_pauses() {
        let (job, other, nothing) = (JobId(1), JobId(2), space(0, 12 << 20));
        let mut room = Room::default();
        assert_eq!(room.leave(job, Millis(0), || panic!("no look while there is room")), Leave::Yes);
        room.on_full(job, nothing, Millis(0));
        let mut tries = Vec::new();
        for second in 0..3600 {
            let now = Millis::seconds(second);
            match room.leave(job, now, || Some(nothing)) {
                Leave::No => {}
                Leave::Try => {
                    tries.push(second);
                    room.on_full(job, nothing, now);
                }
                leave => panic!("{leave:?}"),
            }
        }
        assert_eq!(tries, [60, 180, 420, 900, 1800, 2700]);
        // It grows by more than a hundredth, from the least that was seen.
        let now = Millis::seconds(3600);
        assert_eq!(room.leave(other, now, || Some(space(50 << 10, 12 << 20))), Leave::Try);
        assert_eq!(
            room.leave(other, now, || Some(space(100 << 10, 12 << 20))),
            Leave::No,
            "still next to nothing"
        );
        assert_eq!(room.leave(other, now, || Some(space(900 << 10, 12 << 20))), Leave::Again);
        assert_eq!(room.leave(other, now, || None), Leave::Yes);
    }

    #[test]
    fn only_what_was_started_since_says_that_there_is_room() {
        let (job, other, nothing) = (JobId(1), JobId(2), space(0, 12 << 20));
        let mut room = Room::default();
        room.on_full(job, nothing, Millis(0));
        room.on_other_end(other);
        assert_eq!(room.leave(job, Millis(1), || None), Leave::No);
        assert_eq!(room.leave(job, FIRST_TRY, || None), Leave::Try);
        assert_eq!(room.leave(other, FIRST_TRY, || None), Leave::No, "one at a time");
        room.on_other_end(job);
        assert_eq!(room.leave(other, FIRST_TRY, || None), Leave::Yes);
    }
}
