//! What earlier runs of the same command tell of a stage: how much GPU memory its jobs took and how long. Kept in the
//! user's cache, one small file per command, working directory and kind of GPU. A hint, never a promise: what cannot
//! be read is not known, what cannot be written is not kept, and neither is an error.

use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_model::{Bytes, GpuKind, Known, Machine, Plan, Stage, StageId};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, open, openat, renameat, unlinkat};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// The version of the files' shape. Another one's are ignored.
const FORMAT: u32 = 1;
/// Ours are far smaller; what is larger is not ours.
const LARGEST: u64 = 1 << 20;

/// What is known of a plan's stages, and what this run adds to it.
#[derive(Debug)]
pub struct Experience {
    /// Where it is kept; `None`: there is no home, so nothing is.
    folder: Option<PathBuf>,
    /// Whether memory means anything here: simulated GPUs have none.
    measures_memory: bool,
    /// One per distinct command; stages that run the same share theirs.
    subjects: Vec<Subject>,
    /// Which of them each stage is.
    of_stage: Vec<usize>,
}

/// A command in its place on a kind of GPU: what experience is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Identity {
    command: Vec<String>,
    /// Two programs of the same relative name are two programs.
    cwd: String,
    gpu: String,
}

#[derive(Debug)]
struct Subject {
    identity: Identity,
    /// What earlier runs left.
    past: Option<Lesson>,
    /// What this run has seen so far.
    jobs: u64,
    seconds: f64,
    peak: Option<Bytes>,
}

/// What one run of a command taught.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Lesson {
    /// The most GPU memory a job held.
    peak: Option<Bytes>,
    /// The mean over its jobs.
    seconds: f64,
    /// How many jobs that was.
    jobs: u64,
    /// When, in seconds of the Unix epoch.
    time: u64,
}

/// A file's content. The identity is in it because a file's name, a hash, cannot prove whose it is.
#[derive(Serialize, Deserialize)]
struct Page {
    format: u32,
    #[serde(flatten)]
    identity: Identity,
    #[serde(flatten)]
    lesson: Lesson,
}

impl Experience {
    /// Looks up what is known of the plan's stages on this machine.
    pub fn of(plan: &Plan, machine: &Machine) -> Self {
        Self::kept_in(crate::cache::folder().map(|folder| folder.join("stages")), plan, machine)
    }

    fn kept_in(folder: Option<PathBuf>, plan: &Plan, machine: &Machine) -> Self {
        let gpu = gpu_name(machine);
        let mut places = HashMap::new();
        let mut subjects = Vec::new();
        let mut of_stage = Vec::new();
        for stage in &plan.stages {
            let identity = Identity { command: command(stage), cwd: plan.run.cwd.clone(), gpu: gpu.clone() };
            let at = *places.entry(identity.clone()).or_insert_with(|| {
                let past = folder.as_deref().and_then(|folder| identity.read(folder));
                subjects.push(Subject { identity, past, jobs: 0, seconds: 0.0, peak: None });
                subjects.len() - 1
            });
            of_stage.push(at);
        }
        Self { folder, measures_memory: machine.kind == GpuKind::Nvml, subjects, of_stage }
    }

    /// What earlier runs tell, stage by stage; empty where they tell nothing.
    pub fn known(&self) -> Vec<Known> {
        self.of_stage
            .iter()
            .map(|at| match self.subjects[*at].past {
                Some(Lesson { peak, seconds, .. }) => {
                    Known { peak: peak.filter(|_| self.measures_memory), seconds: Some(seconds) }
                }
                None => Known::default(),
            })
            .collect()
    }

    /// Takes in a job of this run that succeeded: how long it took, and the most GPU memory it held, where measured.
    pub fn learn(&mut self, stage: StageId, seconds: f64, peak: Option<Bytes>) {
        let Some(subject) = self.of_stage.get(stage.index()).map(|at| &mut self.subjects[*at]) else {
            return;
        };
        subject.jobs += 1;
        subject.seconds += seconds.max(0.0);
        subject.peak = subject.peak.max(peak.filter(|_| self.measures_memory));
    }

