//! The machine itself: memory, kernel, clock, and what it does with stacks and crashes.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpulane_model::Bytes;
use rustix::process::{Resource, getrlimit};

use super::sight::Sight;
use crate::Finding;
use crate::fields::{kib, number, percent};

/// Before this no gpulane was built: January 2026.
const NOT_BEFORE: u64 = 1_767_225_600;
/// The first kernel with pidfds that can be polled.
const OLDEST_KERNEL: (u32, u32) = (5, 4);

/// Host memory and swap.
pub(super) fn memory(_: &Sight) -> Vec<Finding> {
    vec![judge_memory(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default())]
}

fn judge_memory(meminfo: &str) -> Finding {
    const TOPIC: &str = "memory";
    let at = |name: &str| kib(meminfo, name).unwrap_or_default().0;
    let (total, free) = (at("MemTotal"), at("MemAvailable"));
    let (swap, swap_free) = (at("SwapTotal"), at("SwapFree"));
    let seen = format!("{} of {} host memory are free", Bytes(free), Bytes(total));
    if percent(free, total) < 5 {
        return Finding::bad(TOPIC, seen)
            .because("the kernel is about to kill a process for want of memory")
            .then("ps -eo pid,user,rss,args --sort=-rss | head");
    }
    if swap > 0 && percent(swap_free, swap) < 20 && percent(free, total) < 25 {
        return Finding::warning(TOPIC, format!("{seen}, and swap is nearly full"))
            .because("the machine swaps, and everything on it is slow")
            .then("ps -eo pid,user,rss,args --sort=-rss | head");
    }
    Finding::fine(TOPIC, seen)
}

/// Whether stacks of running processes can be read.
pub(super) fn stacks(_: &Sight) -> Vec<Finding> {
    vec![judge_stacks(number(Path::new("/proc/sys/kernel/yama/ptrace_scope")))]
}

fn judge_stacks(scope: Option<u64>) -> Finding {
    const TOPIC: &str = "stacks";
    match scope {
        None | Some(0) => Finding::fine(TOPIC, "stacks of all your processes can be read"),
        Some(1) => Finding::fine(
            TOPIC,
            "stacks of gpulane's jobs can be read; of other processes only with sudo (yama ptrace_scope 1)",
        ),
        Some(scope) => Finding::warning(
            TOPIC,
            format!("stacks of running processes cannot be read (yama ptrace_scope {scope})"),
        )
        .because(
            "a job that hangs is still found and ended, but where it hangs is told by the kernel's view only",
        )
        .then(if scope == 2 {
            "sudo sysctl kernel.yama.ptrace_scope=1"
        } else {
            "needs a reboot with kernel.yama.ptrace_scope=1 in /etc/sysctl.d"
        }),
    }
}

/// What happens when a program crashes.
pub(super) fn core_dumps(_: &Sight) -> Vec<Finding> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    vec![judge_core_dumps(pattern.trim(), getrlimit(Resource::Core).current)]
}

fn judge_core_dumps(pattern: &str, limit: Option<u64>) -> Finding {
    const TOPIC: &str = "core dumps";
    let to_file = !pattern.is_empty() && !pattern.starts_with('|');
    if to_file && limit.is_none_or(|most| most > 1 << 30) {
        return Finding::warning(
            TOPIC,
            format!("a program that crashes writes all its memory to disk (`{pattern}`)"),
        )
        .because("for a training that is tens of GiB and minutes, in which its GPU is not free")
        .then("ulimit -c 0");
    }
    Finding::fine(TOPIC, "a crash does not fill the disk")
}

/// Kernel and clock.
pub(super) fn system(_: &Sight) -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    vec![judge_system(&release, now)]
}

fn judge_system(release: &str, now: u64) -> Finding {
    const TOPIC: &str = "system";
    if now < NOT_BEFORE {
        return Finding::bad(TOPIC, "the clock is wrong: it stands before this program was made")
            .because("times in journals and certificates are checked against it")
            .then("sudo timedatectl set-ntp true");
    }
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version < OLDEST_KERNEL {
        return Finding::bad(TOPIC, format!("Linux {release} is too old"))
            .because("gpulane waits for and signals processes through pidfds, which it does not have")
            .then("use a machine with Linux 5.4 or newer");
    }
    Finding::fine(TOPIC, format!("Linux {release}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    #[test]
    fn little_memory_is_bad_and_a_busy_swap_a_warning() {
        let text = |free: u32, swap: u32| {
            format!("MemTotal: 1000 kB\nMemAvailable: {free} kB\nSwapTotal: 100 kB\nSwapFree: {swap} kB\n")
        };
        for (free, swap, severity) in [
            (600, 100, Severity::Fine),
            (600, 0, Severity::Fine),
            (200, 5, Severity::Warning),
            (20, 100, Severity::Bad),
        ] {
            assert_eq!(judge_memory(&text(free, swap)).severity, severity, "{free} {swap}");
        }
    }

    #[test]
    fn kernels_and_clocks() {
        assert_eq!(judge_system("6.18.44-x", u64::MAX).severity, Severity::Fine);
        assert_eq!(judge_system("5.4.0-1-generic", u64::MAX).severity, Severity::Fine);
        assert_eq!(judge_system("4.18.0-553.el8", u64::MAX).severity, Severity::Bad);
        assert_eq!(judge_system("6.18.44", 0).severity, Severity::Bad);
    }

    #[test]
    fn crashes_and_stacks() {
        assert_eq!(judge_core_dumps("core", None).severity, Severity::Warning);
        assert_eq!(judge_core_dumps("core", Some(0)).severity, Severity::Fine);
        assert_eq!(judge_core_dumps("|/usr/lib/systemd/systemd-coredump", None).severity, Severity::Fine);
        assert_eq!(judge_stacks(Some(1)).severity, Severity::Fine);
        assert_eq!(judge_stacks(Some(3)).severity, Severity::Warning);
    }
}
