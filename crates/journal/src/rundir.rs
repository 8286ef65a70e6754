//! A run directory: what lies where, and the frozen plan. Every path of a run is made here.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulane_model::{Attempt, JobId, PLAN_FORMAT, Plan, Stage};
use serde::Deserialize;

use crate::{Exposure, RunDirError, RunLock, disk, find, lock, trust};

/// A directory that holds one run. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    /// Absolute, so that it means the same to jobs that run elsewhere.
    root: Arc<Path>,
    /// Where gpulane's Python package is, if not in the directory itself.
    python: Option<Arc<Path>>,
}

impl RunDir {
    /// Makes the directory of a new run: parents as usual, itself for its owner only. One that exists is taken
    /// only while it is empty. Refuses a place where other users could put something else in its stead.
    pub fn create(path: &Path) -> Result<Self, RunDirError> {
        Self::create_trusting(path, &[])
    }

    /// [`RunDir::create`], with everything accepted that lies in one of the `trusted` directories.
    pub fn create_trusting(path: &Path, trusted: &[PathBuf]) -> Result<Self, RunDirError> {
        let path = absolute(path)?;
        match fs::read_dir(&path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let is_run = path.join(PLAN).exists();
                    return Err(RunDirError::NotEmpty { path, is_run });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(RunDirError::io("create", &path)(error)),
        }
        Ok(Self::at(trust::make(&path, trusted, false)?))
    }

    /// [`RunDir::create_trusting`] that takes no directory which is there already: of several that begin at once, one has it.
    pub fn create_new(path: &Path, trusted: &[PathBuf]) -> Result<Self, RunDirError> {
        Ok(Self::at(trust::make(&absolute(path)?, trusted, true)?))
    }

    fn at(root: PathBuf) -> Self {
        Self { root: root.into(), python: None }
    }

    /// Whether others could change this run; refuses where any user could, or where it belongs to another. To be asked before anything
    /// that is read here is executed.
    pub fn examine(&self, trusted: &[PathBuf]) -> Result<Exposure, RunDirError> {
        let mut exposure = trust::examine(&self.root, trusted)?;
        for name in [PLAN, JOURNAL] {
            trust::examine_file(&self.root, name, &mut exposure)?;
        }
        Ok(exposure)
    }

    /// Whether this run belongs to the user who asks: to others it is shown, but no commands are suggested that would execute it.
    pub fn is_ours(&self) -> bool {
        trust::is_ours(&self.root)
    }

    /// The same directory, with gpulane's Python package taken from elsewhere.
    #[must_use]
    pub fn with_python(mut self, path: &Path) -> Self {
        self.python = Some(path.into());
        self
    }

