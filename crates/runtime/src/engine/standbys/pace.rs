//! How long a stage's file takes to be imported, and how long its jobs work after that: from these two the core tells how many
//! standbys must be on their way for one to be ready whenever a lane comes free.

use std::collections::HashMap;

use gpulane_core::Pace;
use gpulane_model::{JobId, Millis, StageId};

/// What has been seen of all stages.
#[derive(Default)]
pub(super) struct Paces {
    seen: HashMap<StageId, Seen>,
    under_way: HashMap<JobId, UnderWay>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    import: Option<Millis>,
    /// Of jobs that have ended well; the later ones count more.
    work: Option<Millis>,
}

struct UnderWay {
    stage: StageId,
    since: Millis,
    /// It has to import its file first.
    cold: bool,
}

impl UnderWay {
    /// How long it has worked, if that can be told. A standby's import, at low priority, may take longer than its own has.
    fn work(&self, import: Option<Millis>, now: Millis) -> Option<Millis> {
        let age = now.since(self.since);
        if !self.cold {
            return Some(age);
        }
        import.and_then(|import| age.0.checked_sub(import.0)).filter(|work| *work > 0).map(Millis)
    }
}

impl Paces {
    pub(super) fn on_imported(&mut self, stage: StageId, took: Millis) {
        self.seen.entry(stage).or_default().import = Some(took);
    }

    /// A job works from now on, or from when it has imported its file.
    pub(super) fn on_begun(&mut self, job: JobId, stage: StageId, cold: bool, now: Millis) {
        self.under_way.insert(job, UnderWay { stage, since: now, cold });
    }

    /// It is over.
    pub(super) fn on_ended(&mut self, job: JobId, well: bool, now: Millis) {
        let Some(one) = self.under_way.remove(&job).filter(|_| well) else { return };
        let seen = self.seen.entry(one.stage).or_default();
        if let Some(took) = one.work(seen.import, now) {
            seen.work = Some(seen.work.map_or(took, |before| Millis((3 * before.0 + took.0) / 4)));
        }
    }

    /// What the core should know. The youngest of those that run tells how long one takes at least.
    pub(super) fn at(&self, now: Millis) -> HashMap<StageId, Pace> {
        let least = |stage: StageId, import| {
            let of_stage = self.under_way.values().filter(move |one| one.stage == stage);
            of_stage.map(|one| one.work(import, now).unwrap_or(Millis(0))).min().unwrap_or(Millis(0))
        };
        let pace = |(stage, Seen { import, work }): (&StageId, &Seen)| {
            let pace = Pace {
                import: *import,
                work: least(*stage, *import).max(work.unwrap_or(Millis(0))),
                sure: work.is_some(),
            };
            (*stage, pace)
        };
        self.seen.iter().map(pace).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGE: StageId = StageId(0);

    fn seconds(seconds: u64) -> Millis {
        Millis::seconds(seconds)
    }

    #[test]
    fn a_cold_job_does_not_work_while_it_imports() {
        let mut paces = Paces::default();
        paces.on_begun(JobId(0), STAGE, true, seconds(0));
        assert!(paces.at(seconds(5)).is_empty(), "nothing is known of the stage");
        paces.on_imported(STAGE, seconds(10));
        let at_least = |work| Pace { import: Some(seconds(10)), work, sure: false };
        assert_eq!(paces.at(seconds(5))[&STAGE], at_least(seconds(0)));
        assert_eq!(paces.at(seconds(13))[&STAGE], at_least(seconds(3)));
        paces.on_ended(JobId(0), true, seconds(14));
        let sure = |work| Pace { import: Some(seconds(10)), work, sure: true };
        assert_eq!(paces.at(seconds(99))[&STAGE], sure(seconds(4)));
    }

    #[test]
    fn later_jobs_count_more_and_failed_ones_not_at_all() {
        let mut paces = Paces::default();
        paces.on_imported(STAGE, seconds(10));
        for (job, took, well) in [(0, 4, true), (1, 100, false), (2, 8, true)] {
            paces.on_begun(JobId(job), STAGE, false, seconds(0));
            paces.on_ended(JobId(job), well, seconds(took));
        }
        assert_eq!(paces.at(seconds(0))[&STAGE].work, seconds(5));
        paces.on_ended(JobId(9), true, seconds(0));
        assert!(paces.under_way.is_empty());
    }

    #[test]
    fn those_that_run_count_by_the_youngest() {
        let mut paces = Paces::default();
        paces.on_imported(STAGE, seconds(10));
        paces.on_begun(JobId(0), STAGE, false, seconds(0));
        paces.on_ended(JobId(0), true, seconds(1));
        for (job, since) in [(1, 2), (2, 30)] {
            paces.on_begun(JobId(job), STAGE, false, seconds(since));
        }
        assert_eq!(paces.at(seconds(30))[&STAGE].work, seconds(1));
        assert_eq!(paces.at(seconds(90))[&STAGE].work, seconds(60), "none is as short as the first one was");
    }

    #[test]
    fn a_cold_job_that_was_quicker_than_an_import_tells_nothing() {
        let mut paces = Paces::default();
        paces.on_imported(STAGE, seconds(10));
        paces.on_begun(JobId(0), STAGE, true, seconds(0));
        paces.on_ended(JobId(0), true, seconds(9));
        assert!(!paces.at(seconds(9))[&STAGE].sure);
    }
}
