//! One job that is watched over: what is known of it, and looks at it.

use std::path::PathBuf;

use gpulane_core::{Input, Verdict, Vigil, Wish};
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Hang, JobId, Millis, Plan, Stuck};
use gpulane_witness::{Evidence, GpuUse, Known};
use rustix::process::Pid;

use super::job_tree::{JobTree, Orphan};
use super::looks::Look;
use super::marks::Results;
use super::signs::{Sight, Writings};
use crate::process::tree::Table;

/// A process stopped for so long is worth a word.
const STOPPED: Millis = Millis::seconds(10);
/// The part of the usual limit after which a job with its results written counts as lingering, and the most that may be.
const LINGER_PART: u64 = 10;
const LINGER_MOST: Millis = Millis::seconds(60);

/// A job that is watched over.
pub(super) struct Charge {
    pub(super) attempt: Attempt,
    pub(super) main: Pid,
    pub(super) since: Millis,
    pub(super) vigil: Vigil,
    pub(super) sight: Sight,
    pub(super) writings: Writings,
    pub(super) results: Option<Results>,
    /// What it makes when its work is finished; `None` once that was seen.
    pub(super) mark: Option<PathBuf>,
    pub(super) stacks: PathBuf,
    /// When to look next.
    pub(super) due: Millis,
    pub(super) stopped: Stopped,
    /// How long a wait may last that is only told.
    outside: Option<Millis>,
    /// When to see why it is still there, its work being done.
    pub(super) stays: Option<Millis>,
    /// Evidence is wanted, and for what.
    pub(super) wanted: Option<Question>,
    pub(super) look: Option<(Question, Look)>,
    /// The piece that later ones are compared with.
    pub(super) first: Option<Evidence>,
}

/// Whether a process of it is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    No,
    Since(Millis),
    /// Since then, and people were told.
    Told(Millis),
    /// For longer than a wait may last.
    Ended,
}

/// What evidence is to tell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Why it is silent.
    Silence,
    /// Why it does not exit.
    Stay,
}

impl Charge {
    /// A job that has just started. `after`: how long it may be silent.
    pub(super) fn new(
        dir: &RunDir,
        plan: &Plan,
        (job, attempt): (JobId, Attempt),
        main: Pid,
        after: Option<Millis>,
        now: Millis,
    ) -> Self {
        let stage = plan.stage_of(job);
        let results = Results::new(&dir.attempt_out(plan, job, attempt), &stage.result);
        let linger = Millis(after.unwrap_or(Hang::default().after).0 / LINGER_PART).min(LINGER_MOST);
        let outside = stage.hang.and_then(|hang| hang.outside);
        let vigil = Vigil::new(after, results.as_ref().map(|_| linger), now).with_outside(outside);
        let due = aligned(now, vigil.next_look(now));
        Self {
            attempt,
            main,
            since: now,
            vigil,
            sight: Sight::new(main, JobTree::new(main, plan.job_name(job), attempt.0)),
            writings: Writings {
                logs: [
                    dir.stdout_log(plan, job, attempt),
                    dir.stderr_log(plan, job, attempt),
                    dir.metrics_file(plan, job, attempt),
                ],
            },
            results,
            // The work of a worker is the map's, which knows when that is done.
            mark: plan.stage_of(job).map.is_none().then(|| dir.done_file(plan, job, attempt)),
            stacks: dir.stacks_file(plan, job, attempt),
            due,
            stopped: Stopped::No,
            outside,
            stays: None,
            wanted: None,
            look: None,
            first: None,
        }
    }

    pub(super) fn main_id(&self) -> u32 {
        self.main.as_raw_nonzero().get().unsigned_abs()
    }

    /// What is known of it beside two pieces of evidence.
    pub(super) fn known(&self, gpu: GpuUse) -> Known {
        Known {
            main: self.main_id(),
            gpu,
            monitors: self.sight.monitors(),
            followers: self.sight.followers(),
            pollers: self.sight.pollers(),
            naps: self.sight.naps(),
        }
    }

