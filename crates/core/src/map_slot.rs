//! A map while it runs: whether its feeder lives, and how it ended. Its stage is over when the map is, not when its workers are:
//! the last of them may have gone before the feeder says that all is well.

use gpulane_model::MapState;

/// The scheduling state of one map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapSlot {
    pub(crate) feeder: Feeder,
    /// `None`: it goes on.
    pub(crate) end: Option<MapEnd>,
    /// A worker has failed in its name, so that people see why it stopped.
    pub(crate) told: bool,
    /// That its stage has ended was passed on to others.
    pub(crate) closed: bool,
}

/// The process that feeds the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Feeder {
    /// There is none.
    #[default]
    Absent,
    /// It was asked for and is not gone.
    Lives {
        /// It was asked to end.
        ending: bool,
    },
}

/// How a map ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapEnd {
    /// Every item is settled.
    Complete,
    /// It does not go on; why, for a person.
    Stopped(String),
}

impl MapSlot {
    /// As an earlier engine left it. One that stopped is tried again.
    pub(crate) fn restore(&mut self, past: &MapState) {
        self.end = past.finished.as_ref().map(|_| MapEnd::Complete);
    }

    pub(crate) fn lives(&self) -> bool {
        self.feeder != Feeder::Absent
    }

    /// Why it is not what those after it need.
    pub(crate) fn lack(&self, stage: &str) -> Option<String> {
        match &self.end {
            Some(MapEnd::Complete) => None,
            Some(MapEnd::Stopped(because)) => Some(format!("the map of stage `{stage}` stopped: {because}")),
            None => Some(format!("the map of stage `{stage}` is not complete and has no worker left")),
        }
    }
}
