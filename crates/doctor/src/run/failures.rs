//! Jobs that failed, by cause, each with what to do about it; jobs that were skipped for that; tries that failed and
//! were made again.

use std::path::Path;

use gpulane_model::{Bytes, FailReason, Failure, JobId, JobStatus, Memory, Millis, ProcessExit, StageId};

use super::causes::{self, Cause};
use super::groups::{by, named};
use super::story::Story;
use crate::Finding;
use crate::number::counted;

const FAILED: &str = "failed";
const SKIPPED: &str = "skipped";
const RETRIED: &str = "tried again";
/// The largest groups are told; what comes after them is seldom news.
const REASONS: usize = 5;

/// What a group is told from.
struct Group<'a> {
    story: &'a Story,
    jobs: &'a [(JobId, &'a Failure)],
    /// `STAGE/NAME` of each.
    names: Vec<String>,
}

/// Every job that failed for good, hangs aside.
pub(super) fn of(story: &Story) -> Vec<Finding> {
    let failed = story.plan.job_ids().filter_map(|job| match &story.state.job(job).status {
        JobStatus::Failed(failure) if told_of_map(story, job, failure) => None,
        JobStatus::Failed(failure) => Some((causes::of(story, job, failure)?, (job, &**failure))),
        _ => None,
    });
    by(failed)
        .into_iter()
        .map(|(cause, jobs)| {
            let names = jobs.iter().map(|(job, _)| story.plan.job_name(*job)).collect();
            Group { story, jobs: &jobs, names }.told(&cause)
        })
        .collect()
}

/// Whether it failed for no other reason than that its map stopped, which is told of the map.
fn told_of_map(story: &Story, job: JobId, failure: &Failure) -> bool {
    let map = story.state.maps[story.plan.job(job).stage.index()].as_ref();
    failure.reason == FailReason::Stopped && map.is_some_and(|map| map.stopped.is_some())
}

fn is_why_a_map_stopped(story: &Story, because: &str) -> bool {
    story.state.maps.iter().flatten().any(|map| map.stopped.as_deref() == Some(because))
}

impl Group<'_> {
    fn told(&self, cause: &Cause) -> Finding {
        let finding = match cause {
            Cause::GpuMemory { stage, alone } => self.gpu_memory(*stage, *alone),
            Cause::HostMemory => self
                .bad("out of host memory")
                .because("the kernel ended them, or they could not get more; GPUs have nothing to do with it")
                .then("parallel = 2    # in the plan: fewer at once")
                .then("gpulane doctor    # how much memory is there"),
            Cause::Timeout(stage) => self.timeout(*stage),
            Cause::Start(_) => self
                .bad(format!("could not start: {}", self.message()))
                .because("the program is not there, or may not be executed, where the run was started")
                .then(format!("gpulane check {}    # names every program that is missing", self.plan_file())),
            Cause::Exit(code, line) => self.exit(*code, line),
            Cause::Signal(signal) => self.signal(*signal),
            Cause::Cancelled => {
                let finding = Finding::warning(FAILED, format!("{}: cancelled", named(&self.names)));
                finding.because("somebody ended them with `gpulane cancel`")
            }
            Cause::Publish(_) if self.jobs.iter().all(|(_, failure)| failure.kept) => self
                .bad(format!("ended well, but the output could not be published: {}", self.message()))
                .because("what they wrote is whole and kept in their attempt's folder")
                .then(format!(
                    "gpulane resume {}    # publishes it, nothing runs again",
                    self.story.dir.root().display()
                )),
            Cause::Publish(_) => self
                .bad(format!("ended well, but the output could not be published: {}", self.message()))
                .because("what they wrote is still in their attempt's folder")
                .then("gpulane doctor    # disk and permissions"),
            Cause::Other(_) => self.bad(self.jobs[0].1.describe()),
        };
        finding.of(self.names.clone())
    }

    fn bad(&self, what: impl std::fmt::Display) -> Finding {
        Finding::bad(FAILED, format!("{}: {what}", named(&self.names)))
    }

    /// What the first of them says.
    fn message(&self) -> &str {
        self.jobs[0].1.message.as_deref().unwrap_or("no reason given")
    }

    /// The file the plan came from; where that is not known, a name that stands for it.
    fn plan_file(&self) -> String {
        let run = &self.story.plan.run;
        let file = run.plan_file.as_ref().map(|file| Path::new(&run.cwd).join(file));
        file.map_or_else(|| "plan.toml".to_owned(), |file| super::shown(&file))
    }

    fn logs(&self) -> String {
        format!("gpulane logs {} {}", self.story.shown, super::quoted(&self.names[0]))
    }

    fn gpu_memory(&self, stage: StageId, alone: bool) -> Finding {
        let plan = self.story.plan.stage(stage);
        let peak = self.jobs.iter().filter_map(|(_, failure)| failure.peak_vram).max().map(Bytes);
        let held = peak.map_or_else(String::new, |peak| format!(", needs more than the {peak} it held"));
        let measured = self.story.state.measured[stage.index()].map(|measured| measured.reserve);
        let reserved = match plan.memory {
            _ if alone => None,
            Memory::Reserve(bytes) => Some(bytes),
            Memory::Auto => measured,
            Memory::Exclusive => None,
        };
        let seen = match reserved {
            Some(reserved) => format!("CUDA out of memory{held}, {reserved} reserved"),
            None => format!("CUDA out of memory{held}, on a GPU of its own{}", self.size()),
        };
        let finding = self.bad(seen);
        match reserved {
            Some(reserved) => {
                let most = peak.map_or(reserved.0, |peak| peak.0.max(reserved.0));
                let more = Bytes((most / 4).saturating_mul(5));
                finding
                    .because("gpulane packs jobs by what is reserved for them; one that takes more meets its neighbours")
                    .then(format!("memory = \"{}GiB\"    # in the plan of a new run", more.0.div_ceil(1 << 30)))
                    .then(format!("gpulane fit {}    # how many fit then", self.plan_file()))
            }
            None => finding
                .because("it had the whole GPU, so only a smaller job or a larger GPU helps")
                .then("smaller batches, bf16, gradient checkpointing; or gpus = 2 with torchrun"),
        }
        .then(self.logs())
    }

    /// The largest GPU there is.
    fn size(&self) -> String {
        let gpus = self.story.state.machine.iter().flat_map(|machine| &machine.gpus);
        gpus.map(|gpu| gpu.memory).max().map_or_else(String::new, |most| format!(" ({most})"))
    }

    fn timeout(&self, stage: StageId) -> Finding {
        let plan = self.story.plan.stage(stage);
        let limit = plan.timeout.unwrap_or(Millis(0));
        let longest = plan.job_ids().filter_map(|job| match self.story.state.job(job).status {
            JobStatus::Succeeded { seconds, .. } => Some(seconds),
            _ => None,
        });
        let longest = longest.fold(0.0_f64, f64::max);
        let finding = self.bad(format!("took longer than the timeout of {limit}"));
        // Negative and absurd values come to rest at the ends.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let longest = Millis((longest * 1000.0) as u64);
        let finding = if longest.0 == 0 {
            finding.because("no job of this stage was ever quicker: the timeout is too short, or they hang")
        } else {
            finding.because(format!("the longest of this stage that succeeded took {longest}"))
        };
        finding
            .then(self.logs())
            .then(format!("timeout = \"{}s\"    # in the plan of a new run", (limit.0 / 1000).max(1) * 2))
    }

    fn exit(&self, code: i32, line: &str) -> Finding {
        let words = if line.is_empty() { None } else { causes::last_words(self.story, self.jobs[0].0) };
        let finding = match words {
            Some(words) => self.bad(format!("exit code {code}: {words}")),
            None => self.bad(format!("exit code {code}, and nothing printed")),
        };
        let finding = match code {
            126 | 127 => finding.because("a shell found no such program, or may not execute it"),
            137 => finding.because(
                "137 is 128 + 9: a program inside the job was killed, mostly for want of host memory",
            ),
            _ => finding,
        };
        finding.then(self.logs())
    }

    fn signal(&self, signal: i32) -> Finding {
        let finding =
            self.bad(format!("killed by {}, which gpulane did not send", ProcessExit::Signal(signal)));
        let finding = match signal {
            7 => finding
                .because("SIGBUS mostly means that /dev/shm is full: DataLoader workers hand batches over through it")
                .then("gpulane doctor    # looks at /dev/shm"),
            9 => finding
                .because("the kernel kills for want of memory, a scheduler for a limit, a person by hand")
                .then("sudo dmesg | grep -i 'out of memory' | tail"),
            11 | 6 | 4 => finding.because(
                "native code crashed; if it is a Python program, the end of its log shows in which line",
            ),
            _ => finding,
        };
        finding.then(self.logs())
    }
}

