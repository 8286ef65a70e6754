//! Space on the disk of the run: whether it is full, seen by trying to take some, and for how long starts wait for it. No job is
//! started to find out.

use std::os::fd::{BorrowedFd, OwnedFd};

use gpulane_model::{Bytes, JobId, Millis};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, fallocate, fdatasync, fstatvfs, openat, unlinkat};
use rustix::io::{Errno, pwrite};

/// A disk with less is full, or with less than a sixteenth if it is small. So much is taken to see whether it can be, and given back at
/// once: enough for whatever a job writes first, and little enough to be missed by nobody.
const LEAST: u64 = 16 << 20;
/// What is written instead where space cannot be taken without: the loop waits for it.
const WRITTEN: u64 = 1 << 20;
/// What ext4 keeps for itself, or a fiftieth.
const OWN: u64 = 16 << 20;
/// A name for file systems that have no files without one.
const NAME: &str = ".space";

/// Between two looks at a disk that is full: at first, and at most. Longer each time that the same job finds it full again.
const FIRST_PAUSE: Millis = Millis::seconds(2);
const LONGEST_PAUSE: Millis = Millis::seconds(30);
/// At most where how much is missing cannot be seen: a quota.
const LONGEST_BLIND: Millis = Millis::seconds(15 * 60);
/// How long starts wait for as much space as a job had used up before, where there is some: the disk may never have so much, and other jobs
/// may need less.
const LONGEST_SHORTAGE: Millis = Millis::seconds(15 * 60);

/// What a file system has left for this user. Quotas do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    bytes: u64,
    total: u64,
    files: u64,
}

impl Space {
    /// `None`: it does not tell.
    fn of(directory: BorrowedFd<'_>) -> Option<Self> {
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

    fn least(&self) -> u64 {
        LEAST.min(self.total / 16)
    }

    fn judge(&self, wanted: u64) -> Found {
        let least = self.least();
        let need = wanted.saturating_add(least);
        match self.files {
            0 => Found::NoInode,
            _ if self.bytes < least / 16 => Found::Full,
            _ if self.bytes < least => Found::Scarce { least },
            _ if self.bytes < need => Found::Short { need },
            _ => Found::Space(Some(self.bytes)),
        }
    }
}

/// What a look at the disk has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is space; how much, where that is told.
    Space(Option<u64>),
    /// There is nothing worth speaking of.
    Full,
    /// There is less than every disk must have left.
    Scarce {
        least: u64,
    },
    /// There is some, but less than a job has used up before.
    Short {
        need: u64,
    },
    NoInode,
    /// There seems to be space, but nothing more is taken: a quota.
    Refused(Errno),
}

impl Found {
    pub(super) fn is_full(&self) -> bool {
        !matches!(self, Self::Space(_))
    }

    /// What was seen, in words that stay the same while nothing of importance changes: they are told once.
    pub(super) fn words(&self, root: &str) -> String {
        match self {
            Self::Space(Some(left)) => format!("{} left on the disk of {root}", Bytes(*left)),
            Self::Space(None) => format!("the disk of {root} takes more"),
            Self::Short { need } => {
                format!(
                    "less than {} left on the disk of {root}, which a job has used up before",
                    Bytes(*need)
                )
            }
            Self::Scarce { least } => format!("less than {} left on the disk of {root}", Bytes(*least)),
            Self::Full => format!("no space left on the disk of {root}"),
            Self::NoInode => format!("no inode left on the disk of {root}"),
            Self::Refused(error) => format!("no space left on the disk of {root}: {error}"),
        }
    }

    /// For how long at most it is waited, in words.
    pub(super) fn limit(&self) -> &'static str {
        match self {
            Self::Short { .. } => ", or after 15 minutes as it is",
            _ => "",
        }
    }
}

