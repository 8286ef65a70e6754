//! What must be true of a run, worked out a second time from the outside: from inputs, effects and the fold of the records alone.
//! Slow and simple on purpose; shares no code with the core.

mod facts;
mod observed;
mod rooms;
mod starts;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use facts::is_ended;
use gpulane_core::{Core, Effect, Input, Manner, Outcome, Timer, Trouble, Waiting};
use gpulane_model::{
    Attempt, Bytes, Event, FailReason, GpuIndex, JobId, JobStatus, LaneId, Machine, Millis, Plan,
    ProcessExit, Record, RunState, StageId,
};
use rooms::Rooms;
use watch::Cpus;

/// A job the runtime has its hands on.
#[derive(Clone, Debug)]
struct Busy {
    attempt: Attempt,
    doing: Doing,
    lane: LaneId,
    gpus: Vec<GpuIndex>,
    /// Why it is being ended, if it is.
    doom: Option<FailReason>,
    /// Whether it was asked to end, and whether at once.
    told: Option<bool>,
    /// What it has of each GPU where they are shared by memory; `None`: all.
    reserve: Option<Bytes>,
    /// Another was on one of its GPUs at some time.
    shared: bool,
    /// It was said to hold more than it was given.
    exceeded: bool,
    /// When it was asked to start.
    since: Millis,
    work: Work,
}

/// What is known of a job's work.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Unknown,
    Done,
    /// It is being ended because of that, and will have succeeded.
    Lingers,
    /// It has, and that it did not exit as it should have is to be told.
    Lingered,
}

impl Busy {
    /// It is to be ended for this reason, unless it is being ended.
    fn condemn(&mut self, why: FailReason) {
        if self.work != Work::Lingers {
            self.doom.get_or_insert(why);
        }
    }

