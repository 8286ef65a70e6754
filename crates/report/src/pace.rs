//! How fast a run goes and when it will be done: per-stage counts and durations, a rate, and an estimate that
//! does not jump.

use std::collections::VecDeque;

use gpulane_model::{Counts, JobStatus, Millis, Plan, Stage};

/// Durations remembered per stage: enough for a median, and it follows a change of pace.
const REMEMBERED: usize = 101;
/// Before this many jobs ended there is nothing to estimate from.
const ENOUGH: u32 = 3;

/// What is known of one stage.
#[derive(Clone, Debug, Default)]
struct StagePace {
    counts: Counts,
    /// Seconds of the newest jobs that succeeded.
    seconds: VecDeque<f64>,
}

/// The pace of a run, under the newest engine.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    stages: Vec<StagePace>,
    /// Jobs that ran to their end under this engine.
    ended: u32,
    /// When the estimate was last renewed.
    renewed: Option<Millis>,
    /// When the run should end, smoothed.
    end: Option<f64>,
}

impl Pace {
    pub(crate) fn new(plan: &Plan) -> Self {
        let stage = |stage: &Stage| StagePace {
            counts: Counts { pending: stage.jobs.end - stage.jobs.start, ..Counts::default() },
            seconds: VecDeque::new(),
        };
        Self { stages: plan.stages.iter().map(stage).collect(), ended: 0, renewed: None, end: None }
    }

    /// A new engine took over: rates start anew, durations stay true.
    pub(crate) fn on_engine(&mut self) {
        self.ended = 0;
        self.renewed = None;
        self.end = None;
    }

    /// A job of this stage went from one status to another.
    pub(crate) fn on_change(&mut self, stage: usize, before: &JobStatus, after: &JobStatus) {
        let Some(stage) = self.stages.get_mut(stage) else { return };
        let old = slot(&mut stage.counts, before);
        *old = old.saturating_sub(1);
        *slot(&mut stage.counts, after) += 1;
        match after {
            JobStatus::Succeeded { seconds, .. } => {
                self.ended += 1;
                if stage.seconds.len() == REMEMBERED {
                    stage.seconds.pop_front();
                }
                stage.seconds.push_back(*seconds);
            }
            JobStatus::Failed(_) => self.ended += 1,
            // A retry takes its failure back.
            JobStatus::Pending if matches!(before, JobStatus::Failed(_)) => {
                self.ended = self.ended.saturating_sub(1);
            }
            _ => {}
        }
    }

    /// Jobs per second under this engine.
    pub(crate) fn rate(&self, elapsed: Millis) -> Option<f64> {
        (self.ended >= ENOUGH && elapsed.0 >= 1000).then(|| f64::from(self.ended) / elapsed.as_seconds())
    }

    /// The time left, if anything can be said. `elapsed`: since this engine started; `running`: stage and elapsed
    /// time of each running job; `at_once`: how many jobs of a stage can run at once.
    pub(crate) fn left(
        &mut self,
        plan: &Plan,
        at_once: &dyn Fn(usize) -> u32,
        now: Millis,
        elapsed: Millis,
        running: impl Iterator<Item = (usize, Millis)>,
    ) -> Option<Millis> {
        if self.ended < ENOUGH {
            return None;
        }
        let renew = self.renewed.is_none_or(|at| now.since(at).0 >= 1000);
        if renew {
            let left = self.estimate(plan, at_once, elapsed, running)?;
            let end = now.as_seconds() + left;
            // A quarter of the way each second: follows a real change, shrugs off one odd job.
            self.end = Some(self.end.map_or(end, |old| old + (end - old) * 0.25));
            self.renewed = Some(now);
        }
        let left = self.end? - now.as_seconds();
        // Past its own estimate the honest answer is silence.
        (left > 0.0).then(|| rounded(left))
    }

