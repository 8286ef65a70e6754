//! The start gate. Imports and compilers make the first seconds of a job the hardest on the CPUs: eight at once on a small
//! machine take longer than eight in a row. So as many start at once as there are cores, each further one when a core has nothing to
//! do, or as `start_gate` says. A job counts as starting up, young, for a while. What
//! nobody holds back may start meanwhile, and with nothing young the gate is open: it delays, it never keeps anything for good.

use std::collections::{BTreeMap, BTreeSet};

use gpulane_model::{Event, GpuKind, JobId, Machine, Millis, StageId, StartGate};

use crate::demand::Demand;
use crate::job::Phase;
use crate::line::{Kind, QueueId};
use crate::state::{Core, Hold};
use crate::{Effect, Timer, Waiting};

/// For how long a job counts as starting up.
pub const YOUTH: Millis = Millis::seconds(30);
/// A wait shorter than this is not worth a word.
const WORTH_SAYING: Millis = Millis::seconds(10);

/// Who is young, and what follows from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    /// Time does not pass as it does in a run: it stays open.
    off: bool,
    /// There are no GPUs, only lanes, and those are limited by the CPUs already.
    lanes_only: bool,
    /// Cores that had nothing to do when that was last said, less those that were given to a start since. `None`: nothing was
    /// said.
    idle: Option<u32>,
    /// Jobs on GPUs that are young, and since when.
    young: BTreeMap<JobId, Millis>,
    /// The same, the oldest first.
    by_age: BTreeSet<(Millis, JobId)>,
    /// By stage, where there are any: how many of them.
    of_stage: BTreeMap<StageId, u32>,
    /// When the timer that was set last is due, until it is.
    alarm: Option<Millis>,
    /// Since when a start that would have been possible is held because the CPUs are saturated.
    since: Option<Millis>,
    /// That was recorded, and still stands.
    said: bool,
}

impl Gate {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { lanes_only: machine.kind == GpuKind::None, ..Self::default() }
    }

    /// One that stays open.
    pub(crate) fn off() -> Self {
        Self { off: true, ..Self::default() }
    }

    /// Young jobs, of this stage or of all.
    pub(crate) fn young(&self, stage: Option<StageId>) -> u32 {
        match stage {
            Some(stage) => self.of_stage.get(&stage).copied().unwrap_or(0),
            None => u32::try_from(self.young.len()).unwrap_or(u32::MAX),
        }
    }

    /// Something else holds starts from now on, and is recorded in place of this.
    pub(crate) fn supersede(&mut self) {
        (self.since, self.said) = (None, false);
    }
}

impl Core {
    /// A core whose gate stays open: for trials in virtual time, where nothing is saturated.
    pub(crate) fn without_gate(mut self) -> Self {
        self.gate = Gate::off();
        self
    }

    pub(crate) fn on_pressure(&mut self, idle: u32) {
        self.gate.idle = Some(idle);
        self.set_gate(None);
    }

    /// The timer is for what every step does: to see who has grown up.
    pub(crate) fn on_gate_due(&mut self) {
        self.gate.alarm.take_if(|due| *due <= self.now);
    }

    /// A job on GPUs was asked to start.
    pub(crate) fn enter_youth(&mut self, job: JobId) {
        let stage = self.stage_of(job);
        if self.gate.young(None) >= self.machine.cores
            && let Some(idle) = &mut self.gate.idle
        {
            *idle = idle.saturating_sub(1);
        }
        self.gate.young.insert(job, self.now);
        self.gate.by_age.insert((self.now, job));
        *self.gate.of_stage.entry(stage).or_default() += 1;
        self.set_gate(Some(stage));
    }

    /// For an observer: who is young is told by when they started. How the CPUs do is not told, but where a job could start and
    /// as many start up as there are cores, a core is what it waits for.
    pub(crate) fn recall_youth(&mut self) {
        let young =
            self.lanes.bookings().filter_map(|(job, booking)| match (booking.demand, self.phase(job)) {
                (Demand::Devices { .. }, Phase::Running { since, .. }) if since.after(YOUTH) > self.now => {
                    Some((job, since))
                }
                _ => None,
            });
        let (young, now): (Vec<(JobId, Millis)>, _) = (young.collect(), self.now);
        for (job, since) in young {
            self.now = since;
            self.enter_youth(job);
        }
        self.now = now;
        self.on_pressure(0);
    }

