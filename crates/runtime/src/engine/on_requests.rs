//! What others want of the run, as the reactor hears it: signals, the front's end, requests of other commands.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpulane_core::Input;
use gpulane_model::{ExitCode, JobId, Millis};
use rustix::event::epoll;

use super::begin::GUARDIAN_GONE;
use super::clock::Alarm;
use super::reactor::Reactor;
use crate::control;

/// What the guardian gets to end us once the front is gone; then we end by ourselves.
const ABANDONED: Millis = Millis::seconds(5);

impl Reactor<'_> {
    pub(super) fn on_link(&mut self) {
        for signal in self.prepared.link.signals() {
            self.on_signal(signal);
        }
        if self.prepared.link.is_closed() {
            // The front is gone. Attached, the guardian is about to end us; detached, nobody will speak again.
            let _ = epoll::delete(&self.epoll, &self.prepared.link);
            if !self.prepared.detached {
                self.prepared.wake_guardian();
                self.clock.set(self.clock.now().after(ABANDONED), Alarm::Abandoned);
            }
        }
    }

    /// Once: end gently, resumable. Again: end now.
    pub(super) fn on_signal(&mut self, signal: i32) {
        let (name, code) = match signal {
            libc::SIGINT => ("SIGINT", ExitCode::Interrupted),
            GUARDIAN_GONE => ("the guardian was killed", ExitCode::Internal),
            libc::SIGHUP => ("SIGHUP", ExitCode::Terminated),
            libc::SIGTERM => ("SIGTERM", ExitCode::Terminated),
            _ => return,
        };
        self.publisher.hurry();
        self.asked = true;
        let again = self.interrupted.is_some();
        self.interrupted.get_or_insert(code);
        self.feed(Input::Interrupted { because: name.to_owned(), now: again || signal == GUARDIAN_GONE });
    }

    pub(super) fn take_requests(&mut self) {
        if let Some(bell) = &self.bell {
            // More than this many rings are heard in the next round.
            let _ = rustix::io::read(bell, &mut [0u8; 4096]);
        }
        for taken in control::take(&self.prepared.dir) {
            let control::Request::Cancel(jobs) = &taken.request;
            let answer = self.cancel(&jobs.iter().copied().collect());
            taken.answer(&answer);
        }
    }

    /// Ends the jobs of these numbers; none: all.
    fn cancel(&mut self, wanted: &BTreeSet<u32>) -> control::Answer {
        let plan = Arc::clone(&self.prepared.plan);
        let is_meant = |job: &JobId| wanted.is_empty() || wanted.contains(&job.0);
        let (ended, jobs): (Vec<JobId>, Vec<JobId>) =
            plan.job_ids().filter(is_meant).partition(|job| self.core.has_ended(*job));
        let ending = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        // An empty list would mean all.
        if !jobs.is_empty() {
            if wanted.is_empty() {
                self.asked = true;
                self.publisher.hurry();
            }
            self.publisher.hurry_jobs(&jobs);
            self.feed(Input::CancelRequested { jobs });
        }
        let ended_before = ended.iter().filter(|_| !wanted.is_empty()).map(|job| job.0);
        control::Answer { ending, ended_before: ended_before.collect() }
    }
}
