//! The binary. One program, several roles: the command a person types, and under other names the guardian, the engine
//! and the feeders of maps (see the runtime room). This file is a shim: it picks the role and is the only place that
//! decides the process's exit.

mod args;
mod attach;
mod commands;
mod maps;
mod preflight;
mod say;
mod view;
mod whose;

use std::panic::catch_unwind;

use gpulane_model::{ENGINE, ExitCode, FEEDER, GUARDIAN};

fn main() -> std::process::ExitCode {
    let code = catch_unwind(|| gpulane_runtime::begin_process(play_role));
    // The panic's own message has been printed; a person needs to know that it is not their fault.
    std::process::ExitCode::from(code.unwrap_or_else(|_| {
        say::error("this is a bug in gpulane; please report it with the message above");
        ExitCode::Internal.code()
    }))
}

fn play_role() -> u8 {
    let role = std::env::args_os().next().unwrap_or_default();
    match role.to_str() {
        Some(GUARDIAN) => gpulane_runtime::guardian_main(),
        Some(ENGINE) => gpulane_runtime::engine_main(),
        Some(FEEDER) => gpulane_runtime::feeder_main(),
        _ => commands::main().code(),
    }
}
