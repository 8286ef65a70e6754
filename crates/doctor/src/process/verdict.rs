//! Whether the tree moves, and if not, what it waits for.

use gpulane_model::Millis;
use gpulane_witness::{Change, GpuSight, ProcessEvidence, Surroundings, diagnose};

use super::{Looks, is_yours_to_end};
use crate::Finding;
use crate::fields::percent;
use crate::proc::Process;

const TOPIC: &str = "state";
/// Looked at for this long without a movement, it is called hung.
const LONG: Millis = Millis::seconds(30);
/// Percent of a CPU that threads which only poll may take.
const POLLING: u64 = 5;

pub(super) fn of(looks: &Looks, gpu: Option<GpuSight>) -> Finding {
    let over = looks.over;
    match &looks.change {
        Change::Moved(_) | Change::Unseen(_) | Change::Frozen(_) | Change::Waiting(_)
            if looks.is_hidden() && looks.usage.cpu(over) <= POLLING =>
        {
            let seen = format!(
                "whether it moves cannot be seen; it used {}% of a CPU in {over}",
                looks.usage.cpu(over)
            );
            Finding::warning(TOPIC, seen)
        }
        Change::Moved(why) => Finding::fine(TOPIC, format!("it moves: {why}")),
        Change::Unseen(why) => Finding::warning(TOPIC, format!("whether it moves cannot be seen: {why}")),
        Change::Sleeping(what) => {
            Finding::fine(TOPIC, format!("it sleeps by the clock and will wake by itself: {what}"))
                .then(format!("gpulane doctor {} --for 1m    # if you think it should be awake", looks.pid))
        }
        Change::Stopped(who) => stopped(looks, who),
        // Work between the looks that neither of them met.
        Change::Frozen(_) | Change::Waiting(_) if looks.usage.cpu(over) > POLLING => {
            Finding::fine(TOPIC, format!("it works: {}% of a CPU in {over}", looks.usage.cpu(over)))
        }
        Change::Waiting(what) => waiting(looks, gpu, what),
        Change::Frozen(proof) => frozen(looks, gpu, proof),
    }
}

/// The process itself is named already; one below it is not.
fn stopped(looks: &Looks, who: &str) -> Finding {
    let is_stop = |state: char| matches!(state, 'T' | 't');
    let held =
        looks.second.processes.iter().find(|process| {
            is_stop(process.state) || process.threads.iter().any(|thread| is_stop(thread.state))
        });
    let seen = match held {
        Some(process) if process.pid == looks.pid => "it is stopped (state T)".to_owned(),
        Some(process) => {
            format!("`{}` (pid {}) below it is stopped (state T)", process.command, process.pid)
        }
        None => format!("it was stopped a moment ago: {who}"),
    };
    let pid = held.map_or(looks.pid, |process| process.pid);
    Finding::warning(TOPIC, seen)
        .because("somebody sent SIGSTOP, pressed Ctrl-Z or debugs it; it goes on when told to")
        .then(format!("kill -CONT {pid}"))
}

/// Nothing moved, and nothing proves that it cannot go on.
fn waiting(looks: &Looks, gpu: Option<GpuSight>, what: &str) -> Finding {
    let around = Surroundings { quiet: Millis(0), gpu, main: looks.pid };
    let stuck = diagnose(&looks.second, &around);
    let seen = format!("has not moved in {}: {}", looks.over, stuck.evidence);
    let finding = Finding::warning(TOPIC, seen).because(format!("{what}; that may still come"));
    let finding = stuck.remedy.iter().fold(finding, Finding::then);
    if looks.over < LONG {
        return finding.then(format!("gpulane doctor {} --for 30s    # look longer", looks.pid));
    }
    if is_yours_to_end(looks.pid) {
        return finding.then(format!("kill {}    # end it, if you know that it does not come", looks.pid));
    }
    finding
}

fn frozen(looks: &Looks, gpu: Option<GpuSight>, proof: &str) -> Finding {
    // How long is said beside it.
    let around = Surroundings { quiet: Millis(0), gpu, main: looks.pid };
    let stuck = diagnose(&looks.second, &around);
    let long = looks.over >= LONG;
    let busy = gpu.is_some_and(|gpu| gpu.load > 0) || looks.usage.moved_bytes();
    let seen = format!("has not moved in {}: {}", looks.over, stuck.evidence);
    let finding = if long && !busy { Finding::bad(TOPIC, seen) } else { Finding::warning(TOPIC, seen) };
    let finding = finding.because(match (&stuck.cause, long) {
        (Some(cause), true) => format!("{cause}; {proof}"),
        (Some(cause), false) => cause.clone(),
        (None, true) => proof.to_owned(),
        (None, false) => {
            "that may be a hang, or a wait that ends well: so short a look cannot tell".to_owned()
        }
    });
    let finding = stuck.remedy.iter().fold(finding, Finding::then);
    if long && is_yours_to_end(looks.pid) {
        finding.then(format!("kill {}    # end it", looks.pid))
    } else if long {
        finding
    } else {
        finding.then(format!("gpulane doctor {} --for 30s    # look longer", looks.pid))
    }
}

/// A process that did not let itself be looked at in time.
pub(super) fn unreadable(process: &Process) -> Finding {
    if process.stat.state == 'Z' {
        let seen = format!(
            "pid {} has ended; its parent, pid {}, has not noticed",
            process.pid, process.stat.parent
        );
        return Finding::warning(TOPIC, seen)
            .because("it holds nothing any more but its number; the parent may be the one that is stuck")
            .then(format!("gpulane doctor {}", process.stat.parent));
    }
    let seen = format!("pid {} does not let itself be looked at (state {})", process.pid, process.stat.state);
    Finding::bad(TOPIC, seen)
        .because(
            "it is stuck in the kernel, mostly in the driver or a network disk; no signal reaches it there",
        )
        .then(format!("cat /proc/{}/status", process.pid))
        .then("sudo dmesg | grep -i -e xid -e nvrm -e 'blocked for more' | tail")
        .then("reboot    # if it stays so")
}

/// A process that is about to run out of file descriptors.
pub(super) fn many_files(process: &ProcessEvidence) -> Option<Finding> {
    let most = process.descriptors.limit?;
    let open = u64::from(process.descriptors.open);
    (percent(open, most) >= 90).then(|| {
        Finding::bad("files", format!("pid {} has {open} of {most} files open", process.pid))
            .because("the next open fails with \"Too many open files\", and loaders wait for a worker that cannot start")
            .then(format!("sudo prlimit --pid {} --nofile=65536:65536", process.pid))
            .then("torch.multiprocessing.set_sharing_strategy(\"file_system\")")
    })
}