/// Looks whether the disk of this directory has space. Only where it says that it has, some is taken: what is left is not taken from
/// jobs that run. `wanted`: how much, beside what every disk must have left.
pub(super) fn look(directory: BorrowedFd<'_>, wanted: u64) -> Found {
    let space = Space::of(directory);
    let found = space.map_or(Found::Space(None), |space| space.judge(wanted));
    if found.is_full() {
        return found;
    }
    match take(directory, space.map_or(WRITTEN, |space| space.least())) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT)) => Found::Refused(error),
        // Whatever else is wrong with the disk is seen by whoever writes to it.
        _ => found,
    }
}

/// What the file system says of itself: one system call.
pub(super) fn glance(directory: BorrowedFd<'_>) -> Found {
    Space::of(directory).map_or(Found::Space(None), |space| space.judge(0))
}

/// Takes so many bytes of the disk and gives them back.
fn take(directory: BorrowedFd<'_>, bytes: u64) -> Result<(), Errno> {
    let file = scratch(directory)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => {
            let block = [1; 4 << 10];
            for at in (0..bytes.min(WRITTEN)).step_by(block.len()) {
                pwrite(&file, &block, at)?;
            }
            // NFS says only now that there is no space.
            fdatasync(&file)
        }
        other => other,
    }
}

/// A file that is gone when it is closed.
fn scratch(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let (flags, mode) = (OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match openat(directory, c".", flags | OFlags::TMPFILE, mode) {
        Err(Errno::NOTSUP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let _ = unlinkat(directory, NAME, AtFlags::empty());
            let new = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = openat(directory, NAME, flags | new, mode)?;
            unlinkat(directory, NAME, AtFlags::empty())?;
            Ok(file)
        }
        other => other,
    }
}

/// Whether starts wait for space, and for how much.
#[derive(Default)]
pub(super) struct DiskSpace {
    hold: Option<Hold>,
    /// What jobs that found the disk full need, as far as is known, and how often each found it so. Until they end.
    jobs: Vec<Needy>,
}

struct Needy {
    job: JobId,
    need: u64,
    times: u32,
}

/// Starts wait.
struct Hold {
    /// When to look again.
    next: Millis,
    pause: Millis,
    longest: Millis,
    /// What was seen last.
    found: Option<Found>,
    /// Jobs whose outputs are being measured: each needs as much again.
    measuring: Vec<JobId>,
    /// Since when there is space, but less than a job has used up before.
    short_since: Option<Millis>,
}

impl Hold {
    fn new(next: Millis, pause: Millis, longest: Millis) -> Self {
        Self { next, pause, longest, found: None, measuring: Vec::new(), short_since: None }
    }
}

/// Whether a job may be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartPermit {
    Granted,
    /// There is space again, for the first time since starts were held.
    GrantedAgain,
    /// There is not, but it was waited for long enough.
    GrantedAsItIs(Found),
    /// Not yet; what was seen.
    Refused(Option<Found>),
}

impl DiskSpace {
    /// Of a run that is taken up again; `full`: it ended with a full disk, so the first start waits for a look.
    pub(super) fn of_run(full: bool) -> Self {
        let hold = full.then(|| Hold::new(Millis(0), FIRST_PAUSE, LONGEST_PAUSE));
        Self { hold, ..Self::default() }
    }

    /// The output of a job that has failed because the disk is full is being measured.
    pub(super) fn on_measuring(&mut self, job: JobId) {
        if let Some(hold) = &mut self.hold {
            hold.measuring.push(job);
        }
    }

    /// A job failed, and this was seen of the disk.
    pub(super) fn on_full(&mut self, job: JobId, found: Found, now: Millis) {
        let at = self.jobs.iter().position(|needy| needy.job == job).unwrap_or(self.jobs.len());
        if at == self.jobs.len() {
            self.jobs.push(Needy { job, need: 0, times: 0 });
        }
        let times = self.jobs[at].times.saturating_add(1);
        self.jobs[at].times = times;
        let longest = if matches!(found, Found::Refused(_)) { LONGEST_BLIND } else { LONGEST_PAUSE };
        let pause = Millis(FIRST_PAUSE.0 << (times - 1).min(16)).min(longest);
        let hold = self.hold.get_or_insert_with(|| Hold::new(now.after(pause), pause, longest));
        hold.found = Some(found);
        hold.short_since = None;
    }

