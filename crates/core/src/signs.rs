//! Signs of life of a job's process tree, and which change of them is life. What is below the limits here is what a process
//! does that only waits: a poller wakes, looks and sleeps again.

use gpulane_model::Millis;

/// What a look at a job's tree saw. Counters only grow while a process lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Bytes of its logs, metrics and result files.
    pub output: u64,
    /// Another number whenever its GPUs did something for it.
    pub gpu: u64,
    /// Stopped by a signal or a debugger.
    pub stopped: bool,
    /// Its processes.
    pub processes: Vec<ProcessSigns>,
    /// Threads that may be only looking at it, of which nothing is counted above.
    pub doubt: Doubt,
}

/// Whether there are threads that may be at work, or may be monitors: see [`crate::Rhythm`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doubt {
    /// There are none.
    #[default]
    None,
    /// There are, and none of them has run since the look before.
    Still,
    /// One of them has run since.
    Stirs,
}

/// One process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessSigns {
    /// Its id.
    pub pid: u32,
    /// When it began, in any unit: with the id, tells it from all others.
    pub start: u64,
    /// CPU time used so far.
    pub cpu: Millis,
    /// Bytes read and written so far.
    pub io: u64,
    /// Page faults so far.
    pub faults: u64,
    /// How often a thread of it computed for longer than one that only looks whether something has come.
    pub computed: u64,
}

/// CPU time below this is a poller's. The kernel counts in ticks of 10 ms, so less than two of them may be none at all.
const LEAST_CPU: Millis = Millis(20);
/// CPU time below this part of the time is a poller's, too: of all processes together, since the silence began.
const LEAST_CPU_PART: u64 = 200;
/// As many page faults are nobody's work.
pub(crate) const FEW_FAULTS: u64 = 16;

impl Signs {
    /// A copy with the processes in order, so that two looks can be compared side by side.
    pub(crate) fn in_order(&self) -> Self {
        let mut signs = self.clone();
        signs.processes.sort_unstable();
        signs
    }

    /// Whether what a look saw after `before` is life by more than CPU time. Both are in order.
    pub(crate) fn show_life_since(&self, before: &Self) -> bool {
        let key = |process: &ProcessSigns| (process.pid, process.start);
        let (now, then) = (&self.processes, &before.processes);
        (self.output, self.gpu) != (before.output, before.gpu)
            || !now.iter().map(key).eq(then.iter().map(key))
            || now.iter().zip(then).any(|(now, then)| now.moves_since(then))
    }

    /// CPU time of all processes so far.
    pub(crate) fn cpu(&self) -> Millis {
        self.processes.iter().fold(Millis(0), |sum, process| sum.after(process.cpu))
    }
}

/// Whether so much CPU time in a silence of that length is work.
pub(crate) fn is_work(cpu: Millis, silence: Millis) -> bool {
    cpu >= LEAST_CPU.max(Millis(silence.0 / LEAST_CPU_PART))
}

impl ProcessSigns {
    fn moves_since(&self, before: &Self) -> bool {
        self.io != before.io
            || self.computed != before.computed
            || self.faults.saturating_sub(before.faults) > FEW_FAULTS
    }
}
