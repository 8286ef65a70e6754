//! Ids are newtypes, so that a lane is never taken for a GPU. All are dense indices: cheap to copy and to look up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! index_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into the vector it belongs to.
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of the element at `index`. A run never has four billion of anything.
            #[allow(clippy::cast_possible_truncation)]
            pub const fn at(index: usize) -> Self {
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index_id!(
    /// A job: its index in [`Plan::jobs`](crate::Plan::jobs).
    JobId
);
index_id!(
    /// A stage: its index in [`Plan::stages`](crate::Plan::stages).
    StageId
);
index_id!(
    /// A lane: a place where one job at a time runs. GPU lanes come first, then lanes for CPU-only jobs.
    LaneId
);
index_id!(
    /// A GPU: its index in [`Machine::gpus`](crate::Machine::gpus).
    GpuIndex
);

/// Which try at a job this is, from 1. Numbers are never reused within a run, also not across resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// No job is tried so often.
    const MOST: u32 = 1 << 30;

    /// Its number as a journal tells it, which anybody may have written: there is always one after it.
    pub(crate) fn told(self) -> u32 {
        self.0.min(Self::MOST)
    }

    /// The try after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
