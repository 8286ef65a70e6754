//! The loop: wait, tell the core, perform its effects. One thread, one epoll; nothing in here waits for a terminal
//! that is stopped or a process that will not end. Of the disk it does only what makes and renames small files, and takes
//! a little space for a moment to see whether there is any.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use gpulane_core::{Core, Effect, Input, Outcome, Timer};
use gpulane_journal::Journal;
use gpulane_model::{Attempt, Event, ExitCode, GpuKind, JobId, Millis, StageId};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::process::Pid;

use super::begin::Prepared;
use super::clock::{Alarm, Clock};
use super::disk_space::DiskSpace;
use super::ending::{Look, Roster};
use super::environment::Start;
use super::feeders::Feeders;
use super::gpus::Gpus;
use super::launchpad::Launchpad;
use super::on_feeders::MapsSeen;
use super::on_gpus::Sharing;
use super::place::Misplaced;
use super::publish::Publisher;
use super::standbys::Standbys;
use super::vigil::{self, Vigils};
use crate::control;
use crate::experience::Experience;

/// How often leftovers are looked for that no exit told us of.
const SWEEP: Millis = Millis::seconds(5);

/// Lanes that may come free at once; each job made ready holds two descriptors.
const MOST_AHEAD: usize = 16;

/// What an epoll event is about. The low half carries a job's id.
const MAIN: u64 = 0 << 32;
const SURVIVOR: u64 = 1 << 32;
const SIGNALS: u64 = 2 << 32;
const LINK: u64 = 3 << 32;
const CONTROL: u64 = 4 << 32;
const PUBLISHED: u64 = 5 << 32;
const GPUS: u64 = 6 << 32;
const LEASES: u64 = 7 << 32;
const VIGILS: u64 = 8 << 32;
const FEEDER_ENDED: u64 = 9 << 32;
const FEEDER_WORDS: u64 = 10 << 32;
const STANDBY_ENDED: u64 = 11 << 32;
const STANDBY_WORDS: u64 = 12 << 32;

pub(super) struct Reactor<'a> {
    pub(super) prepared: &'a mut Prepared,
    pub(super) core: Core,
    pub(super) journal: Journal,
    pub(super) epoll: OwnedFd,
    /// Rung when there is a request; `None` where FIFOs cannot be had.
    pub(super) bell: Option<OwnedFd>,
    pub(super) launchpad: Launchpad,
    /// Processes that wait for a job.
    pub(super) standbys: Standbys,
    pub(super) roster: Roster,
    pub(super) sharing: Sharing,
    pub(super) publisher: Publisher,
    /// Running jobs that have said that their work is finished, with the attempt.
    pub(super) done: HashMap<JobId, Attempt>,
    /// The processes beside the workers of maps.
    pub(super) feeders: Feeders,
    /// What the exit code depends on, of maps.
    pub(super) maps: MapsSeen,
    pub(super) vigils: Vigils,
    pub(super) clock: Clock,
    /// How many jobs' files to make before their time.
    ahead: usize,
    /// Inputs that performing an effect produced, in order.
    pub(super) inputs: VecDeque<Input>,
    /// They are being worked off.
    feeding: bool,
    outcome: Option<Outcome>,
    /// The run directory is not where it was, or not whole.
    pub(super) misplaced: Option<Misplaced>,
    /// Whether starts wait for space on the disk.
    pub(super) disk_space: DiskSpace,
    /// The run is to end: it was interrupted, or all of it cancelled.
    pub(super) asked: bool,
    /// What was said last about starts that are held.
    pub(super) last_note: String,
    /// The exit code of an interrupted run.
    pub(super) interrupted: Option<ExitCode>,
}

