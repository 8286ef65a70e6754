//! The feeder's loop: workers and loaders report here, the books decide, and workers and loaders are told. One thread, one epoll; it
//! waits for no worker and no decoder, and of the disk it does only `live.json`. At the end it waits for the last results to be durable.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpulane_core::batches::{Dispatch, Health, Prospects, WorkerId};
use gpulane_feed::loaders::{Filled, Told};
use gpulane_items::Item;
use gpulane_model::Tolerance;
use gpulane_parts::Bits;
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use super::begin::{Begun, Task};
use super::connection::{Connection, Heard, Progress};
use super::ending::End;
use super::flow::Flow;
use super::live::Live;
use super::tell::Telling;
use super::writing::{Blame, Write, Writing};
use crate::process::signals::Signals;

const LISTENER: u64 = 0;
const WAKE: u64 = 1;
const SIGNALS: u64 = 2;
/// Workers' tokens begin here.
const WORKERS: u64 = 16;

/// The loop looks around this often even if nothing happens: rates, idle workers, `live.json`.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// News from loaders that may wait; then their threads do.
const NEWS: usize = 256;
/// Idle workers are told to wait, and answer, this often: a sign of life on both sides.
const WAVE: Duration = Duration::from_secs(5);
/// Connections taken in a row before others get their turn.
const MOST_ACCEPTED: u32 = 64;
/// How long nobody is taken after that failed.
const DEAF: Duration = Duration::from_secs(1);

/// Figures of this feeder's time that are not kept by anyone else.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Items that had results before.
    pub(super) rows_before: u64,
    /// Items that had failed before.
    pub(super) failed_before: u64,
    /// Items that had results before, of damaged pictures.
    pub(super) damaged_before: u64,
    /// Seconds workers that are gone had worked, copied and waited.
    pub(super) model: f64,
    pub(super) copying: f64,
    pub(super) waiting: f64,
    /// Bytes workers copied to their GPUs, and within the host's memory.
    pub(super) to_device: u64,
    pub(super) on_host: u64,
    /// Workers that were replaced because items in a row failed in them.
    pub(super) replaced: u64,
    /// Items that were tried again by another worker.
    pub(super) tried_again: u64,
    /// Workers that were ended because the model did not come back.
    pub(super) overdue: u64,
    /// Workers that died over something.
    pub(super) deaths: u64,
    /// The last of them, `STAGE/worker-0`.
    pub(super) last_death: String,
}

pub(super) struct Hub {
    pub(super) task: Task,
    /// Settled before this feeder began, or refused by it at once.
    pub(super) settled: Arc<Bits>,
    pub(super) telling: Arc<Telling>,
    epoll: OwnedFd,
    listener: UnixListener,
    /// Rung by loaders and writer.
    pub(super) bell: Arc<OwnedFd>,
    signals: Signals,
    news: Receiver<Told>,
    /// The loaders' end of it.
    pub(super) news_to: SyncSender<Told>,
    pub(super) writing: Writing,
    pub(super) books: Dispatch,
    /// Which workers are broken.
    pub(super) health: Health,
    /// Whether the model is worth going on with; the writer tells of results, this loop of deaths.
    pub(super) prospects: Arc<Mutex<Prospects>>,
    pub(super) workers: BTreeMap<WorkerId, Connection>,
    next_worker: u64,
    /// When workers could not be taken for want of descriptors; they wait until then.
    deaf_since: Option<Instant>,
    /// What is in each slot that is not settled.
    pub(super) slots: HashMap<u32, Filled>,
    /// Ring and loaders, once a worker has said what it takes.
    pub(super) flow: Option<Flow>,
    pub(super) live: Live,
    pub(super) tally: Tally,
    /// No item is left to load.
    pub(super) drained: bool,
    /// What failed setups said, in a row.
    pub(super) setup_failures: Vec<String>,
    /// When idle workers were last told to wait.
    waved: Instant,
    /// How it ends, once that is known.
    pub(super) end: Option<End>,
}

impl Hub {
    /// `deadly`: items that are not to be touched again, with the reason.
    pub(super) fn new(
        begun: Begun,
        listener: UnixListener,
        deadly: Vec<(Item, String)>,
        signals: Signals,
        telling: Arc<Telling>,
    ) -> io::Result<Self> {
        let Begun { task, writer, settled: before } = begun;
        let mut settled = before.done;
        for number in before.failed.iter() {
            settled.insert(number);
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        listener.set_nonblocking(true)?;
        watch(&epoll, &listener, LISTENER)?;
        watch(&epoll, &bell, WAKE)?;
        watch(&epoll, &signals, SIGNALS)?;
        let ring_bell = Arc::clone(&bell);
        let proven = before.rows > 0 || task.map.max_failures != Tolerance::Any;
        let prospects = Arc::new(Mutex::new(Prospects::new(proven)));
        let writing =
            Writing::start(writer, Arc::clone(&telling), Arc::clone(&prospects), move || ring(&ring_bell))?;
        let (news_to, news) = sync_channel(NEWS);
        let live = Live::new(&task.dir);
        for (item, reason) in deadly {
            settled.insert(item.number);
            writing.put(Write::Failed((item.number, item.name), reason, Blame::Item));
        }
        Ok(Self {
            task,
            settled: Arc::new(settled),
            telling,
            epoll,
            listener,
            bell,
            signals,
            news,
            news_to,
            writing,
            books: Dispatch::new(),
            health: Health::default(),
            prospects,
            workers: BTreeMap::new(),
            next_worker: 0,
            deaf_since: None,
            slots: HashMap::new(),
            flow: None,
            live,
            tally: Tally {
                rows_before: before.rows,
                failed_before: before.failures,
                damaged_before: before.damaged,
                ..Tally::default()
            },
            drained: false,
            setup_failures: Vec::new(),
            waved: Instant::now(),
            end: None,
        })
    }

    /// Runs until the map is over; returns the exit code.
    pub(super) fn run(mut self) -> io::Result<u8> {
        let mut events = Vec::with_capacity(64);
        while self.end.is_none() {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&TICK)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // First of all whether we are to end: workers that end with us have done nothing wrong.
            if events.iter().any(|event: &epoll::Event| event.data.u64() == SIGNALS) {
                self.on_event(SIGNALS);
            }
            for event in events.drain(..) {
                if self.end.is_none() {
                    self.on_event(event.data.u64());
                }
            }
            if self.end.is_some() {
                break;
            }
            self.hear_loaders();
            self.hand_out();
            self.look_around();
            self.check_whether_over();
        }
        Ok(self.conclude())
    }

