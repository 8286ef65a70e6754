//! Whether what a job waits for can still come. Judges evidence that shows no movement, and knows only what stands in it.
//!
//! A thread is *closed* if it waits without a limit, and all who could let it go on are closed threads themselves, or gone. Nothing
//! in a set of such threads will ever move. What is not known, or may come from outside, keeps a thread open; and so does any
//! thread of its own process that is open, for it might interrupt the wait or end the process. Two things follow:
//!
//! - **a closed job**: every thread of every process is closed;
//! - **a closed chain**: the main thread is closed, though others beside it may live. Threads that only watch count as life for what
//!   anybody could give (a plain lock, a pipe), and as none for what only a certain thread can. Whatever the end of another process
//!   would give (a child that is waited for, a pipe, a connection, a file lock) may come while any thread of the job is open: it may
//!   be there to kill that process.

mod closed;
pub(crate) mod words;

use crate::{Evidence, Known, ProcessEvidence};
use closed::Closed;

/// The proof that nothing will move any more, in words; `None`: there is none.
pub(crate) fn prove(first: &Evidence, second: &Evidence, known: &Known) -> Option<String> {
    let closed = Closed::of(first, second, known);
    if closed.is_empty() {
        return None;
    }
    if second.processes.iter().all(|process| closed.whole(process)) {
        return Some(words::closed_job(second, known));
    }
    let main = main_process(second, known)?;
    (closed.has_main_thread(main) && closed.but_for_monitors(main)).then(|| words::closed_chain(second, main))
}

/// The job's main process, if it is still there.
pub(crate) fn main_process<'a>(evidence: &'a Evidence, known: &Known) -> Option<&'a ProcessEvidence> {
    match known.main {
        0 => evidence.processes.first(),
        main => evidence.process(main).filter(|process| !is_gone(process)),
    }
}

/// Only its exit status is left.
pub(crate) fn is_gone(process: &ProcessEvidence) -> bool {
    process.threads.iter().all(|thread| matches!(thread.state, 'Z' | 'X'))
}
