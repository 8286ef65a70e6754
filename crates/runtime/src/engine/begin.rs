//! Before the first job: take up the orders, read the frozen plan, find the GPUs, open the journal. Whatever is
//! wrong is refused here, in words, with nothing started.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpulane_gpu::{GpuError, GpuSpec, Leases};
use gpulane_journal::{Commit, Journal, JournalError, Mode, RunDir, RunDirError};
use gpulane_model::{Event, ExitCode, Foreign, GpuKind, Machine, Memory, Millis, Plan, RunState, env_vars};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};

use super::clock::Clock;
use super::link::Link;
use super::place::{Misplaced, Place};
use super::recovery::Resumed;
use super::{recovery, worker_kit};
use crate::front::Message;
use crate::orders::{Orders, StartRequest};
use crate::process::descriptors::{adopt, keep_to_ourselves};
use crate::process::inherited::{raise_descriptor_limit, set_users_umask};
use crate::process::signals::Signals;
use crate::process::subreaper::become_subreaper;
use crate::process::tree;

/// How long memory that nobody is seen to hold may take to come back before it is taken for somebody's.
const GHOST_PATIENCE: Duration = Duration::from_secs(10);

/// The guardian's death arrives as this signal.
pub(super) const GUARDIAN_GONE: libc::c_int = libc::SIGUSR1;

/// Everything the reactor needs.
pub(super) struct Prepared {
    pub(super) dir: RunDir,
    pub(super) plan: Arc<Plan>,
    pub(super) machine: Machine,
    /// What becomes of GPUs that others use.
    pub(super) foreign: Foreign,
    /// How long the first GPU may take to come.
    pub(super) wait: Option<Millis>,
    /// The GPUs are shared with other runs of this machine; until the reactor has them.
    pub(super) leases: Option<Leases>,
    pub(super) journal: Option<Journal>,
    /// Maps go on although their inputs or model have changed.
    pub(super) accept_changes: bool,
    /// Why the journal cannot be written now, if it cannot.
    pub(super) obstacle: Obstacle,
    pub(super) past: RunState,
    pub(super) link: Link,
    pub(super) signals: Signals,
    /// Our parent, unless it has died.
    guardian: Option<i32>,
    /// The front went away on purpose.
    pub(super) detached: bool,
    /// Where the run is.
    pub(super) place: Place,
    /// Keeps the run ours as long as we live: the lock, and the directory.
    _lock: (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>),
}

impl Prepared {
    /// Whether somebody is left who ends what outlives us.
    pub(super) fn guardian_lives(&self) -> bool {
        self.guardian == parent()
    }

    /// Lets the guardian go on, should somebody have stopped it.
    pub(super) fn wake_guardian(&self) {
        if let Some(guardian) = self.guardian.filter(|_| self.guardian_lives()).and_then(Pid::from_raw) {
            // Our own parent, so its number is nobody else's.
            let _ = kill_process(guardian, Signal::CONT);
        }
    }
}

/// Set by the journal's thread, read before each start: nothing is started that could not be recorded.
pub(super) type Obstacle = Arc<Mutex<Option<String>>>;

/// Why nothing was started.
pub(super) struct Refusal {
    pub(super) code: ExitCode,
    text: String,
    hint: Option<String>,
}

impl Refusal {
    fn new(code: ExitCode, text: impl std::fmt::Display) -> Self {
        Self { code, text: text.to_string(), hint: None }
    }

    fn internal(text: impl std::fmt::Display) -> Self {
        Self::new(ExitCode::Internal, text)
    }

    fn bad(text: impl std::fmt::Display) -> Self {
        Self::new(ExitCode::BadInput, text)
    }

