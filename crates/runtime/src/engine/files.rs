//! A job's directories and files. They are made when it starts, or before its time: while every lane is busy and
//! nothing else is to be done, for the jobs next in line, so that a lane that comes free waits for a start alone.
//! (A thread for this was measured and lost: jobs need the cores more.)

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gpulane_files::open_at;
use gpulane_model::{Attempt, JobId, Plan};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, renameat, statat, unlinkat};
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
            let (stage, name) = (&*made.stage, &self.plan.job(job).name);
            let _ = remove_made(stage, &format!("{name}/attempt-{}", made.attempt));
            if made.attempt.0 == 1 {
                let _ = unlinkat(stage, format!("{name}/config.json"), AtFlags::empty());
                // Fails if anything else is in it, which then stays.
                let _ = unlinkat(stage, &**name, AtFlags::REMOVEDIR);
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
    let create = OFlags::CREATE | OFlags::WRONLY;
    let file = open_at(stage, format!("{name}/config.json"), create | OFlags::TRUNC, FILE)?;
    io::Write::write_all(&mut std::fs::File::from(file), job.config.text().as_bytes())?;
    // Appending, because children of the job write to the same files.
    let log = |name: &str| open_at(stage, format!("{directory}/{name}.log"), create | OFlags::APPEND, FILE);
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
    let is_empty = |log: &str| {
        let found = statat(stage, format!("{directory}/{log}"), AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(true, |log| log.st_size == 0)
    };
    if !LOGS.into_iter().all(is_empty) || remove_made(stage, directory).is_err() {
        put_aside(stage, directory)?;
    }
    Ok(mkdirat(stage, directory, DIRECTORY)?)
}

/// Gives what no record explains another name, `NAME.lost-1` or the next that is free.
pub(super) fn put_aside(stage: &OwnedFd, name: &str) -> io::Result<()> {
    let mut names = (1..1000).map(|count| format!("{name}.lost-{count}"));
    let is_free = |name: &String| {
        statat(stage, name, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|error| error == Errno::NOENT)
    };
    let aside = names.find(is_free).ok_or(io::ErrorKind::AlreadyExists)?;
    Ok(renameat(stage, name, stage, aside)?)
}

const LOGS: [&str; 2] = ["stdout.log", "stderr.log"];

/// Removes an attempt as [`make`] made it. Fails, with the directory still there, if anything else is in it.
fn remove_made(stage: &OwnedFd, directory: &str) -> rustix::io::Result<()> {
    match unlinkat(stage, format!("{directory}/out"), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    for log in LOGS {
        match unlinkat(stage, format!("{directory}/{log}"), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    unlinkat(stage, directory, AtFlags::REMOVEDIR)
}