/// Jobs that will not run, because of whom. Those that each follow a job that failed are one group.
pub(super) fn skipped(story: &Story) -> Vec<Finding> {
    let skipped = story.plan.job_ids().filter_map(|job| match &story.state.job(job).status {
        JobStatus::Skipped(because) if is_why_a_map_stopped(story, because) => None,
        JobStatus::Skipped(because) => {
            let follows = story.plan.job(job).source.is_some();
            let key = if follows { String::new() } else { because.to_string() };
            Some((key, (story.plan.job_name(job), because)))
        }
        _ => None,
    });
    let told = by(skipped).into_iter().take(REASONS).map(|(key, jobs)| {
        let because = match (key.is_empty(), jobs.len()) {
            (true, 2..) => format!("the job that each of them follows did not succeed ({}, …)", jobs[0].1),
            _ => jobs[0].1.to_string(),
        };
        let names: Vec<String> = jobs.into_iter().map(|(name, _)| name).collect();
        Finding::warning(SKIPPED, format!("{}: {because}", named(&names))).of(names)
    });
    told.collect()
}

/// Tries that failed although their job did not: something is not right, even if it came to a good end.
pub(super) fn tried_again(story: &Story) -> Vec<Finding> {
    let failed = |job: JobId| matches!(story.state.job(job).status, JobStatus::Failed(_));
    let tries = story.failed_tries.iter().filter(|(job, _, failure)| !failed(*job) && failure.counts());
    // Those are told with their evidence.
    let tries = tries.filter(|(_, _, failure)| failure.reason != FailReason::Hang);
    let groups = by(tries.map(|one| (super::telling::normal(&one.2.describe()), one)));
    let told =
        groups.iter().take(REASONS).map(|(_, tries)| {
            let mut names: Vec<String> = tries.iter().map(|(job, ..)| story.plan.job_name(*job)).collect();
            names.dedup();
            let (tried, how) = (counted(tries.len(), "failed try", "failed tries"), tries[0].2.describe());
            Finding::warning(RETRIED, format!("{}: {tried}: {how}", named(&names)))
        .because("a later try went well, or is still to come; what fails now and then costs time each time")
        .then(format!("gpulane logs {} {} --attempt {}", story.shown, super::quoted(&names[0]), tries[0].1))
        .of(names)
        });
    told.collect()
}
