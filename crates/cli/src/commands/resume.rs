//! `gpulane resume`: go on with what is in a run directory.

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
    let lock = match dir.lock() {
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
