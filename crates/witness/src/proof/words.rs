//! The proofs in words: what the main thread waits for, step by step, and why that cannot come.

use super::main_process;
use crate::frame::Owner;
use crate::{Evidence, Known, Primitive, ProcessEvidence, Source, ThreadEvidence};

/// Longer chains are cut.
const LONGEST: usize = 6;

/// Everything waits for something that only the job itself could give.
pub(super) fn closed_job(evidence: &Evidence, known: &Known) -> String {
    let threads: usize = evidence.processes.iter().map(|process| process.threads.len()).sum();
    let processes = evidence.processes.len();
    let all = match (processes, threads) {
        (1, 1) => "its only thread waits".to_owned(),
        (1, threads) => format!("all {threads} threads wait"),
        (processes, threads) => format!("all {threads} threads of {processes} processes wait"),
    };
    let chain =
        main_process(evidence, known).or(evidence.processes.first()).map(|main| chain(evidence, main));
    let chain =
        chain.filter(|chain| !chain.is_empty()).map_or_else(String::new, |chain| format!(": {chain}"));
    format!("{all} without a limit for what only the job itself could give{chain}")
}

/// The main thread waits in a circle, or for something gone.
pub(super) fn closed_chain(evidence: &Evidence, main: &ProcessEvidence) -> String {
    let chain = chain(evidence, main);
    format!("its main thread waits, without a limit, for what cannot come: {chain}")
}

/// What the job waits for that may still come: the way from its main thread, and the first thread beside it that waits for somebody
/// outside.
pub(crate) fn open(evidence: &Evidence, known: &Known) -> String {
    let Some(main) = main_process(evidence, known).or(evidence.processes.first()) else {
        return "nothing is left of it".to_owned();
    };
    let chain = chain(evidence, main);
    let threads = evidence
        .processes
        .iter()
        .flat_map(|process| process.threads.iter().map(move |thread| (process, thread)));
    let mut steps = threads
        .filter(|(_, thread)| waits_for_outside(thread))
        .filter_map(|(process, thread)| step(process, thread));
    match steps.find(|step| !chain.contains(step.as_str())) {
        _ if chain.is_empty() => "it is not known what it waits for".to_owned(),
        Some(step) => format!("{chain}; {step}"),
        None => chain,
    }
}

fn waits_for_outside(thread: &ThreadEvidence) -> bool {
    let sources = thread.wait.iter().flat_map(|wait| &wait.sources);
    sources.into_iter().any(|source| matches!(source, Source::Outside(_)))
}

/// `thread 12 (train.py:4) waits for thread 13 to end; thread 13 (load.py:9) waits for …`.
fn chain(evidence: &Evidence, main: &ProcessEvidence) -> String {
    let mut steps = Vec::new();
    let mut seen = Vec::new();
    let mut at = main.main_thread().or(main.threads.first()).map(|thread| (main, thread));
    while let Some((process, thread)) = at {
        if seen.contains(&thread.tid) {
            steps.push(format!("which closes the circle at {}", name(process, thread)));
            break;
        }
        if seen.len() == LONGEST {
            steps.push("and so on".to_owned());
            break;
        }
        seen.push(thread.tid);
        let Some(step) = step(process, thread) else { break };
        steps.push(step);
        at = next(evidence, thread);
    }
    steps.join("; ")
}

fn step(process: &ProcessEvidence, thread: &ThreadEvidence) -> Option<String> {
    let sources = &thread.wait.as_ref()?.sources;
    let alone = process.threads.len() == 1;
    let at = thread.wait.as_ref().and_then(|wait| wait.at);
    // Locks of Python are semaphores of the C library.
    let at = at.filter(|at| *at != Primitive::Semaphore || thread.frames.is_empty());
    let source = |source: &Source| match (source, at) {
        (Source::OwnThreads, Some(at)) if alone => {
            format!("{}, but no other thread is left in its process", at.words())
        }
        (Source::OwnThreads, None) if alone => {
            "a lock of its own process, in which no other thread is left".to_owned()
        }
        (Source::OwnThreads, Some(at)) => format!("{source} ({})", at.words()),
        (source, _) => source.to_string(),
    };
    let sources: Vec<String> = sources.iter().take(3).map(source).collect();
    (!sources.is_empty()).then(|| format!("{} waits for {}", name(process, thread), sources.join(" or ")))
}

/// The thread that a step leads to; where any of many could give it, the chain ends.
fn next<'a>(
    evidence: &'a Evidence,
    thread: &ThreadEvidence,
) -> Option<(&'a ProcessEvidence, &'a ThreadEvidence)> {
    let [source] = &thread.wait.as_ref()?.sources[..] else { return None };
    match source {
        Source::Thread { tid, .. } => evidence.processes.iter().find_map(|process| {
            process.threads.iter().find(|thread| thread.tid == *tid).map(|thread| (process, thread))
        }),
        Source::Exit(pids) | Source::Processes { pids, .. } => {
            let process = evidence.process(*pids.first()?)?;
            Some((process, process.main_thread()?)).filter(|(_, next)| next.tid != thread.tid)
        }
        _ => None,
    }
}

/// A thread by its id and the line it is at; by its process where it is not Python.
pub(crate) fn name(process: &ProcessEvidence, thread: &ThreadEvidence) -> String {
    let user = thread.frames.iter().find(|frame| frame.owner() == Owner::User);
    match user.or_else(|| thread.frames.iter().find(|frame| !frame.is_standard())).or(thread.frames.first()) {
        Some(frame) if thread.tid == process.pid => format!("process {} ({})", process.pid, frame.place()),
        Some(frame) => format!("thread {} ({})", thread.tid, frame.place()),
        None if thread.tid == process.pid => format!("process {} ({})", process.pid, process.command),
        None => format!("thread {} of process {}", thread.tid, process.pid),
    }
}
