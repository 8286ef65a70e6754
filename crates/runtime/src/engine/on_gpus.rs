//! The reactor's dealings with GPUs: effects about them performed, news of them passed on, and a job's end held back
//! until its memory is back.

use std::collections::{HashMap, HashSet};

use gpulane_core::{Input, Trouble};
use gpulane_model::{
    Attempt, Bytes, Event, ExitCode, FullDisk, GpuIndex, JobId, Memory, Millis, ProcessExit, StageId,
};
use rustix::process::{Pid, Signal};

use super::clock::Alarm;
use super::ending::{Gone, Names};
use super::environment::Start;
use super::gpus::{Exit, Gpus, Newcomer, News};
use super::mps::Mps;
use super::reactor::Reactor;
use super::trouble::{self, OomKills, Sign};
use super::vigil::keep_last_words;
use crate::experience::Experience;
use crate::process::tree;

/// How often leases and unanswered questions are looked after while there are any.
const AGAIN: Millis = Millis(250);

impl Reactor<'_> {
    /// The core could use so many more GPUs.
    pub(super) fn want_gpus(&mut self, count: u32) {
        self.tell_useful();
        if let Some(gpus) = &mut self.sharing.gpus {
            let news = gpus.want(count);
            self.on_gpu_news(news);
            self.look_after_gpus();
            self.count_the_wait(count);
        }
    }

    /// `--wait` counts from when the first GPU is wanted and not there.
    fn count_the_wait(&mut self, wanted: u32) {
        if let Some(wait) =
            self.prepared.wait.filter(|_| wanted > 0 && !self.sharing.any_gpu && !self.sharing.wait_counts)
        {
            self.sharing.wait_counts = true;
            let at = self.clock.now().after(wait);
            self.clock.set(at, Alarm::WaitedEnough);
        }
    }

    pub(super) fn release_gpu(&mut self, gpu: GpuIndex) {
        if !self.sharing.places.values().any(|place| place.mps) {
            // Its server would be a stranger on the GPU to whoever has it next.
            self.sharing.mps.take();
        }
        if let Some(gpus) = &mut self.sharing.gpus {
            gpus.release(gpu);
        }
    }

    /// The watching thread has something to say.
    pub(super) fn hear_of_gpus(&mut self) {
        let news = self.sharing.gpus.as_mut().map(Gpus::take).unwrap_or_default();
        self.on_gpu_news(news);
        self.look_after_gpus();
    }

    /// The locks of our leases are looked after.
    pub(super) fn look_after_leases(&mut self) {
        if let Some(gpus) = &mut self.sharing.gpus {
            let news = gpus.look_after_leases();
            self.on_gpu_news(news);
        }
    }

    /// Another run may have given a GPU back.
    pub(super) fn on_leases_changed(&mut self) {
        self.tell_useful();
        if let Some(gpus) = &mut self.sharing.gpus {
            gpus.clear_changes();
            let news = gpus.reach_out();
            self.on_gpu_news(news);
        }
    }

    /// Time to look again at what was asked and not answered, wanted and not had.
    pub(super) fn on_gpu_alarm(&mut self) {
        self.sharing.gpus_alarm = false;
        self.tell_useful();
        let Some(gpus) = &mut self.sharing.gpus else { return };
        let mut news = gpus.check_pulse();
        news.extend(gpus.reach_out());
        self.on_gpu_news(news);
        self.look_after_gpus();
    }

    /// A GPU too small for all that is ready would come and go for nothing.
    fn tell_useful(&mut self) {
        let gpus = 0..self.prepared.machine.gpus.len();
        let useful = gpus.map(|gpu| self.core.could_use(GpuIndex::at(gpu))).collect();
        if let Some(gpus) = &mut self.sharing.gpus {
            gpus.set_useful(useful);
        }
    }

    fn look_after_gpus(&mut self) {
        let Some(gpus) = &self.sharing.gpus else { return };
        if let Some(changes) = gpus.changes().filter(|_| !self.sharing.changes_watched) {
            // If it cannot be watched, the alarm finds changes too.
            self.sharing.changes_watched = super::reactor::watch_changes(&self.epoll, changes);
        }
        if !self.sharing.gpus_alarm && gpus.is_expecting() {
            self.sharing.gpus_alarm = true;
            let at = self.clock.now().after(AGAIN);
            self.clock.set(at, Alarm::Gpus);
        }
    }

    fn on_gpu_news(&mut self, news: Vec<News>) {
        for news in news {
            match news {
                News::Tell(input) => {
                    self.sharing.any_gpu |= matches!(input, Input::GpuGranted { .. });
                    self.feed(input);
                }
                News::Note(text) => self.prepared.link.note(&text),
                News::Exited { job, exit, ended, peak } => {
                    let ago = Millis(u64::try_from(ended.elapsed().as_millis()).unwrap_or(u64::MAX));
                    self.on_exited(job, exit, ago, peak);
                }
                News::Stray(pid) => self.end_stray(pid),
                News::Standby { gpu, pid, bytes } => self.on_standby_seen(gpu, pid, bytes),
            }
        }
    }

    /// `--wait` is over and no GPU has come.
    pub(super) fn on_waited_enough(&mut self) {
        self.sharing.wait_counts = false;
        let Some(gpus) = self.sharing.gpus.as_ref().filter(|gpus| gpus.is_waiting()) else { return };
        if self.sharing.any_gpu {
            return;
        }
        if gpus.is_asking() {
            // One is being looked at; whether it is free is known in a moment.
            self.sharing.wait_counts = true;
            let at = self.clock.now().after(AGAIN);
            return self.clock.set(at, Alarm::WaitedEnough);
        }
        let waited = self.prepared.wait.unwrap_or_default();
        self.interrupted.get_or_insert(ExitCode::NoResources);
        let because = format!("no GPU came free within {waited} (--wait)");
        self.feed(Input::Interrupted { because, now: false });
    }

    /// A job's processes are gone; on a GPU it has not ended until its memory is back.
    pub(super) fn on_gone(&mut self, job: JobId, attempt: Attempt, gone: Gone) {
        self.vigils.leave(job, gone.exit.success());
        self.on_standbys_job_gone(job, gone.exit);
        if gone.aborted {
            let (dir, plan) = (&self.prepared.dir, &self.prepared.plan);
            keep_last_words(&dir.stderr_log(plan, job, attempt), &dir.stacks_file(plan, job, attempt));
        }
        let exit = Exit { attempt, gone };
        let exit = match &mut self.sharing.gpus {
            Some(gpus) => gpus.leave(job, exit),
            None => Some(exit),
        };
        match exit {
            Some(exit) => self.on_exited(job, exit, Millis(0), None),
            None => self.look_after_gpus(),
        }
    }

    /// `ago`: how long its memory was awaited since.
    fn on_exited(&mut self, job: JobId, exit: Exit, ago: Millis, peak: Option<Bytes>) {
        let Exit { attempt, gone: Gone { exit, left, who, stuck, .. } } = exit;
        let place = self.sharing.places.remove(&job).unwrap_or_default();
        let said = self.hear_last_word(job, attempt, exit);
        let trouble = match &place.never_begun {
            Some(why) => Some(Trouble::NeverBegun(why.clone())),
            None if exit.success() || said || !self.core.ends_by_itself(job) => None,
            None => self.trouble(job, attempt, exit, &place),
        };
        let is_worker = self.prepared.plan.stage_of(job).map.is_some();
        if is_worker {
            // A feeder says that its map is complete before it sends workers away: what it has said comes before what they did.
            self.hear_feeder(self.prepared.plan.job(job).stage);
        }
        let fruitful = is_worker && self.prepared.dir.ready_file(&self.prepared.plan, job, attempt).exists();
        self.feed(Input::JobExited { job, attempt, exit, left, who, ago, peak, trouble, stuck, fruitful });
    }

    /// What the job's own last words tell about its end.
    fn trouble(
        &mut self,
        job: JobId,
        attempt: Attempt,
        exit: ProcessExit,
        place: &Placed,
    ) -> Option<Trouble> {
        let (dir, plan) = (&self.prepared.dir, &self.prepared.plan);
        let (out, err) = (dir.stdout_log(plan, job, attempt), dir.stderr_log(plan, job, attempt));
        let kills = place.oom_kills.map_or(0, OomKills::since);
        let sign = trouble::recognise(exit, &out, &err, place.mps, kills);
        // Without a GPU, what it says about one is somebody else's business.
        Some(match (sign, place.gpus.first()) {
            (Some(Sign::HostOom(words)), _) => Trouble::HostOom(words),
            (Some(Sign::GpuOom(words)), Some(_)) => Trouble::GpuOom(words),
            (Some(Sign::MpsFault(words)), Some(_)) => Trouble::MpsFault(words),
            (Some(Sign::DiskFull(words)), _) => return self.lack_of_space(job, Some(words)),
            // What a job prints condemns no GPU: if it is lost, the look at its memory has told.
            _ => return self.lack_of_space(job, None),
        })
    }

    /// A job has started: its memory is followed from now on.
    pub(super) fn follow_on_gpus(&mut self, start: &Start<'_>, pid: Pid, names: &Names) {
        let oom_kills = Some(self.oom_kills_now());
        let placed =
            Placed { gpus: start.gpus.to_vec(), mps: !start.extra.is_empty(), oom_kills, never_begun: None };
        self.sharing.places.insert(start.job, placed);
        let Some(gpus) = &mut self.sharing.gpus else { return };
        gpus.follow(Newcomer {
            job: start.job,
            attempt: start.attempt,
            names: names.clone(),
            main: pid.as_raw_nonzero().get(),
            gpus: start.gpus,
        });
    }

    /// The kernel's count of kills for want of memory. Read a few times a second at most: it is a file, and there may be
    /// thousands of starts.
    fn oom_kills_now(&mut self) -> OomKills {
        let now = self.clock.now();
        match self.sharing.oom_kills {
            Some((at, kills)) if now.since(at) < AGAIN => kills,
            _ => {
                let kills = OomKills::now();
                self.sharing.oom_kills = Some((now, kills));
                kills
            }
        }
    }

    /// What a job needs to share its GPU through MPS; the daemon is started for the first that does.
    pub(super) fn mps_environment_of(&mut self, job: JobId, gpus: &[GpuIndex]) -> Vec<(String, String)> {
        if self.sharing.alone.contains(&job) {
            return Vec::new();
        }
        self.mps_environment(self.prepared.plan.job(job).stage, gpus)
    }

    /// The same for any job of the stage.
    pub(super) fn mps_environment(&mut self, stage: StageId, gpus: &[GpuIndex]) -> Vec<(String, String)> {
        let (plan, machine) = (&self.prepared.plan, &self.prepared.machine);
        let stage = plan.stage(stage);
        // Only where several jobs come to share a GPU is it of use; who failed for sharing is left alone.
        let shares = match stage.memory {
            _ if !machine.packing => machine.lanes_per_gpu > 1,
            Memory::Reserve(bytes) => machine.gpus.iter().any(|gpu| gpu.usable().0 / bytes.0.max(1) > 1),
            Memory::Auto => true,
            Memory::Exclusive => false,
        };
        let of_use =
            stage.mps && shares && plan.jobs.len() > 1 && !gpus.is_empty() && self.sharing.gpus.is_some();
        if !of_use {
            return Vec::new();
        }
        if matches!(&self.sharing.mps, Daemon::Runs(mps) if !mps.is_alive()) {
            self.prepared.link.note("the MPS daemon has ended; starting another");
            self.sharing.mps = Daemon::NotYet;
        }
        if matches!(self.sharing.mps, Daemon::NotYet) {
            let uuids: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
            self.sharing.mps = match Mps::start(&self.prepared.dir, &uuids) {
                Ok(mps) => {
                    self.roster.spare(mps.pid());
                    Daemon::Runs(Box::new(mps))
                }
                Err(error) => {
                    self.prepared.link.note(&format!("{error}; jobs share the GPU without MPS"));
                    Daemon::Refused
                }
            };
        }
        let Daemon::Runs(mps) = &self.sharing.mps else { return Vec::new() };
        mps.environment().map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Ends a process that bears our mark and holds a GPU, unless its job runs: the watch hears of a start a moment
    /// after us.
    fn end_stray(&self, pid: u32) {
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw).and_then(tree::look);
        if let Some(process) = process
            && self.roster.is_leftover(process.pid)
        {
            tree::signal(&process, Signal::KILL);
        }
    }

    /// What an event tells about later starts and later runs.
    pub(super) fn learn_from(&mut self, event: &Event) {
        let Some(job) = event.job().and_then(|name| self.prepared.past.find(name)) else { return };
        match event {
            Event::JobSucceeded { seconds, peak_vram, .. } => {
                let stage = self.prepared.plan.job(job).stage;
                self.sharing.experience.learn(stage, *seconds, peak_vram.map(Bytes));
                self.disk_space.on_ended(job);
            }
            Event::JobFailed { attempt, failure, .. } => {
                if failure.shared {
                    self.sharing.alone.insert(job);
                }
                if failure.disk_full.is_some() {
                    self.measure_output(job, *attempt);
                }
                if failure.disk_full != Some(FullDisk::Run) {
                    self.disk_space.on_ended(job);
                }
            }
            Event::JobSkipped { .. } => self.disk_space.on_ended(job),
            _ => {}
        }
    }
}

