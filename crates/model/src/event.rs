//! Public events: what `--json` prints, the journal keeps and every view is made from. Past tense; names and
//! fields are a promise (see CONTRACT), so fields are added, never renamed.

use serde::{Deserialize, Serialize};

use crate::{Attempt, LaneId, Machine, Millis, ProcessExit};

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
    },
    /// A later engine took the run up again.
    RunResumed {
        /// gpulane's version.
        gpulane: String,
        /// What the run may use now.
        machine: Machine,
        /// The engine's process.
        pid: u32,
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
        /// The same evidence was seen twice: it is frozen. Otherwise it is only suspected.
        frozen: bool,
        /// What it is doing, in one line.
        #[serde(flatten)]
        stuck: Stuck,
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
        /// The same for a person, and what to do.
        because: String,
    },
    /// That memory is back.
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
    /// The cause, where it is one that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to do about that cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The class of the cause.
    pub reason: FailReason,
    /// The exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal, if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// More for a person: the error at the start, the limit that was passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it froze, where that is a known cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to do about that cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// From start to end.
    #[serde(default)]
    pub seconds: f64,
    /// Most VRAM it held, in bytes, where measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_vram: Option<u64>,
    /// It came to grief because it shared its GPU: out of memory, or a fault of another under MPS. Sharing was our
    /// choice: the try does not count, the next one is alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// Classes of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    /// Exit code other than 0.
    Exit,
    /// Ended by a signal that gpulane did not send.
    Signal,
    /// Out of GPU memory.
    Oom,
    /// Out of host memory.
    HostOom,
    /// Took longer than its `timeout`.
    Timeout,
    /// Frozen.
    Hang,
    /// Could not be started.
    Start,
    /// gpulane or its GPU went away under it; does not count as a try.
    Lost,
    /// A person cancelled it.
    Cancelled,
    /// Ended because the run was interrupted; does not count as a try.
    Interrupted,
    /// It exited with 0 but its output could not be published.
    Publish,
}

impl FailReason {
    /// Whether the job's own try was used up. What gpulane or the machine did to it is not the job's fault.
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Lost | Self::Interrupted)
    }

    /// The word used in events.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Oom => "oom",
            Self::HostOom => "host_oom",
            Self::Timeout => "timeout",
            Self::Hang => "hang",
            Self::Start => "start",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Publish => "publish",
        }
    }
}

impl Failure {
    /// A failure of this class, with nothing more known yet.
    pub const fn because(reason: FailReason) -> Self {
        Self {
            reason,
            code: None,
            signal: None,
            message: None,
            cause: None,
            remedy: None,
            seconds: 0.0,
            peak_vram: None,
            shared: false,
        }
    }

    /// The failure of a process that ended like this.
    pub fn from_exit(exit: ProcessExit, seconds: f64) -> Self {
        let (reason, code, signal) = match exit {
            ProcessExit::Code(code) => (FailReason::Exit, Some(code), None),
            ProcessExit::Signal(signal) => (FailReason::Signal, None, Some(signal)),
        };
        Self { code, signal, seconds, ..Self::because(reason) }
    }

    /// Whether the job's own try was used up.
    pub const fn counts(&self) -> bool {
        self.reason.counts() && !self.shared
    }

    /// One line for a person: `exit code 3`, `timeout after 2.0 s`, `could not start: …`.
    pub fn describe(&self) -> String {
        let base = match (self.reason, self.code, self.signal) {
            (FailReason::Exit, Some(code), _) => ProcessExit::Code(code).to_string(),
            (FailReason::Signal, _, Some(signal)) => format!("killed by {}", ProcessExit::Signal(signal)),
            (FailReason::Start, ..) => "could not start".to_owned(),
            (FailReason::Oom, ..) => "out of GPU memory".to_owned(),
            (FailReason::HostOom, ..) => "out of host memory".to_owned(),
            (FailReason::Publish, ..) => "output could not be published".to_owned(),
            (reason, ..) => reason.word().replace('_', " "),
        };
        match &self.message {
            Some(message) => format!("{base}: {message}"),
            None => base,
        }
    }
}

impl Event {
    /// The job it is about, if any.
    pub fn job(&self) -> Option<&str> {
        match self {
            Self::JobStarted { job, .. }
            | Self::JobSucceeded { job, .. }
            | Self::JobFailed { job, .. }
            | Self::JobRetrying { job, .. }
            | Self::JobRequeued { job }
            | Self::JobSkipped { job, .. }
            | Self::ProcessesLeft { job, .. }
            | Self::ProcessesStuck { job, .. }
            | Self::HangSuspected { job, .. }
            | Self::JobLingered { job, .. }
            | Self::MemoryExceeded { job, .. }
            | Self::MpsFault { job, .. } => Some(job),
            _ => None,
        }
    }
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
