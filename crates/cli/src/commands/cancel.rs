//! `gpulane cancel`: end a run, or some of its jobs. The engine does it; this asks and waits until it was heard.

use std::time::{Duration, Instant};

use gpulane_journal::RunDir;
use gpulane_model::{ExitCode, Plan};
use gpulane_runtime::control::{self, Answer, Left, Request};

use super::{find_job, may_act_on, open};
use crate::args::Cancel;
use crate::say;

/// An engine that lives answers within milliseconds, one that has just begun within seconds: it looks at the GPUs first.
const PATIENCE: Duration = Duration::from_secs(30);
/// Whoever takes a request answers it right after.
const UNANSWERED: Duration = Duration::from_secs(1);

pub(crate) fn cancel(args: &Cancel) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let mut jobs = Vec::new();
    for name in &args.jobs {
        match find_job(&plan, name) {
            Ok(job) => jobs.push(job.0),
            Err(code) => return code,
        }
    }
    if let Err(code) = may_act_on(&dir) {
        return code;
    }
    if !dir.is_live() {
        say::error("this run is not live: there is nothing to cancel");
        return ExitCode::NothingToDo;
    }
    match ask(&dir, &Request::Cancel(jobs)) {
        Ok(answer) => say_answer(&answer, &plan, &gpulane_model::shell_word(&args.run)),
        Err(code) => code,
    }
}

fn say_answer(answer: &Answer, plan: &Plan, run: &str) -> ExitCode {
    let known = plan.job_ids().filter(|job| answer.ended_before.contains(&job.0));
    let before: Vec<String> = known.map(|job| plan.job_name(job)).collect();
    let jobs = |count: usize| if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
    let ended = match before.as_slice() {
        [] => String::new(),
        [one] => format!("{one} has ended already"),
        [first, ..] => format!("{} have ended already ({first}, …)", jobs(before.len())),
    };
    if answer.ending == 0 {
        let ended = if ended.is_empty() { "every job has ended already" } else { &ended };
        say::error(format!("nothing to cancel: {ended}"));
        say::hint(format!("`gpulane status {run}` shows how"));
        return ExitCode::NothingToDo;
    }
    let ended = if ended.is_empty() { ended } else { format!(" ({ended})") };
    say::progress(format!(
        "cancelling {}{ended}; `gpulane status {run}` shows how it goes",
        jobs(answer.ending as usize)
    ));
    ExitCode::Success
}

/// Asks the engine and waits for its answer; otherwise it has been said why there is none.
fn ask(dir: &RunDir, request: &Request) -> Result<Answer, ExitCode> {
    let begun = Instant::now();
    let mut left = leave(dir, request)?;
    let mut taken: Option<Instant> = None;
    let mut asked = begun;
    loop {
        // Asked first: an engine that has just answered may end right then.
        let live = dir.is_live();
        if let Some(answer) = left.answer() {
            return Ok(answer);
        }
        if !live {
            left.withdraw();
            say::progress("the run has ended by itself");
            return Err(ExitCode::NothingToDo);
        }
        if begun.elapsed() > PATIENCE {
            left.withdraw();
            say::error("the engine does not answer");
            say::hint("it may be stopped (`kill -CONT PID` lets it go on), or its disk may hang or be full");
            return Err(ExitCode::Internal);
        }
        // A `resume` that has just begun clears away what was left for the engine before.
        if left.is_taken() && taken.get_or_insert_with(Instant::now).elapsed() > UNANSWERED {
            left = leave(dir, request)?;
            taken = None;
        }
        if asked.elapsed() > UNANSWERED {
            asked = Instant::now();
            gpulane_runtime::help_to_end(dir);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Leaves the request where the engine looks for it. A `resume` that begins right now may clear it away half written, an engine that
/// ends takes the directory with it: then it is tried again as long as the run is live.
fn leave(dir: &RunDir, request: &Request) -> Result<Left, ExitCode> {
    let begun = Instant::now();
    loop {
        let error = match control::leave(dir, request) {
            Ok(left) => return Ok(left),
            Err(error) => error,
        };
        let was_removed = error.kind() == std::io::ErrorKind::NotFound;
        if was_removed && !dir.is_live() {
            say::progress("the run has ended by itself");
            return Err(ExitCode::NothingToDo);
        }
        if !was_removed || begun.elapsed() > PATIENCE {
            say::error(format!("cannot leave a request in {}: {error}", dir.control_dir().display()));
            if let Some(hint) = gpulane_journal::io_hint(&error) {
                say::hint(hint);
            }
            say::hint(
                "to end the whole run without a request: Ctrl-C where it runs, or SIGTERM to its process",
            );
            return Err(ExitCode::BadInput);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