impl<'a> Reactor<'a> {
    pub(super) fn new(prepared: &'a mut Prepared) -> io::Result<Self> {
        let journal = prepared.journal.take().ok_or(io::ErrorKind::Other)?;
        let experience = Experience::of(&prepared.plan, &prepared.machine);
        let core = Core::new(Arc::clone(&prepared.plan), prepared.machine.clone(), &prepared.past)
            .with_known(&experience.known());
        let leases = prepared.leases.take();
        let core = if leases.is_some() { core.with_leases() } else { core };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let publisher = Publisher::new()?;
        let bell = control::hang_bell(&prepared.dir);
        watch(&epoll, &prepared.signals, SIGNALS)?;
        watch(&epoll, &prepared.link, LINK)?;
        watch(&epoll, &publisher, PUBLISHED)?;
        let real = prepared.machine.kind == GpuKind::Nvml;
        let gpus = real.then(|| {
            let headroom = prepared.plan.run.headroom;
            Gpus::new(&prepared.dir, &prepared.machine, headroom, prepared.foreign, leases)
        });
        let gpus = gpus.transpose()?;
        if let Some(gpus) = &gpus {
            watch(&epoll, gpus, GPUS)?;
        }
        let pulses = gpus.as_ref().map(Gpus::pulses);
        let vigils = Vigils::start(&prepared.dir, &prepared.plan, &prepared.machine, pulses)?;
        watch(&epoll, &vigils, VIGILS)?;
        if let Some(bell) = &bell {
            watch(&epoll, bell, CONTROL)?;
        }
        let root = prepared.place.directory().try_clone_to_owned()?;
        let launchpad =
            Launchpad::new(prepared.dir.clone(), root, Arc::clone(&prepared.plan), prepared.machine.clone());
        let ahead = (prepared.machine.main_lanes() as usize).clamp(1, MOST_AHEAD);
        let roster = Roster::new(prepared.dir.root().to_string_lossy().into_owned());
        let alone = prepared.plan.job_ids().filter(|job| prepared.past.job(*job).alone).collect();
        let accept = prepared.accept_changes;
        let feeders = Feeders::new(prepared.dir.clone(), Arc::clone(&prepared.plan), &prepared.past, accept);
        let items_failed =
            prepared.past.maps.iter().flatten().any(|map| map.finished.is_some() && map.failed > 0);
        let standbys = Standbys::new(&prepared.plan, &prepared.machine);
        let disk_space = DiskSpace::of_run(prepared.past.disk_full);
        Ok(Self {
            prepared,
            standbys,
            core,
            journal,
            epoll,
            bell,
            launchpad,
            roster,
            sharing: Sharing::new(gpus, alone, experience),
            publisher,
            done: HashMap::new(),
            feeders,
            maps: MapsSeen::new(items_failed),
            vigils,
            clock: Clock::start(),
            ahead,
            inputs: VecDeque::new(),
            feeding: false,
            outcome: None,
            misplaced: None,
            disk_space,
            asked: false,
            last_note: String::new(),
            interrupted: None,
        })
    }

    /// Runs until the core says the run is over.
    pub(super) fn run(mut self) -> io::Result<ExitCode> {
        self.clock.set(SWEEP, Alarm::Sweep);
        self.look_at_place();
        if vigil::is_gated(&self.prepared.plan, &self.prepared.machine) {
            // Until the first look at the CPUs, no core is known to be idle.
            self.feed(Input::Pressure { idle: 0 });
        }
        self.feed(Input::Begin);
        self.take_requests();
        self.look_after_standbys();
        let mut events = Vec::with_capacity(256);
        while self.outcome.is_none() {
            self.wait(&mut events, Some(self.quiet_before_preparing()))?;
            if events.is_empty() && !self.use_the_time() {
                self.wait(&mut events, self.until_next_alarm())?;
            }
            for event in events.drain(..) {
                self.on_event(event.data.u64());
            }
            while let Some(alarm) = self.clock.due() {
                self.on_alarm(alarm);
            }
            self.look_after_standbys();
        }
        Ok(self.finish())
    }

    /// Nothing has happened: make the files of the next job. `false`: there is none to prepare.
    fn use_the_time(&mut self) -> bool {
        let upcoming: Vec<_> = self.core.upcoming(self.ahead).collect();
        self.launchpad.prepare(&upcoming)
    }

    /// Making files competes with the jobs for the cores. With a core to spare that may begin at once; otherwise
    /// only when nothing has happened for a moment, which among the shortest jobs is never.
    fn quiet_before_preparing(&self) -> Timespec {
        let spare = self.roster.len() < self.prepared.machine.cores as usize;
        Timespec { tv_sec: 0, tv_nsec: if spare { 0 } else { 1_000_000 } }
    }

    fn until_next_alarm(&self) -> Option<Timespec> {
        self.clock.until_next().and_then(|wait| Timespec::try_from(wait.duration()).ok())
    }