    fn hinted(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    /// A file that the start needs cannot be written.
    fn disk(path: &Path, error: &std::io::Error) -> Self {
        let refused = gpulane_journal::is_refused_by_disk(error);
        let code = if refused { ExitCode::BadInput } else { ExitCode::Internal };
        Self::new(code, format!("cannot write {}: {error}", path.display()))
            .hinted(gpulane_journal::io_hint(error))
    }

    fn run_dir(error: &RunDirError) -> Self {
        Self::bad(error).hinted(error.hint())
    }
}

pub(super) fn begin() -> Result<Prepared, Refusal> {
    let orders = Orders::take().map_err(Refusal::internal)?;
    set_users_umask(orders.umask);
    // Started through /proc/self/exe, it would be called `exe`.
    let _ = rustix::thread::set_name(c"gpulane-engine");
    die_with_the_guardian(&orders)?;
    let link = Link::new(adopt(orders.link).map_err(Refusal::internal)?);
    let prepared = prepare(&orders, link);
    prepared.map_err(|(refusal, link)| {
        link.send(&Message::Refused {
            text: refusal.text.clone(),
            hint: refusal.hint.clone(),
            code: refusal.code.code(),
        });
        refusal
    })
}

/// Asks for a signal when the guardian dies, and leaves at once if that has already happened.
fn die_with_the_guardian(orders: &Orders) -> Result<(), Refusal> {
    set_parent_process_death_signal(Some(Signal::USR1)).map_err(Refusal::internal)?;
    if orders.guardian.is_some() && orders.guardian != parent() {
        return Err(Refusal::internal("the guardian is gone"));
    }
    Ok(())
}

fn parent() -> Option<i32> {
    rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get())
}

fn prepare(orders: &Orders, link: Link) -> Result<Prepared, (Refusal, Link)> {
    let ready = (|| {
        // Before any thread starts: all inherit the mask.
        let signals = Signals::listen(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, GUARDIAN_GONE])
            .map_err(Refusal::internal)?;
        become_subreaper().map_err(Refusal::internal)?;
        let lock = adopt(orders.lock).map_err(Refusal::internal)?;
        sign(&lock);
        let directory = orders.directory.map(adopt).transpose().map_err(Refusal::internal)?;
        let durable = File::from(adopt(orders.durable).map_err(Refusal::internal)?);
        keep_to_ourselves();
        raise_descriptor_limit();
        let dir = RunDir::open(&orders.dir).map_err(|error| Refusal::run_dir(&error))?;
        let place = Place::of(&dir, &lock).map_err(Refusal::internal)?;
        let exposure = dir.examine(&orders.request.trusted).map_err(|error| Refusal::run_dir(&error))?;
        let plan = Arc::new(dir.plan().map_err(|error| Refusal::run_dir(&error))?);
        enter(Path::new(&plan.run.cwd))?;
        let foreign = orders.request.foreign.unwrap_or(plan.run.foreign);
        let wait = orders.request.wait.or(plan.run.wait);
        let machine = find_machine(&plan, &orders.request, &link)?;
        let shared = machine.kind == GpuKind::Nvml && !is_inside_another(&machine);
        let leases = shared.then(|| open_leases(&dir)).transpose()?;
        if shared && foreign == Foreign::Avoid && wait.is_none() {
            refuse_if_all_taken(&machine)?;
        }
        if dir.journal_file().exists() {
            recovery::end_leftovers(&dir);
        }
        refuse_if_misplaced(&place)?;
        let dir = if plan.stages.iter().any(|stage| stage.map.is_some() || stage.entry.is_some()) {
            worker_kit::unpack(dir, &exposure).map_err(|missing| match missing {
                worker_kit::Missing::Unsafe(error) => Refusal::run_dir(&error),
                worker_kit::Missing::Io(path, error) => Refusal::disk(&path, &error),
            })?
        } else {
            dir
        };
        let obstacle = Obstacle::default();
        let voice = commit_voice(durable, &link, &obstacle);
        let (journal, past) = open_journal(&dir, &plan, &orders.request, voice, &link)?;
        refuse_if_misplaced(&place)?;
        let sharing = (foreign, wait, leases);
        Ok((dir, plan, machine, sharing, journal, obstacle, past, signals, (place, lock, directory)))
    })();
    match ready {
        Ok((dir, plan, machine, (foreign, wait, leases), journal, obstacle, mut past, signals, held)) => {
            let (place, lock, directory) = held;
            let (plan_of, failed_too) = (&*plan, orders.request.failed);
            let resumed =
                Resumed { dir: &dir, plan: plan_of, machine: &machine, journal: &journal, failed_too };
            recovery::take_stock(&resumed, &mut past);
            Ok(Prepared {
                dir,
                plan,
                machine,
                foreign,
                wait,
                leases,
                accept_changes: orders.request.accept_changes,
                journal: Some(journal),
                obstacle,
                past,
                link,
                signals,
                guardian: orders.guardian,
                detached: orders.request.detached,
                place,
                _lock: (lock, directory),
            })
        }
        Err(refusal) => Err((refusal, link)),
    }
}