    /// It is to be ended and has succeeded if its work is done, unless it is being ended.
    fn linger(&mut self) {
        if self.work == Work::Done && self.doom.is_none() {
            self.work = Work::Lingers;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Asked,
    Live,
    Publishing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Hold {
    Free,
    Held,
    /// One job may try; whether it was asked.
    Trial(bool),
}

/// What an input must lead to for the job it is about.
#[derive(Debug, PartialEq)]
enum Expect {
    Started,
    Publish,
    /// And whether it is told that it did not exit as it should have.
    Succeeded(bool),
    /// The last failure recorded has this reason, and another try follows or not.
    Failed(FailReason, bool),
    PutBack,
}

/// The observer of one engine's life.
pub(crate) struct Oracle {
    plan: Arc<Plan>,
    machine: Machine,
    /// What the records so far fold to.
    pub(crate) folded: RunState,
    busy: BTreeMap<JobId, Busy>,
    delayed: BTreeSet<JobId>,
    /// By job: attempts that really started or failed to.
    used: Vec<u32>,
    /// By stage: the latest job that was asked to start for the first time.
    newest: BTreeMap<StageId, JobId>,
    /// The stage that keeps free lanes, and the one that keeps free cores: first until it starts a job or cannot.
    keepers: [Option<StageId>; 2],
    hold: Hold,
    interrupted: bool,
    /// It was said to be urgent.
    urgent: bool,
    expect: Option<(JobId, Expect)>,
    cancelling: BTreeSet<JobId>,
    /// Which GPUs may be used. `None`: all, always, one lane to a job, in the plan's order.
    rooms: Option<Rooms>,
    /// Jobs that have come to their GPU, and the most they held.
    seen: BTreeMap<JobId, gpulane_model::Bytes>,
    /// It was said that GPUs are awaited, or CPUs.
    scarce: bool,
    cpus: Cpus,
    /// Jobs that were moved once because a process of theirs would not end.
    moved: std::collections::HashSet<JobId>,
    now: Millis,
    pub(crate) outcome: Option<Outcome>,
}

impl Oracle {
    pub(crate) fn new(plan: &Arc<Plan>, machine: &Machine, past: RunState, wild: Option<bool>) -> Self {
        Self {
            rooms: wild.map(|leased| Rooms::new(machine, leased)),
            scarce: false,
            cpus: Cpus::default(),
            moved: std::collections::HashSet::new(),
            now: Millis(0),
            seen: BTreeMap::new(),
            plan: Arc::clone(plan),
            machine: machine.clone(),
            busy: BTreeMap::new(),
            delayed: BTreeSet::new(),
            used: past.jobs.iter().map(|job| job.attempts).collect(),
            folded: past,
            newest: BTreeMap::new(),
            keepers: [None; 2],
            hold: Hold::Free,
            interrupted: false,
            urgent: false,
            expect: None,
            cancelling: BTreeSet::new(),
            outcome: None,
        }
    }

    /// Takes note of what the world is about to say.
    pub(crate) fn on_input(&mut self, now: Millis, input: &Input) {
        self.now = now;
        self.cancelling.clear();
        self.expect = None;
        match input {
            Input::JobSpawned { job, .. } => {
                self.busy.get_mut(job).unwrap().doing = Doing::Live;
                self.expect = Some((*job, Expect::Started));
            }
            Input::SpawnFailed { job, .. } => {
                self.busy.remove(job);
                if self.hold == Hold::Trial(true) {
                    self.hold = Hold::Trial(false);
                }
                self.expect = Some((*job, Expect::Failed(FailReason::Start, false)));
            }
            Input::SpawnBlocked { job, .. } => {
                let busy = self.busy.remove(job).unwrap();
                self.used[job.index()] -= 1;
                let cancelled = busy.doom == Some(FailReason::Cancelled);
                let expect =
                    if cancelled { Expect::Failed(FailReason::Cancelled, false) } else { Expect::PutBack };
                self.expect = Some((*job, expect));
            }
            Input::PeakSeen { job, attempt, peak, .. } if peak.0 > 0 => {
                if self
                    .busy
                    .get(job)
                    .is_some_and(|busy| busy.attempt == *attempt && busy.doing == Doing::Live)
                {
                    let most = self.seen.entry(*job).or_default();
                    *most = (*most).max(*peak);
                }
            }
            Input::JobExited { job, exit, trouble, stuck, .. } => {
                let stranded = stuck.is_some() && self.retire(*job);
                self.on_exit(*job, *exit, trouble.as_ref(), stranded);
            }
            Input::Stuck { .. } | Input::WorkDone { .. } => self.on_watch(input),
            Input::Pressure { idle } => self.cpus.idle = Some(*idle),
            Input::JobPublished { job, .. } => {
                let lingered = self.busy.remove(job).unwrap().work == Work::Lingered;
                self.expect = Some((*job, Expect::Succeeded(lingered)));
            }
            Input::PublishFailed { job, kept, .. } => {
                let cancelled = self.busy.remove(job).unwrap().doom.is_some();
                let retried = self.has_try_left(*job) && !cancelled && !kept;
                self.expect = Some((*job, Expect::Failed(FailReason::Publish, retried)));
            }
            Input::TimerFired { timer } => self.on_timer(*timer),
            Input::CancelRequested { jobs } => {
                let all = self.plan.job_ids().filter(|job| jobs.is_empty() || jobs.contains(job));
                self.cancelling = all.collect();
                for job in &self.cancelling {
                    if let Some(busy) = self.busy.get_mut(job) {
                        busy.doom = Some(FailReason::Cancelled);
                    }
                }
            }
            Input::Interrupted { now, .. } => {
                self.interrupted = true;
                self.urgent |= now;
                for busy in self.busy.values_mut().filter(|busy| busy.doing != Doing::Publishing) {
                    busy.linger();
                    busy.condemn(FailReason::Interrupted);
                }
            }
            gpu_news => self.on_gpu_news(gpu_news),
        }
    }

    fn on_exit(&mut self, job: JobId, exit: ProcessExit, trouble: Option<&Trouble>, stranded: bool) {
        let Busy { doom, work, .. } = self.busy[&job];
        let retried = self.has_try_left(job);
        let lingers = work == Work::Lingers;
        let crashed = work == Work::Done && matches!(exit, ProcessExit::Signal(_));
        let begun = !matches!(trouble, Some(Trouble::NeverBegun(_)));
        let expect = match (doom, exit) {
            (None, _) if lingers => Expect::Publish,
            (None | Some(FailReason::Lost), _) if crashed => Expect::Publish,
            (Some(FailReason::Hang | FailReason::Timeout), _) if stranded && self.moved.insert(job) => {
                Expect::Failed(FailReason::Lost, false)
            }
            (Some(FailReason::Hang), _) => Expect::Failed(FailReason::Hang, self.is_thawed(job)),
            (None | Some(FailReason::Interrupted | FailReason::Lost), ProcessExit::Code(0)) if begun => {
                Expect::Publish
            }
            (None, _) if trouble.is_some() => self.expect_of(job, exit, trouble.unwrap()),
            (None, ProcessExit::Code(_)) => Expect::Failed(FailReason::Exit, retried),
            (None, ProcessExit::Signal(_)) => Expect::Failed(FailReason::Signal, retried),
            (Some(FailReason::Timeout), _) => Expect::Failed(FailReason::Timeout, retried),
            (Some(reason), _) => Expect::Failed(reason, false),
        };
        if expect == Expect::Publish {
            let busy = self.busy.get_mut(&job).unwrap();
            (busy.doing, busy.doom) = (Doing::Publishing, None);
            busy.work = if lingers || crashed { Work::Lingered } else { Work::Unknown };
        } else {
            self.busy.remove(&job);
        }
        self.expect = Some((job, expect));
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Timeout { job, attempt } => {
                if let Some(busy) = self.busy.get_mut(&job).filter(|busy| busy.attempt == attempt)
                    && busy.doing == Doing::Live
                {
                    busy.linger();
                    busy.condemn(FailReason::Timeout);
                }
            }
            Timer::Linger { job, attempt } => {
                if let Some(busy) = self.busy.get_mut(&job).filter(|busy| busy.attempt == attempt)
                    && busy.doing == Doing::Live
                {
                    busy.linger();
                }
            }
            Timer::Gate => {}
            Timer::Retry { job } => {
                self.delayed.remove(&job);
            }
            Timer::RetryHeld => {
                assert_eq!(self.hold, Hold::Held, "one timer per hold");
                self.hold = Hold::Trial(false);
            }
        }
    }

    /// Checks everything the step did. Records come before starts here: they are what starts follow from.
    pub(crate) fn on_effects(&mut self, effects: &[Effect]) {
        assert_eq!(self.outcome, None, "nothing after the end: {effects:?}");
        let first_other = effects.iter().position(|effect| !matches!(effect, Effect::Spawn { .. }));
        let spawns = &effects[..first_other.unwrap_or(effects.len())];
        let others = &effects[spawns.len()..];
        assert!(
            !others.iter().any(|effect| matches!(effect, Effect::Spawn { .. })),
            "starts first: {effects:?}"
        );
        self.check_expected(others);
        let mut last = None;
        for effect in others {
            match effect {
                Effect::Record(event) => self.on_record(event, last),
                Effect::Terminate { job, attempt, manner } => {
                    let now = *manner == Manner::Now;
                    let makes_room = now && self.may_make_room(*job);
                    let busy = self.busy.get_mut(job).unwrap();
                    assert_eq!((busy.doing, busy.attempt), (Doing::Live, *attempt));
                    if makes_room {
                        busy.condemn(FailReason::Lost);
                    }
                    assert!(busy.doom.is_some() || busy.work == Work::Lingers, "ended for no reason");
                    assert!(*manner != Manner::Frozen || busy.doom == Some(FailReason::Hang));
                    let again = self.rooms.is_some() && now;
                    assert!(busy.told.is_none_or(|before| now && !before) || again, "asked twice");
                    busy.told = Some(now);
                }
                Effect::SetTimer { timer: Timer::RetryHeld, .. } => {
                    (self.hold, self.scarce) = (Hold::Held, false);
                }
                Effect::SetTimer { timer: Timer::Retry { job }, .. } => {
                    self.delayed.insert(*job);
                }
                Effect::Finish { outcome } => self.outcome = Some(*outcome),
                _ => {}
            }
            last = Some(effect);
        }
        self.drop_keepers();
        for spawn in spawns {
            self.on_spawn(spawn);
        }
        self.find_keepers();
        self.check_leases(others);
        if self.outcome.is_some() {
            assert!(matches!(effects.last(), Some(Effect::Finish { .. })), "Finish comes last");
        }
    }

    /// The input led to what it must lead to.
    fn check_expected(&self, others: &[Effect]) {
        let Some((job, expect)) = &self.expect else { return };
        let name = self.plan.job_name(*job);
        let events: Vec<&Event> = others
            .iter()
            .filter_map(|effect| match effect {
                Effect::Record(event) if event.job() == Some(&name) => Some(event),
                _ => None,
            })
            .filter(|event| {
                let told = matches!(event, Event::MemoryExceeded { .. } | Event::MpsFault { .. });
                let left = matches!(event, Event::ProcessesLeft { .. } | Event::ProcessesStuck { .. });
                !told && !left
            })
            .collect();
        let published =
            others.iter().any(|effect| matches!(effect, Effect::Publish { job: of, .. } if of == job));
        let good = match (expect, events.as_slice()) {
            (Expect::Started, [Event::JobStarted { .. }])
            | (Expect::Succeeded(false), [Event::JobSucceeded { .. }])
            | (Expect::Succeeded(true), [Event::JobLingered { .. }, Event::JobSucceeded { .. }])
            | (Expect::PutBack, [] | [Event::JobSkipped { .. }]) => true,
            (Expect::Publish, []) => published,
            (Expect::Failed(reason, false), [Event::JobFailed { failure, .. }, rest @ ..]) => {
                let skipped = matches!(rest, [Event::JobSkipped { .. }]) && !failure.counts();
                failure.reason == *reason && (rest.is_empty() || skipped)
            }
            (Expect::Failed(reason, true), [Event::JobFailed { failure, .. }, Event::JobRetrying { .. }]) => {
                failure.reason == *reason
            }
            _ => false,
        };
        assert!(good, "{name}: expected {expect:?}, got {events:?}, published: {published}");
    }

    fn on_record(&mut self, event: &Event, before: Option<&Effect>) {
        if let Some(job) = event.job().map(|name| self.folded.find(name).unwrap()) {
            let status = self.folded.job(job).status.clone();
            let pending = matches!(status, JobStatus::Pending);
            match event {
                Event::JobStarted { .. } => assert!(pending),
                Event::JobSucceeded { .. } => assert!(matches!(status, JobStatus::Running { .. })),
                Event::JobRetrying { .. } => {
                    let Some(Effect::Record(Event::JobFailed { job: failed, .. })) = before else {
                        panic!("{event:?} after {before:?}")
                    };
                    assert_eq!(Some(failed.as_str()), event.job());
                }
                Event::JobFailed { attempt: Attempt(0), failure, .. } => {
                    let cancelled = failure.reason == FailReason::Cancelled
                        && (self.cancelling.contains(&job) || self.expect.is_some());
                    let lacking = failure.reason == FailReason::Start && self.lacks(self.plan.job(job).stage);
                    assert!(pending && (cancelled || lacking), "{event:?}");
                    self.delayed.remove(&job);
                }
                Event::JobFailed { .. } => {
                    assert!(!is_ended(&status), "{event:?} of {status:?}");
                    assert_eq!(self.expect.as_ref().map(|(of, _)| *of), Some(job));
                }
                Event::JobSkipped { .. } => {
                    assert!(pending && !self.busy.contains_key(&job), "{event:?} of {status:?}");
                    assert!(self.is_doomed(job), "skipped for no reason: {event:?}");
                    self.delayed.remove(&job);
                }
                _ => {}
            }
        }
        match event {
            Event::StartsHeld { .. } => {
                assert_eq!(self.hold, Hold::Free);
                self.scarce = true;
            }
            Event::StartsReleased {} => {
                assert!(matches!(self.hold, Hold::Trial(_)) || self.scarce);
                (self.hold, self.scarce) = (Hold::Free, false);
            }
            _ => self.on_memory_record(event),
        }
        let seq = self.folded.last_seq + 1;
        self.folded.apply(&Record { seq, time: gpulane_model::Millis(0), event: event.clone() });
    }

    /// Whether the job is between two tries.
    pub(crate) fn is_delayed(&self, job: JobId) -> bool {
        self.delayed.contains(&job)
    }

    /// What must hold between two steps.
    pub(crate) fn check(&self, core: &Core) {
        assert_eq!(core.counts(), self.folded.counts);
        assert_eq!(core.is_finished(), self.outcome.is_some());
        self.check_observed(core);
        for (at, stage) in self.plan.stages.iter().enumerate() {
            assert!(stage.parallel == 0 || self.running(StageId::at(at)) <= stage.parallel as usize);
        }
        for job in self.plan.job_ids() {
            let pending = *self.status(job) == JobStatus::Pending && !self.busy.contains_key(&job);
            assert!(!(pending && self.is_doomed(job)), "job {job} should have been skipped");
            let waiting = core.waiting(job);
            assert_eq!(waiting.is_some(), pending, "{waiting:?}");
            if pending && self.delayed.contains(&job) && !self.interrupted {
                assert!(matches!(waiting, Some(Waiting::Retry { .. })));
            }
        }
        for (job, busy) in self.busy.iter().filter(|(_, busy)| busy.doing == Doing::Live) {
            assert_eq!(
                busy.told.is_some(),
                busy.doom.is_some() || busy.work == Work::Lingers,
                "job {job} was not asked to end, or for no reason"
            );
            assert!(!self.urgent || busy.told == Some(true), "job {job} was not ended at once");
        }
        match self.outcome {
            Some(Outcome::Finished) => assert_eq!(self.folded.counts.ended() as usize, self.plan.jobs.len()),
            Some(Outcome::NoGpus) => {
                assert!(!self.interrupted && self.busy.is_empty() && self.delayed.is_empty());
                assert!(self.rooms.as_ref().is_some_and(Rooms::any_lost), "no GPU was lost");
            }
            Some(Outcome::Interrupted) => assert!(self.interrupted && self.busy.is_empty()),
            None => {
                assert!(!self.interrupted || !self.busy.is_empty(), "an interrupted run should be over");
                self.check_work_conserving();
            }
        }
    }
}
