//! From a decision to a process: directories, config, log files, argv, environment, start. On the way a freed lane
//! waits for, so every system call here counts.

use std::collections::HashMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, JobId, Machine, Plan, StageId, env_vars};
use rustix::fs::{AtFlags, Mode, mkdirat, statat};
use rustix::io::Errno;

use super::environment::{Briefing, Fit, StageEnvironment, Start, fill_shared};
use super::files::{FileMaker, LogFiles, Request};
use super::publish::{Output, OutputPlace};
use super::standbys::{Cradle, Mould};
use super::worker_kit;
use crate::process::image::{CStrings, Image, PointerArray, c_path, find_program};
use crate::process::spawn::{Spawned, Spawner};

/// Why a job is not running.
pub(super) enum Setback {
    /// The program cannot be executed; trying again would not help.
    Program(String),
    /// Nothing can be started right now: disk full, too many processes.
    Blocked(String),
    /// A directory is gone that was there; perhaps all of the run's.
    Missing(String),
    /// The journal is gone.
    Fatal(String),
}

/// Starts jobs.
pub(super) struct Launchpad {
    dir: RunDir,
    /// The run directory itself: where it was moved away, nothing is made at its old place.
    root: OwnedFd,
    plan: Arc<Plan>,
    machine: Machine,
    spawner: Spawner,
    /// gpulane's own environment, read once.
    inherited: Vec<(OsString, OsString)>,
    stages: HashMap<StageId, StagePad>,
    files: FileMaker,
}

/// What all jobs of a stage share.
struct StagePad {
    environment: StageEnvironment,
    /// `jobs/STAGE`, so that paths below it are short.
    directory: Arc<OwnedFd>,
    /// Its name and those above are known to be durable.
    anchored: Arc<AtomicBool>,
    /// The program as found, while the command's first word is the same for all jobs.
    program: Option<CString>,
}

/// What a job needs before it can start.
pub(super) struct Ready {
    pub(super) files: LogFiles,
    /// Its environment, beside what all jobs of its stage share.
    own: CStrings,
}

impl Ready {
    /// The variables a standby of the same mould lacks or has otherwise.
    pub(super) fn own_names(&self) -> Vec<u8> {
        self.own.block_of(b"GPULANE_")
    }
}

impl Launchpad {
    /// `root`: the run directory, held open.
    pub(super) fn new(dir: RunDir, root: OwnedFd, plan: Arc<Plan>, machine: Machine) -> Self {
        let files = FileMaker::new(Arc::clone(&plan));
        let inherited = std::env::vars_os().collect();
        Self { dir, root, plan, machine, spawner: Spawner::new(), inherited, stages: HashMap::new(), files }
    }

