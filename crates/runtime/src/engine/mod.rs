//! The engine: one thread that waits for the world (exits, signals, requests, alarms), tells the core, and performs
//! what it decides. The disk's slow parts have threads of their own: the journal, and publishing of outputs.

mod begin;
mod boot;
mod caps;
mod clock;
mod disk_space;
mod ending;
mod environment;
mod feeders;
mod files;
mod gpus;
mod launchpad;
mod leftovers;
mod link;
mod mps;
mod on_feeders;
mod on_gpus;
mod on_outputs;
mod on_place;
mod on_requests;
mod on_standbys;
mod on_starts;
mod place;
mod publish;
mod reactor;
mod recovery;
mod standbys;
mod torch;
mod trouble;
mod vigil;
mod worker_kit;

pub(crate) use mps::clear_leftovers as clear_mps_leftovers;

use begin::Refusal;

/// Removes what [`begin`] may have made when it refused.
pub(crate) fn take_back(dir: &gpulane_journal::RunDir) {
    worker_kit::remove(dir);
    if std::fs::metadata(dir.journal_file()).is_ok_and(|journal| journal.len() == 0) {
        let _ = std::fs::remove_file(dir.journal_file());
    }
    let _ = std::fs::remove_file(dir.engine_log());
    crate::control::remove_bell(dir);
}

/// Runs the engine to its end and returns its exit code.
pub(crate) fn main() -> u8 {
    let mut prepared = match begin::begin() {
        Ok(prepared) => prepared,
        Err(Refusal { code, .. }) => return code.code(),
    };
    match reactor::Reactor::new(&mut prepared).and_then(reactor::Reactor::run) {
        Ok(code) => {
            prepared.link.send(&crate::front::Message::Ended { code: code.code() });
            code.code()
        }
        Err(error) => {
            let hint = gpulane_journal::io_hint(&error).map(|hint| format!("; {hint}")).unwrap_or_default();
            prepared.link.trouble(&format!("gpulane cannot go on: {error}{hint}"));
            crate::front::Front::code_of(&error).code()
        }
    }
}
