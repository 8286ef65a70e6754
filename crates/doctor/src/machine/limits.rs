//! Limits of this shell that jobs inherit: open files, processes, file size, address space.

use gpulane_model::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, getuid};

use super::sight::Sight;
use crate::fields::percent;
use crate::{Finding, proc};

const TOPIC: &str = "limits";
/// Fewer open files than this, and a `DataLoader` with many workers runs out of them.
const FEW_FILES: u64 = 8192;

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let mut found: Vec<Finding> = files(getrlimit(Resource::Nofile)).into_iter().collect();
    found.extend(processes());
    found.extend(bounded(
        "file size",
        Resource::Fsize,
        "ulimit -f unlimited",
        "a checkpoint that grows past it ends its job with SIGXFSZ",
    ));
    found.extend(bounded(
        "address space",
        Resource::As,
        "ulimit -v unlimited",
        "CUDA reserves far more addresses than memory, and fails with \"out of memory\" at its start",
    ));
    if found.is_empty() {
        let files = getrlimit(Resource::Nofile);
        let told =
            |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |most| format!("{most}"));
        let (soft, hard) = (told(files.current), told(files.maximum));
        let more = format!("; `ulimit -n {hard}` before `gpulane run` gives them more");
        let more = if soft == hard { String::new() } else { more };
        found.push(Finding::fine(TOPIC, format!("a job may open {soft} files{more}")));
    }
    found
}

fn files(limit: Rlimit) -> Option<Finding> {
    let most = limit.maximum.filter(|most| *most < FEW_FILES)?;
    Some(
        Finding::warning(TOPIC, format!("a process may open {most} files at most"))
            .because("loaders with many workers pass file descriptors around and fail with \"Too many open files\"")
            .then("sudo prlimit --pid $$ --nofile=65536:65536")
            .then("torch.multiprocessing.set_sharing_strategy(\"file_system\")"),
    )
}

/// How near this user is to the number of threads he may have. Root has no such limit.
fn processes() -> Option<Finding> {
    if getuid().is_root() {
        return None;
    }
    let most = getrlimit(Resource::Nproc).current?;
    let me = getuid().as_raw();
    let mine = proc::all().into_iter().filter(|process| proc::owner(process.pid) == Some(me));
    let used: u64 = mine.map(|process| u64::from(process.stat.threads)).sum();
    (percent(used, most) >= 80).then(|| {
        Finding::bad(TOPIC, format!("{used} of {most} threads and processes are in use"))
            .because("starting a job or a thread fails with \"Resource temporarily unavailable\"")
            .then("ulimit -u")
            .then("export OMP_NUM_THREADS=1    # fewer threads for each process")
    })
}

fn bounded(what: &str, resource: Resource, command: &str, why: &str) -> Option<Finding> {
    let limit = Bytes(getrlimit(resource).current?);
    Some(Finding::warning(TOPIC, format!("{what} is limited to {limit}")).because(why).then(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_told() {
        let limit = |maximum| Rlimit { current: Some(64), maximum };
        assert!(files(limit(Some(1024))).is_some());
        assert_eq!(files(limit(Some(1 << 20))), None);
        assert_eq!(files(limit(None)), None);
    }
}