/// Until the journal is open, a run directory that was moved away or replaced is refused: nothing has been started.
fn refuse_if_misplaced(place: &Place) -> Result<(), Refusal> {
    if place.is_here() {
        return Ok(());
    }
    let found = place.look().map(|(Misplaced::Held(why) | Misplaced::Removed(why))| why);
    Err(Refusal::bad(found.unwrap_or_else(|| "the run directory was moved while gpulane began".to_owned())))
}

/// Whoever finds the run taken is told by whom. The front wrote its own id; from now on it is ours that counts.
fn sign(lock: &std::os::fd::OwnedFd) {
    let Ok(file) = lock.try_clone().map(File::from) else { return };
    // On a full disk the old id stays, which misleads nobody for long.
    let _ = file.write_all_at(format!("{:<10}\n", std::process::id()).as_bytes(), 0);
}

/// Jobs inherit our working directory.
fn enter(cwd: &Path) -> Result<(), Refusal> {
    std::env::set_current_dir(cwd).map_err(|error| {
        Refusal::bad(format!("cannot enter {}, where this run's jobs run: {error}", cwd.display()))
            .hinted(Some("put that directory back, then resume".to_owned()))
    })
}

fn find_machine(plan: &Plan, request: &StartRequest, link: &Link) -> Result<Machine, Refusal> {
    let text = request.gpus.as_ref().unwrap_or(&plan.run.gpus);
    let spec: GpuSpec = text.parse().map_err(Refusal::bad)?;
    let visible = std::env::var(gpulane_model::env_vars::CUDA_VISIBLE_DEVICES).ok();
    let lanes = request.lanes.or(plan.run.lanes);
    let found = gpulane_gpu::find(&spec, lanes, plan.run.headroom, visible.as_deref());
    let found = found.map_err(|error| match error {
        GpuError::Lanes(_) => Refusal::bad(error),
        _ => Refusal::new(ExitCode::NoResources, error),
    })?;
    let machine = match lanes {
        Some(_) => found.machine,
        None if found.exclusive && shares_without_mps(plan) => {
            link.note(
                "a GPU is in exclusive compute mode, so jobs have their GPU to themselves; `mps = true` or \
                 `nvidia-smi -c 0` lets them share",
            );
            found.machine
        }
        None => found.machine.packed_for(plan),
    };
    let misfits = gpulane_core::misfits(plan, &machine);
    if !misfits.is_empty() {
        let lines: Vec<String> = misfits.iter().map(ToString::to_string).collect();
        let headroom = Some(plan.run.headroom).filter(|headroom| headroom.0 > 0);
        let hint = headroom.map(|headroom| format!("--headroom {headroom} of each GPU is left free"));
        return Err(Refusal::new(ExitCode::NoResources, lines.join("\n")).hinted(hint));
    }
    if let Some(note) = &found.note {
        link.note(note);
    }
    Ok(machine)
}

/// Whether jobs would share a GPU as processes of their own.
fn shares_without_mps(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| stage.gpus > 0 && stage.memory != Memory::Exclusive && !stage.mps)
}

/// Whether we are in a job of another run that has leased these GPUs: then they are ours already. The variable alone proves nothing, it
/// may be left from a shell or a run that is gone; that an engine above us holds the leases does.
fn is_inside_another(machine: &Machine) -> bool {
    if std::env::var_os(env_vars::RUN).is_none() {
        return false;
    }
    let above = tree::Table::read().ancestors_of(rustix::process::getpid());
    let above: Vec<u32> = above.iter().map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect();
    let uuids: Vec<String> = machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
    gpulane_gpu::are_leased_to(&uuids, &above)
}

fn open_leases(dir: &RunDir) -> Result<Leases, Refusal> {
    Leases::open(dir.root()).map_err(|error| {
        let hint = "GPULANE_LEASE_DIR names another directory; all who share these GPUs must use the same";
        Refusal::new(ExitCode::NoResources, format!("GPUs cannot be leased: {error}"))
            .hinted(Some(hint.to_owned()))
    })
}

/// With nothing but GPUs that others use, better say so now than wait in silence.
fn refuse_if_all_taken(machine: &Machine) -> Result<(), Refusal> {
    // Memory that nobody is seen to hold may be that of a process that has just ended.
    let begun = Instant::now();
    loop {
        match all_taken(machine) {
            Err((_, true)) if begun.elapsed() < GHOST_PATIENCE => {
                std::thread::sleep(Duration::from_millis(200));
            }
            Err((refusal, _)) => return Err(refusal),
            Ok(()) => return Ok(()),
        }
    }
}

