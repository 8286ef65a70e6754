//! How many cores have nothing to do. None if more wants to run than can: by the kernel's own account of waiting (PSI), of our
//! container where it has one, of the machine otherwise; where there is none, by how many are ready to run.

use std::time::{Duration, Instant};

/// Of the time that CPUs were in use: for how much of it somebody had to wait for one. From here on they are saturated.
const FULL: f64 = 0.4;
/// Between two readings.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// Accounts of waiting, the most specific first.
const ACCOUNTS: [&str; 2] = ["/sys/fs/cgroup/cpu.pressure", "/proc/pressure/cpu"];

pub(in crate::engine) struct Pressure {
    cores: f64,
    account: Option<&'static str>,
    last: Option<Reading>,
}

/// The kernel's counters at one moment.
struct Reading {
    at: Instant,
    /// For how long somebody has had to wait so far, in microseconds; `None`: that is not counted.
    waited: Option<u64>,
    /// Time all CPUs have had nothing to do, and all time, in ticks.
    idle: u64,
    all: u64,
}

impl Pressure {
    pub(in crate::engine) fn new(cores: u32) -> Self {
        let account = ACCOUNTS.into_iter().find(|path| waited(path).is_some());
        Self { cores: f64::from(cores.max(1)), account, last: None }
    }

    /// How many cores had nothing to do since the last reading. `None`: that was a moment ago, or there was none.
    pub(in crate::engine) fn look(&mut self) -> Option<u32> {
        if self.last.as_ref().is_some_and(|last| last.at.elapsed() < PAUSE) {
            return None;
        }
        let (idle, all) = times()?;
        let waited = self.account.and_then(waited);
        let now = Reading { at: Instant::now(), waited, idle, all };
        let before = self.last.replace(now)?;
        let now = self.last.as_ref()?;
        // A long pause says nothing about now.
        if now.at - before.at > 4 * PAUSE {
            return None;
        }
        let full = match (before.waited, now.waited) {
            (Some(before_waited), Some(waited)) => {
                share(waited.saturating_sub(before_waited), now.at - before.at) >= FULL
            }
            _ => ready()? > self.cores,
        };
        Some(if full { 0 } else { self.idle_cores(&before, now) })
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // few cores
    fn idle_cores(&self, before: &Reading, now: &Reading) -> u32 {
        let all = now.all.saturating_sub(before.all).max(1) as f64;
        let part = now.idle.saturating_sub(before.idle) as f64 / all;
        // Half a core is enough to begin with.
        (part * self.cores).round() as u32
    }
}

#[allow(clippy::cast_precision_loss)] // a share needs no more
fn share(waited: u64, over: Duration) -> f64 {
    waited as f64 / over.as_micros().max(1) as f64
}

fn waited(account: &str) -> Option<u64> {
    let text = std::fs::read_to_string(account).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

/// Idle time and all time of all CPUs.
fn times() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line.split_ascii_whitespace().filter_map(|time| time.parse().ok()).collect();
    // user, nice, system, idle, waiting for a disk, …; guests are counted under user already.
    let idle = times.get(3)? + times.get(4)?;
    Some((idle, times.iter().take(8).sum()))
}

/// How many are running or ready to.
fn ready() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_are_a_part_of_all() {
        let pressure = Pressure { cores: 8.0, account: None, last: None };
        let at = Instant::now();
        let reading = |idle, all| Reading { at, waited: None, idle, all };
        let idle = |idle, all| pressure.idle_cores(&reading(0, 0), &reading(idle, all));
        assert_eq!(
            [idle(200, 200), idle(100, 200), idle(13, 200), idle(12, 200), idle(0, 200)],
            [8, 4, 1, 0, 0]
        );
    }

    #[test]
    fn a_share_is_of_the_time_between() {
        assert!((share(1_000_000, Duration::from_secs(2)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn this_machine_counts_its_time() {
        let (idle, all) = times().unwrap();
        assert!(idle <= all && all > 0);
    }
}
