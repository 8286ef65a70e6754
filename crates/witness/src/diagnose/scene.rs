//! All that the causes look at, and the one line that tells where it hangs.

use gpulane_model::Millis;

use super::Surroundings;
use super::doing::{Doing, doing};
use super::trail::{Step, trail};
use crate::frame::Owner;
use crate::{Evidence, Frame, Primitive, ProcessEvidence, Source, ThreadEvidence, Tie};

/// A cause and what to do about it, a short sentence each.
pub(crate) struct Finding {
    pub(crate) cause: String,
    pub(crate) remedy: String,
}

impl Finding {
    #[allow(clippy::unnecessary_wraps, reason = "every rule ends with it")]
    pub(crate) fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Option<Self> {
        Some(Self { cause: cause.into(), remedy: remedy.into() })
    }
}

/// The evidence with the way to the thread that matters.
pub(crate) struct Scene<'a> {
    pub(crate) evidence: &'a Evidence,
    pub(crate) around: &'a Surroundings,
    pub(crate) trail: Vec<Step<'a>>,
}

impl<'a> Scene<'a> {
    pub(crate) fn new(evidence: &'a Evidence, around: &'a Surroundings) -> Self {
        Self { evidence, around, trail: trail(evidence, around.main) }
    }

    /// The main thread.
    pub(crate) fn start(&self) -> Option<&Step<'a>> {
        self.trail.first()
    }

    /// The thread that matters.
    pub(crate) fn here(&self) -> Option<&Step<'a>> {
        self.trail.last()
    }

    /// The thread that matters, if it does this.
    pub(crate) fn here_doing(&self, wanted: &[Doing]) -> Option<&Step<'a>> {
        self.here().filter(|step| wanted.contains(&step.doing))
    }

    /// The parent of a process, where it was looked at.
    pub(crate) fn parent(&self, process: &ProcessEvidence) -> Option<&'a ProcessEvidence> {
        self.evidence.process(process.parent)
    }

    /// The children of a process that still run.
    pub(crate) fn children(&self, process: &ProcessEvidence) -> Vec<&'a ProcessEvidence> {
        let children = self.evidence.processes.iter().filter(|child| child.parent == process.pid);
        children.filter(|child| child.state != 'Z').collect()
    }

    /// In one line: `waiting for a lock in cleanfid.py:88 (compute), 7 threads, GPU 0% for 10 min`.
    pub(crate) fn line(&self) -> String {
        let Some(here) = self.here() else { return "nothing is left of it".to_owned() };
        let foreign = self.start().is_some_and(|start| start.process.pid != here.process.pid);
        let child = if foreign { format!(" in child {}", here.process.pid) } else { String::new() };
        let waiting =
            self.waiting_for_it(here).map_or_else(String::new, |place| format!(", {place} waits for it"));
        [what(here), place_in(&here.thread.frames), child, waiting, self.counts(here), self.quiet()].concat()
    }

    /// Where the main thread waits, if it is another one that matters.
    fn waiting_for_it(&self, here: &Step) -> Option<String> {
        let start = self.start().filter(|start| start.thread.tid != here.thread.tid)?;
        Some(own_frame(&start.thread.frames)?.place())
    }

    fn counts(&self, here: &Step) -> String {
        let many =
            |count: usize, what: &str| if count > 1 { format!(", {count} {what}") } else { String::new() };
        many(here.process.threads.len(), "threads") + &many(self.evidence.processes.len(), "processes")
    }

    fn quiet(&self) -> String {
        let lasting = match self.around.quiet {
            Millis(0) => None,
            quiet => Some(in_words(quiet)),
        };
        match (self.around.gpu, lasting) {
            (Some(gpu), Some(lasting)) => format!(", GPU {}% for {lasting}", gpu.load),
            (Some(gpu), None) => format!(", GPU {}%", gpu.load),
            (None, Some(lasting)) => format!(", quiet for {lasting}"),
            (None, None) => String::new(),
        }
    }
}

/// Waits that are told with where what they wait for could come from.
const NAMED: [Doing; 9] = [
    Doing::Accept,
    Doing::ChildWait,
    Doing::Lock,
    Doing::PipeRead,
    Doing::PipeWrite,
    Doing::SharedLock,
    Doing::Stdin,
    Doing::ThreadJoin,
    Doing::Timed,
];

