//! Whether the CPUs are saturated: more wants to run than can. From the kernel's own account of waiting (PSI), of our
//! container where it has one, of the machine otherwise; where there is none, from how many are ready to run.

use std::time::{Duration, Instant};

/// Of the time that CPUs were in use: for how much of it somebody had to wait for one. Above the first, twice in a row,
/// they are saturated; below the second they are not.
const FULL: f64 = 0.4;
const EASY: f64 = 0.2;
/// Without PSI: so many ready to run for each core.
const CROWD: f64 = 1.5;
/// Between two readings.
const PAUSE: Duration = Duration::from_secs(1);

/// Accounts of waiting, the most specific first.
const ACCOUNTS: [&str; 2] = ["/sys/fs/cgroup/cpu.pressure", "/proc/pressure/cpu"];

pub(super) struct Pressure {
    cores: f64,
    account: Option<&'static str>,
    last: Option<(Instant, u64)>,
    /// How often in a row it was found full.
    full: u32,
    saturated: bool,
}

impl Pressure {
    pub(super) fn new(cores: u32) -> Self {
        let account = ACCOUNTS.into_iter().find(|path| waited(path).is_some());
        Self { cores: f64::from(cores.max(1)), account, last: None, full: 0, saturated: false }
    }

    /// Whether that has changed since the last look; says what it is now.
    pub(super) fn look(&mut self) -> Option<bool> {
        let now = Instant::now();
        if self.last.is_some_and(|(at, _)| now - at < PAUSE) {
            return None;
        }
        let share = if let Some(account) = self.account {
            let waited = waited(account)?;
            let (at, before) = self.last.replace((now, waited))?;
            share(now - at, waited.saturating_sub(before))
        } else {
            self.last = Some((now, 0));
            ready()? / self.cores / CROWD * FULL
        };
        self.take_in(share)
    }

    fn take_in(&mut self, share: f64) -> Option<bool> {
        self.full = if share >= FULL { self.full + 1 } else { 0 };
        let saturated = if self.saturated { share > EASY } else { self.full >= 2 };
        (std::mem::replace(&mut self.saturated, saturated) != saturated).then_some(saturated)
    }
}

#[allow(clippy::cast_precision_loss)] // a share needs no more
fn share(over: Duration, waited: u64) -> f64 {
    waited as f64 / over.as_micros().max(1) as f64
}

/// For how long somebody has had to wait so far, in microseconds.
fn waited(account: &str) -> Option<u64> {
    let text = std::fs::read_to_string(account).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

/// How many are running or ready to.
fn ready() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressure() -> Pressure {
        Pressure { cores: 2.0, account: None, last: None, full: 0, saturated: false }
    }

    #[test]
    fn one_full_second_is_no_saturation_two_are_and_it_ends_only_when_easy() {
        let mut pressure = pressure();
        let said: Vec<_> =
            [0.9, 0.1, 0.9, 0.9, 0.9, 0.3, 0.1, 0.0].map(|share| pressure.take_in(share)).into();
        assert_eq!(said, [None, None, None, Some(true), None, None, Some(false), None]);
    }

    #[test]
    fn a_share_is_of_the_time_between() {
        assert!((share(Duration::from_secs(2), 1_000_000) - 0.5).abs() < 1e-9);
    }
}
