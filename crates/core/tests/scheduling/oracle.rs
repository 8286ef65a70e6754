//! What must be true of a run, worked out a second time from the outside: from inputs, effects and the fold of the records alone.
//! Slow and simple on purpose; shares no code with the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Outcome, Timer, Waiting};
use gpulane_model::{
    Attempt, Cpus, Event, FailReason, GpuIndex, GpuKind, JobId, JobStatus, LaneId, Machine, Plan,
    ProcessExit, Record, RunState, StageId,
};

/// A job the runtime has its hands on.
#[derive(Clone, Debug)]
struct Busy {
    attempt: Attempt,
    doing: Doing,
    lane: LaneId,
    gpus: Vec<GpuIndex>,
    /// Why it is being ended, if it is.
    doom: Option<FailReason>,
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
    Succeeded,
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
    hold: Hold,
    interrupted: bool,
    expect: Option<(JobId, Expect)>,
    cancelling: BTreeSet<JobId>,
    pub(crate) outcome: Option<Outcome>,
}

impl Oracle {
    pub(crate) fn new(plan: &Arc<Plan>, machine: &Machine, past: RunState) -> Self {
        Self {
            plan: Arc::clone(plan),
            machine: machine.clone(),
            busy: BTreeMap::new(),
            delayed: BTreeSet::new(),
            used: past.jobs.iter().map(|job| job.attempts).collect(),
            folded: past,
            newest: BTreeMap::new(),
            hold: Hold::Free,
            interrupted: false,
            expect: None,
            cancelling: BTreeSet::new(),
            outcome: None,
        }
    }