    fn wait(&self, events: &mut Vec<epoll::Event>, timeout: Option<Timespec>) -> io::Result<()> {
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn on_event(&mut self, token: u64) {
        #[allow(clippy::cast_possible_truncation)] // the low half is the id
        let (job, stage) = (JobId(token as u32), StageId(token as u32));
        match token & !0xffff_ffff {
            MAIN => {
                let look = self.roster_attempt(job, Roster::on_main_ended);
                self.follow(job, look);
            }
            SURVIVOR => {
                let look = self.roster_attempt(job, Roster::look);
                self.follow(job, look);
            }
            SIGNALS => {
                for signal in self.prepared.signals.take() {
                    self.on_signal(signal);
                }
            }
            LINK => self.on_link(),
            CONTROL => {
                self.take_requests();
                // A job rings, too, when its work is done.
                self.vigils.hurry();
            }
            PUBLISHED => self.hear_publisher(),
            GPUS => self.hear_of_gpus(),
            LEASES => self.on_leases_changed(),
            FEEDER_ENDED => self.on_feeder_ended(stage),
            FEEDER_WORDS => self.hear_feeder(stage),
            STANDBY_ENDED => self.on_standby_ended(job.0),
            STANDBY_WORDS => self.hear_standby(job.0),
            VIGILS => self.hear_vigils(),
            _ => {}
        }
    }

    fn on_alarm(&mut self, alarm: Alarm) {
        match alarm {
            // Its processes ended in time; that its memory takes longer is not its fault.
            Alarm::Core(Timer::Timeout { job, .. })
                if self.sharing.gpus.as_ref().is_some_and(|gpus| gpus.is_leaving(job)) => {}
            Alarm::Core(timer) => self.feed(Input::TimerFired { timer }),
            Alarm::Gpus => self.on_gpu_alarm(),
            Alarm::Standbys => self.on_standbys_alarm(),
            Alarm::StandbysPrint => self.on_standbys_print(),
            Alarm::WaitedEnough => self.on_waited_enough(),
            // The guardian cannot do it: it is held by a debugger, or frozen.
            Alarm::Abandoned => self.on_signal(libc::SIGHUP),
            Alarm::Place => self.look_at_place(),
            Alarm::Feeder(stage) => self.press_feeder(stage),
            Alarm::Ending(job) => {
                let look = self.roster_attempt(job, Roster::look);
                self.follow(job, look);
            }
            Alarm::Sweep => {
                self.roster.sweep();
                self.let_feeders_go_on();
                self.look_after_leases();
                if self.vigils.has_fallen_silent() {
                    self.prepared.link.note(
                        "nobody watches over the jobs: reading about them does not come back (a disk or /proc hangs); \
                         a frozen job will not be noticed",
                    );
                }
                // Where there is no bell, this is how requests are found.
                self.take_requests();
                let next = self.clock.now().after(SWEEP);
                self.clock.set(next, Alarm::Sweep);
            }
        }
    }

    /// A look at a job, with the attempt it was about.
    fn roster_attempt(
        &mut self,
        job: JobId,
        look: impl FnOnce(&mut Roster, JobId, Millis) -> Look,
    ) -> (Option<Attempt>, Look) {
        let attempt = self.roster.get(job).map(|running| running.attempt);
        let now = self.clock.now();
        (attempt, look(&mut self.roster, job, now))
    }

    fn follow(&mut self, job: JobId, (attempt, look): (Option<Attempt>, Look)) {
        match look {
            Look::Still => {}
            Look::Again { at, watch } => {
                self.clock.set(at, Alarm::Ending(job));
                for pid in watch {
                    self.watch_survivor(job, pid);
                }
            }
            Look::Gone(gone) => {
                if let Some(attempt) = attempt {
                    self.on_gone(job, attempt, gone);
                }
            }
        }
    }

    fn watch_survivor(&self, job: JobId, pid: Pid) {
        if let Some(fd) = self.roster.watched(job, pid) {
            // If it cannot be watched, the next alarm looks anyway.
            let _ = watch(&self.epoll, fd, SURVIVOR | u64::from(job.0));
        }
    }

    /// Tells the core, performs what it answers, until there is nothing more to tell.
    pub(super) fn feed(&mut self, input: Input) {
        self.inputs.push_back(input);
        // What an effect leads to waits until the step it came from is done.
        if std::mem::replace(&mut self.feeding, true) {
            return;
        }
        self.standbys.stirred = true;
        let mut effects = Vec::new();
        while let Some(input) = self.inputs.pop_front() {
            self.core.step(self.clock.now(), input, &mut effects);
            for effect in effects.drain(..) {
                self.perform(effect);
            }
        }
        self.feeding = false;
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn { job, attempt, lane, gpus, cpus, reserve, firm } => {
                let reserve = reserve.filter(|_| firm);
                let extra = self.mps_environment_of(job, &gpus);
                let keep = self.sharing.gpus.as_ref().map(|owned| owned.leases_of(&gpus)).unwrap_or_default();
                let start =
                    Start { job, attempt, lane, gpus: &gpus, cpus, reserve, extra: &extra, keep: &keep };
                let input = self.spawn(&start);
                self.inputs.push_back(input);
            }
            Effect::Feed { stage } => self.start_feeder(stage),
            Effect::EndFeeder { stage, now } => self.end_feeder(stage, now),
            Effect::Terminate { job, attempt, manner } => {
                if self.roster.get(job).is_some_and(|running| running.attempt == attempt) {
                    let time = self.clock.now();
                    let look = self.roster.terminate(job, manner, time);
                    self.follow(job, (Some(attempt), look));
                }
            }
            Effect::Publish { job, attempt } => self.publish(job, attempt),
            Effect::Record(event) => self.record(event),
            Effect::SetTimer { timer, at } => self.clock.set(at, Alarm::Core(timer)),
            Effect::Want { gpus } => self.want_gpus(gpus),
            Effect::Release { gpu } => self.release_gpu(gpu),
            Effect::Finish { outcome } => self.outcome = Some(outcome),
        }
    }