    fn on_event(&mut self, token: u64) {
        match token {
            LISTENER => self.accept(),
            WAKE => {
                let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
            }
            SIGNALS => {
                if !self.signals.take().is_empty() {
                    self.end = Some(End::Interrupted);
                }
            }
            worker => self.on_worker(WorkerId(worker - WORKERS)),
        }
    }

    fn accept(&mut self) {
        for _ in 0..MOST_ACCEPTED {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Gone before it was its turn.
                Err(error)
                    if [io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted]
                        .contains(&error.kind()) =>
                {
                    continue;
                }
                // Out of descriptors or memory. Whoever waits would wake us at once, again and again.
                Err(_) => {
                    let _ = epoll::delete(&self.epoll, &self.listener);
                    self.deaf_since = Some(Instant::now());
                    return;
                }
            };
            let id = WorkerId(self.next_worker);
            self.next_worker += 1;
            let Ok(connection) = Connection::new(stream) else { continue };
            if watch(&self.epoll, &connection, WORKERS + id.0).is_ok() {
                self.workers.insert(id, connection);
            }
        }
    }

    /// Listens for workers again where that had to rest.
    fn accept_again(&mut self, now: Instant) {
        if self.deaf_since.is_some_and(|since| now.duration_since(since) >= DEAF)
            && watch(&self.epoll, &self.listener, LISTENER).is_ok()
        {
            self.deaf_since = None;
        }
    }

    fn on_worker(&mut self, id: WorkerId) {
        if self.workers.get_mut(&id).is_some_and(|worker| worker.flush().is_err()) {
            return self.on_gone(id);
        }
        self.rearm(id);
        while let Some(worker) = self.workers.get_mut(&id) {
            match worker.hear() {
                Heard::Frame(frame) => self.on_frame(id, frame),
                Heard::Nothing => return,
                Heard::Closed => return self.on_gone(id),
                Heard::Nonsense(error) => {
                    self.telling.note(format!("a worker was cut off: it speaks another language ({error})"));
                    return self.on_gone(id);
                }
            }
        }
    }

    /// Takes what loaders report, unless the disk is behind: then they wait in turn.
    fn hear_loaders(&mut self) {
        while !self.writing.is_behind() {
            let Ok(told) = self.news.try_recv() else { return };
            self.on_told(told);
        }
    }

    /// Ends a connection's place in the loop.
    pub(super) fn dismiss(&mut self, id: WorkerId) -> Option<Connection> {
        let worker = self.workers.remove(&id)?;
        let _ = epoll::delete(&self.epoll, &worker);
        self.tally.model += worker.model_seconds;
        self.tally.copying += worker.copy_seconds;
        self.tally.waiting += worker.wait_seconds;
        Some(worker)
    }

    /// Watches for room in a socket only while something waits to be sent.
    pub(super) fn rearm(&self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let mut flags = epoll::EventFlags::IN;
        if worker.has_more() {
            flags |= epoll::EventFlags::OUT;
        }
        let _ = epoll::modify(&self.epoll, worker, epoll::EventData::new_u64(WORKERS + id.0), flags);
    }

    /// Says to idle workers that they are not forgotten.
    fn look_around(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.waved) >= WAVE {
            self.waved = now;
            self.wave();
        }
        self.accept_again(now);
        self.look_after_workers(now);
        self.tune(now);
        if self.writing.has_died() {
            self.end = Some(End::Stopped(
                "the thread that writes results has failed: a bug in gpulane; see feeder.log".to_owned(),
            ));
        }
        if self.live.is_due(now) {
            self.show(now);
        }
    }

    /// Whether a worker is ready for batches.
    pub(super) fn working(&self) -> u32 {
        let working = self.workers.values().filter(|worker| worker.progress == Progress::Working);
        u32::try_from(working.count()).unwrap_or(u32::MAX)
    }
}

/// Wakes the loop. A counter that is full is as good as rung.
pub(super) fn ring(bell: &OwnedFd) {
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn watch(epoll: &OwnedFd, fd: &impl AsFd, token: u64) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
}