/// Why no GPU is free, and whether that may be over in a moment.
fn all_taken(machine: &Machine) -> Result<(), (Refusal, bool)> {
    let Ok(readings) = gpulane_gpu::readings(gpulane_gpu::DEADLINE) else { return Ok(()) };
    let leased = gpulane_gpu::survey().leases;
    let mut taken = Vec::new();
    let mut may_pass = false;
    for gpu in &machine.gpus {
        // Another gpulane's: that is waited for in line.
        let reading = readings.iter().find(|reading| reading.uuid == gpu.uuid);
        let ours = leased.iter().any(|(uuid, _)| *uuid == gpu.uuid);
        match reading.and_then(super::gpus::strangers_on) {
            Some((who, ghost)) if !ours => {
                may_pass |= ghost;
                taken.push(format!("{} is used by others: {who}", gpu.uuid));
            }
            _ => return Ok(()),
        }
    }
    let hint = "`--foreign wait` or `--wait 2h` waits for one; `--foreign ignore` uses what memory is free";
    let refusal = Refusal::new(ExitCode::NoResources, format!("no GPU is free: {}", taken.join("; ")));
    Err((refusal.hinted(Some(hint.to_owned())), may_pass))
}

/// What the journal's thread does with its news.
fn commit_voice(durable: File, link: &Link, obstacle: &Obstacle) -> Box<dyn Fn(Commit) + Send> {
    let (voice, obstacle) = (link.as_voice(), Arc::clone(obstacle));
    let set = move |news: Option<String>| *obstacle.lock().unwrap_or_else(PoisonError::into_inner) = news;
    Box::new(move |commit| match commit {
        // The front reads this to know what may be announced; failing to write to memory is not to be had.
        Commit::Durable { bytes, .. } => drop(durable.write_all_at(&bytes.to_ne_bytes(), 0)),
        Commit::Blocked { because } => {
            voice.trouble(&because);
            set(Some(because));
        }
        Commit::Unblocked => {
            voice.trouble("the journal can be written again; going on");
            set(None);
        }
    })
}

fn open_journal(
    dir: &RunDir,
    plan: &Plan,
    request: &StartRequest,
    on_commit: Box<dyn Fn(Commit) + Send>,
    link: &Link,
) -> Result<(Journal, RunState), Refusal> {
    let mode = if request.salvage { Mode::Salvage } else { Mode::Strict };
    let (journal, past, repair) = Journal::open(dir, plan, mode, on_commit).map_err(|error| {
        let short =
            matches!(&error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock);
        let code = if short { ExitCode::NoResources } else { ExitCode::BadInput };
        Refusal::new(code, &error).hinted(error.hint())
    })?;
    if let Some(text) = repair.describe() {
        link.note(&text);
    }
    let bytes = std::fs::metadata(dir.journal_file()).map_or(0, |file| file.len());
    link.send(&Message::Ready { bytes });
    let open_maps = (0..plan.stages.len()).any(|at| past.is_map_due(plan, at, request.failed));
    let open_jobs = past.counts.pending + past.counts.running + u32::from(open_maps);
    let again = if request.failed { past.counts.failed + past.counts.skipped } else { past.kept() };
    if past.last_seq > 0 && open_jobs + again == 0 && !recovery::is_unsettled(dir, plan, &past) {
        recovery::restore_files(dir, plan, &past);
        if !past.finished {
            finish_belatedly(journal, &past);
        }
        let items: u64 = past.maps.iter().flatten().map(|map| map.failed).sum();
        let failed = u64::from(past.counts.failed + past.counts.skipped) + items;
        let hint = (failed > 0).then(|| "`--failed` runs again what failed or was skipped".to_owned());
        let refusal = Refusal::new(ExitCode::NothingToDo, "nothing to do: every job of this run has ended");
        return Err(refusal.hinted(hint));
    }
    Ok((journal, past))
}

/// Every job has ended, but the engine was killed before it could say so.
fn finish_belatedly(journal: Journal, past: &RunState) {
    let counts = past.counts;
    let (succeeded, failed, skipped) = (counts.succeeded, counts.failed, counts.skipped);
    let seconds = past.last.unwrap_or_default().since(past.engine_started.unwrap_or_default()).as_seconds();
    journal
        .append(Clock::unix(), Event::RunFinished { succeeded, failed, skipped, seconds, exit_code: None });
    // If it cannot be written now, the next one says it.
    journal.close(Duration::from_secs(5));
}
