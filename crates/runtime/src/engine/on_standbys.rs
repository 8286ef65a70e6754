//! The reactor's dealings with standbys: those that are missing are started when there is room, those that are not wanted any more
//! are ended, and what they say or do is passed on.

use gpulane_core::Input;
use gpulane_model::{Bytes, JobId, Millis, ProcessExit, StageId};
use rustix::process::{Pid, Signal, pidfd_send_signal};

use super::clock::Alarm;
use super::launchpad::Setback;
use super::reactor::{Reactor, watch_standby};
use super::standbys::{Mould, Parting, Press, Useless, Why, moulds};
use crate::process::tree::{self, Tag};

/// Until what was held back is looked at again.
const AGAIN: Millis = Millis(250);
/// Between two looks at what they print and take, and at those that have a job to take. Nothing tells of either.
const LISTEN: Millis = Millis(500);

impl Reactor<'_> {
    /// Makes what is there what is wanted, as far as there is room.
    pub(super) fn look_after_standbys(&mut self) {
        if !self.standbys.need_a_look() {
            return;
        }
        let wishes = self.core.standbys(&self.standbys.there(), &self.standbys.paces(self.clock.now()));
        let wanted = moulds(wishes, |wish| {
            let gpus: Vec<_> = wish.gpu.into_iter().collect();
            self.mps_environment(wish.stage, &gpus)
        });
        let (surplus, missing) = self.standbys.compare(&wanted);
        for number in surplus {
            self.standbys.end(number);
        }
        for mould in missing {
            if !self.start_standby(mould) {
                // Something is held back: a look at the CPUs and the memory in a moment.
                if !std::mem::replace(&mut self.standbys.alarm, true) {
                    let at = self.clock.now().after(AGAIN);
                    self.clock.set(at, Alarm::Standbys);
                }
                return;
            }
        }
    }

    pub(super) fn on_standbys_alarm(&mut self) {
        self.standbys.alarm = false;
        self.standbys.stirred = true;
    }

    /// Ends those that print without end, turn out to be too large, or do not take the job they were handed.
    pub(super) fn on_standbys_print(&mut self) {
        self.standbys.listening = false;
        self.press_standbys();
        self.standbys.end_the_heavy();
        // Jobs that go on and on need fewer of them.
        self.standbys.stirred = true;
        for stage in self.standbys.end_the_loud() {
            let name = &self.prepared.plan.stage(stage).name;
            let note =
                format!("a standby of {name} was ended: it printed more than 16 MiB before it had a job");
            self.prepared.link.note(&note);
        }
        self.listen_to_standbys();
    }

    fn press_standbys(&mut self) {
        for (job, press) in self.standbys.press() {
            // By its descriptor: where it has ended already, its number may be another's.
            let Some(main) = self.roster.main_of(job) else { continue };
            let signal = if press == Press::End { Signal::KILL } else { Signal::CONT };
            // Already ended is as good.
            let _ = pidfd_send_signal(main, signal);
        }
    }

    fn listen_to_standbys(&mut self) {
        if self.standbys.any_to_hear() && !std::mem::replace(&mut self.standbys.listening, true) {
            let at = self.clock.now().after(LISTEN);
            self.clock.set(at, Alarm::StandbysPrint);
        }
    }

    /// `false`: there is no room now, or it could not be done.
    fn start_standby(&mut self, mould: Mould) -> bool {
        let now = self.clock.now();
        if !self.standbys.may_import(now) {
            return false;
        }
        if let Some(because) = self.standbys.shortage(mould.stage) {
            if !std::mem::replace(&mut self.standbys.shortage_said, true) {
                self.prepared.link.note(&format!("no more standbys for now: {because}"));
            }
            return false;
        }
        let Ok(cradle) = self.standbys.cradle() else { return false };
        let (stage, number) = (mould.stage, cradle.number);
        let tag = Tag::standby(&self.prepared.plan.stage(stage).name, number);
        let gpus: Vec<_> = mould.gpu.into_iter().collect();
        let keep = self.sharing.gpus.as_ref().map(|owned| owned.leases_of(&gpus)).unwrap_or_default();
        match self.launchpad.start_standby(&mould, &tag, &cradle, keep) {
            Ok(spawned) => {
                self.roster.attend(spawned.pid, tag.clone());
                self.standbys.add(mould, tag, cradle, spawned, now);
                if let Some((ended, words)) = self.standbys.ears(number)
                    && watch_standby(&self.epoll, number, ended, words).is_err()
                {
                    // Only out of kernel memory. Unheard it is of no use.
                    self.standbys.end(number);
                }
                self.listen_to_standbys();
                true
            }
            Err(Setback::Program(why)) => {
                self.feed(Input::StandbysFailed { stage, why });
                false
            }
            // Jobs find out the same, and say so.
            Err(Setback::Blocked(_) | Setback::Missing(_) | Setback::Fatal(_)) => false,
        }
    }

    /// A standby has said something.
    pub(super) fn hear_standby(&mut self, number: u32) {
        let useless = self.standbys.hear(number, self.clock.now());
        if let Some(socket) = self.standbys.silenced(number) {
            let _ = rustix::event::epoll::delete(&self.epoll, socket);
        }
        self.tell_useless(useless);
    }

    /// A standby's process has ended.
    pub(super) fn on_standby_ended(&mut self, number: u32) {
        if let Some((pid, useless)) = self.standbys.on_ended(number) {
            self.roster.dismiss(pid);
            // What it has started must not outlive it.
            self.roster.sweep();
            self.tell_useless(useless);
        }
    }

    /// The processes of a job are gone that may have been a standby.
    pub(super) fn on_standbys_job_gone(&mut self, job: JobId, exit: ProcessExit) {
        let Parting { never_begun, useless } = self.standbys.on_job_gone(job, exit, self.clock.now());
        self.sharing.note_never_begun(job, never_begun);
        self.tell_useless(useless);
    }

    fn tell_useless(&mut self, useless: Option<Useless>) {
        let Some(Useless { stage, why }) = useless else { return };
        let why = match why {
            Why::Import(why) => format!("importing {} failed: {why}", self.file_of(stage)),
            Why::Deaths(why) => why,
        };
        self.feed(Input::StandbysFailed { stage, why });
    }

    /// A process of a standby was seen on a GPU, or of a job that was one and has ended.
    pub(super) fn on_standby_seen(&mut self, gpu: usize, pid: u32, bytes: Option<Bytes>) {
        let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
        let number = tree::tag_of(process).and_then(|tag| tag.standby_number());
        let Some(stage) = number.and_then(|number| self.standbys.stage_of(number)) else {
            if self.roster.is_leftover(process)
                && let Some(process) = tree::look(process)
            {
                tree::signal(&process, Signal::KILL);
            }
            return;
        };
        let took = bytes
            .filter(|bytes| bytes.0 > 0)
            .map_or_else(|| format!("began to use GPU {gpu}"), |bytes| format!("took {bytes} on GPU {gpu}"));
        let main = self.function_of(stage);
        let why = format!("importing {} {took}; move CUDA calls into {main}", self.file_of(stage));
        self.feed(Input::StandbysFailed { stage, why });
    }

    fn file_of(&self, stage: StageId) -> &str {
        self.target_of(stage).rsplit_once(':').map_or("its file", |(file, _)| file)
    }

    fn function_of(&self, stage: StageId) -> String {
        match (&self.prepared.plan.stage(stage).map, self.target_of(stage).rsplit_once(':')) {
            (None, Some((_, function))) => format!("{function}()"),
            _ => "setup()".to_owned(),
        }
    }

    fn target_of(&self, stage: StageId) -> &str {
        let stage = self.prepared.plan.stage(stage);
        let model = stage.map.as_ref().map(|map| map.model.as_str());
        stage.entry.as_deref().or(model).unwrap_or_default()
    }
}
