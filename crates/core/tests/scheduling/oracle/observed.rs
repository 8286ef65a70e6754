//! What an observer, who knows only the journal, must tell as the engine's own core does.

use std::mem::discriminant;
use std::sync::Arc;

use gpulane_core::Core;
use gpulane_model::{Millis, StageId};

use super::{Doing, Hold, Oracle};

impl Oracle {
    /// The reason why a job waits is of the same kind for both, whenever the journal tells all there is: no start and no
    /// publication is under way, and every job's lanes follow from its first one.
    pub(super) fn check_observed(&self, core: &Core) {
        let told = self.rooms.is_none()
            && self.busy.values().all(|busy| busy.doing == Doing::Live)
            && self.delayed.is_empty()
            && self.machine.lanes_per_gpu == 1
            && self.hold == Hold::Free
            && !self.interrupted
            && self.folded.interrupted.is_none()
            && self.folded.held.is_none();
        // When each job began is not told to the millisecond either.
        let gated = (0..self.plan.stages.len()).any(|at| self.is_shut(StageId::at(at)));
        if self.outcome.is_some() || !told || gated {
            return;
        }
        let (plan, machine) = (Arc::clone(&self.plan), self.machine.clone());
        let observer = Core::observe_at(plan, machine, &self.folded, Millis(u64::MAX));
        observer.check_invariants().unwrap();
        for job in self.plan.job_ids() {
            let (own, observed) = (core.waiting(job), observer.waiting(job));
            assert_eq!(
                own.as_ref().map(discriminant),
                observed.as_ref().map(discriminant),
                "job {job} waits for {own:?}, observed as {observed:?}"
            );
        }
    }
}
