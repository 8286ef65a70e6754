//! What the control group we live in allows: memory, CPUs, processes. A container's limits are here.

use std::path::{Path, PathBuf};

use gpulane_model::Bytes;

use super::sight::Sight;
use crate::Finding;
use crate::fields::{named, number, percent};
use crate::number::processes;

const TOPIC: &str = "container";
const ROOT: &str = "/sys/fs/cgroup";

/// The tightest limits on the way from our group to the root.
#[derive(Clone, Debug, Default, PartialEq)]
struct Limits {
    /// Most memory, and what of it is in use and cannot be given back.
    memory: Option<(u64, u64)>,
    /// How many CPUs' worth of time.
    cpus: Option<f64>,
    /// Most processes, and how many there are.
    pids: Option<(u64, u64)>,
    /// How often the kernel killed somebody in our group for want of memory.
    killed: u64,
}

pub(super) fn check(_: &Sight) -> Vec<Finding> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = own.lines().find_map(|line| line.strip_prefix("0::")) else {
        return vec![Finding::fine(TOPIC, "control groups of version 1; their limits are not looked at")];
    };
    let limits = limits(Path::new(ROOT), group);
    judge(&limits, std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Reads up from our group. In a container the path is often that of the host, and only the root is there.
fn limits(root: &Path, group: &str) -> Limits {
    let group = root.join(group.trim_start_matches('/'));
    let mut places: Vec<PathBuf> =
        group.ancestors().take_while(|place| place.starts_with(root)).map(Path::to_owned).collect();
    places.retain(|place| place.is_dir());
    let mut limits = Limits::default();
    for place in &places {
        let at = |name: &str| number(&place.join(name));
        let text = |name: &str| std::fs::read_to_string(place.join(name)).unwrap_or_default();
        let tighter = |old: Option<(u64, u64)>, new: Option<(u64, u64)>| match (old, new) {
            (Some(old), Some(new)) if room(old) <= room(new) => Some(old),
            (old, new) => new.or(old),
        };
        // Cache that can be dropped is no burden.
        let cache = named(&text("memory.stat"), "inactive_file").unwrap_or(0);
        let memory = at("memory.max").zip(at("memory.current").map(|used| used.saturating_sub(cache)));
        limits.memory = tighter(limits.memory, memory);
        limits.pids = tighter(limits.pids, at("pids.max").zip(at("pids.current")));
        limits.cpus = match (limits.cpus, cpus(&text("cpu.max"))) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => new.or(old),
        };
    }
    let events =
        places.first().map(|place| std::fs::read_to_string(place.join("memory.events")).unwrap_or_default());
    limits.killed = events.and_then(|events| named(&events, "oom_kill")).unwrap_or(0);
    limits
}

const fn room((most, used): (u64, u64)) -> u64 {
    most.saturating_sub(used)
}

/// `50000 100000`: half a CPU. `max 100000`: no limit.
fn cpus(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|period| *period > 0.0)?)
}

fn judge(limits: &Limits, cores: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some((most, used)) = limits.memory.filter(|(most, used)| percent(*used, *most) >= 85) {
        found.push(
            Finding::bad(TOPIC, format!("{} of {} memory allowed here are in use", Bytes(used), Bytes(most)))
                .because("above that the kernel kills a process of this group, mostly the largest: a job ends with SIGKILL")
                .then("parallel = 2    # in the plan: fewer jobs at once")
                .then("docker run --memory 64g …"),
        );
    }
    if limits.killed > 0 {
        found.push(
            Finding::warning(
                TOPIC,
                format!("the kernel has killed {} here for want of memory", processes(limits.killed)),
            )
            .because("jobs that \"just died\" with SIGKILL died of that")
            .then("sudo dmesg | grep -i 'out of memory' | tail"),
        );
    }
    if let Some((most, used)) = limits.pids.filter(|(most, used)| percent(*used, *most) >= 80) {
        found.push(
            Finding::bad(TOPIC, format!("{used} of {most} processes and threads allowed here are in use"))
                .because("starting a job or a thread fails with \"Resource temporarily unavailable\"")
                .then("docker run --pids-limit -1 …"),
        );
    }
    found.extend(limits.cpus.and_then(|cpus| throttled(cpus, cores)));
    if found.is_empty() {
        let none = limits.memory.is_none() && limits.cpus.is_none() && limits.pids.is_none();
        let seen = if none { "no limits on memory, CPUs or processes" } else { "its limits are not near" };
        found.push(Finding::fine(TOPIC, seen));
    }
    found
}

/// CPU time for fewer CPUs than libraries believe there are.
fn throttled(cpus: f64, cores: usize) -> Option<Finding> {
    // No machine has so many cores that this loses any.
    #[allow(clippy::cast_precision_loss)]
    let all = cores as f64;
    (cpus + 0.5 < all).then(|| {
        Finding::warning(TOPIC, format!("time of {cpus:.1} CPUs is allowed here, but {cores} are seen"))
            .because(
                "libraries start a thread per CPU they see, then wait for each other while all are throttled",
            )
            .then(format!(
                "cpus = {:.0}    # in the plan, for each job: OMP_NUM_THREADS and its like follow",
                cpus.max(1.0)
            ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    #[test]
    fn quotas_as_the_kernel_writes_them() {
        assert_eq!(cpus("50000 100000\n"), Some(0.5));
        assert_eq!(cpus("max 100000\n"), None);
        assert_eq!(cpus(""), None);
        assert_eq!(cpus("1 0"), None);
    }

    #[test]
    fn a_limit_that_is_near_is_told() {
        assert_eq!(judge(&Limits::default(), 4)[0].severity, Severity::Fine);
        let near = Limits { memory: Some((100, 90)), pids: Some((100, 95)), cpus: Some(1.0), killed: 2 };
        let told: Vec<Severity> = judge(&near, 4).iter().map(|finding| finding.severity).collect();
        assert_eq!(told, [Severity::Bad, Severity::Warning, Severity::Bad, Severity::Warning]);
        let far = Limits { memory: Some((100, 10)), pids: Some((100, 5)), cpus: Some(4.0), killed: 0 };
        assert_eq!(judge(&far, 4)[0].severity, Severity::Fine);
    }
}
