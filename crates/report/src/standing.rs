//! Where one job stands: the same words for lists, JSON and the page of one job.

use std::collections::HashMap;

use gpulane_model::{Bytes, JobId, JobStatus, Millis, Plan, RunState};

use crate::palette::Style;
use crate::phase::Snapshot;
use crate::teller::failure_text;
use crate::text::{plausible, seconds};
use crate::waits::{ASKED_ALL, because, unasked};

/// Where a job stands.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// `succeeded`, `cut off`.
    pub(crate) word: &'static str,
    pub(crate) style: Style,
    /// How long its newest attempt took, or takes so far.
    pub(crate) took: Option<Millis>,
    /// Attempts so far.
    pub(crate) attempts: u32,
    /// Most GPU memory its newest attempt held, where that was measured.
    pub(crate) peak: Option<Bytes>,
    /// Why it failed, was skipped or waits.
    pub(crate) why: Option<String>,
}

/// What becomes of a job whose engine died.
pub(crate) const CUT_OFF: &str = "cut off (resume runs them again)";

/// Where this job stands. `ask`: whether to ask why it waits.
pub(crate) fn standing(of: &Snapshot<'_>, job: JobId, ask: bool) -> Standing {
    let state = of.state.job(job);
    let (word, style, took, why) = match &state.status {
        JobStatus::Pending => {
            let why = if ask { because(of, job) } else { unasked(of) };
            ("waiting", Style::Plain, None, Some(why))
        }
        JobStatus::Running { since, .. } if of.live => {
            ("running", Style::Bold, plausible(of.now.since(*since)), None)
        }
        JobStatus::Running { .. } => ("cut off", Style::Warn, None, Some("resume runs it again".to_owned())),
        JobStatus::Succeeded { seconds: took, .. } => ("succeeded", Style::Good, Some(seconds(*took)), None),
        JobStatus::Failed(failure) => {
            let took = (state.attempts > 0).then(|| seconds(failure.seconds));
            ("failed", Style::Bad, took, Some(failure_text(failure, false)))
        }
        JobStatus::Skipped(because) => ("skipped", Style::Warn, None, Some(because.to_string())),
    };
    Standing { word, style, took, attempts: state.attempts, peak: peak(&state.status), why }
}

/// Most GPU memory a job that ended has held.
pub(crate) fn peak(status: &JobStatus) -> Option<Bytes> {
    match status {
        JobStatus::Succeeded { peak_vram, .. } => peak_vram.map(Bytes),
        JobStatus::Failed(failure) => failure.peak_vram.map(Bytes),
        _ => None,
    }
}

/// Where every job stands, in the order of the plan. Of very many that wait only the first are asked why.
pub(crate) fn all<'a>(of: &'a Snapshot<'_>) -> impl Iterator<Item = (JobId, Standing)> + use<'a> {
    let mut asked = vec![0_usize; of.plan.stages.len()];
    of.plan.job_ids().map(move |job| {
        let asked = &mut asked[of.plan.job(job).stage.index()];
        let pending = of.state.job(job).status == JobStatus::Pending;
        *asked += usize::from(pending);
        (job, standing(of, job, *asked <= ASKED_ALL))
    })
}

/// Skipped jobs by reason: the reason, how many, the first of them. The most first.
pub(crate) fn skips<'a>(plan: &Plan, state: &'a RunState) -> Vec<(&'a str, u32, JobId)> {
    let mut reasons: HashMap<&str, (u32, JobId)> = HashMap::new();
    if state.counts.skipped == 0 {
        return Vec::new();
    }
    for job in plan.job_ids() {
        if let JobStatus::Skipped(because) = &state.job(job).status {
            reasons.entry(because).or_insert((0, job)).0 += 1;
        }
    }
    let mut reasons: Vec<(&str, u32, JobId)> =
        reasons.into_iter().map(|(text, (n, first))| (text, n, first)).collect();
    reasons.sort_by_key(|(_, n, first)| (std::cmp::Reverse(*n), *first));
    reasons
}
