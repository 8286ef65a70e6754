//! `gpulane logs`: what jobs printed.

use std::io;
use std::time::Duration;

use gpulane_model::{Attempt, ExitCode};
use gpulane_report::{Look, Which};

use super::{find_job, open};
use crate::args::Logs;
use crate::say;

/// Between two looks while following.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn logs(args: &Logs) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let which = match &args.job {
        None => Which::All,
        Some(name) => match find_job(&plan, name) {
            Ok(job) => Which::Job(job, args.attempt.map(Attempt)),
            Err(code) => return code,
        },
    };
    let look = Look::detect(&io::stdout());
    let mut logs = gpulane_report::Logs::new(&dir, plan, which, look, Box::new(io::stdout()));
    let shown = (|| -> io::Result<ExitCode> {
        logs.show()?;
        // Asked first: what a run that just ended wrote last is still shown.
        while args.follow && dir.is_live() && !logs.tick()? {
            std::thread::sleep(LOOK_EVERY);
        }
        logs.finish()?;
        match logs.nothing_to_show() {
            Some(text) if !logs.has_attempt() => {
                say::error(text);
                return Ok(ExitCode::BadInput);
            }
            Some(text) => say::note(text),
            None => {}
        }
        Ok(ExitCode::Success)
    })();
    match shown {
        Ok(code) => code,
        Err(error) => {
            say::error(format!("cannot show the logs of {}: {error}", dir.root().display()));
            ExitCode::BadInput
        }
    }
}
