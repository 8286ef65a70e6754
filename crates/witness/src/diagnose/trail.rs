//! From the main thread to the one that matters: while a thread only waits for others, the cause lies with those.

use super::doing::{Doing, doing, doing_in};
use crate::{Evidence, ProcessEvidence, Source, ThreadEvidence, Tie};

/// A thread on the way.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) process: &'a ProcessEvidence,
    pub(crate) thread: &'a ThreadEvidence,
    pub(crate) doing: Doing,
}

/// Longer than any real chain of processes that wait for each other.
const LONGEST: usize = 16;

/// From the main thread of the main process to where the cause is. Empty if there is nothing to look at.
pub(crate) fn trail(evidence: &Evidence, main: u32) -> Vec<Step<'_>> {
    let Some(process) = evidence.process(main).or(evidence.processes.first()) else { return Vec::new() };
    let mut trail: Vec<Step> = first_alive(evidence, process).into_iter().collect();
    while trail.len() < LONGEST
        && let Some(step) = trail.last().and_then(|last| next(evidence, &trail, *last))
    {
        trail.push(step);
    }
    trail
}

/// A main thread can end before the others do.
fn first_alive<'a>(evidence: &Evidence, process: &'a ProcessEvidence) -> Option<Step<'a>> {
    let threads = process.threads.iter();
    let mut steps =
        threads.map(|thread| Step { process, thread, doing: doing_in(evidence, process, thread) });
    let main = steps.next()?;
    if main.doing == Doing::Ended {
        steps.find(|step| step.doing != Doing::Ended).or(Some(main))
    } else {
        Some(main)
    }
}

fn next<'a>(evidence: &'a Evidence, trail: &[Step<'a>], last: Step<'a>) -> Option<Step<'a>> {
    let (threads, children, weakest) = waits_for(last.doing)?;
    let new = |step: &Step| !trail.iter().any(|known| known.thread.tid == step.thread.tid);
    if let Some(step) = joined(&last).filter(new) {
        return Some(step);
    }
    let mut steps = if threads { threads_of(last.process, last.doing) } else { Vec::new() };
    if children {
        steps.extend(children_of(evidence, last.process));
    }
    let fits = |step: &Step| new(step) && weight(step.doing).is_some_and(|weight| weight <= weakest);
    let foreign = |step: &Step| step.process.pid != last.process.pid;
    let fitting = steps.into_iter().filter(fits);
    fitting.min_by_key(|step| (weight(step.doing), foreign(step), step.thread.tid))
}

/// The thread that is waited for to end, where that or who waits is one of C.
fn joined<'a>(last: &Step<'a>) -> Option<Step<'a>> {
    let [Source::Thread { tid, tie: Tie::Joined }] = last.thread.wait.as_ref()?.sources[..] else {
        return None;
    };
    let process = last.process;
    let thread = process.threads.iter().find(|thread| thread.tid == tid)?;
    (last.thread.frames.is_empty() || thread.frames.is_empty()).then(|| Step {
        process,
        thread,
        doing: doing(thread),
    })
}

/// Whether it waits for other threads, for children, and how vague a culprit may be (see [`weight`]).
const fn waits_for(doing: Doing) -> Option<(bool, bool, u8)> {
    Some(match doing {
        Doing::ThreadJoin | Doing::ExitThreads => (true, false, PASSIVE),
        Doing::ChildWait | Doing::ChildOutput | Doing::ExitChildren => (false, true, PASSIVE),
        Doing::Pool | Doing::Future => (true, true, PASSIVE),
        Doing::QueueGet
        | Doing::QueueJoin
        | Doing::QueuePut
        | Doing::Event
        | Doing::Condition
        | Doing::Loop
        | Doing::Timed
        | Doing::Sleep
        | Doing::Idle => (true, true, ON_OTHERS),
        Doing::PipeRead => (false, true, ON_OTHERS),
        _ => return None,
    })
}

const STUCK: u8 = 0;
const ON_OTHERS: u8 = 1;
const PASSIVE: u8 = 2;

/// How little a thread looks like the culprit; `None`: it cannot be it.
const fn weight(doing: Doing) -> Option<u8> {
    Some(match doing {
        Doing::Idle | Doing::Ended => return None,
        Doing::Event
        | Doing::Condition
        | Doing::QueueGet
        | Doing::Timed
        | Doing::Sleep
        | Doing::Serving
        | Doing::Unknown => PASSIVE,
        Doing::ThreadJoin
        | Doing::ChildWait
        | Doing::ChildOutput
        | Doing::Pool
        | Doing::Future
        | Doing::Loop => ON_OTHERS,
        _ => STUCK,
    })
}

/// Other Python threads; what native threads of libraries wait for, nobody could act on. Those that only watch give nobody
/// work, but they too can be waited for to end.
fn threads_of(process: &ProcessEvidence, waits: Doing) -> Vec<Step<'_>> {
    let for_its_end = matches!(waits, Doing::ThreadJoin | Doing::ExitThreads);
    let fits = |thread: &&ThreadEvidence| {
        !thread.frames.is_empty() && (for_its_end || !thread.only_watches(process.pid))
    };
    let steps = process.threads.iter().filter(fits);
    let mut steps: Vec<Step> = steps.map(|thread| Step { process, thread, doing: doing(thread) }).collect();
    if matches!(waits, Doing::Future | Doing::Pool) {
        // A result comes from those who work on tasks. Of others, one that only waits has nothing to do with it.
        steps.retain(|step| is_worker(step.thread) || weight(step.doing) != Some(PASSIVE));
    }
    steps
}

/// Whether a thread works on the tasks of a pool.
pub(crate) fn is_worker(thread: &ThreadEvidence) -> bool {
    thread.frames.iter().any(|frame| match frame.module() {
        Some("concurrent/futures/thread.py") => frame.bare() == "_worker",
        Some("multiprocessing/pool.py") => frame.bare() == "worker",
        _ => false,
    })
}

/// Its children, and those that a helper among them has started on its behalf.
fn children_of<'a>(evidence: &'a Evidence, parent: &ProcessEvidence) -> Vec<Step<'a>> {
    let of = |parent: u32| {
        let children = evidence.processes.iter().filter(move |process| process.parent == parent);
        children.filter_map(|child| first_alive(evidence, child))
    };
    let forks = |step: &Step| {
        let main = |frame: &crate::Frame| {
            frame.module() == Some("multiprocessing/forkserver.py") && frame.bare() == "main"
        };
        step.doing == Doing::Idle && step.thread.frames.iter().any(main)
    };
    let own: Vec<Step> = of(parent.pid).collect();
    let by_helpers: Vec<Step> =
        own.iter().filter(|step| forks(step)).flat_map(|step| of(step.process.pid)).collect();
    own.into_iter().chain(by_helpers).collect()
}
