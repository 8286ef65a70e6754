//! `gpulane resume`: go on with what is in a run directory.

use std::path::Path;
use std::time::{Duration, Instant};

use gpulane_journal::{RunDir, RunDirError, RunLock};
use gpulane_model::ExitCode;
use gpulane_runtime::StartRequest;

use super::open;
use crate::args::Resume;
use crate::attach::attach;
use crate::say;

pub(crate) fn resume(args: &Resume) -> ExitCode {
    let (dir, plan) = match open(&args.run) {
        Ok(opened) => opened,
        Err(code) => return code,
    };
    let lock = match lock(&dir) {
        Ok(lock) => lock,
        Err(error) => {
            say::explain(&error);
            return ExitCode::BadInput;
        }
    };
    let request = StartRequest {
        detached: args.show.detach,
        salvage: args.salvage,
        failed: args.failed,
        gpus: args.gpus.clone(),
        lanes: args.lanes,
    };
    match attach(&dir, lock, plan, request, &args.show) {
        Ok(ended) => ended.code,
        Err(error) => {
            say::error(format!("cannot resume: {error}"));
            ExitCode::Internal
        }
    }
}

/// How long a guardian may need to end what a killed engine left.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes the run. If its last engine is dead, the guardian is about to let go: a moment later it is ours.
fn lock(dir: &RunDir) -> Result<RunLock, RunDirError> {
    let begun = Instant::now();
    loop {
        match dir.lock() {
            Err(RunDirError::Locked { pid: Some(pid), .. })
                if begun.elapsed() < PATIENCE && !Path::new(&format!("/proc/{pid}")).exists() =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            taken => return taken,
        }
    }
}
