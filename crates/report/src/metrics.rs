//! What jobs note with `gpulane.log()`, as `metrics` events for `--json`. They lie in files of the jobs' own and not in the journal, so
//! they have no `seq`; all of a job's come before the event that tells of its end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::SystemTime;

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, JobId, Plan};
use serde_json::{Map, Value};

use crate::tail::{Found, Limits, Tail};

/// A line may be long: text and lists are allowed. What is further behind is jumped over.
const LIMITS: Limits = Limits { line: 1 << 20, behind: 64 << 20 };
/// Read from one job in one look.
const PER_LOOK: usize = 1 << 20;
/// Names that are ours in every event.
const OURS: [&str; 5] = ["seq", "time", "event", "job", "attempt"];

/// The metrics of all jobs that run.
pub(crate) struct Metrics {
    dir: RunDir,
    plan: Arc<Plan>,
    running: BTreeMap<JobId, (Attempt, Tail)>,
    chunk: Vec<u8>,
}

impl Metrics {
    pub(crate) fn new(dir: RunDir, plan: Arc<Plan>) -> Self {
        Self { dir, plan, running: BTreeMap::new(), chunk: Vec::new() }
    }

    pub(crate) fn start(&mut self, job: JobId, attempt: Attempt) {
        let tail = Tail::new(self.dir.metrics_file(&self.plan, job, attempt), LIMITS);
        self.running.insert(job, (attempt, tail));
    }

    /// Appends what is new as JSON lines.
    pub(crate) fn poll(&mut self, json: &mut String) {
        let Self { plan, running, chunk, .. } = self;
        for (job, (attempt, tail)) in running {
            tail.poll(PER_LOOK, chunk, &mut |found, _| tell(plan, (*job, *attempt), found, json));
        }
    }

    /// The job has ended: appends all the rest.
    pub(crate) fn end(&mut self, job: JobId, json: &mut String) {
        let Some((attempt, mut tail)) = self.running.remove(&job) else { return };
        let plan = &self.plan;
        tail.finish(&mut self.chunk, &mut |found, _| tell(plan, (job, attempt), found, json));
    }

    /// Nothing more is told of this job.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.running.remove(&job);
    }

    /// Nothing more is told of jobs that run.
    pub(crate) fn forget_all(&mut self) {
        self.running.clear();
    }

    /// What was noted so far is not told.
    pub(crate) fn skip_to_end(&mut self) {
        for (_, tail) in self.running.values_mut() {
            tail.skip_to_end(0);
        }
    }
}

/// A line that is no JSON object is somebody else's, and not told.
fn tell(plan: &Plan, (job, attempt): (JobId, Attempt), found: Found<'_>, json: &mut String) {
    let Found::Line(line) = found else { return };
    let Ok(noted) = serde_json::from_slice::<Map<String, Value>>(line.text) else { return };
    // Those that `gpulane.log()` wrote have one; for others it is now.
    let time = noted.get("time").filter(|time| is_time(time)).cloned();
    let time = time.unwrap_or_else(|| humantime::format_rfc3339_millis(SystemTime::now()).to_string().into());
    let name = Value::from(plan.job_name(job));
    let _ = write!(json, r#"{{"time":{time},"event":"metrics","job":{name},"attempt":{}"#, attempt.0);
    for (key, value) in noted.iter().filter(|(key, _)| !OURS.contains(&key.as_str())) {
        let _ = write!(json, ",{}:{value}", Value::from(key.as_str()));
    }
    json.push_str("}\n");
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| humantime::parse_rfc3339_weak(text).is_ok())
}
