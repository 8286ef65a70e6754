//! Whether the host has memory for another standby. They are a comfort, so they get little and give way first.

use std::path::Path;

use rustix::process::Pid;

/// So much of the memory must be free, in percent, for another one.
const LEAST_FREE: u64 = 15;
/// So much of it standbys may have together, in percent.
const MOST: u64 = 25;

/// The host's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Host {
    total: u64,
    free: u64,
}

impl Host {
    /// As it is now; of our container where that has less. `None`: it cannot be read.
    pub(super) fn now() -> Option<Self> {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let machine = Self::of_machine(&read("/proc/meminfo")?)?;
        let group = Path::new("/sys/fs/cgroup");
        let number = |name: &str| read(group.join(name).to_str()?)?.trim().parse().ok();
        Some(match (number("memory.max"), number("memory.current")) {
            (Some(most), Some(used)) => {
                let stat = read("/sys/fs/cgroup/memory.stat").unwrap_or_default();
                machine.within(most, without_cache(used, &stat))
            }
            _ => machine,
        })
    }

    fn of_machine(meminfo: &str) -> Option<Self> {
        let number = |name: &str| {
            let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        Some(Self { total: number("MemTotal:")? * 1024, free: number("MemAvailable:")? * 1024 })
    }

    /// With a limit to what all in the container may use together.
    fn within(self, most: u64, used: u64) -> Self {
        Self { total: self.total.min(most), free: self.free.min(most.saturating_sub(used)) }
    }

    /// What standbys may have together.
    pub(super) fn share(self) -> u64 {
        self.total / 100 * MOST
    }

    /// Why there is no room for a standby of this size beside others that have so much together; `None`: there is.
    pub(super) fn refuses(self, others: u64, size: u64) -> Option<String> {
        if self.free < self.total / 100 * LEAST_FREE {
            return Some(format!("less than {LEAST_FREE}% of the memory is free"));
        }
        (others.saturating_add(size) > self.share())
            .then(|| format!("they would take more than {MOST}% of the memory"))
    }
}

/// What of a container's memory is in use, in bytes. What it has read or written stays in its count until somebody else needs the
/// room.
fn without_cache(used: u64, stat: &str) -> u64 {
    let cache = stat.lines().find_map(|line| line.strip_prefix("inactive_file "));
    used.saturating_sub(cache.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0))
}

/// What a process has in memory, in bytes, less what it shares with others of its kind.
pub(super) fn resident(pid: Pid) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(number("VmRSS:")?.saturating_sub(number("RssFile:").unwrap_or(0)) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const MEMINFO: &str = "MemTotal:       104857600 kB\nMemFree:  1 kB\nMemAvailable:   52428800 kB\n";

    #[test]
    fn standbys_get_a_quarter_and_leave_what_is_scarce() {
        let host = Host::of_machine(MEMINFO).unwrap();
        assert_eq!(host, Host { total: 100 * GIB, free: 50 * GIB });
        assert_eq!(host.refuses(20 * GIB, 4 * GIB), None);
        assert!(host.refuses(20 * GIB, 6 * GIB).unwrap().contains("more than 25%"));
        let scarce = Host { free: 14 * GIB, ..host };
        assert!(scarce.refuses(0, 0).unwrap().contains("less than 15%"));
    }

    #[test]
    fn a_container_counts_where_it_has_less() {
        let host = Host::of_machine(MEMINFO).unwrap().within(8 * GIB, 7 * GIB);
        assert_eq!(host, Host { total: 8 * GIB, free: GIB });
        assert!(host.refuses(0, 0).is_some());
    }

    #[test]
    fn files_that_a_container_has_read_take_no_room() {
        let stat = format!(
            "anon {GIB}\nfile {}\ninactive_anon 5\ninactive_file {}\nactive_file {GIB}\n",
            6 * GIB,
            5 * GIB
        );
        assert_eq!(without_cache(7 * GIB, &stat), 2 * GIB);
        assert_eq!(without_cache(GIB, &stat), 0, "the two are not read in the same moment");
        assert_eq!(without_cache(7 * GIB, "no such line\n"), 7 * GIB);
    }

    #[test]
    fn this_machine_and_this_process_can_be_read() {
        assert!(Host::now().is_some_and(|host| host.total >= host.free));
        assert!(resident(rustix::process::getpid()).is_some_and(|bytes| bytes > 1 << 16));
    }
}
