//! `gpulane watch`: the view of `run` on a run that was started elsewhere, until it ends; then with its exit code. Leaving it leaves
//! the run alone.

use std::io;
use std::time::{Duration, Instant};

use gpulane_model::ExitCode;
use gpulane_report::{End, Live, Look, Mode};

use super::open;
use crate::args::Watch;
use crate::say;
use crate::view::unix_now;

const LOOK_EVERY: Duration = Duration::from_millis(40);
/// Between two looks whether the engine has ended although its run is not given back.
const ASK_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn watch(args: &Watch) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let (out, err) = (Box::new(io::stdout()), Box::new(io::stderr()));
    let mode = Mode::choose(args.json, false);
    let mut live = Live::new(dir.clone(), plan, mode, Look::detect(&io::stderr()), out, err);
    let watched = (|| {
        if !args.json {
            live.catch_up(None)?;
        }
        // Asked first, so that the last events of a run that just ended are still shown.
        let mut asked = Instant::now();
        while dir.is_live() {
            live.tick(None, unix_now())?;
            std::thread::sleep(LOOK_EVERY);
            if asked.elapsed() > ASK_EVERY {
                asked = Instant::now();
                gpulane_runtime::help_to_end(&dir);
            }
        }
        live.tick(None, unix_now())?;
        let end = match live.state() {
            state if state.finished => End::Finished,
            state if state.interrupted.is_some() => End::Interrupted,
            _ => End::EngineDied { message: "no engine works on this run".to_owned() },
        };
        live.finish(&end, unix_now())?;
        Ok::<_, io::Error>(live.state().exit_code())
    })();
    match watched {
        Ok(code) => code,
        Err(error) => {
            say::error(format!("cannot watch {}: {error}", dir.root().display()));
            ExitCode::BadInput
        }
    }
}