    /// Makes everything ready for the job.
    pub(super) fn make_ready(&mut self, start: &Start<'_>) -> Result<Ready, Setback> {
        let files = self.request(start.job, start.attempt).and_then(|request| self.files.take(&request));
        let files = files.map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                self.reopen_stage(self.plan.job(start.job).stage);
            }
            setback(&error, &self.dir)
        })?;
        let pad = &self.stages[&self.plan.job(start.job).stage];
        let briefing = Briefing { dir: &self.dir, plan: &self.plan, machine: &self.machine, start };
        let own = briefing.environment(&pad.environment);
        Ok(Ready { files, own })
    }

    /// Starts the job.
    pub(super) fn start(&mut self, start: &Start<'_>, ready: &Ready) -> Result<Spawned, Setback> {
        let briefing = Briefing { dir: &self.dir, plan: &self.plan, machine: &self.machine, start };
        let words = briefing.placeholders().argv();
        self.spawn(self.plan.job(start.job).stage, words, &ready.own, &ready.files, start.keep)
    }

    /// Starts a process that waits for a job of this kind. `keep`: the leases of its GPU.
    pub(super) fn start_standby(
        &mut self,
        mould: &Mould,
        tag: &str,
        cradle: &Cradle,
        mut keep: Vec<RawFd>,
    ) -> Result<Spawned, Setback> {
        self.pad(mould.stage).map_err(|error| setback(&error, &self.dir))?;
        let (pad, stage) = (&self.stages[&mould.stage], self.plan.stage(mould.stage));
        let gpus: Vec<_> = mould.gpu.into_iter().collect();
        let fit = Fit { gpus: &gpus, cpus: mould.cpus, reserve: mould.reserve, extra: &mould.extra };
        let mut own = fit.environment(&self.dir, stage, &self.machine, &pad.environment, tag);
        let theirs = cradle.theirs.as_raw_fd();
        own.set(env_vars::STANDBY, theirs.to_string().as_bytes());
        keep.push(theirs);
        let words = match &stage.map {
            None => stage.command.iter().map(|word| fill_shared(&self.dir, stage, word)).collect(),
            Some(map) => {
                let python = stage.command.first().map(|word| fill_shared(&self.dir, stage, word));
                let runner = self.dir.python_dir().join(worker_kit::RUNNER).to_string_lossy().into_owned();
                vec![python.unwrap_or_default(), runner, "--worker".to_owned(), map.model.clone()]
            }
        };
        self.spawn(mould.stage, words, &own, &cradle.printed, &keep)
    }

    fn spawn(
        &mut self,
        stage: StageId,
        words: Vec<String>,
        own: &CStrings,
        files: &LogFiles,
        keep: &[RawFd],
    ) -> Result<Spawned, Setback> {
        let pad = &self.stages[&stage];
        let program = match &pad.program {
            Some(program) => program,
            None => &look_up(words.first().map_or("", String::as_str), pad.environment.path.as_deref())?,
        };
        let mut argv = CStrings::default();
        for word in words {
            argv.push(word);
        }
        let image = Image {
            program,
            argv: PointerArray::of(&[&argv]),
            envp: PointerArray::of(&[&pad.environment.shared, own]),
        };
        self.spawner
            .spawn(&image, files.stdout.as_fd(), files.stderr.as_fd(), keep)
            .map_err(|error| explain(&error, &program.to_string_lossy(), &self.plan.run.cwd))
    }

    /// Makes the files of the first of these jobs that has none yet. `false`: nothing was done.
    pub(super) fn prepare(&mut self, upcoming: &[(JobId, Attempt)]) -> bool {
        self.files.keep_only(upcoming);
        let next = upcoming.iter().find(|(job, attempt)| !self.files.has(*job, *attempt));
        let request = next.and_then(|(job, attempt)| self.request(*job, *attempt).ok());
        request.is_some_and(|request| self.files.make_ahead(request))
    }

    /// Where the output of a job that was started lies and goes. `None`: it was never started.
    pub(super) fn output_of(&self, job: JobId, attempt: Attempt) -> Option<Output> {
        let (dir, plan) = (&self.dir, &*self.plan);
        let pad = self.stages.get(&plan.job(job).stage)?;
        let (stage, anchored) = (Arc::clone(&pad.directory), Arc::clone(&pad.anchored));
        let place = OutputPlace::new(stage, anchored, &plan.job(job).name, attempt);
        Some(Output { job, attempt, from: dir.attempt_out(plan, job, attempt), place })
    }

    /// No more starts: what was made ahead is removed.
    pub(super) fn close(&mut self) {
        self.files.forget_all();
    }

    fn request(&mut self, job: JobId, attempt: Attempt) -> io::Result<Request> {
        let stage = self.plan.job(job).stage;
        self.pad(stage)?;
        Ok(Request { job, attempt, stage: Arc::clone(&self.stages[&stage].directory) })
    }

    /// Sees to it that what all jobs of the stage share is there.
    fn pad(&mut self, stage: StageId) -> io::Result<()> {
        if !self.stages.contains_key(&stage) {
            let pad = self.open_stage(stage)?;
            self.stages.insert(stage, pad);
        }
        Ok(())
    }

    /// Makes the stage's directory again, if it was removed. While that does not go, the old one stays: outputs may lie in it.
    fn reopen_stage(&mut self, stage: StageId) {
        let there = self.stages.get(&stage).is_some_and(|pad| {
            rustix::fs::fstat(&pad.directory).is_ok_and(|directory| directory.st_nlink > 0)
        });
        // Whoever removes the whole directory just now is not disturbed.
        if !there
            && statat(&self.root, "plan.json", AtFlags::SYMLINK_NOFOLLOW).is_ok()
            && let Ok(pad) = self.open_stage(stage)
        {
            self.stages.insert(stage, pad);
        }
    }

    fn open_stage(&self, id: StageId) -> io::Result<StagePad> {
        let stage = self.plan.stage(id);
        let jobs = format!("jobs/{}", stage.name);
        for path in ["jobs", &jobs] {
            match mkdirat(&self.root, path, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let directory = gpulane_files::open_directory_at(&self.root, &jobs)?;
        let directory = Arc::new(directory);
        let environment = StageEnvironment::new(&self.dir, stage, &self.inherited);
        let fixed = stage.command.first().filter(|word| !word.contains(['{', '}']));
        let program =
            fixed.and_then(|word| find_program(word, environment.path.as_deref())).map(|path| c_path(&path));
        Ok(StagePad { environment, directory, anchored: Arc::default(), program })
    }
}

fn look_up(word: &str, path: Option<&str>) -> Result<CString, Setback> {
    find_program(word, path)
        .map(|path| c_path(&path))
        .ok_or_else(|| Setback::Program(format!("`{word}` is not on the PATH")))
}

/// What an error on our own files means for the run.
fn setback(error: &io::Error, dir: &RunDir) -> Setback {
    let (what, root) = ("make a job's files", dir.root().display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Setback::Blocked(format!(
            "cannot {what}: no space left under {root}; free some space and the run goes on by itself"
        )),
        io::ErrorKind::NotFound => Setback::Missing(format!(
            "cannot {what}: a directory below {root} was removed while in use; trying again"
        )),
        io::ErrorKind::ReadOnlyFilesystem => {
            Setback::Blocked(format!("cannot {what}: {root} is read-only now"))
        }
        io::ErrorKind::FileTooLarge => Setback::Blocked(format!(
            "cannot {what}: {error}; interrupt the run, raise the file size limit (`ulimit -f`), then resume it"
        )),
        _ if is_own(error) => Setback::Program(format!("cannot {what} under {root}: {error}")),
        _ => Setback::Blocked(format!("cannot {what} under {root}: {error}; trying again")),
    }
}

/// What an error of clone or exec means for the job.
fn explain(error: &io::Error, program: &str, cwd: &str) -> Setback {
    if is_shortage(error) {
        let hint = gpulane_journal::io_hint(error).map(|hint| format!("; {hint}")).unwrap_or_default();
        return Setback::Blocked(format!("cannot start a process: {error}{hint}; trying again"));
    }
    let gone = !std::path::Path::new(cwd).is_dir();
    let text = match error.kind() {
        io::ErrorKind::NotFound if gone => format!("{program}: the working directory {cwd} is gone"),
        io::ErrorKind::NotFound => format!("{program}: no such program, or its interpreter is missing"),
        io::ErrorKind::PermissionDenied => {
            format!("{program}: not executable; chmod +x, or name its interpreter")
        }
        io::ErrorKind::ArgumentListTooLong => {
            format!(
                "{program}: the config is too long for an argument; pass {{config_file}} instead of {{config}}"
            )
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            format!("{program}: not a program; a script needs a first line such as #!/bin/sh")
        }
        _ => format!("{program}: {error}"),
    };
    Setback::Program(text)
}

/// Errors that say that this job's own folder is in the way; another's may be fine. Any other is that of a file system that refuses
/// or dies, and would hit every job alike.
fn is_own(error: &io::Error) -> bool {
    let own = [
        libc::EEXIST,
        libc::ENOTDIR,
        libc::EISDIR,
        libc::ENOTEMPTY,
        libc::EACCES,
        libc::EPERM,
        libc::ELOOP,
        libc::ENAMETOOLONG,
        libc::EINVAL,
        libc::EILSEQ,
        libc::EMLINK,
    ];
    error.raw_os_error().is_none_or(|code| own.contains(&code))
}

/// Errors that pass: too many processes or open files, too little memory.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE))
}