    /// A job that found the disk full had written so much: it needs more than that.
    pub(super) fn on_measured(&mut self, job: JobId, bytes: u64) {
        if let Some(hold) = &mut self.hold {
            hold.measuring.retain(|measured| *measured != job);
        }
        if let Some(needy) = self.jobs.iter_mut().find(|needy| needy.job == job) {
            needy.need = needy.need.max(bytes);
        }
    }

    /// The job needs no more space.
    pub(super) fn on_ended(&mut self, job: JobId) {
        self.jobs.retain(|needy| needy.job != job);
    }

    /// Whether a job may be started. `look` is asked only while starts are held, with how much is wanted.
    pub(super) fn permit(&mut self, now: Millis, look: impl FnOnce(u64) -> Found) -> StartPermit {
        let Some(hold) = &mut self.hold else { return StartPermit::Granted };
        if now < hold.next || !hold.measuring.is_empty() {
            return StartPermit::Refused(hold.found);
        }
        let found = look(self.jobs.iter().map(|needy| needy.need).max().unwrap_or(0));
        let is_short = matches!(found, Found::Short { .. });
        hold.short_since = hold.short_since.or(Some(now)).filter(|_| is_short);
        let waited = hold.short_since.is_some_and(|since| now.since(since) >= LONGEST_SHORTAGE);
        if found.is_full() && !waited {
            hold.next = now.after(hold.pause);
            hold.pause = Millis(hold.pause.0 * 2).min(hold.longest);
            hold.found = Some(found);
            return StartPermit::Refused(hold.found);
        }
        let known = hold.found.is_some();
        self.hold = None;
        if found.is_full() {
            return StartPermit::GrantedAsItIs(found);
        }
        if known { StartPermit::GrantedAgain } else { StartPermit::Granted }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const GIB: u64 = 1 << 30;
    const FULL: Found = Found::Full;
    const SPACE: Found = Found::Space(Some(GIB));

    fn space(bytes: u64, total: u64) -> Space {
        Space { bytes, total, files: u64::MAX }
    }

    /// The seconds at which the disk is looked at, for so long.
    fn looks(space: &mut DiskSpace, seconds: std::ops::Range<u64>, found: Found) -> Vec<u64> {
        let mut looks = Vec::new();
        for second in seconds {
            let permit = space.permit(Millis::seconds(second), |_| {
                looks.push(second);
                found
            });
            assert_eq!(permit, StartPermit::Refused(Some(found)));
        }
        looks
    }

    #[test]
    fn a_disk_is_full_by_its_size_and_by_what_is_wanted() {
        let small = 8 << 20;
        assert!(space(511 << 10, small).judge(0).is_full() && !space(512 << 10, small).judge(0).is_full());
        assert!(
            space(15 << 20, 1000 * GIB).judge(0).is_full() && !space(17 << 20, 1000 * GIB).judge(0).is_full()
        );
        assert!(
            space(9 * GIB, 1000 * GIB).judge(9 * GIB).is_full()
                && !space(10 * GIB, 1000 * GIB).judge(9 * GIB).is_full()
        );
        assert_eq!(Space { files: 0, ..space(GIB, 2 * GIB) }.judge(0), Found::NoInode);
    }

    #[test]
    fn space_is_taken_and_given_back_without_a_trace() {
        let directory = std::env::temp_dir().join(format!("gpulane-disk-space-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let opened = gpulane_files::open_directory(&directory).unwrap();
        take(opened.as_fd(), 64 << 10).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn a_full_disk_is_looked_at_ever_less_often_and_its_space_lets_all_go_on() {
        let mut space = DiskSpace::default();
        assert_eq!(
            space.permit(Millis(0), |_| panic!("no look while nothing is held")),
            StartPermit::Granted
        );
        space.on_full(JobId(1), FULL, Millis(0));
        assert_eq!(looks(&mut space, 0..120, FULL), [2, 4, 8, 16, 32, 62, 92]);
        assert_eq!(space.permit(Millis::seconds(122), |_| SPACE), StartPermit::GrantedAgain);
        assert_eq!(space.permit(Millis::seconds(122), |_| panic!()), StartPermit::Granted);
        // A job that finds it full time and again is waited with for longer.
        space.on_full(JobId(1), FULL, Millis(0));
        space.on_full(JobId(2), FULL, Millis(0));
        assert_eq!(looks(&mut space, 0..30, FULL), [4, 8, 16]);
    }

    #[test]
    fn what_cannot_be_seen_is_tried_at_most_every_quarter_of_an_hour() {
        let (mut space, quota) = (DiskSpace::default(), Found::Refused(Errno::DQUOT));
        for (times, pause) in [(1, 2), (2, 4), (3, 8), (9, 512), (10, 900), (40, 900)] {
            while space.jobs.first().map_or(0, |needy| needy.times) < times {
                space.hold = None;
                space.on_full(JobId(1), quota, Millis(0));
            }
            // How much is missing cannot be seen.
            assert_eq!(
                space.permit(Millis::seconds(pause - 1), |_| SPACE),
                StartPermit::Refused(Some(quota))
            );
            assert_eq!(space.permit(Millis::seconds(pause), |_| SPACE), StartPermit::GrantedAgain);
        }
    }

    #[test]
    fn a_job_waits_for_more_than_it_had_written_unless_it_ends() {
        let mut space = DiskSpace::default();
        let later = Millis::seconds(60);
        space.on_full(JobId(1), FULL, Millis(0));
        space.on_measuring(JobId(1));
        // The output of another, which holds nobody.
        space.on_measured(JobId(2), 0);
        assert_eq!(
            space.permit(later, |_| panic!("its output is still measured")),
            StartPermit::Refused(Some(FULL))
        );
        space.on_measured(JobId(1), 9 * GIB);
        let look = |wanted| if wanted == 9 * GIB { FULL } else { SPACE };
        assert_eq!(space.permit(later, look), StartPermit::Refused(Some(FULL)));
        space.on_ended(JobId(1));
        assert_eq!(space.permit(Millis::seconds(90), look), StartPermit::GrantedAgain);
    }

    #[test]
    fn space_that_the_disk_may_never_have_is_waited_for_a_quarter_of_an_hour() {
        let (mut space, short) = (DiskSpace::default(), Found::Short { need: 9 * GIB });
        space.on_full(JobId(1), FULL, Millis(0));
        assert_eq!(space.permit(Millis::seconds(100), |_| FULL), StartPermit::Refused(Some(FULL)));
        looks(&mut space, 200..1100, short);
        assert_eq!(space.permit(Millis::seconds(1130), |_| short), StartPermit::GrantedAsItIs(short));
    }

    #[test]
    fn words_say_how_much_is_missing() {
        let seen = |bytes, wanted| space(bytes, 1000 * GIB).judge(wanted).words("r");
        assert_eq!(seen(0, GIB), "no space left on the disk of r");
        assert_eq!(seen(8 << 20, GIB), "less than 16 MiB left on the disk of r");
        assert_eq!(seen(GIB, GIB), "less than 1.0 GiB left on the disk of r, which a job has used up before");
    }

    #[test]
    fn a_run_that_ended_with_a_full_disk_begins_with_a_look() {
        let mut space = DiskSpace::of_run(true);
        assert_eq!(space.permit(Millis(0), |_| FULL), StartPermit::Refused(Some(FULL)));
        assert_eq!(space.permit(Millis::seconds(2), |_| SPACE), StartPermit::GrantedAgain);
        assert_eq!(DiskSpace::of_run(true).permit(Millis(0), |_| SPACE), StartPermit::Granted);
        assert_eq!(DiskSpace::of_run(false).permit(Millis(0), |_| panic!()), StartPermit::Granted);
    }
}
