//! Processes that run the model's own `load(path)`, one for each loader thread. They write into the same ring. One that crashes costs
//! the item it had, tried once more; one that never returns is ended when the stage's `hang` or the map's `item_timeout` has passed. At the end all get the stage's
//! `grace` to write what the model has not written yet.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpulane_decode::{Element, Form, Kind};
use gpulane_feed::loaders::{Outside, OutsideAnswer, Told};
use gpulane_feed::ring::Ring;
use gpulane_feed::wire::{self, FrameReader, FromWorker, ToWorker};
use gpulane_model::{Members, Millis, NanPolicy, START_SCRIPT, env_vars};
use rustix::process::{Pid, Signal};

use super::begin::Task;
use super::flow::ring_frame;
use crate::process::signals::{reap_within, unblocked};
use crate::process::tree::{self, Process};

/// Importing the model's libraries on a cold disk takes long.
const IMPORT: Duration = Duration::from_mins(5);
/// Processes that did not get ready, after which no more are started.
const UNREADY: u32 = 2;
/// Tries at an item whose process died over it.
const TRIES: u32 = 2;
/// What a process that closed its socket needs to be gone.
const SOON: Duration = Duration::from_millis(500);
/// What a process gets beyond its time to say itself where it is.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two looks at processes that are about to end.
const LOOK: Duration = Duration::from_millis(5);

/// The processes and their sockets.
pub(super) struct LoaderPool {
    /// How one is started.
    model: String,
    python: String,
    start: PathBuf,
    dir: PathBuf,
    base: PathBuf,
    stage: String,
    environment: Vec<(String, String)>,
    /// How long an answer may take.
    patience: Option<Duration>,
    /// `item_timeout`: how long a `load` may take, by the loader's own clock.
    limit: Option<Millis>,
    /// How long a process may take to end after SIGTERM.
    grace: Duration,
    ring: Arc<Ring>,
    frame: ToWorker,
    /// Sockets of processes that have said hello, by their ids.
    arrived: Mutex<HashMap<u32, UnixStream>>,
    arrival: Condvar,
    /// One for each thread; held while that thread loads.
    seats: Vec<Mutex<Seat>>,
    /// Processes that were not reaped, by thread: a seat in use is locked.
    living: Mutex<BTreeMap<usize, Process>>,
    /// The map ends: no more are started.
    ending: AtomicBool,
    /// Whether any has ever got ready: a model whose `load` cannot be set up is no item's fault.
    ready: AtomicBool,
    /// How many have not.
    unready: AtomicU32,
    /// Where it is told that the map cannot go on.
    news: SyncSender<Told>,
}

#[derive(Default)]
struct Seat {
    process: Option<Child>,
    line: Option<(UnixStream, FrameReader)>,
}

impl LoaderPool {
    pub(super) fn new(
        task: &Task,
        ring: Arc<Ring>,
        threads: u32,
        decode: gpulane_model::Decode,
        news: SyncSender<Told>,
    ) -> Self {
        let limit = task.map.item_timeout;
        let frame = ring_frame(&ring, decode, Members::None, NanPolicy::Keep, task.map.args.clone(), limit);
        let hang = task.stage.hang.map(|hang| hang.after.duration());
        Self {
            model: task.map.model.clone(),
            python: task.python(),
            start: task.package.join(START_SCRIPT),
            dir: task.dir.clone(),
            base: task.base.clone(),
            stage: task.stage.name.clone(),
            environment: task.python_environment(),
            patience: limit.map(|limit| limit.duration() + LAST_WORDS).into_iter().chain(hang).min(),
            limit,
            grace: task.stage.grace.duration(),
            ring,
            frame,
            arrived: Mutex::default(),
            arrival: Condvar::new(),
            seats: (0..threads).map(|_| Mutex::default()).collect(),
            living: Mutex::default(),
            ending: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            unready: AtomicU32::new(0),
            news,
        }
    }

    /// A loader has connected.
    pub(super) fn arrive(&self, pid: u32, stream: UnixStream) {
        lock(&self.arrived).insert(pid, stream);
        self.arrival.notify_all();
    }