    /// Its work is done by its own word.
    pub(super) fn done(&self, job: JobId, doing: Option<String>) -> Input {
        let because = "called gpulane.done()".to_owned();
        Input::WorkDone { job, attempt: self.attempt, because, doing, frozen: false }
    }

    /// A look that costs next to nothing; whether it was enough.
    pub(super) fn lives_at_a_glance(&mut self, now: Millis, beats: u64) -> bool {
        let Some(signs) = self.sight.glance(now, self.writings.bytes(), beats) else { return false };
        self.vigil.look(now, signs);
        let lives = self.vigil.quiet(now) == Millis(0);
        if lives {
            self.want_for_silence(false);
        }
        lives
    }

    /// A look at all its processes, and at its results.
    pub(super) fn look_closely(&mut self, now: Millis, beats: u64, (table, orphans): (&Table, &[Orphan])) {
        let results = self.results.as_ref().and_then(Results::found);
        self.vigil.set_result_there(results.is_some());
        let written = self.writings.bytes();
        let signs = self.sight.look(now, (table, orphans), written, results.unwrap_or(0), beats);
        let wanted = self.vigil.look(now, signs) == Wish::Evidence;
        self.want_for_silence(wanted);
    }

    /// Says that a silence is over of which people were told.
    pub(super) fn revived(&mut self, job: JobId) -> Option<Input> {
        let quiet = self.vigil.take_over()?;
        Some(Input::Revived { job, attempt: self.attempt, quiet })
    }

    /// Says once that somebody stopped it and has not let it go on, and once that this has lasted for longer than a wait may.
    pub(super) fn stopped_for_long(&mut self, job: JobId, now: Millis) -> Option<Input> {
        let Some(pid) = self.sight.stopped() else {
            self.stopped = Stopped::No;
            return None;
        };
        let (since, verdict) = match self.stopped {
            Stopped::No => {
                self.stopped = Stopped::Since(now);
                return None;
            }
            Stopped::Since(since) if now.since(since) > STOPPED => {
                self.stopped = Stopped::Told(since);
                (since, Verdict::Told)
            }
            Stopped::Told(since) if self.outside.is_some_and(|outside| now.since(since) >= outside) => {
                self.stopped = Stopped::Ended;
                (since, Verdict::Overdue)
            }
            Stopped::Since(_) | Stopped::Told(_) | Stopped::Ended => return None,
        };
        let evidence = format!("process {pid} is stopped, by SIGSTOP, Ctrl-Z or a debugger");
        let cause = Some(format!("it is left alone; `kill -CONT {pid}` lets it go on"));
        let stuck = Stuck { evidence, cause: cause.filter(|_| verdict == Verdict::Told), ..Stuck::default() };
        let (attempt, quiet) = (self.attempt, now.since(since));
        Some(Input::Stuck { job, attempt, quiet, verdict, stuck })
    }

    /// How long the next close look may take to come before it counts as late.
    pub(super) fn latest_look(&self, now: Millis) -> Millis {
        Millis(self.vigil.next_look(now).since(now).0 * 5 / 2)
    }

    /// Whether evidence about its silence is wanted; another question comes first.
    pub(super) fn want_for_silence(&mut self, wanted: bool) {
        if self.wanted != Some(Question::Stay) {
            self.wanted = wanted.then_some(Question::Silence);
        }
    }
}

/// When to look next: one moment for all that are looked at equally often, so that one walk serves them.
pub(super) fn aligned(now: Millis, next: Millis) -> Millis {
    let period = next.since(now).0.max(1);
    Millis((now.0 / period + 1) * period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_same_pace_come_together() {
        let pace = |now: u64| aligned(Millis(now), Millis(now + 5000));
        assert_eq!([pace(0), pace(1), pace(4999)], [Millis(5000); 3]);
        assert_eq!(pace(5000), Millis(10_000));
    }
}
