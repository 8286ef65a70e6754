//! A job's directories and files, made before its time: while lanes are busy, a thread makes them for the jobs next in
//! line. A file system that pauses (ext4 does, while it commits) then holds up neither a start nor the loop.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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

/// Makes files ahead. The thread ends with the engine; it holds nothing that must be given back.
pub(super) struct FileMaker {
    shared: Arc<Shared>,
    /// `false`: no thread could be had, everything is made when it is needed.
    has_thread: bool,
}

struct Shared {
    plan: Arc<Plan>,
    desk: Mutex<Desk>,
    /// There is something to make.
    work: Condvar,
    /// Something was made.
    made: Condvar,
}

#[derive(Default)]
struct Desk {
    /// Not begun yet.
    queue: VecDeque<Request>,
    /// Being made now.
    at_work: Option<JobId>,
    ready: HashMap<JobId, (Attempt, io::Result<LogFiles>)>,
    /// The thread waits for work.
    asleep: bool,
}

/// One job's files to make.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    /// `jobs/STAGE`.
    pub(super) stage: Arc<OwnedFd>,
}

impl FileMaker {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        let desk = Mutex::new(Desk::default());
        let shared = Arc::new(Shared { plan, desk, work: Condvar::new(), made: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("files".into()).spawn(move || for_thread.work());
        Self { shared, has_thread: thread.is_ok() }
    }

    /// How many jobs are ready or will be.
    pub(super) fn outstanding(&self) -> usize {
        let desk = self.shared.desk();
        desk.queue.len() + desk.ready.len() + usize::from(desk.at_work.is_some())
    }

    /// These are next in line: what is not among them is forgotten, what is missing will be made.
    pub(super) fn make_ahead(&self, upcoming: Vec<Request>) {
        if !self.has_thread {
            return;
        }
        let mut desk = self.shared.desk();
        let wanted: HashSet<(JobId, Attempt)> =
            upcoming.iter().map(|next| (next.job, next.attempt)).collect();
        desk.ready.retain(|job, (attempt, _)| wanted.contains(&(*job, *attempt)));
        desk.queue.clear();
        for request in upcoming {
            if !desk.ready.contains_key(&request.job) && desk.at_work != Some(request.job) {
                desk.queue.push_back(request);
            }
        }
        if !desk.queue.is_empty() && std::mem::take(&mut desk.asleep) {
            drop(desk);
            self.shared.work.notify_one();
        }
    }

    /// The job's files, made now unless they are ready.
    pub(super) fn take(&self, request: &Request) -> io::Result<LogFiles> {
        let mut desk = self.shared.desk();
        while desk.at_work == Some(request.job) {
            desk = self.shared.made.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        match desk.ready.remove(&request.job) {
            Some((attempt, Ok(files))) if attempt == request.attempt => return Ok(files),
            // What failed a while ago may work now.
            _ => desk.queue.retain(|queued| queued.job != request.job),
        }
        drop(desk);
        make(&self.shared.plan, request)
    }

    /// Removes what was made for jobs that will not start.
    pub(super) fn forget_all(&self, stage_of: impl Fn(JobId) -> Option<Arc<OwnedFd>>) {
        let mut desk = self.shared.desk();
        desk.queue.clear();
        while desk.at_work.is_some() {
            desk = self.shared.made.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        for (job, (attempt, _)) in desk.ready.drain() {
            let Some(stage) = stage_of(job) else { continue };
            let name = &self.shared.plan.job(job).name;
            // Tidiness only: an attempt the journal does not know is overwritten by the next engine.
            let _ = std::fs::remove_dir_all(path_below(&stage, &format!("{name}/attempt-{attempt}")));
            if attempt.0 == 1 {
                let _ = std::fs::remove_dir_all(path_below(&stage, name));
            }
        }
    }
}

impl Shared {
    /// No code panics while it holds the lock, so a poisoned one holds sound data.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut desk = self.desk();
        loop {
            let Some(request) = desk.queue.pop_front() else {
                desk.asleep = true;
                desk = self.work.wait(desk).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            desk.at_work = Some(request.job);
            drop(desk);
            let files = make(&self.plan, &request);
            desk = self.desk();
            desk.at_work = None;
            desk.ready.insert(request.job, (request.attempt, files));
            self.made.notify_one();
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

/// An attempt the journal does not know never happened: its engine was killed before the record was durable.
fn clear(stage: &OwnedFd, directory: &str) -> io::Result<()> {
    std::fs::remove_dir_all(path_below(stage, directory))?;
    Ok(mkdirat(stage, directory, DIRECTORY)?)
}

fn path_below(stage: &OwnedFd, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", std::os::fd::AsRawFd::as_raw_fd(stage))
}
