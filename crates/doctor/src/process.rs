//! A process and all below it: what it does, whether it moves, what it waits for, what it holds. Looks from outside,
//! and stops nothing.

mod gpu;
mod motion;
mod verdict;

use std::time::{Duration, Instant};

use gpulane_files::user_name;
use gpulane_model::Millis;
use gpulane_witness::{Change, Evidence, GpuUse, Known, Python, compare, in_full};
use rustix::process::geteuid;

use crate::patience::{PATIENCE, within};
use crate::run::{quoted, shown};
use crate::{Finding, leftovers, proc};
use motion::Usage;

/// Between two of several looks.
const BETWEEN: Duration = Duration::from_secs(1);

/// What a look at a process found.
#[derive(Clone, Debug)]
pub struct ProcessLook {
    /// What was found, how it moves first.
    pub findings: Vec<Finding>,
    /// Every thread's stack, as text for a person.
    pub stacks: String,
}

/// Two looks at a tree of processes, and what it used meanwhile.
struct Looks {
    pid: u32,
    second: Evidence,
    change: Change,
    usage: Usage,
    over: Millis,
}

impl Looks {
    /// Nothing was seen of what any thread does: that says nothing of whether it moves.
    fn is_hidden(&self) -> bool {
        let mut threads = self.second.processes.iter().flat_map(|process| &process.threads);
        threads.all(|thread| thread.wait.is_none() && thread.frames.is_empty() && thread.state != 'R')
    }
}

/// Whether ending this process is for this user to decide: it is theirs, and not the one all others live by.
pub fn is_yours_to_end(pid: u32) -> bool {
    pid > 1 && proc::owner(pid) == Some(geteuid().as_raw())
}

/// Looks at a process for so long, or until it is seen to move. `None`: there is no such process.
pub fn process(pid: u32, look_for: Duration) -> Option<ProcessLook> {
    proc::look(pid)?;
    let Some(looks) = looks(pid, look_for) else {
        // Gone meanwhile is as good as never there; one that cannot be looked at is stuck.
        let left = proc::look(pid)?;
        return Some(ProcessLook { findings: vec![verdict::unreadable(&left)], stacks: String::new() });
    };
    let stacks = in_full(&looks.second, &format!("process {pid}"));
    let gpus = gpu::of(&looks.second);
    let tree: Vec<u32> = looks.second.processes.iter().map(|process| process.pid).collect();
    let mut findings = vec![identity(&looks)];
    findings.push(verdict::of(&looks, gpus.sight));
    findings.push(looks.usage.told(looks.over));
    findings.extend(gpus.findings);
    findings.extend(blind(&looks));
    findings.extend(looks.second.processes.iter().filter_map(verdict::many_files));
    findings.extend(within(PATIENCE, move || belongs(pid, &tree)).flatten());
    Some(ProcessLook { findings, stacks })
}

/// Looks now and again until the time is over or something moves. `None`: a look did not come back, or found nobody.
fn looks(pid: u32, look_for: Duration) -> Option<Looks> {
    // Reading may block for ever where a process is stuck in the kernel.
    let take = move || {
        let looked = within(PATIENCE, move || {
            let tree = gpulane_witness::descendants(pid);
            (Usage::of(&tree), gpulane_witness::take(&tree))
        });
        looked.filter(|(_, evidence)| !evidence.processes.is_empty())
    };
    let begun = Instant::now();
    let (before, first) = take()?;
    loop {
        std::thread::sleep(BETWEEN.min(look_for.saturating_sub(begun.elapsed())));
        let (now, second) = take()?;
        let usage = now.since(&before);
        let change = compare(&first, &second, &known(pid, &second));
        let over = Millis(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        let ended = begun.elapsed() >= look_for;
        if ended || matches!(change, Change::Moved(_)) && begun.elapsed() >= BETWEEN {
            return Some(Looks { pid, second, change, usage, over });
        }
    }
}

/// Without a GPU there is none that could be at work; of one that it has, two looks say too little.
fn known(pid: u32, evidence: &Evidence) -> Known {
    let none = evidence.processes.iter().all(|process| process.descriptors.gpus == 0);
    let gpu = if none { GpuUse::Idle } else { GpuUse::Unknown };
    Known { main: pid, gpu, ..Known::default() }
}

/// Who it is.
fn identity(looks: &Looks) -> Finding {
    let processes = &looks.second.processes;
    let threads: usize = processes.iter().map(|process| process.threads.len()).sum();
    let command = processes.first().map_or("", |process| process.command.as_str());
    let owner = proc::owner(looks.pid).map_or_else(|| "unknown".to_owned(), user_name);
    let python = processes.first().and_then(|process| match &process.python {
        Python::Version(version) => Some(format!(", Python {version}")),
        _ => None,
    });
    let (count, pid) = (processes.len(), looks.pid);
    let below = if count > 1 { format!(" and {} below it", count - 1) } else { String::new() };
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    Finding::fine(
        "process",
        format!("`{command}` (pid {pid}){below}, {threads}, of {owner}{}", python.unwrap_or_default()),
    )
}

/// Processes whose Python stacks we were not allowed to read, and what to type instead.
fn blind(looks: &Looks) -> Option<Finding> {
    let unreadable = looks.second.processes.iter().find_map(|process| match &process.python {
        Python::Unreadable(why) => Some((process.pid, why.clone())),
        _ => None,
    });
    let another = proc::owner(looks.pid).filter(|owner| *owner != geteuid().as_raw() && !geteuid().is_root());
    let again =
        (!geteuid().is_root()).then(|| format!("sudo env \"PATH=$PATH\" gpulane doctor {}", looks.pid));
    let finding = match (unreadable, another) {
        (_, Some(owner)) => Finding::warning(
            "stacks",
            format!("it is {}'s: what it waits for cannot be read", user_name(owner)),
        )
        .because("only its owner and root may look into a process"),
        (Some((pid, why)), None) => {
            Finding::warning("stacks", format!("the Python stacks of pid {pid} cannot be read: {why}"))
                .because("so only the kernel's view is told")
        }
        (None, None) if looks.is_hidden() => {
            let why = "the kernel lets only a parent look (yama ptrace_scope 1), or nobody; gpulane's own jobs are not affected";
            Finding::warning("stacks", "what its threads wait for cannot be read").because(why)
        }
        (None, None) => return None,
    };
    Some(again.into_iter().fold(finding, Finding::then))
}

/// The job it belongs to, and what can be done with that.
fn belongs(pid: u32, tree: &[u32]) -> Option<Finding> {
    let tag = std::iter::once(pid).chain(tree.iter().copied()).find_map(proc::tag)?;
    let (run, job) = (shown(&tag.run), quoted(&tag.job));
    let seen = format!("it belongs to {} of {run}", tag.job);
    if leftovers::proof(&tag.run).is_some() {
        return Some(
            Finding::bad("job", format!("{seen}, a run that is over"))
                .because("nobody waits for it any more, and nobody will end it")
                .then("gpulane doctor --fix"),
        );
    }
    if proc::owner(pid) != Some(geteuid().as_raw()) {
        return Some(Finding::fine("job", seen));
    }
    Some(
        Finding::fine("job", seen)
            .then(format!("gpulane logs {run} {job}"))
            .then(format!("gpulane cancel {run} {job}    # end it")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_end_the_first_process_or_what_is_not_theirs() {
        assert!(is_yours_to_end(std::process::id()));
        assert!(!is_yours_to_end(1), "though root owns it");
        assert!(!is_yours_to_end(u32::MAX), "nobody's");
    }
}
