//! What a run's journal tells, put together for the looks that go by it.

use std::collections::HashMap;
use std::sync::Arc;

use gpulane_journal::{Follower, RunDir, RunDirError};
use gpulane_model::{Attempt, Event, Failure, HangAction, JobId, Plan, Record, RunState, Stuck};

/// A job that froze, or waited for longer than it may.
#[derive(Clone, Debug)]
pub(super) struct Hung {
    pub(super) attempt: Attempt,
    /// The job was ended by `hang.outside`, without a proof that it froze.
    pub(super) overdue: bool,
    pub(super) stuck: Stuck,
}

/// Items of maps that are remembered for having brought down a worker; the reasons repeat.
const ITEMS: usize = 10_000;
/// What a map says of an item that its workers did not survive.
const BROUGHT_DOWN: &str = "brought down its worker";

/// Something that happened to a job besides its end, for a person.
#[derive(Clone, Debug)]
pub(super) struct Incident {
    pub(super) job: String,
    pub(super) what: What,
}

/// What.
#[derive(Clone, Debug)]
pub(super) enum What {
    Left { count: u32, who: Vec<String> },
    Stuck { pids: Vec<u32>, because: String },
    Lingered { because: String },
    Exceeded { peak: u64, reserved: u64 },
    MpsFault { because: String },
}

/// What stands between us and the rest of the journal.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

/// A run, as far as it can be read.
pub(super) struct Story {
    pub(super) dir: RunDir,
    /// The directory as a person would type it.
    pub(super) shown: String,
    pub(super) plan: Arc<Plan>,
    pub(super) state: RunState,
    pub(super) live: bool,
    /// The newest of each job. A fresh start does not undo them: what freezes once may do so again.
    pub(super) hangs: HashMap<JobId, Hung>,
    /// What jobs did that showed no life for a while, though nothing says that they froze.
    pub(super) quiet: HashMap<JobId, Stuck>,
    /// Reasons of items that brought down a worker: they name the worker's job and try.
    pub(super) brought_down: Vec<String>,
    /// Tries that failed, in their order.
    pub(super) failed_tries: Vec<(JobId, Attempt, Failure)>,
    pub(super) incidents: Vec<Incident>,
    pub(super) damage: Option<Damage>,
}

impl Story {
    pub(super) fn read(dir: &RunDir) -> Result<Self, RunDirError> {
        // Asked before the journal is read: a run that ends in between is told as it ended.
        let live = dir.is_live();
        let plan = Arc::new(dir.plan()?);
        let mut story = Self {
            dir: dir.clone(),
            shown: super::shown(dir.root()),
            state: RunState::new(&plan),
            plan,
            live,
            hangs: HashMap::new(),
            quiet: HashMap::new(),
            brought_down: Vec::new(),
            failed_tries: Vec::new(),
            incidents: Vec::new(),
            damage: None,
        };
        let mut follower = Follower::open(dir);
        loop {
            match follower.poll(None, &mut |record, _| story.take(record)) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    story.damage = Some(Damage { what: error.to_string(), hint: error.hint() });
                    break;
                }
            }
        }
        Ok(story)
    }

    fn take(&mut self, record: &Record) {
        self.state.apply(record);
        let job = record.event.job().and_then(|job| self.state.find(job));
        match &record.event {
            Event::JobFailed { attempt, failure, .. } => {
                self.failed_tries.extend(job.map(|job| (job, *attempt, failure.clone())));
            }
            Event::HangSuspected { attempt, frozen: true, stuck, .. } => {
                let hung = Hung { attempt: *attempt, overdue: false, stuck: stuck.clone() };
                self.hangs.extend(job.map(|job| (job, hung)));
            }
            Event::HangSuspected { attempt, overdue, stuck, .. } => {
                let Some(job) = job else { return };
                self.quiet.insert(job, stuck.clone());
                let hang = self.plan.stage_of(job).hang.unwrap_or_default();
                if *overdue && hang.action != HangAction::Warn {
                    let limit = hang.outside.map_or_else(String::new, |outside| format!(" of {outside}"));
                    let what = "waited for longer than its limit `hang.outside`";
                    let evidence = format!("{what}{limit}: {}", stuck.evidence);
                    let stuck = Stuck { evidence, ..stuck.clone() };
                    self.hangs.insert(job, Hung { attempt: *attempt, overdue: true, stuck });
                }
            }
            Event::ItemFailed { reason, .. } if reason.contains(BROUGHT_DOWN) => {
                if self.brought_down.len() < ITEMS {
                    self.brought_down.push(reason.clone());
                }
            }
            other => self.incidents.extend(incident(other)),
        }
    }
}

fn incident(event: &Event) -> Option<Incident> {
    let what = match event {
        Event::ProcessesLeft { count, who, .. } => What::Left { count: *count, who: who.clone() },
        Event::ProcessesStuck { pids, because, .. } => {
            What::Stuck { pids: pids.clone(), because: because.clone() }
        }
        Event::JobLingered { because, .. } => What::Lingered { because: because.clone() },
        Event::MemoryExceeded { peak, reserved, .. } => What::Exceeded { peak: *peak, reserved: *reserved },
        Event::MpsFault { because, .. } => What::MpsFault { because: because.clone() },
        _ => return None,
    };
    Some(Incident { job: event.job()?.to_owned(), what })
}
