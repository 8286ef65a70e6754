//! Processes whose run is over, and those that lost their parents while they hold a GPU.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::process::geteuid;

use super::sight::Sight;
use crate::leftovers::{self, Leftover, Proof};
use crate::number::processes;
use crate::{Finding, proc};

const TOPIC: &str = "leftovers";
/// Named in one finding.
const NAMED: usize = 3;

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let left = leftovers::find();
    let mut groups: BTreeMap<(&Path, Proof), Vec<&Leftover>> = BTreeMap::new();
    for one in &left {
        groups.entry((&one.tag.run, one.proof)).or_default().push(one);
    }
    let mut found: Vec<Finding> =
        groups.into_iter().map(|((run, proof), left)| of_run(run, proof, &left)).collect();
    found.extend(orphans(&left));
    if found.is_empty() {
        found.push(Finding::fine(TOPIC, "no process has outlived its run"));
    }
    found
}

fn of_run(run: &Path, proof: Proof, left: &[&Leftover]) -> Finding {
    let (count, them, run) = (left.len(), processes(left.len()), run.display());
    let named = left.iter().take(NAMED).map(|left| {
        format!("`{}` (pid {}, {})", proc::command(left.process.pid), left.process.pid, left.tag.job)
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let why = "they hold memory, GPUs and leases that nobody will give back";
    match proof {
        Proof::RunOver => {
            Finding::bad(TOPIC, format!("{them} of the run {run}, which is over: {named}{more}"))
                .because(why)
                .then("gpulane doctor --fix")
        }
        Proof::RunGone => {
            let pids: Vec<String> = left.iter().map(|left| left.process.pid.to_string()).collect();
            let seen = format!("{them} of a run whose directory is gone or not yours, {run}: {named}{more}");
            Finding::warning(TOPIC, seen)
                .because(format!(
                    "{why}; without the run's lock gpulane cannot prove that it is over, so --fix leaves them"
                ))
                .then(format!("kill {}", pids.join(" ")))
        }
    }
}

/// Of this user, adopted by init, their session's leader gone, and with a GPU open: what a crashed program's loader
/// workers look like. Services have sessions of their own and are not meant.
fn orphans(known: &[Leftover]) -> Option<Finding> {
    let me = geteuid().as_raw();
    let all = proc::all();
    let lone = all.iter().filter(|process| {
        process.stat.parent == 1
            && process.stat.session != process.pid
            && process.stat.session > 1
            && proc::look(process.stat.session).is_none()
            && !known.iter().any(|left| left.process.pid == process.pid)
            && proc::owner(process.pid) == Some(me)
            && proc::gpu_files(process.pid) > 0
    });
    let pids: Vec<u32> = lone.map(|process| process.pid).collect();
    let first = *pids.first()?;
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    Some(
        Finding::warning(
            TOPIC,
            format!("{} with a GPU open lost the parent, such as `{}` (pid {first})", processes(pids.len()), proc::command(first)),
        )
        .because("workers of a program that crashed keep its GPU memory; they are not gpulane's, so --fix leaves them")
        .then(format!("gpulane doctor {first}"))
        .then(format!("kill {list}")),
    )
}