    /// The directory of a run that exists.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let path = absolute(path)?;
        match fs::metadata(path.join(PLAN)) {
            Ok(_) => Ok(Self::at(resolved(path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                Err(RunDirError::NotARun { path })
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let owner = fs::metadata(&path).ok().map(|found| found.uid());
                let owner = owner.filter(|owner| *owner != rustix::process::geteuid().as_raw());
                Err(RunDirError::NotReadable { path, owner })
            }
            Err(error) => Err(RunDirError::io("open", &path)(error)),
        }
    }

    /// Makes a directory below this one, and what is missing on the way to it. Never the run directory itself: where that was moved away or
    /// removed, nothing is made at its old place.
    pub fn make_dir(&self, path: &Path) -> io::Result<()> {
        let below = path.strip_prefix(&self.root).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut at = self.root.to_path_buf();
        for name in below {
            at.push(name);
            match fs::DirBuilder::new().mode(0o700).create(&at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Where a run would be: for showing what would run. Nothing is made or looked at.
    pub fn planned(path: &Path) -> Result<Self, RunDirError> {
        Ok(Self::at(absolute(path)?))
    }

    /// The run a person means: a directory, or the unique beginning of a name under `runs`.
    pub fn find(text: &str, runs: &Path) -> Result<Self, RunDirError> {
        find::find(text, runs)
    }

    /// The run under `runs` that was started last.
    pub fn latest(runs: &Path) -> Option<Self> {
        find::latest(runs)
    }

    /// The directory itself, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The resolved plan.
    pub fn plan_file(&self) -> PathBuf {
        self.root.join(PLAN)
    }

    /// Where the plan is written before it has its name.
    pub fn plan_draft(&self) -> PathBuf {
        self.root.join("plan.json.tmp")
    }

    /// Every durable event.
    pub fn journal_file(&self) -> PathBuf {
        self.root.join(JOURNAL)
    }

    /// Locked while an engine works on the run.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Where requests to a live engine are left.
    pub fn control_dir(&self) -> PathBuf {
        self.root.join("control")
    }

    /// What guardian and engine write to stderr: nothing, unless they cannot go on.
    pub fn engine_log(&self) -> PathBuf {
        self.root.join("engine.log")
    }

    /// The HTML report.
    pub fn report_file(&self) -> PathBuf {
        self.root.join("report.html")
    }

    /// Everything of one job.
    pub fn job_dir(&self, plan: &Plan, job: JobId) -> PathBuf {
        self.job_path(plan, job, &[])
    }

    /// Where a map's parts stand: here for a lone map, otherwise in a folder named after its stage.
    pub fn map_dir(&self, stage: &Stage) -> PathBuf {
        if stage.map.as_ref().is_some_and(|map| map.lone) {
            self.root.to_path_buf()
        } else {
            self.root.join("maps").join(&stage.name)
        }
    }

    /// The job's config as JSON.
    pub fn config_file(&self, plan: &Plan, job: JobId) -> PathBuf {
        self.job_path(plan, job, &["config.json"])
    }

    /// The published output of the attempt that succeeded.
    pub fn out_dir(&self, plan: &Plan, job: JobId) -> PathBuf {
        self.job_path(plan, job, &["out"])
    }

    /// Everything of one attempt.
    pub fn attempt_dir(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt)])
    }

    /// An attempt's private output, until it is published.
    pub fn attempt_out(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "out"])
    }

    /// What an attempt wrote to stdout.
    pub fn stdout_log(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "stdout.log"])
    }

    /// What an attempt wrote to stderr.
    pub fn stderr_log(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "stderr.log"])
    }

    /// What an attempt that hung was stuck in.
    pub fn stacks_file(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "stacks.txt"])
    }

    /// Where an attempt's program writes its metrics.
    pub fn metrics_file(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "metrics.jsonl"])
    }

    /// What an attempt's program makes when its work is finished.
    pub fn done_file(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "done"])
    }

    /// What a map's worker makes when its model is loaded.
    pub fn ready_file(&self, plan: &Plan, job: JobId, attempt: Attempt) -> PathBuf {
        self.job_path(plan, job, &[&attempt_name(attempt), "ready"])
    }

    /// Where the workers of a map find gpulane's Python package.
    pub fn python_dir(&self) -> PathBuf {
        self.python.as_ref().map_or_else(|| self.root.join(".python"), |path| path.to_path_buf())
    }

    fn job_path(&self, plan: &Plan, job: JobId, rest: &[&str]) -> PathBuf {
        let (stage, name) = (&plan.stage_of(job).name, &plan.job(job).name);
        // One allocation: an engine makes half a dozen of these for every job.
        let mut path = PathBuf::with_capacity(self.root.as_os_str().len() + stage.len() + name.len() + 40);
        path.push(&self.root);
        path.push("jobs");
        path.push(stage);
        path.push(&**name);
        path.extend(rest);
        path
    }

    /// Writes the plan, whole or not at all, and durably.
    pub fn freeze(&self, plan: &Plan) -> Result<(), RunDirError> {
        let path = self.plan_file();
        let temporary = self.plan_draft();
        disk::write_whole(&temporary, |writer| {
            serde_json::to_writer(&mut *writer, plan)?;
            writer.write_all(b"\n")
        })
        .map_err(RunDirError::io("write", &temporary))?;
        fs::rename(&temporary, &path).map_err(RunDirError::io("write", &path))?;
        disk::sync_dir(&self.root).map_err(RunDirError::io("sync", &self.root))
    }

    /// The frozen plan, checked as far as its indices go: it may have been edited.
    pub fn plan(&self) -> Result<Plan, RunDirError> {
        let path = self.plan_file();
        let text = gpulane_files::read(&path).map_err(RunDirError::io("read", &path))?;
        let plan: Plan = match serde_json::from_slice(&text) {
            Ok(plan) => plan,
            Err(error) => {
                // A newer shape explains why it cannot be read.
                let newer = serde_json::from_slice::<Format>(&text).ok().filter(Format::is_newer);
                return Err(match newer {
                    Some(Format { format }) => RunDirError::NewerPlan { path, format },
                    None => RunDirError::BadPlan { path, reason: error.to_string() },
                });
            }
        };
        if plan.format > PLAN_FORMAT {
            return Err(RunDirError::NewerPlan { path, format: plan.format });
        }
        if !plan.is_consistent() {
            let reason = "its stages and jobs do not fit together".to_owned();
            return Err(RunDirError::BadPlan { path, reason });
        }
        if let Some(name) = plan.wrong_name() {
            let reason = format!("no stage or job may be called {name:?}");
            return Err(RunDirError::BadPlan { path, reason });
        }
        Ok(plan)
    }

    /// Takes the run for this process. Never waits for another engine.
    pub fn lock(&self) -> Result<RunLock, RunDirError> {
        lock::take(&self.root, &self.lock_file())
    }

    /// Whether an engine works on the run now.
    pub fn is_live(&self) -> bool {
        lock::is_held(&self.root, &self.lock_file())
    }

    /// Whether it is proved that nobody works on this run. A lock that is missing or cannot be asked proves nothing.
    pub fn is_surely_over(&self) -> bool {
        lock::is_surely_free(&self.root, &self.lock_file())
    }
}

pub(crate) const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal.jsonl";

#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Format {
    const fn is_newer(&self) -> bool {
        self.format > PLAN_FORMAT
    }
}

fn attempt_name(attempt: Attempt) -> String {
    format!("attempt-{attempt}")
}

/// Without `..` and links, so that it stays right when a directory on the way to it is removed or replaced.
fn resolved(path: PathBuf) -> PathBuf {
    fs::canonicalize(&path).unwrap_or(path)
}

fn absolute(path: &Path) -> Result<PathBuf, RunDirError> {
    std::path::absolute(path).map_err(RunDirError::io("find", path))
}
