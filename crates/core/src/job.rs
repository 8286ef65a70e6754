//! Where one job stands. Small, because there may be a hundred thousand.

use gpulane_model::{Attempt, LaneId, Millis};

/// The scheduling state of one job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JobSlot {
    pub(crate) phase: Phase,
    /// The highest attempt number used; also tells late inputs from current ones.
    pub(crate) attempts: u32,
    /// Failed tries that count against the stage's `retries`.
    pub(crate) failures: u32,
    /// It came to grief beside others: its next tries have their GPUs to themselves.
    pub(crate) alone: bool,
    /// How often it said that a disk is full while that of the run was not, which did not count.
    pub(crate) disk_full: u8,
    /// A worker of a map: its last try had its model loaded.
    pub(crate) fruitful: bool,
    /// It was moved to another GPU once because a process of it could not be ended. The next time counts.
    pub(crate) moved: bool,
}

const _: () = assert!(size_of::<JobSlot>() <= 32, "a hundred thousand jobs must stay small");

impl JobSlot {
    /// Whether this is the try under way (or the last one).
    pub(crate) fn is_at(&self, attempt: Attempt) -> bool {
        self.attempts == attempt.0
    }
}

/// A job's way from first to last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// For other jobs to end.
    Waiting,
    /// In its stage's queue.
    Ready,
    /// Between two tries.
    Delayed {
        until: Millis,
    },
    /// Asked to start, no answer yet. Holds its lanes.
    Starting {
        lane: LaneId,
        ending: Ending,
    },
    /// A process runs. Holds its lanes.
    Running {
        lane: LaneId,
        ending: Ending,
        since: Millis,
    },
    /// The process is gone, its output is being put in place. Holds nothing.
    Publishing {
        took: Millis,
        cancelled: bool,
    },
    Succeeded,
    Failed,
    Skipped,
}

/// Whether a process is being ended by us, and why: that decides what its exit means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Timeout,
    /// It was found frozen.
    Hang,
    /// Its work is done, but it does not exit: however it ends, it has succeeded.
    Lingering,
    Cancelled,
    Interrupted,
    /// The map it works for does not go on.
    Stopped,
    /// It was started on a guess, and there is no room for it.
    MadeRoom,
    /// Its GPU was lost, or a fault of another took it down: it is done again.
    Lost,
    /// A worker of a map that is broken, or does not come back from an item: a fresh one takes its place.
    Replaced,
}

impl Phase {
    /// Nothing more will happen to it.
    pub(crate) fn is_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped)
    }

    /// Not asked to start, and not ended.
    pub(crate) fn is_pending(self) -> bool {
        matches!(self, Self::Waiting | Self::Ready | Self::Delayed { .. })
    }

    /// The first of its lanes, while it holds any.
    pub(crate) fn lane(self) -> Option<LaneId> {
        match self {
            Self::Starting { lane, .. } | Self::Running { lane, .. } => Some(lane),
            _ => None,
        }
    }
}
