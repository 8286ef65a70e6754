//! Starts: a decision of the core becomes a process, or the reason why there is none.

use gpulane_core::Input;
use gpulane_model::{Attempt, ExitCode, JobId};
use rustix::event::epoll;

use super::ending::Names;
use super::environment::Start;
use super::launchpad::{Ready, Setback};
use super::place::Misplaced;
use super::reactor::{Reactor, watch_main};
use super::standbys::{Mould, Warm};
use crate::process::spawn::Spawned;

/// A job that runs.
struct Begun {
    spawned: Spawned,
    /// What it was called as a standby, if it was one.
    alias: Option<String>,
}

impl Reactor<'_> {
    pub(super) fn spawn(&mut self, start: &Start<'_>) -> Input {
        let Start { job, attempt, .. } = *start;
        match self.may_start().and_then(|()| self.begin(start)) {
            Ok(Begun { spawned, alias }) => {
                let (pid, warm) = (spawned.pid, alias.is_some());
                let grace = self.prepared.plan.stage_of(job).grace;
                let names = Names { name: self.prepared.plan.job_name(job), alias };
                self.follow_on_gpus(start, pid, &names);
                self.roster.add(job, attempt, names, grace, spawned);
                self.vigils.follow(job, attempt, pid);
                if let Some(main) = self.roster.main_of(job)
                    && let Err(error) = watch_main(&self.epoll, job, main)
                {
                    // Only out of kernel memory: then its end is found by looking.
                    self.prepared.link.note(&format!("cannot watch a job: {error}"));
                }
                self.maps.on_started(self.prepared.plan.job(job).stage);
                Input::JobSpawned { job, attempt, pid: pid.as_raw_nonzero().get().unsigned_abs(), warm }
            }
            Err(Setback::Program(message)) => Input::SpawnFailed { job, attempt, message },
            Err(Setback::Missing(because)) => {
                self.check_place();
                self.hold(job, attempt, because)
            }
            Err(Setback::Blocked(because)) => self.hold(job, attempt, because),
            Err(Setback::Fatal(because)) => {
                self.prepared.link.trouble(&because);
                self.interrupted.get_or_insert(ExitCode::Internal);
                self.inputs.push_back(Input::Interrupted { because: because.clone(), now: true });
                Input::SpawnBlocked { job, attempt, because }
            }
        }
    }

    /// Nothing can be started just now. Tried again every few seconds, said once.
    fn hold(&mut self, job: JobId, attempt: Attempt, because: String) -> Input {
        let known = match &self.misplaced {
            Some(Misplaced::Held(known) | Misplaced::Removed(known)) => *known == because,
            None => self.last_note == because || self.obstacle().as_ref() == Some(&because),
        };
        if !known {
            self.prepared.link.trouble(&because);
            self.last_note.clone_from(&because);
        }
        Input::SpawnBlocked { job, attempt, because }
    }

    /// Gives the job to a standby that fits, or starts a process for it.
    fn begin(&mut self, start: &Start<'_>) -> Result<Begun, Setback> {
        let ready = self.launchpad.make_ready(start)?;
        if self.standbys.any()
            && !self.standbys.is_cold(start.job)
            && let Some(Warm { spawned, alias }) = self.hand_over(start, &ready)
        {
            self.roster.dismiss(spawned.pid);
            // From now on its end is that of a job.
            let _ = epoll::delete(&self.epoll, &spawned.pidfd);
            return Ok(Begun { spawned, alias: Some(alias) });
        }
        let spawned = self.launchpad.start(start, &ready)?;
        let stage = self.prepared.plan.job(start.job).stage;
        self.standbys.on_cold_start(start.job, stage, self.clock.now());
        Ok(Begun { spawned, alias: None })
    }

    fn hand_over(&mut self, start: &Start<'_>, ready: &Ready) -> Option<Warm> {
        let mould = Mould {
            stage: self.prepared.plan.job(start.job).stage,
            gpu: start.gpus.first().copied(),
            cpus: start.cpus,
            reserve: start.reserve,
            extra: start.extra.to_vec(),
        };
        self.standbys.hand_over(start.job, &mould, &ready.files, &ready.own_names())
    }
}