    /// It has grown up, or is gone.
    pub(crate) fn leave_youth(&mut self, job: JobId) {
        let Some(since) = self.gate.young.remove(&job) else { return };
        self.gate.by_age.remove(&(since, job));
        let stage = self.stage_of(job);
        if let Some(young) = self.gate.of_stage.get_mut(&stage) {
            *young -= 1;
        }
        if self.gate.young(Some(stage)) == 0 {
            self.gate.of_stage.remove(&stage);
        }
        self.set_gate(Some(stage));
    }

    /// Jobs that are no longer young.
    pub(crate) fn let_grow_up(&mut self) {
        while let Some((since, job)) = self.gate.by_age.first().copied()
            && since.after(YOUTH) <= self.now
        {
            self.leave_youth(job);
        }
    }

    /// Shuts or opens the gate for all stages that follow the CPUs, and for this one.
    fn set_gate(&mut self, changed: Option<StageId>) {
        if self.gate.off {
            return;
        }
        let most = self.machine.cores.max(1);
        let full = self.gate.idle == Some(0) && !self.gate.lanes_only;
        self.line.shut_for_pressure(full && self.gate.young(None) >= most);
        if let Some(stage) = changed
            && let StartGate::AtOnce(most) = self.plan.stage(stage).start_gate
        {
            self.line.shut_stage(stage, self.gate.young(Some(stage)) >= most.max(1));
        }
    }

    /// Sees to it that a start which is held is looked at again, and that a person hears of it.
    pub(crate) fn settle_gate(&mut self) {
        let devices = &self.lanes.devices;
        let pressed =
            self.may_start() && self.line.holds_for_pressure(|count, need| devices.fits(count, need, None));
        self.tell_gate(pressed);
        if pressed || (self.may_start() && self.line.shut_stages().any(|stage| self.is_held(stage))) {
            self.set_alarm();
        }
    }

    /// Whether a job of this stage would start but for the gate.
    fn is_held(&self, stage: StageId) -> bool {
        Kind::BOTH.into_iter().any(|kind| {
            let queue = self.stages[stage.index()].queue(kind);
            let stands = self.line.has(QueueId { stage, kind }, queue.rank, queue.demand);
            stands && self.lanes.fits(queue.demand, None)
        })
    }

    /// Why the queue's jobs are held by the gate; to be asked only if they are.
    pub(crate) fn held_by_gate(&self, queue: QueueId) -> Waiting {
        match self.plan.stage(queue.stage).start_gate {
            StartGate::AtOnce(most) => Waiting::Gate { young: most.max(1), own: true },
            _ => Waiting::Gate { young: self.gate.young(None), own: false },
        }
    }

    fn set_alarm(&mut self) {
        let grown = self.gate.by_age.first().map(|(since, _)| since.after(YOUTH));
        let word = self.gate.since.filter(|_| !self.gate.said).map(|since| since.after(WORTH_SAYING));
        let word = word.filter(|at| *at > self.now);
        let Some(at) = grown.into_iter().chain(word).min() else { return };
        if self.gate.alarm.is_none_or(|due| at < due) {
            self.gate.alarm = Some(at);
            self.later.push(Effect::SetTimer { timer: Timer::Gate, at });
        }
    }

    fn tell_gate(&mut self, held: bool) {
        if !held {
            self.gate.since = None;
            if std::mem::take(&mut self.gate.said) {
                self.record(Event::StartsReleased {});
            }
            return;
        }
        let since = *self.gate.since.get_or_insert(self.now);
        let long = self.now.since(since) >= WORTH_SAYING;
        if long && !self.gate.said && self.hold == Hold::Free && !self.scarcity.is_said() {
            self.gate.said = true;
            let because = format!(
                "the CPUs are saturated ({} jobs are starting up); start_gate = \"off\" starts them anyway",
                self.gate.young(None)
            );
            self.record(Event::StartsHeld { because });
        }
    }

    /// Every young job is on GPUs and counted, and the gate is as it should be.
    pub(crate) fn check_gate(&self) -> Result<(), String> {
        let gate = &self.gate;
        let aged = gate.by_age.iter().map(|(since, job)| (*job, *since)).collect::<BTreeMap<_, _>>();
        if aged != gate.young || gate.of_stage.values().sum::<u32>() != gate.young(None) {
            return Err(format!("the gate counts {gate:?}"));
        }
        let on_gpus = |job: &JobId| {
            matches!(self.lanes.booking(*job).map(|it| it.demand), Some(Demand::Devices { .. }))
        };
        if let Some(job) = gate.young.keys().find(|job| !on_gpus(job)) {
            return Err(format!("job {job} is young but on no GPU"));
        }
        if gate.young.is_empty() && self.line.is_any_shut() {
            return Err("the gate is shut with nobody young".to_owned());
        }
        Ok(())
    }
}
