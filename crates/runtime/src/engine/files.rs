//! A job's directories and files. They are made when it starts, or before its time: while every lane is busy and
//! nothing else is to be done, for the jobs next in line, so that a lane that comes free waits for a start alone.
//! (A thread for this was measured and lost: jobs need the cores more.)

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use gpulane_model::{Attempt, JobId, Plan};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

/// Only this user reads a run: configs and outputs may be private.
const DIRECTORY: Mode = Mode::RWXU;
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Where a job's output goes.
pub(super) struct LogFiles {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

impl LogFiles {
    /// The same files, to be kept by another.
    pub(super) fn twin(&self) -> io::Result<Self> {
        Ok(Self { stdout: self.stdout.try_clone()?, stderr: self.stderr.try_clone()? })
    }
}

/// One job's files to make.
pub(super) struct Request {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    /// `jobs/STAGE`.
    pub(super) stage: Arc<OwnedFd>,
}

/// Makes jobs' files, and keeps those made ahead.
pub(super) struct FileMaker {
    plan: Arc<Plan>,
    ready: HashMap<JobId, (Request, LogFiles)>,
}

impl FileMaker {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self { plan, ready: HashMap::new() }
    }

    /// The job's files, made now unless they are ready.
    pub(super) fn take(&mut self, request: &Request) -> io::Result<LogFiles> {
        match self.ready.remove(&request.job) {
            Some((made, files)) if made.attempt == request.attempt => Ok(files),
            _ => make(&self.plan, request),
        }
    }

    /// Whether this attempt's files are made.
    pub(super) fn has(&self, job: JobId, attempt: Attempt) -> bool {
        self.ready.get(&job).is_some_and(|(made, _)| made.attempt == attempt)
    }

    /// Makes files before their time. What goes wrong is left for the start to find and report.
    pub(super) fn make_ahead(&mut self, request: Request) -> bool {
        let files = make(&self.plan, &request);
        files.is_ok_and(|files| self.ready.insert(request.job, (request, files)).is_none())
    }

    /// Forgets what was made for jobs other than these: guesses that turned out wrong hold descriptors.
    pub(super) fn keep_only(&mut self, upcoming: &[(JobId, Attempt)]) {
        self.ready.retain(|job, (made, _)| upcoming.contains(&(*job, made.attempt)));
    }

    /// Removes what was made for jobs that will not start. Tidiness only: an attempt the journal does not know is
    /// overwritten by the next engine.
    pub(super) fn forget_all(&mut self) {
        for (job, (made, _)) in self.ready.drain() {
            let name = &self.plan.job(job).name;
            let _ =
                std::fs::remove_dir_all(path_below(&made.stage, &format!("{name}/attempt-{}", made.attempt)));
            if made.attempt.0 == 1 {
                let _ = std::fs::remove_file(path_below(&made.stage, &format!("{name}/config.json")));
                // Fails if anything else is in it, which then stays.
                let _ = std::fs::remove_dir(path_below(&made.stage, name));
            }
        }
    }
}

/// The attempt's directories and files, below the stage's directory.
fn make(plan: &Plan, request: &Request) -> io::Result<LogFiles> {
    let (stage, job) = (&*request.stage, plan.job(request.job));
    let (name, attempt) = (&*job.name, request.attempt);
    let directory = format!("{name}/attempt-{attempt}");
    if attempt.0 == 1 {
        make_directory(stage, name)?;
    }
    match mkdirat(stage, &directory, DIRECTORY) {
        Ok(()) => {}
        Err(Errno::EXIST) => clear(stage, &directory)?,
        // Earlier attempts may have been removed by hand.
        Err(Errno::NOENT) => {
            make_directory(stage, name)?;
            mkdirat(stage, &directory, DIRECTORY)?;
        }
        Err(error) => return Err(error.into()),
    }
    mkdirat(stage, format!("{directory}/out"), DIRECTORY)?;
    let create = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(stage, format!("{name}/config.json"), create | OFlags::TRUNC, FILE)?;
    io::Write::write_all(&mut std::fs::File::from(file), job.config.text().as_bytes())?;
    // Appending, because children of the job write to the same files.
    let log = |name: &str| openat(stage, format!("{directory}/{name}.log"), create | OFlags::APPEND, FILE);
    Ok(LogFiles { stdout: log("stdout")?, stderr: log("stderr")? })
}

fn make_directory(stage: &OwnedFd, name: &str) -> io::Result<()> {
    match mkdirat(stage, name, DIRECTORY) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An attempt the journal does not know: its engine was killed before the record was durable, or the record was
/// damaged and lost. What it printed or wrote is kept aside.
fn clear(stage: &OwnedFd, directory: &str) -> io::Result<()> {
    let path = PathBuf::from(path_below(stage, directory));
    let logs = ["stdout.log", "stderr.log"]
        .map(|log| std::fs::metadata(path.join(log)).map_or(0, |file| file.len()));
    let wrote = std::fs::read_dir(path.join("out")).is_ok_and(|mut entries| entries.next().is_some());
    let aside =
        (1..1000).map(|count| path.with_extension(format!("lost-{count}"))).find(|aside| !aside.exists());
    match aside {
        Some(aside) if wrote || logs != [0, 0] => std::fs::rename(&path, aside)?,
        _ => std::fs::remove_dir_all(&path)?,
    }
    Ok(mkdirat(stage, directory, DIRECTORY)?)
}

fn path_below(stage: &OwnedFd, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", std::os::fd::AsRawFd::as_raw_fd(stage))
}
