//! `gpulane init`: a starter plan to edit.

use std::fs::OpenOptions;
use std::io::Write;

use gpulane_model::ExitCode;

use crate::args::Init;
use crate::say;

const STARTER: &str = include_str!("../../starter.toml");

pub(crate) fn init(args: &Init) -> ExitCode {
    let path = args.file.display();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.file)
        .and_then(|mut file| file.write_all(STARTER.as_bytes()));
    match written {
        Ok(()) => {
            say::progress(format!("wrote {path}"));
            say::hint(format!(
                "edit it, then `gpulane check {path}`, `gpulane run {path} --dry-run`, `gpulane run {path}`"
            ));
            ExitCode::Success
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            say::error(format!("{path} is there already and was left alone"));
            ExitCode::BadInput
        }
        Err(error) => {
            say::error(format!("cannot write {path}: {error}"));
            ExitCode::BadInput
        }
    }
}