    /// Asks all to end: those that are idle by closing their socket, those that load by SIGTERM.
    pub(super) fn begin_end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        for (thread, seat) in self.seats.iter().enumerate() {
            match seat.try_lock() {
                Ok(mut seat) => seat.say_bye(),
                // It belongs to a thread that waits for its process.
                Err(_) => {
                    if let Some(process) = lock(&self.living).get(&thread) {
                        tree::signal(process, Signal::TERM);
                    }
                }
            }
        }
    }

    /// Waits until all have ended, and ends those that have not by then.
    pub(super) fn end_by(&self, until: Instant) {
        loop {
            for (thread, seat) in self.seats.iter().enumerate() {
                if let Ok(mut seat) = seat.try_lock()
                    && seat.process.as_mut().is_none_or(|process| !matches!(process.try_wait(), Ok(None)))
                {
                    seat.process = None;
                    lock(&self.living).remove(&thread);
                }
            }
            let living = lock(&self.living);
            if living.is_empty() {
                return;
            }
            if Instant::now() >= until {
                for process in living.values() {
                    tree::signal(process, Signal::KILL);
                }
                return;
            }
            drop(living);
            std::thread::sleep(LOOK);
        }
    }

    fn name(&self, thread: usize) -> String {
        format!("{}/loader-{thread}", self.stage)
    }

    /// Starts the process of this seat and waits until it is ready; the error is for a person.
    fn fill(&self, seat: &mut Seat, thread: usize) -> Result<(), String> {
        let name = self.name(thread);
        let mut command = Command::new(&self.python);
        command
            .arg(&self.start)
            .args(["loader", &self.model])
            .current_dir(&self.base)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .env(env_vars::FEED, &self.dir)
            .env(env_vars::JOB, &name)
            .env(env_vars::ATTEMPT, "1")
            .env(env_vars::GRACE, self.grace.as_secs_f64().to_string())
            .env(env_vars::PYTHONUNBUFFERED, "1")
            .env(env_vars::CUDA_VISIBLE_DEVICES, "")
            .env("OMP_NUM_THREADS", "1")
            .stdin(Stdio::null())
            .stdout(log());
        // Its thread ends when there is nothing more to load: then the process flushes what the model has written, and ends.
        let child = unblocked(&mut command, libc::SIGTERM)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.python))?;
        let pid = child.id();
        if let Some(process) = pid_of(&child).and_then(tree::look) {
            lock(&self.living).insert(thread, process);
        }
        seat.process = Some(child);
        let stream = self.await_arrival(pid, seat)?;
        stream.set_read_timeout(Some(IMPORT)).map_err(|error| error.to_string())?;
        let first = wire::encode(&self.frame, 0);
        wire::send_with_fd(&stream, &first, self.ring.fd()).map_err(|error| error.to_string())?;
        let mut reader = FrameReader::new();
        match hear(&stream, &mut reader)? {
            FromWorker::Ready { .. } => {}
            FromWorker::SetupFailed { error, .. } => {
                return Err(format!("the model's load cannot be set up: {error}"));
            }
            _ => return Err("a loader said something unexpected".to_owned()),
        }
        stream.set_read_timeout(self.patience).map_err(|error| error.to_string())?;
        seat.line = Some((stream, reader));
        Ok(())
    }

    fn await_arrival(&self, pid: u32, seat: &mut Seat) -> Result<UnixStream, String> {
        const LOOK: Duration = Duration::from_millis(200);
        let until = Instant::now() + IMPORT;
        let mut arrived = lock(&self.arrived);
        loop {
            if let Some(stream) = arrived.remove(&pid) {
                return Ok(stream);
            }
            if let Some(Ok(Some(status))) = seat.process.as_mut().map(Child::try_wait) {
                return Err(format!(
                    "a loader process ended before it could load anything ({status}); see feeder.log"
                ));
            }
            if Instant::now() > until {
                return Err("a loader process did not get ready in 5 min".to_owned());
            }
            arrived = self.arrival.wait_timeout(arrived, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// After a few, with none that ever worked, the map ends.
    fn on_unready(&self, error: &str) {
        let unready = self.unready.fetch_add(1, Ordering::Relaxed) + 1;
        if unready >= UNREADY && !self.ready.load(Ordering::Relaxed) {
            // A full line of news is as good: the next one says it.
            let _ = self.news.try_send(Told::Broken(format!("{error}; feeder.log has the whole of it")));
        }
    }

    fn took_too_long(&self, stack: &str) -> String {
        let limit = self.limit.map_or_else(String::new, |limit| format!(", {limit}"));
        format!("load(path) did not come back within item_timeout{limit}, at {stack}")
    }

    /// Ends the process of this seat. Says how it had ended, if it had.
    fn vacate(&self, seat: &mut Seat, thread: usize) -> Option<String> {
        let how = seat.leave(self.grace);
        lock(&self.living).remove(&thread);
        how
    }

    fn ask(&self, seat: &mut Seat, thread: usize, wish: &ToWorker) -> Result<FromWorker, String> {
        if self.ending.load(Ordering::Relaxed) {
            return Err("the map ends".to_owned());
        }
        if seat.line.is_none() {
            self.fill(seat, thread).inspect_err(|error| self.on_unready(error))?;
            self.ready.store(true, Ordering::Relaxed);
        }
        let Some((stream, reader)) = &mut seat.line else { return Err("no loader".to_owned()) };
        std::io::Write::write_all(stream, &wire::encode(wish, 0)).map_err(|error| error.to_string())?;
        hear(stream, reader)
    }
}

impl Outside for LoaderPool {
    fn load(&self, thread: usize, path: &str, slot: u32, offset: u64, room: u64) -> OutsideAnswer {
        let Some(seat) = self.seats.get(thread) else { return OutsideAnswer::Failed("no loader".to_owned()) };
        let mut seat = lock(seat);
        let wish = ToWorker::Load { path: path.to_owned(), slot, offset, room };
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.ask(&mut seat, thread, &wish) {
                Ok(FromWorker::Loaded { kind, element, shape, bytes }) => {
                    match form(kind, element, &shape, bytes) {
                        Some(form) => return OutsideAnswer::Loaded { form },
                        None => {
                            last = String::from("a loader described what it wrote in a way nobody can read");
                        }
                    }
                }
                Ok(FromWorker::TooLarge { bytes }) => return OutsideAnswer::TooLarge { bytes },
                Ok(FromWorker::LoadFailed { reason }) => return OutsideAnswer::Failed(reason),
                // Once is enough: another try would take as long.
                Ok(FromWorker::Overdue { stack, .. }) => {
                    self.vacate(&mut seat, thread);
                    return OutsideAnswer::Failed(self.took_too_long(&stack));
                }
                Ok(_) => last = String::from("a loader said something unexpected"),
                Err(error) => last = error,
            }
            let asked = seat.line.is_some();
            if let Some(how) = self.vacate(&mut seat, thread).filter(|_| asked) {
                last = how;
            }
        }
        OutsideAnswer::Failed(last)
    }
}

impl Seat {
    /// Tells an idle process that there is nothing more to load.
    fn say_bye(&mut self) {
        if let Some((mut stream, _)) = self.line.take() {
            // One that is gone needs no word.
            let _ = std::io::Write::write_all(&mut stream, &wire::encode(&ToWorker::Bye, 0));
        }
    }

    /// Ends the process: SIGTERM, then SIGKILL after `grace`. Says how it had ended, if it had.
    fn leave(&mut self, grace: Duration) -> Option<String> {
        self.line = None;
        let mut process = self.process.take()?;
        // It may be about to end by itself: its socket closes before its process is gone.
        if let Some(status) = wait(&mut process, SOON) {
            let signal = status
                .signal()
                .map(|signal| format!("load(path) brought down its process (signal {signal})"));
            return signal.or_else(|| Some(format!("load(path) ended its process ({status})")));
        }
        if let Some(found) = pid_of(&process).and_then(tree::look) {
            tree::signal(&found, Signal::TERM);
        }
        if wait(&mut process, grace).is_none() {
            let _ = process.kill();
            // Stuck in a disk that does not answer, it outlives that; it ends with this process.
            reap_within(&mut process, SOON);
        }
        None
    }
}

/// Waits for the process to end, at most so long.
fn wait(process: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        if let Ok(Some(status)) = process.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

fn pid_of(process: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process.id()).ok()?)
}

