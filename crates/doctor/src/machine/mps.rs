//! What MPS daemons leave: daemons that serve nobody, directories nobody owns, a variable that leads nowhere.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpulane_model::env_vars;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use super::sight::Sight;
use crate::number::counted;
use crate::{Finding, proc};

const TOPIC: &str = "MPS";
const DAEMON: &str = "nvidia-cuda-mps-control";
/// How the directories of runs begin where daemon and jobs meet; each holds a file locked while its engine lives.
const MEETING: &str = "gpulane-mps-";

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let set = std::env::var_os(env_vars::CUDA_MPS_PIPE_DIRECTORY).map(PathBuf::from);
    let places =
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).into_iter().chain([PathBuf::from("/tmp")]);
    let mut found: Vec<Finding> = set.as_deref().and_then(leads_nowhere).into_iter().collect();
    found.extend(abandoned(&places.flat_map(|place| meetings(&place)).collect::<Vec<_>>()));
    found.extend(daemons());
    if found.is_empty() {
        found.push(Finding::fine(TOPIC, "nothing of MPS is left over"));
    }
    found
}

/// The variable names a place where no daemon listens.
fn leads_nowhere(directory: &Path) -> Option<Finding> {
    let name = env_vars::CUDA_MPS_PIPE_DIRECTORY;
    (!directory.join("control").exists()).then(|| {
        Finding::bad(TOPIC, format!("{name}={}, but no MPS daemon listens there", directory.display()))
            .because("CUDA programs started from this shell fail, or hang, when they look for it")
            .then(format!("unset {name}"))
    })
}

/// Meeting directories of this user whose engine is gone.
fn meetings(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let named = entry.file_name().to_str().is_some_and(|name| name.starts_with(MEETING));
        named && entry.metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
    });
    ours.map(|entry| entry.path()).filter(|path| !is_locked(&path.join("lock"))).collect()
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn abandoned(left: &[PathBuf]) -> Option<Finding> {
    let first = left.first()?.display().to_string();
    let all: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
    Some(
        Finding::warning(
            TOPIC,
            format!(
                "{} of dead runs, such as {first}",
                counted(left.len(), "meeting place", "meeting places")
            ),
        )
        .because("harmless; the next run that uses MPS clears them away")
        .then(format!("rm -r {}", all.join(" "))),
    )
}

/// Daemons of this user that no gpulane started: jobs on their GPUs share one fate.
fn daemons() -> Option<Finding> {
    let me = geteuid().as_raw();
    let is_daemon = |pid: u32| Path::new(&proc::program(pid)).file_name().is_some_and(|name| name == DAEMON);
    let processes = proc::all();
    let mut daemons = processes.iter().map(|process| process.pid).filter(|pid| is_daemon(*pid));
    let pid = daemons.find(|pid| proc::tag(*pid).is_none() && proc::owner(*pid) == Some(me))?;
    let pipes = gpulane_witness::variable_of(pid, env_vars::CUDA_MPS_PIPE_DIRECTORY);
    let place = pipes.unwrap_or_else(|| "/tmp/nvidia-mps".to_owned());
    Some(
        Finding::warning(TOPIC, format!("an MPS daemon runs that gpulane did not start (pid {pid}, {place})"))
            .because("a fault in one of its clients takes the others down, and one killed at the wrong moment makes new CUDA programs hang")
            .then(format!("echo get_server_list | CUDA_MPS_PIPE_DIRECTORY={place} {DAEMON}"))
            .then(format!("echo quit | CUDA_MPS_PIPE_DIRECTORY={place} {DAEMON}    # if nobody needs it")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_leads_nowhere_is_bad() {
        assert!(leads_nowhere(Path::new("/no/such/place")).is_some());
    }
}
