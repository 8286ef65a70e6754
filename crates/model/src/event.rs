//! Public events: what `--json` prints, the journal keeps and every view is made from. Past tense; names and
//! fields are a promise (see CONTRACT), so fields are added, never renamed.

use serde::{Deserialize, Serialize};

use crate::{Attempt, Failure, LaneId, Machine, Millis};

/// An event with its place in the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Counts from 1 without gaps through the whole life of a run.
    pub seq: u64,
    /// When, in milliseconds of the Unix epoch; RFC 3339 in UTC on the wire.
    #[serde(with = "rfc3339")]
    pub time: Millis,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run's first event.
    RunStarted {
        /// The journal's format: 1.
        format: u32,
        /// The plan's name.
        name: String,
        /// gpulane's version.
        gpulane: String,
        /// How many jobs the plan has.
        jobs: u32,
        /// What the run may use.
        machine: Machine,
        /// The engine's process.
        pid: u32,
        /// The kernel's boot id; absent where it has none. What a job wrote without a sync is worth nothing after another boot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// A later engine took the run up again.
    RunResumed {
        /// gpulane's version.
        gpulane: String,
        /// What the run may use now.
        machine: Machine,
        /// The engine's process.
        pid: u32,
        /// As in `run_started`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<String>,
    },
    /// A job's process was started.
    JobStarted {
        /// `STAGE/NAME`.
        job: String,
        /// Which try.
        attempt: Attempt,
        /// Where it runs.
        lane: LaneId,
        /// UUIDs of its GPUs.
        gpus: Vec<String>,
        /// Its main process.
        pid: u32,
        /// Whether the process was a standby: its file was imported before.
        #[serde(default, skip_serializing_if = "is_false")]
        warm: bool,
    },
    /// There are no standbys for a stage any more: its jobs start without.
    StandbysOff {
        /// The stage's name.
        stage: String,
        /// Why and what to do, for a person.
        why: String,
    },
    /// A running job has said that its work is finished, and what it has written is on the disk. If the machine stops now,
    /// `resume` publishes that output instead of running the job again.
    JobDone {
        /// `STAGE/NAME`.
        job: String,
        /// The try under way.
        attempt: Attempt,
    },
    /// A job's work is done and its output published.
    JobSucceeded {
        /// `STAGE/NAME`.
        job: String,
        /// The try that succeeded.
        attempt: Attempt,
        /// From start to exit.
        seconds: f64,
        /// Most VRAM it held, in bytes, where measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_vram: Option<u64>,
    },
    /// An attempt failed. Final unless a `job_retrying` follows.
    JobFailed {
        /// `STAGE/NAME`.
        job: String,
        /// The try that failed; 0 if it never started.
        attempt: Attempt,
        /// How and why.
        #[serde(flatten)]
        failure: Failure,
    },
    /// A failed job will be tried again.
    JobRetrying {
        /// `STAGE/NAME`.
        job: String,
        /// The try to come.
        attempt: Attempt,
        /// The pause before it, in seconds.
        delay: f64,
    },
    /// `resume --failed` gave a failed or skipped job a fresh start.
    JobRequeued {
        /// `STAGE/NAME`.
        job: String,
    },
    /// A job will not run.
    JobSkipped {
        /// `STAGE/NAME`.
        job: String,
        /// The reason, for a person.
        because: String,
    },
    /// A job exited but left processes behind, which were ended.
    ProcessesLeft {
        /// `STAGE/NAME`.
        job: String,
        /// How many, at the first look.
        count: u32,
        /// What some of them were and what they held, for a person: `python3 (pid 7) held stdout`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        who: Vec<String>,
    },
    /// Processes of a job outlived SIGKILL: they are stuck in the kernel, and the run goes on without them.
    ProcessesStuck {
        /// `STAGE/NAME`.
        job: String,
        /// Which.
        pids: Vec<u32>,
        /// What they are stuck in, for a person.
        because: String,
    },
    /// A job has shown no sign of life for long, or is frozen.
    HangSuspected {
        /// `STAGE/NAME`.
        job: String,
        /// The try under way.
        attempt: Attempt,
        /// Without a sign of life for so many seconds.
        quiet: f64,
        /// Whether the job provably cannot go on: it is frozen. Otherwise it is only suspected.
        frozen: bool,
        /// Only suspected, and for longer than `hang.outside` allows: it is ended like a frozen one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        overdue: bool,
        /// What it is doing, in one line.
        #[serde(flatten)]
        stuck: Stuck,
    },
    /// A job that was suspected shows life again.
    JobRevived {
        /// `STAGE/NAME`.
        job: String,
        /// The try under way.
        attempt: Attempt,
        /// Seconds for which the job had shown no sign of life.
        quiet: f64,
    },
    /// A job finished its work but did not exit; it was ended and counts as succeeded.
    JobLingered {
        /// `STAGE/NAME`.
        job: String,
        /// The try.
        attempt: Attempt,
        /// How it is known that the work was done, and what it was stuck in, for a person.
        because: String,
    },
    /// How much GPU memory the jobs of a stage take, as far as is known by now.
    MemoryMeasured {
        /// The stage's name.
        stage: String,
        /// The job it was seen at; absent: known from an earlier run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<String>,
        /// The most a job held, in bytes.
        peak: u64,
        /// What is reserved for each from now on, in bytes.
        reserve: u64,
    },
    /// The first job of a stage begins to take GPU memory: until it is measured, others start beside it on this guess.
    MemoryGuessed {
        /// The stage's name.
        stage: String,
        /// What is assumed for each job, in bytes.
        reserve: u64,
    },
    /// A job holds more GPU memory than was reserved for it.
    MemoryExceeded {
        /// `STAGE/NAME`.
        job: String,
        /// What it holds, in bytes.
        peak: u64,
        /// What was reserved, in bytes.
        reserved: u64,
    },
    /// A GPU is not used any more.
    GpuQuarantined {
        /// Its UUID.
        gpu: String,
        /// Why, and what to do, for a person.
        why: String,
    },
    /// A job has ended but memory of its GPU is not back; the GPU waits.
    VramHeld {
        /// Its UUID.
        gpu: String,
        /// Who holds it, where that can be seen.
        pids: Vec<u32>,
        /// How much, in bytes.
        bytes: u64,
        /// What that means for a person, and what to do.
        because: String,
    },
    /// Memory that was held is back.
    VramBack {
        /// Its UUID.
        gpu: String,
    },
    /// A fault of one process under MPS took down the others on its GPU; they are started again.
    MpsFault {
        /// Its UUID.
        gpu: String,
        /// The job it was noticed at, `STAGE/NAME`.
        job: String,
        /// What was seen.
        because: String,
    },
    /// The items of a map are known, and its feeder works; told again when another feeder takes over.
    MapOpened {
        /// The stage's name.
        stage: String,
        /// How many items there are.
        items: u64,
        /// How many of them were settled before, in results or failed.
        settled: u64,
        /// How many fail by the list alone (a folder that could not be listed, a broken tar), however often they are tried.
        #[serde(default, skip_serializing_if = "is_zero")]
        lacking: u64,
    },
    /// An item of a map failed. The first thousand of a map are told; `failed.jsonl` has them all.
    ItemFailed {
        /// The stage's name.
        stage: String,
        /// The item, as given.
        item: String,
        /// Why, for a person.
        reason: String,
    },
    /// A part of a map's results is durable.
    BatchCommitted {
        /// The stage's name.
        stage: String,
        /// Counts from 0.
        commit: u64,
        /// The part's file name; absent: only failures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<String>,
        /// Rows in it.
        rows: u64,
        /// Items that failed with it.
        failed: u64,
        /// Rows of pictures that are damaged, used all the same.
        #[serde(default, skip_serializing_if = "nothing")]
        damaged: u64,
    },
    /// Every item of a map is settled, durably.
    MapFinished {
        /// The stage's name.
        stage: String,
        /// Items with a result.
        rows: u64,
        /// Items that failed.
        failed: u64,
        /// Items with a result whose picture is damaged.
        #[serde(default, skip_serializing_if = "nothing")]
        damaged: u64,
        /// One line for a person: rates and what limited them.
        summary: String,
    },
    /// A map cannot or must not go on; what it has done is kept, and `resume` takes it up again.
    MapStopped {
        /// The stage's name.
        stage: String,
        /// Why and what to do, for a person.
        because: String,
    },
    /// `resume --failed` takes up a map again for the items that failed.
    MapReopened {
        /// The stage's name.
        stage: String,
    },
    /// A worker of a map ended before the map did and is started again; the work it had goes to others.
    WorkerRestarted {
        /// `STAGE/NAME`.
        job: String,
        /// The try to come.
        attempt: Attempt,
        /// How the last one ended, for a person.
        because: String,
        /// Whether the worker had its model loaded, so that earlier failures in a row are forgotten.
        fruitful: bool,
    },
    /// Starts are held back by something outside, such as a full disk or GPUs in use by others.
    StartsHeld {
        /// The reason and what to do, for a person.
        because: String,
    },
    /// Starts go on.
    StartsReleased {},
    /// The run was interrupted; `resume` continues it.
    RunInterrupted {
        /// The reason, for a person.
        because: String,
        /// The exit code of the command that ran it, filled in by the engine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// Every job has ended.
    RunFinished {
        /// Jobs that succeeded.
        succeeded: u32,
        /// Jobs that failed.
        failed: u32,
        /// Jobs that were skipped.
        skipped: u32,
        /// Since this engine started.
        seconds: f64,
        /// The exit code of the command that ran it, filled in by the engine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// An event of a newer gpulane; kept readable, otherwise ignored.
    #[serde(other)]
    Unknown,
}

/// What a job that does not move is stuck in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stuck {
    /// In one line: `waiting for a lock in cleanfid.py:88, 7 threads, GPU 0% for 10 min`.
    pub evidence: String,
    /// What it waits for and may still get, where it is only suspected: `a file lock that process 7 (python3) holds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why what it waits for cannot come, where it is frozen: who waits for whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// The cause, where it is one that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to do about that cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Left out of a line: most maps have none.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
const fn nothing(count: &u64) -> bool {
    *count == 0
}

impl Event {
    /// The job it is about, if any.
    pub fn job(&self) -> Option<&str> {
        match self {
            Self::JobStarted { job, .. }
            | Self::JobDone { job, .. }
            | Self::JobSucceeded { job, .. }
            | Self::JobFailed { job, .. }
            | Self::JobRetrying { job, .. }
            | Self::JobRequeued { job }
            | Self::JobSkipped { job, .. }
            | Self::ProcessesLeft { job, .. }
            | Self::ProcessesStuck { job, .. }
            | Self::HangSuspected { job, .. }
            | Self::JobRevived { job, .. }
            | Self::JobLingered { job, .. }
            | Self::MemoryExceeded { job, .. }
            | Self::WorkerRestarted { job, .. }
            | Self::MpsFault { job, .. } => Some(job),
            _ => None,
        }
    }
}

/// Most maps have nothing of the kind.
#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands out references
fn is_false(value: &bool) -> bool {
    !value
}

mod rfc3339 {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::Millis;

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's `with` hands out references
    pub(super) fn serialize<S: Serializer>(time: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
        // Past the year 9999 the text form ends; clamp rather than panic.
        let time = Duration::from_millis(time.0.min(253_402_300_799_999));
        serializer.collect_str(&humantime::format_rfc3339_millis(UNIX_EPOCH + time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Millis, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let time: SystemTime = humantime::parse_rfc3339(&text).map_err(D::Error::custom)?;
        let since = time.duration_since(UNIX_EPOCH).map_err(D::Error::custom)?;
        u64::try_from(since.as_millis()).map(Millis).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessExit;

    #[test]
    fn an_event_is_one_flat_object_with_its_promised_names() {
        let record = Record {
            seq: 7,
            time: Millis(1_700_000_000_123),
            event: Event::JobFailed {
                job: "train/a".into(),
                attempt: Attempt(1),
                failure: Failure::from_exit(ProcessExit::Code(3), 1.5),
            },
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            text,
            r#"{"seq":7,"time":"2023-11-14T22:13:20.123Z","event":"job_failed","job":"train/a","attempt":1,"reason":"exit","code":3,"seconds":1.5}"#
        );
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn an_unknown_event_is_read_and_ignored() {
        let text = r#"{"seq":1,"time":"2023-11-14T22:13:20.123Z","event":"from_the_future","x":1}"#;
        assert_eq!(serde_json::from_str::<Record>(text).unwrap().event, Event::Unknown);
    }
}
