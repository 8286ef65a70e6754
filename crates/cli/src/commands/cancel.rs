//! `gpulane cancel`: end a run, or some of its jobs. The engine does it; this asks and waits until it was heard.

use std::time::{Duration, Instant};

use gpulane_model::ExitCode;
use gpulane_runtime::control::{self, Request};

use super::{find_job, open};
use crate::args::Cancel;
use crate::say;

/// An engine that lives takes a request within milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn cancel(args: &Cancel) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let mut jobs = Vec::new();
    for name in &args.jobs {
        match find_job(&plan, name) {
            Ok(job) => jobs.push(plan.job_name(job)),
            Err(code) => return code,
        }
    }
    if !dir.is_live() {
        say::error("this run is not live: there is nothing to cancel");
        return ExitCode::NothingToDo;
    }
    let count = jobs.len();
    let request = match control::leave(&dir, &Request::Cancel(jobs)) {
        Ok(file) => file,
        Err(error) => {
            say::error(format!("cannot leave a request in {}: {error}", dir.control_dir().display()));
            return ExitCode::Internal;
        }
    };
    let begun = Instant::now();
    while request.exists() {
        if !dir.is_live() {
            let _ = std::fs::remove_file(&request);
            say::progress("the run has ended by itself");
            return ExitCode::NothingToDo;
        }
        if begun.elapsed() > PATIENCE {
            let _ = std::fs::remove_file(&request);
            say::error("the engine did not take the request; is the machine overloaded?");
            return ExitCode::Internal;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let what = match count {
        0 => "all jobs".to_owned(),
        1 => "1 job".to_owned(),
        _ => format!("{count} jobs"),
    };
    say::progress(format!("cancelling {what}; `gpulane status {}` shows how it goes", args.run));
    ExitCode::Success
}