    fn estimate(
        &self,
        plan: &Plan,
        at_once: &dyn Fn(usize) -> u32,
        elapsed: Millis,
        running: impl Iterator<Item = (usize, Millis)>,
    ) -> Option<f64> {
        let medians: Vec<Option<f64>> =
            self.stages.iter().map(|stage| median(stage.seconds.iter())).collect();
        let overall = median(self.stages.iter().flat_map(|stage| &stage.seconds))?;
        let mut work = vec![0.0; self.stages.len()];
        let mut longest = vec![0.0_f64; self.stages.len()];
        for (stage, ran) in running {
            let usual = medians.get(stage).copied().flatten().unwrap_or(overall);
            let rest = (usual - ran.as_seconds()).max(0.0);
            if let (Some(work), Some(longest)) = (work.get_mut(stage), longest.get_mut(stage)) {
                *work += rest;
                *longest = longest.max(rest);
            }
        }
        let pending: u32 = self.stages.iter().map(|stage| stage.counts.pending).sum();
        if overall < 0.5 && self.ended >= 50 {
            // Short jobs: what lies between them counts as well, and the rate has it all.
            return self.rate(elapsed).map(|rate| f64::from(pending) / rate);
        }
        let stages = self.stages.iter().take(plan.stages.len()).zip(medians).zip(work.iter().zip(&longest));
        Some(
            stages
                .enumerate()
                .map(|(at, ((pace, usual), (work, longest)))| {
                    let usual = usual.unwrap_or(overall);
                    let pending = f64::from(pace.counts.pending) * usual;
                    // However many lanes there are, no job is quicker than itself.
                    let least = if pace.counts.pending > 0 { usual } else { *longest };
                    ((pending + work) / f64::from(at_once(at).max(1))).max(least)
                })
                .sum(),
        )
    }
}

fn median<'a>(values: impl Iterator<Item = &'a f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// No more digits than are known: 5 s steps up to a minute, 10 s steps up to ten, then minutes.
fn rounded(seconds: f64) -> Millis {
    let step = match seconds {
        ..10.0 => 1.0,
        ..60.0 => 5.0,
        ..600.0 => 10.0,
        _ => 60.0,
    };
    crate::text::seconds((seconds / step).ceil() * step)
}

/// The counter a status belongs to.
pub(crate) fn slot<'a>(counts: &'a mut Counts, status: &JobStatus) -> &'a mut u32 {
    match status {
        JobStatus::Pending => &mut counts.pending,
        JobStatus::Running { .. } => &mut counts.running,
        JobStatus::Succeeded { .. } => &mut counts.succeeded,
        JobStatus::Failed(_) => &mut counts.failed,
        JobStatus::Skipped(_) => &mut counts.skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(jobs: u32) -> Plan {
        let stage = Stage { jobs: 0..jobs, ..Stage::named("train") };
        Plan {
            format: 1,
            name: "p".into(),
            run: gpulane_model::RunSettings::default(),
            stages: vec![stage],
            jobs: vec![],
        }
    }

    fn after(pace: &mut Pace, jobs: u32, seconds: f64) {
        for _ in 0..jobs {
            pace.on_change(0, &JobStatus::Pending, &JobStatus::Succeeded { seconds, peak_vram: None });
        }
    }

    #[test]
    fn nothing_is_said_before_three_jobs_ended() {
        let plan = plan(10);
        let mut pace = Pace::new(&plan);
        after(&mut pace, 2, 10.0);
        let left =
            |pace: &mut Pace| pace.left(&plan, &|_| 2, Millis(50_000), Millis(20_000), std::iter::empty());
        assert_eq!(left(&mut pace), None);
        after(&mut pace, 1, 10.0);
        assert_eq!(left(&mut pace), Some(Millis(35_000)), "7 jobs of 10 s on 2 lanes");
    }

    #[test]
    fn a_stage_that_runs_one_by_one_takes_longer() {
        let plan = plan(10);
        let mut pace = Pace::new(&plan);
        after(&mut pace, 3, 10.0);
        let left = pace.left(&plan, &|_| 1, Millis(0), Millis(30_000), std::iter::empty());
        assert_eq!(left, Some(Millis(70_000)));
    }

    #[test]
    fn one_odd_job_does_not_throw_it_off() {
        let plan = plan(100);
        let mut pace = Pace::new(&plan);
        after(&mut pace, 10, 10.0);
        let left = |pace: &mut Pace, at| pace.left(&plan, &|_| 1, Millis(at), Millis(at), std::iter::empty());
        let before = left(&mut pace, 100_000);
        after(&mut pace, 1, 1000.0);
        let behind = left(&mut pace, 101_000);
        assert_eq!((before, behind), (Some(Millis::seconds(900)), Some(Millis::seconds(900))));
    }

    #[test]
    fn an_estimate_that_has_passed_is_not_shown() {
        let plan = plan(4);
        let mut pace = Pace::new(&plan);
        after(&mut pace, 3, 1.0);
        let mut left =
            |at| pace.left(&plan, &|_| 1, Millis(at), Millis(at), std::iter::once((0, Millis(at))));
        assert!(left(10_000).is_some());
        assert_eq!(left(10_999), Some(Millis(1000)));
    }
}