    /// Takes note of what the world is about to say.
    pub(crate) fn on_input(&mut self, input: &Input) {
        self.cancelling.clear();
        self.expect = None;
        match input {
            Input::Begin => {}
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
            Input::JobExited { job, exit, .. } => self.on_exit(*job, *exit),
            Input::JobPublished { job, .. } => {
                self.busy.remove(job);
                self.expect = Some((*job, Expect::Succeeded));
            }
            Input::PublishFailed { job, .. } => {
                let cancelled = self.busy.remove(job).unwrap().doom.is_some();
                let retried = self.has_try_left(*job) && !cancelled;
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
            Input::Interrupted { .. } => {
                self.interrupted = true;
                for busy in self.busy.values_mut().filter(|busy| busy.doing != Doing::Publishing) {
                    busy.doom.get_or_insert(FailReason::Interrupted);
                }
            }
        }
    }

    fn on_exit(&mut self, job: JobId, exit: ProcessExit) {
        let doom = self.busy[&job].doom;
        let retried = self.has_try_left(job);
        let expect = match (doom, exit) {
            (None | Some(FailReason::Interrupted), ProcessExit::Code(0)) => Expect::Publish,
            (None, ProcessExit::Code(_)) => Expect::Failed(FailReason::Exit, retried),
            (None, ProcessExit::Signal(_)) => Expect::Failed(FailReason::Signal, retried),
            (Some(FailReason::Timeout), _) => Expect::Failed(FailReason::Timeout, retried),
            (Some(reason), _) => Expect::Failed(reason, false),
        };
        if expect == Expect::Publish {
            let busy = self.busy.get_mut(&job).unwrap();
            (busy.doing, busy.doom) = (Doing::Publishing, None);
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
                    busy.doom.get_or_insert(FailReason::Timeout);
                }
            }
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
                Effect::Terminate { job, attempt, .. } => {
                    let busy = &self.busy[job];
                    assert_eq!((busy.doing, busy.attempt), (Doing::Live, *attempt));
                    assert!(busy.doom.is_some(), "ended for no reason");
                }
                Effect::SetTimer { timer: Timer::RetryHeld, .. } => self.hold = Hold::Held,
                Effect::SetTimer { timer: Timer::Retry { job }, .. } => {
                    self.delayed.insert(*job);
                }
                Effect::Finish { outcome } => self.outcome = Some(*outcome),
                _ => {}
            }
            last = Some(effect);
        }
        for spawn in spawns {
            self.on_spawn(spawn);
        }
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
            .filter(|event| !matches!(event, Event::ProcessesLeft { .. }))
            .collect();
        let published =
            others.iter().any(|effect| matches!(effect, Effect::Publish { job: of, .. } if of == job));
        let good = match (expect, events.as_slice()) {
            (Expect::Started, [Event::JobStarted { .. }])
            | (Expect::Succeeded, [Event::JobSucceeded { .. }]) => true,
            (Expect::Publish, []) => published,
            (Expect::PutBack, [] | [Event::JobSkipped { .. }]) => true,
            (Expect::Failed(reason, false), [Event::JobFailed { failure, .. }, rest @ ..]) => {
                let skipped = matches!(rest, [Event::JobSkipped { .. }]) && !reason.counts();
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
            Event::StartsHeld { .. } => assert_eq!(self.hold, Hold::Free),
            Event::StartsReleased {} => {
                assert!(matches!(self.hold, Hold::Trial(_)));
                self.hold = Hold::Free;
            }
            _ => {}
        }
        let seq = self.folded.last_seq + 1;
        self.folded.apply(&Record { seq, time: gpulane_model::Millis(0), event: event.clone() });
    }

    fn on_spawn(&mut self, spawn: &Effect) {
        let Effect::Spawn { job, attempt, lane, gpus, cpus } = spawn else { return };
        let stage = self.plan.job(*job).stage;
        assert!(!self.interrupted, "nothing starts in an interrupted run");
        assert!(self.is_runnable(*job), "{spawn:?} is not runnable");
        assert_eq!(attempt.0, self.used[job.index()] + 1, "attempt numbers have no gaps");
        assert!(matches!(self.hold, Hold::Free | Hold::Trial(false)), "{spawn:?} while {:?}", self.hold);
        assert!(!self.busy.values().any(|busy| busy.doing != Doing::Publishing && busy.lane == *lane));
        assert_eq!(*cpus, self.threads(stage));
        self.check_order(*job, stage);
        let gpus = gpus.to_vec();
        if self.on_cores(stage) {
            assert!(self.cores(stage) <= self.machine.cores - self.cores_taken());
            assert!(
                gpus.is_empty() && (self.machine.main_lanes()..self.machine.all_lanes()).contains(&lane.0)
            );
            assert_eq!(self.first_in_line(true), Some(stage), "cores are given in order");
        } else {
            self.check_placement(stage, *lane, &gpus);
        }
        if self.hold == Hold::Trial(false) {
            self.hold = Hold::Trial(true);
        }
        self.used[job.index()] += 1;
        let busy = Busy { attempt: *attempt, doing: Doing::Asked, lane: *lane, gpus, doom: None };
        assert!(self.busy.insert(*job, busy).is_none());
    }

    /// Jobs that become ready together start in the plan's order.
    fn check_order(&mut self, job: JobId, stage: StageId) {
        if self.plan.stage(stage).foreach.is_none()
            && self.newest.get(&stage).is_none_or(|newest| *newest < job)
        {
            let passed_over = self.plan.stage(stage).job_ids().filter(|other| *other < job).find(|other| {
                self.is_runnable(*other) && self.newest.get(&stage).is_none_or(|newest| newest < other)
            });
            assert_eq!(passed_over, None, "{job} overtook");
            self.newest.insert(stage, job);
        }
    }

    fn check_placement(&self, stage: StageId, lane: LaneId, gpus: &[GpuIndex]) {
        let needs = self.needs(stage);
        let free = self.free_by_device();
        let head = self.first_in_line(false).unwrap();
        let open = free.iter().filter(|free| **free > 0).count();
        let overtakes = head != stage;
        assert!(!overtakes || open < self.needs(head), "stage {stage} went before stage {head}");
        if self.machine.kind == GpuKind::None {
            assert!(gpus.is_empty() && needs <= open && lane.0 < self.machine.cpu_lanes);
            assert!(!overtakes, "stage {stage} took a lane kept for stage {head}");
            return;
        }
        let chosen: BTreeSet<usize> = gpus.iter().map(|gpu| gpu.index()).collect();
        assert_eq!((gpus.len(), chosen.len()), (needs, needs), "a gang has all its GPUs, each once");
        assert!(gpus.is_sorted() && self.machine.gpu_of(lane) == Some(gpus[0]));
        let least = if overtakes { 2 } else { 1 };
        for gpu in &chosen {
            assert!(free[*gpu] >= least, "GPU {gpu} has {} free lanes, needed {least}", free[*gpu]);
        }
        let fullest = chosen.iter().map(|gpu| free[*gpu]).min().unwrap();
        let emptiest = (0..free.len()).filter(|gpu| !chosen.contains(gpu)).map(|gpu| free[gpu]).max();
        assert!(emptiest.is_none_or(|free| free <= fullest), "stacked before spread");
    }

    /// What must hold between two steps.
    pub(crate) fn check(&self, core: &Core, begun: bool) {
        if !begun {
            return;
        }
        assert_eq!(core.counts(), self.folded.counts);
        assert_eq!(core.is_finished(), self.outcome.is_some());
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
        match self.outcome {
            Some(Outcome::Finished) => assert_eq!(self.folded.counts.ended() as usize, self.plan.jobs.len()),
            Some(Outcome::Interrupted) => assert!(self.interrupted && self.busy.is_empty()),
            None => {
                assert!(!self.interrupted || !self.busy.is_empty(), "an interrupted run should be over");
                self.check_work_conserving();
            }
        }
    }

    fn check_work_conserving(&self) {
        if self.interrupted || !matches!(self.hold, Hold::Free | Hold::Trial(false)) {
            return;
        }
        let free = self.free_by_device();
        if let Some(head) = self.first_in_line(false) {
            let open = free.iter().filter(|free| **free > 0).count();
            assert!(self.needs(head) > open, "stage {head} fits and was not started");
            let spare = free.iter().filter(|free| **free > 1).count();
            let fits = self.in_line(false).find(|stage| self.needs(*stage) <= spare);
            assert_eq!(fits, None, "fits beside the waiting stage {head}");
        }
        if let Some(head) = self.first_in_line(true) {
            assert!(self.cores(head) > self.machine.cores - self.cores_taken(), "cores are idle");
        }
    }

    fn status(&self, job: JobId) -> &JobStatus {
        &self.folded.job(job).status
    }

    fn is_runnable(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        let fed = |source| matches!(self.status(source), JobStatus::Succeeded { .. });
        *self.status(job) == JobStatus::Pending
            && !self.busy.contains_key(&job)
            && !self.delayed.contains(&job)
            && !self.lacks(self.plan.job(job).stage)
            && self.plan.job(job).source.is_none_or(fed)
            && stage.after.iter().all(|after| {
                self.plan.stage(*after).job_ids().all(|other| {
                    is_ended(self.status(other)) && (stage.foreach == Some(*after) || fed(other))
                })
            })
    }

    /// It waits for something that will never come.
    fn is_doomed(&self, job: JobId) -> bool {
        let stage = self.plan.stage_of(job);
        let lost = |job| matches!(self.status(job), JobStatus::Failed(_) | JobStatus::Skipped(_));
        let incomplete = |after: &StageId| {
            let jobs = || self.plan.stage(*after).job_ids();
            jobs().all(|job| is_ended(self.status(job))) && jobs().any(lost)
        };
        self.is_stopped(self.plan.job(job).stage)
            || self.plan.job(job).source.is_some_and(lost)
            || stage.after.iter().any(|after| stage.foreach != Some(*after) && incomplete(after))
    }

    fn is_stopped(&self, stage: StageId) -> bool {
        let failed = |job: &JobId| matches!(self.status(*job), JobStatus::Failed(how) if how.reason != FailReason::Cancelled);
        let stage = self.plan.stage(stage);
        stage.max_failures.is_some_and(|most| stage.job_ids().filter(failed).count() >= most as usize)
    }

    fn has_try_left(&self, job: JobId) -> bool {
        let failures = self.folded.job(job).failures + 1;
        failures <= self.plan.stage_of(job).retries && !self.is_stopped(self.plan.job(job).stage)
    }

    fn on_cores(&self, stage: StageId) -> bool {
        self.machine.kind != GpuKind::None && self.plan.stage(stage).gpus == 0
    }

    fn needs(&self, stage: StageId) -> usize {
        self.plan.stage(stage).gpus.max(1) as usize
    }

    fn cores(&self, stage: StageId) -> u32 {
        match self.plan.stage(stage).cpus {
            Cpus::Auto => 1,
            Cpus::Count(count) => count.min(self.machine.cores),
        }
    }

    fn threads(&self, stage: StageId) -> u32 {
        match self.plan.stage(stage).cpus {
            Cpus::Count(count) => count,
            Cpus::Auto if self.on_cores(stage) => 1,
            Cpus::Auto => self.machine.fair_cpus() * self.plan.stage(stage).gpus.max(1),
        }
    }

    fn lacks(&self, stage: StageId) -> bool {
        !self.on_cores(stage) && self.needs(stage) > self.free_when_idle().len()
    }

    fn free_when_idle(&self) -> Vec<u32> {
        match self.machine.kind {
            GpuKind::None => vec![1; self.machine.cpu_lanes as usize],
            _ => vec![self.machine.lanes_per_gpu; self.machine.gpus.len()],
        }
    }

    fn holders(&self) -> impl Iterator<Item = (StageId, &Busy)> {
        let holding = self.busy.iter().filter(|(_, busy)| busy.doing != Doing::Publishing);
        holding.map(|(job, busy)| (self.plan.job(*job).stage, busy))
    }

    /// Free lanes by GPU. Without GPUs it is not known which lanes a gang has; any will do.
    fn free_by_device(&self) -> Vec<u32> {
        let mut free = self.free_when_idle();
        let mut next = 0;
        for (stage, busy) in self.holders().filter(|(stage, _)| !self.on_cores(*stage)) {
            if self.machine.kind == GpuKind::None {
                for _ in 0..self.needs(stage) {
                    free[next] -= 1;
                    next += 1;
                }
            }
            for gpu in &busy.gpus {
                free[gpu.index()] -= 1;
            }
        }
        free
    }

    fn cores_taken(&self) -> u32 {
        self.holders().filter(|(stage, _)| self.on_cores(*stage)).map(|(stage, _)| self.cores(stage)).sum()
    }

    fn running(&self, stage: StageId) -> usize {
        self.holders().filter(|(of, _)| *of == stage).count()
    }

    /// Stages that could start a job if they had the lanes or cores.
    fn in_line(&self, on_cores: bool) -> impl Iterator<Item = StageId> {
        let stages = (0..self.plan.stages.len()).map(StageId::at);
        stages.filter(move |id| {
            let stage = self.plan.stage(*id);
            self.on_cores(*id) == on_cores
                && (stage.parallel == 0 || self.running(*id) < stage.parallel as usize)
                && stage.job_ids().any(|job| self.is_runnable(job))
        })
    }

    fn first_in_line(&self, on_cores: bool) -> Option<StageId> {
        self.in_line(on_cores).next()
    }
}

fn is_ended(status: &JobStatus) -> bool {
    !matches!(status, JobStatus::Pending | JobStatus::Running { .. })
}
