//! The line: queues that have a job to start and may start one. Within a queue its own order decides; between queues their
//! rank, then the plan's order, except that one which has begun to keep what is free stays first until it has had it: were it
//! passed again by one that is back from its limit, what it keeps would lie idle for nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gpulane_model::{Plan, StageId, StartGate};

use crate::demand::{Demand, Need};

/// One of a stage's two queues. The jobs that must be alone come first: they had their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId {
    pub(crate) stage: StageId,
    pub(crate) kind: Kind,
}

/// Whom a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Jobs that came to grief beside others.
    Alone,
    /// All others.
    Plain,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Alone, Self::Plain];

    pub(crate) fn of(alone: bool) -> Self {
        if alone { Self::Alone } else { Self::Plain }
    }
}

/// A queue in the line: the highest rank first, then the plan's order.
type Turn = (Reverse<u64>, QueueId);

/// What a job takes of how many devices, and whether its start waits while the CPUs are saturated.
type Class = (u32, Need, bool);

/// Queues with something to start, by what their jobs take.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// There are few such classes, whatever the number of stages.
    devices: BTreeMap<Class, BTreeSet<Turn>>,
    /// By stage: its starts wait while the CPUs are saturated. Not said of a stage: they do not.
    pressed: Vec<bool>,
    /// They are: such stages may not start anything.
    pressure: bool,
    /// Stages that may not start anything for a reason of their own; each of them has running jobs, so there are few.
    shut: BTreeSet<StageId>,
    /// Queues for CPU lanes, beside GPUs.
    cores: BTreeSet<Turn>,
    /// Keeps free devices, and so goes before all others that take devices; with what it takes.
    keeps_devices: Option<(QueueId, (u32, Need))>,
    /// Keeps free cores, and so goes before all others that take cores.
    keeps_cores: Option<QueueId>,
}

impl Line {
    /// An empty one.
    pub(crate) fn new(plan: &Plan) -> Self {
        let pressed = plan.stages.iter().map(|stage| stage.start_gate == StartGate::Auto).collect();
        Self { pressed, ..Self::default() }
    }

    /// Puts the queue into the line, or takes it out.
    pub(crate) fn set(&mut self, queue: QueueId, rank: u64, demand: Demand, stands: bool) {
        let turn = (Reverse(rank), queue);
        let pressed = self.is_pressed(queue);
        match (demand, stands) {
            (Demand::Devices { count, need }, true) => {
                self.devices.entry((count, need, pressed)).or_default().insert(turn);
            }
            (Demand::Devices { count, need }, false) => {
                let class = (count, need, pressed);
                if let Some(turns) = self.devices.get_mut(&class) {
                    turns.remove(&turn);
                    if turns.is_empty() {
                        self.devices.remove(&class);
                    }
                }
            }
            (Demand::Cores(_), true) => {
                self.cores.insert(turn);
            }
            (Demand::Cores(_), false) => {
                self.cores.remove(&turn);
            }
        }
        if !stands {
            self.give_up_place(queue);
        }
    }

    /// The queue, which must be in the line, keeps what is free of what it takes: until it gives up its place or leaves the
    /// line, it is first.
    pub(crate) fn keep(&mut self, queue: QueueId, demand: Demand) {
        match demand {
            Demand::Devices { count, need } => self.keeps_devices = Some((queue, (count, need))),
            Demand::Cores(_) => self.keeps_cores = Some(queue),
        }
    }

    /// The queue goes back to its place in the order.
    pub(crate) fn give_up_place(&mut self, queue: QueueId) {
        self.keeps_devices.take_if(|(keeper, _)| *keeper == queue);
        self.keeps_cores.take_if(|keeper| *keeper == queue);
    }

    /// The queue that was let stay first for what jobs like this take, if one was.
    pub(crate) fn keeper(&self, demand: Demand) -> Option<QueueId> {
        match demand {
            Demand::Devices { .. } => self.keeps_devices.map(|(keeper, _)| keeper),
            Demand::Cores(_) => self.keeps_cores,
        }
    }

    /// Whether the queue is in the line.
    pub(crate) fn has(&self, queue: QueueId, rank: u64, demand: Demand) -> bool {
        let turn = (Reverse(rank), queue);
        match demand {
            Demand::Devices { count, need } => self
                .devices
                .get(&(count, need, self.is_pressed(queue)))
                .is_some_and(|turns| turns.contains(&turn)),
            Demand::Cores(_) => self.cores.contains(&turn),
        }
    }

    /// The first queue for devices among those whose jobs take what `may` allows.
    pub(crate) fn first_for_devices(&self, may: impl Fn(u32, Need) -> bool) -> Option<QueueId> {
        if let Some((keeper, (count, need))) = self.keeps_devices
            && may(count, need)
        {
            return Some(keeper);
        }
        let classes = self.devices.iter().filter(|((count, need, _), _)| may(*count, *need));
        classes.filter_map(|(_, turns)| turns.first()).min().map(|(_, queue)| *queue)
    }

    /// The same among those that may start now.
    pub(crate) fn first_open(&self, may: impl Fn(u32, Need) -> bool) -> Option<QueueId> {
        if let Some((keeper, (count, need))) = self.keeps_devices
            && may(count, need)
            && !self.is_shut(keeper)
        {
            return Some(keeper);
        }
        let classes = self.devices.iter();
        let classes =
            classes.filter(|((count, need, pressed), _)| !(*pressed && self.pressure) && may(*count, *need));
        let open = |(_, queue): &&Turn| !self.shut.contains(&queue.stage);
        classes.filter_map(|(_, turns)| turns.iter().find(open)).min().map(|(_, queue)| *queue)
    }

    /// Whether the queue's jobs may not start for now, though they stand in line.
    pub(crate) fn is_shut(&self, queue: QueueId) -> bool {
        (self.pressure && self.is_pressed(queue)) || self.shut.contains(&queue.stage)
    }

    /// Whether any queue is, or would be if it stood in line.
    pub(crate) fn is_any_shut(&self) -> bool {
        self.pressure || !self.shut.is_empty()
    }

    /// Whether a queue waits for the CPUs whose jobs take what `may` allows.
    pub(crate) fn holds_for_pressure(&self, may: impl Fn(u32, Need) -> bool) -> bool {
        self.pressure && self.devices.keys().any(|(count, need, pressed)| *pressed && may(*count, *need))
    }

    /// Stages that may start nothing for a reason of their own.
    pub(crate) fn shut_stages(&self) -> impl Iterator<Item = StageId> {
        self.shut.iter().copied()
    }

    /// Whether the CPUs are saturated.
    pub(crate) fn shut_for_pressure(&mut self, pressure: bool) {
        self.pressure = pressure;
    }

    /// Whether this stage may start nothing for now.
    pub(crate) fn shut_stage(&mut self, stage: StageId, shut: bool) {
        if shut {
            self.shut.insert(stage);
        } else {
            self.shut.remove(&stage);
        }
    }

    fn is_pressed(&self, queue: QueueId) -> bool {
        self.pressed.get(queue.stage.index()).copied().unwrap_or(false)
    }

    /// What jobs in line take of how many devices.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (u32, Need)> {
        self.devices.keys().map(|(count, need, _)| (*count, *need))
    }

    /// The first queue for cores.
    pub(crate) fn first_for_cores(&self) -> Option<QueueId> {
        self.keeps_cores.or_else(|| self.cores.first().map(|(_, queue)| *queue))
    }
}