    /// Keeps what this run taught for later ones. A run that could not measure memory leaves the older peak.
    pub fn keep(&self) {
        let Some(path) = &self.folder else { return };
        let taught: Vec<_> =
            self.subjects.iter().filter_map(|subject| Some((subject, subject.lesson()?))).collect();
        if taught.is_empty() || DirBuilder::new().recursive(true).mode(0o700).create(path).is_err() {
            return;
        }
        let Some(folder) = open_folder(path) else { return };
        for (subject, lesson) in taught {
            let page = Page { format: FORMAT, identity: subject.identity.clone(), lesson };
            // A full disk, a cache that is read-only: then the next run starts without.
            let _ = write_aside(&folder, &subject.identity.file_name(), &page);
        }
    }
}

impl Subject {
    /// `None`: this run has taught nothing.
    #[allow(clippy::cast_precision_loss)] // no run has 2^52 jobs
    fn lesson(&self) -> Option<Lesson> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let peak = self.peak.or_else(|| self.past?.peak);
        (self.jobs > 0).then(|| Lesson {
            peak,
            seconds: self.seconds / self.jobs as f64,
            jobs: self.jobs,
            time,
        })
    }
}

impl Identity {
    fn file_name(&self) -> String {
        format!("{:016x}.json", self.hash())
    }

    /// Whose file it is says its content, so two that share a hash only forget each other.
    fn hash(&self) -> u64 {
        // Lengths first: ["ab", "c"] and ["a", "bc"] are two commands.
        let words = self.command.iter().chain([&self.cwd, &self.gpu]);
        let bytes = words.flat_map(|word| (word.len() as u64).to_le_bytes().into_iter().chain(word.bytes()));
        gpulane_model::stable_hash(bytes)
    }

    fn read(&self, folder: &Path) -> Option<Lesson> {
        let mut text = Vec::new();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(open_folder(folder)?, self.file_name(), flags, Mode::empty()).ok()?;
        let found = fstat(&file).ok().filter(is_ours_alone)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return None;
        }
        File::from(file).take(LARGEST).read_to_end(&mut text).ok()?;
        let page: Page = serde_json::from_slice(&text).ok()?;
        let sound = page.format == FORMAT && page.lesson.seconds.is_finite() && page.lesson.seconds >= 0.0;
        (sound && page.identity == *self).then_some(page.lesson)
    }
}

/// Durations on GPUs of several kinds do not mix well, but a job may run on any: the first stands for all.
fn gpu_name(machine: &Machine) -> String {
    match machine.kind {
        GpuKind::None => "cpu".to_owned(),
        GpuKind::Sim => "simulated".to_owned(),
        GpuKind::Nvml => machine.gpus.first().map_or_else(|| "cpu".to_owned(), |gpu| gpu.name.clone()),
    }
}

/// What a stage runs, placeholders as written: its jobs are expected to be alike.
fn command(stage: &Stage) -> Vec<String> {
    let entry = stage.entry.iter().map(|entry| format!("entry {entry}"));
    let map = stage.map.iter().map(|map| format!("map {}", map.model));
    stage.command.iter().cloned().chain(entry).chain(map).collect()
}

/// The folder, if it is this user's alone: nothing is read from or written to one that others could fill with links.
fn open_folder(path: &Path) -> Option<OwnedFd> {
    let folder = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    fstat(&folder).ok().filter(is_ours_alone)?;
    Some(folder)
}

fn is_ours_alone(found: &Stat) -> bool {
    found.st_uid == geteuid().as_raw() && found.st_mode & 0o022 == 0
}

/// Whole or not at all: another gpulane may read or write the same file now.
fn write_aside(folder: &OwnedFd, name: &str, page: &Page) -> io::Result<()> {
    let text = serde_json::to_vec(page)?;
    let aside = format!("{name}.{}.tmp", std::process::id());
    // Left by a process of the same number that was killed.
    let _ = unlinkat(folder, &aside, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, &aside, flags, Mode::RUSR | Mode::WUSR)?;
    let written = File::from(file).write_all(&text);
    let kept = written.and_then(|()| Ok(renameat(folder, &aside, folder, name)?));
    if kept.is_err() {
        let _ = unlinkat(folder, &aside, AtFlags::empty());
    }
    kept
}

#[cfg(test)]
mod tests;