/// What the reactor knows of GPUs and who is on them.
#[allow(clippy::struct_excessive_bools)] // each is a thing that was done or not
pub(super) struct Sharing {
    /// Real GPUs; `None` where there are none.
    pub(super) gpus: Option<Gpus>,
    /// An alarm for them is set.
    gpus_alarm: bool,
    /// We hear of leases that come free.
    changes_watched: bool,
    /// A GPU was granted to us at least once.
    any_gpu: bool,
    /// The time of `--wait` runs.
    wait_counts: bool,
    /// Where running jobs are.
    places: HashMap<JobId, Placed>,
    /// Jobs that failed for sharing a GPU.
    alone: HashSet<JobId>,
    pub(super) mps: Daemon,
    /// The kernel's count of kills for want of memory, and when it was read.
    oom_kills: Option<(Millis, OomKills)>,
    pub(super) experience: Experience,
}

impl Sharing {
    pub(super) fn new(gpus: Option<Gpus>, alone: HashSet<JobId>, experience: Experience) -> Self {
        Self {
            gpus,
            gpus_alarm: false,
            changes_watched: false,
            any_gpu: false,
            wait_counts: false,
            places: HashMap::new(),
            alone,
            mps: Daemon::NotYet,
            oom_kills: None,
            experience,
        }
    }

    /// The job's standby is gone; why it never took the job, if so.
    pub(super) fn note_never_begun(&mut self, job: JobId, why: Option<String>) {
        if let Some(place) = self.places.get_mut(&job) {
            place.never_begun = why;
        }
    }
}

/// The run's MPS daemon.
pub(super) enum Daemon {
    /// No job has had use for it.
    NotYet,
    /// It could not be started; that was said.
    Refused,
    Runs(Box<Mps>),
}

impl Daemon {
    /// Ends it, if it runs.
    pub(super) fn take(&mut self) {
        if let Self::Runs(_) = self {
            *self = Self::NotYet;
        }
    }
}

/// Where a running job is.
#[derive(Default)]
pub(super) struct Placed {
    gpus: Vec<GpuIndex>,
    mps: bool,
    /// The kernel's count when it started.
    oom_kills: Option<OomKills>,
    /// Why its standby never took it, now that it is gone.
    never_begun: Option<String>,
}