    pub(super) fn record(&mut self, mut event: Event) {
        self.learn_from(&event);
        match &mut event {
            Event::RunFinished { exit_code, .. } => *exit_code = Some(self.code_of_finished().code()),
            Event::RunInterrupted { exit_code, .. } => {
                // Without a signal it is GPUs that are missing.
                *exit_code = Some(self.interrupted.unwrap_or(ExitCode::NoResources).code());
            }
            _ => {}
        }
        self.journal.append(Clock::unix(), event);
    }

    /// Of a run in which every job has ended.
    fn code_of_finished(&self) -> ExitCode {
        let counts = self.core.counts();
        match () {
            () if self.maps.were_refused() => ExitCode::BadInput,
            () if counts.failed + counts.skipped > 0 => ExitCode::SomeFailed,
            () if self.maps.items_failed || !self.core.maps_are_complete() => ExitCode::SomeFailed,
            () => ExitCode::Success,
        }
    }

    /// Everything has ended. The last records go to the disk, then the run is given back.
    fn finish(mut self) -> ExitCode {
        self.launchpad.close();
        self.standbys.end_all();
        // Ended in order, so that its memory is back when we are gone.
        self.sharing.mps.take();
        self.sharing.experience.keep();
        let code = match self.outcome {
            Some(Outcome::NoGpus) => ExitCode::NoResources,
            Some(Outcome::Interrupted) => self.interrupted.unwrap_or(ExitCode::Interrupted),
            _ => self.code_of_finished(),
        };
        self.close_journal(code)
    }
}

/// Listens for leases that come free.
pub(super) fn watch_changes(epoll: &OwnedFd, changes: BorrowedFd<'_>) -> bool {
    watch(epoll, changes, LEASES).is_ok()
}

/// Listens for what a feeder says, and for its end.
pub(super) fn watch_feeder(
    epoll: &OwnedFd,
    stage: StageId,
    ended: BorrowedFd<'_>,
    words: BorrowedFd<'_>,
) -> io::Result<()> {
    watch(epoll, ended, FEEDER_ENDED | u64::from(stage.0))?;
    watch(epoll, words, FEEDER_WORDS | u64::from(stage.0))
}

/// Listens for what a standby says, and for its end.
pub(super) fn watch_standby(
    epoll: &OwnedFd,
    number: u32,
    ended: BorrowedFd<'_>,
    words: BorrowedFd<'_>,
) -> io::Result<()> {
    watch(epoll, ended, STANDBY_ENDED | u64::from(number))?;
    watch(epoll, words, STANDBY_WORDS | u64::from(number))
}

/// Listens for the end of a job's main process.
pub(super) fn watch_main(epoll: &OwnedFd, job: JobId, main: impl AsFd) -> io::Result<()> {
    watch(epoll, main, MAIN | u64::from(job.0))
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
}