/// What the thread does, with the name of what it waits on.
fn what(step: &Step) -> String {
    let phrase = phrase(step);
    let Some(wait) = &step.thread.wait else { return phrase };
    let on = wait.on.as_deref().filter(|on| !on.starts_with("pipe"));
    let outside = wait.sources.iter().find(|source| matches!(source, Source::Outside(_)));
    let own = |source: &&Source| !matches!(source, Source::OwnThreads | Source::Clock);
    let from = outside.or_else(|| wait.sources.iter().find(own));
    match (step.doing, on, from) {
        (Doing::SocketRead | Doing::SocketWrite, Some(on), Some(from)) if !is_address(on) => {
            format!("{phrase} ({from})")
        }
        (
            Doing::SocketRead
            | Doing::SocketWrite
            | Doing::Connect
            | Doing::File
            | Doing::FileLock
            | Doing::FifoOpen,
            Some(on),
            _,
        ) => {
            format!("{phrase} ({on})")
        }
        (Doing::Uninterruptible, Some(on), _) => format!("{phrase} in {} ({on})", wait.call),
        (Doing::Native, _, Some(from)) => format!("{phrase} ({}, for {from})", wait.call),
        (Doing::Native, _, None) if wait.sources.contains(&Source::Clock) => {
            format!("{phrase} ({}, for the clock)", wait.call)
        }
        (Doing::Native | Doing::Uninterruptible, ..) => format!("{phrase} ({})", wait.call),
        (Doing::Loop | Doing::Serving, _, Some(from @ Source::Outside(_))) => format!("{phrase} ({from})"),
        (doing, _, Some(from)) if NAMED.contains(&doing) => format!("{phrase} ({from})"),
        _ => phrase,
    }
}

/// What the thread does, as exactly as is known and no more.
fn phrase(step: &Step) -> String {
    let wait = step.thread.wait.as_ref();
    let at = wait.and_then(|wait| wait.at);
    let held = |source: &Source| matches!(source, Source::Thread { tie: Tie::Mutex, .. });
    match (step.doing, at) {
        // An owner is written down in mutexes alone.
        (Doing::Lock, None) if wait.is_some_and(|wait| wait.sources.iter().any(held)) => {
            Primitive::Mutex.waiting().to_owned()
        }
        (Doing::Lock, Some(at @ Primitive::Mutex)) => at.waiting().to_owned(),
        // All that is seen is that another thread must wake it.
        (Doing::Lock, None) if step.thread.frames.is_empty() => {
            "waiting for a lock, condition or semaphore of its own process".to_owned()
        }
        // Locks of Python are semaphores of the C library.
        (Doing::SharedLock, Some(at)) if at != Primitive::Semaphore || step.thread.frames.is_empty() => {
            format!("{} shared between processes", at.waiting())
        }
        (Doing::Timed, Some(Primitive::Java)) => {
            "waiting inside the Java VM, with a time limit or for a lock".to_owned()
        }
        (doing, _) => doing.phrase().to_owned(),
    }
}

/// `socket 127.0.0.1:80`, which says more than the numbers of processes.
fn is_address(on: &str) -> bool {
    on.strip_prefix("socket ").is_some_and(|address| address.parse::<std::net::SocketAddr>().is_ok())
}

/// ` in eval.py:12 (main), inside cleanfid (features.py:88)`.
fn place_in(frames: &[Frame]) -> String {
    let Some(own) = own_frame(frames) else { return String::new() };
    let place = format!(" in {} ({})", own.place(), own.function);
    let library = frames.iter().find(|frame| frame.owner() == Owner::Library);
    match library.and_then(|frame| Some((frame, frame.package()?))) {
        Some((frame, package)) if own.owner() == Owner::User && before(frames, frame, own) => {
            format!("{place}, inside {package} ({})", frame.place())
        }
        _ => place,
    }
}

/// Whether one frame is further in than the other.
fn before(frames: &[Frame], one: &Frame, other: &Frame) -> bool {
    let at = |wanted: &Frame| frames.iter().position(|frame| std::ptr::eq(frame, wanted));
    at(one) < at(other)
}

/// The innermost frame of the user's own code; without such, of a library; without such, the innermost.
pub(crate) fn own_frame(frames: &[Frame]) -> Option<&Frame> {
    let innermost = |owner: Owner| frames.iter().find(|frame| frame.owner() == owner);
    innermost(Owner::User).or_else(|| innermost(Owner::Library)).or(frames.first())
}

/// `train.py:12 (step)`, for a cause that names a place.
pub(crate) fn place_of(thread: &ThreadEvidence) -> String {
    own_frame(&thread.frames).map_or_else(
        || format!("thread {}", thread.tid),
        |frame| format!("{} ({})", frame.place(), frame.function),
    )
}

/// The threads of a process that do this.
pub(crate) fn threads_doing(process: &ProcessEvidence, wanted: Doing) -> Vec<&ThreadEvidence> {
    process.threads.iter().filter(|thread| doing(thread) == wanted).collect()
}

/// `10 min`, `2 h 5 min`, `40 s`.
fn in_words(quiet: Millis) -> String {
    let seconds = (quiet.0 + 500) / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds) {
        (0, 0 | 1, seconds) => format!("{seconds} s"),
        (0, minutes, _) => format!("{minutes} min"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
