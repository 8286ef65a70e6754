//! Causes at the end of a program: the work is done and the process stays.

use super::doing::Doing;
use super::scene::{Finding, Scene, place_of};

/// A thread that is not a daemon runs on.
pub(crate) fn threads(scene: &Scene) -> Option<Finding> {
    let start = scene.start().filter(|step| step.doing == Doing::ExitThreads)?;
    let here = scene.here()?;
    let in_pool =
        start.thread.frames.iter().any(|frame| frame.module() == Some("concurrent/futures/thread.py"));
    let remedy = if in_pool {
        "let the tasks of the ThreadPoolExecutor end, or do not wait for them: \
         `executor.shutdown(wait=False, cancel_futures=True)`"
    } else {
        "start it with `threading.Thread(…, daemon=True)`, or tell it to end (an Event it looks at) and \
         `join()` it"
    };
    if here.thread.tid == start.thread.tid {
        return Finding::new("the program is over, but a thread that is not a daemon does not end", remedy);
    }
    Finding::new(
        format!(
            "the program is over, but thread {} is not a daemon and does not end: {}",
            here.thread.name,
            place_of(here.thread)
        ),
        remedy,
    )
}

/// Items put on a queue between processes that nobody reads.
pub(crate) fn queue(scene: &Scene) -> Option<Finding> {
    scene.trail.iter().find(|step| step.doing == Doing::ExitQueue)?;
    Finding::new(
        "the program is over, but items it put on a multiprocessing.Queue have not been read",
        "read the queue until it is empty before you join the process, or call \
         `queue.cancel_join_thread()` if they may be lost",
    )
}

/// Children that are not daemons run on.
pub(crate) fn children(scene: &Scene) -> Option<Finding> {
    scene.trail.iter().find(|step| step.doing == Doing::ExitChildren)?;
    Finding::new(
        "the program is over, but a child process does not end",
        "start it with `Process(…, daemon=True)`, or tell it to end and `join()` it before the program does",
    )
}

/// The stack of the main thread begins with a function where a program would begin with its module: Python itself called it
/// when the program was over.
pub(crate) fn callback(scene: &Scene) -> Option<Finding> {
    let step = scene.trail.iter().find(|step| step.thread.tid == step.process.pid)?;
    let outermost = step.thread.frames.last()?;
    let begins =
        ["<module>", "_run_module_as_main", "_shutdown", "_exit_function", "_python_exit", "_bootstrap"];
    if begins.contains(&outermost.bare()) || outermost.function.starts_with('<') {
        return None;
    }
    Finding::new(
        format!(
            "the program is over, but a function called at exit (atexit) does not return: {} ({})",
            outermost.place(),
            outermost.function
        ),
        format!(
            "take it out with `atexit.unregister({})`, or give what it waits for a timeout",
            outermost.bare()
        ),
    )
}