/// What `load` prints goes where its errors go: standard output is the feeder's way to the engine.
fn log() -> Stdio {
    std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// What a model's `load` may make.
const KINDS: [Kind; 3] = [Kind::Array, Kind::Bytes, Kind::Text];
const ELEMENTS: [Element; 12] = [
    Element::U8,
    Element::U16,
    Element::I16,
    Element::U32,
    Element::I32,
    Element::F32,
    Element::F64,
    Element::Bool,
    Element::I64,
    Element::U64,
    Element::F16,
    Element::I8,
];

/// What a loader says it wrote, if that makes sense.
fn form(kind: u8, element: u8, shape: &[u32], bytes: u64) -> Option<Form> {
    let mut dims = [0; 4];
    dims.get_mut(..shape.len())?.copy_from_slice(shape);
    Some(Form {
        kind: KINDS.into_iter().find(|known| known.code() == kind)?,
        element: ELEMENTS.into_iter().find(|known| known.code() == element).unwrap_or(Element::U8),
        orientation: 1,
        chroma: 0,
        dims,
        ndim: u32::try_from(shape.len()).ok()?,
        bytes,
        damaged: false,
    })
}

/// The next frame, however long it takes within the socket's patience.
fn hear(stream: &UnixStream, reader: &mut FrameReader) -> Result<FromWorker, String> {
    loop {
        if let Some(frame) = reader.next().map_err(|error| error.to_string())? {
            return frame.from_worker().map_err(|error| error.to_string());
        }
        match reader.read_from(stream) {
            Ok(wire::Progress::Closed) => return Err("its loader process is gone".to_owned()),
            Ok(wire::Progress::Ready) => {}
            // The socket waits; this is the end of its patience.
            Ok(wire::Progress::Later) => {
                return Err(
                    "load(path) did not return in the time `hang` or `item_timeout` allows".to_owned()
                );
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
