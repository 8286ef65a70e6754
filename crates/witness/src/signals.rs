//! Whether a signal may wake a process: by timers of its own, which cannot all be seen, or because others send it one to let it
//! go on. Signals that ask it to end say nothing of its work.

use std::path::Path;

use crate::Wakes;
use crate::proc_files::read;

/// Signals that timers send, by number.
const OF_TIMERS: [(u32, &str); 3] = [(14, "SIGALRM"), (26, "SIGVTALRM"), (27, "SIGPROF")];
/// Signals that have no meaning but what programs make of them; the first tells those without a terminal to read their settings anew.
const OF_USERS: [(u32, &str); 4] = [(1, "SIGHUP"), (10, "SIGUSR1"), (12, "SIGUSR2"), (29, "SIGIO")];
/// From here on real-time signals that the C library does not use itself.
const REAL_TIME: u32 = 34;
const CHILD: u32 = 17;

/// What signals can do to a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signals {
    /// Why one may come at any time.
    pub(crate) why: Option<Wakes>,
    /// The end of a child calls a function of its.
    pub(crate) on_child: bool,
}

/// Of the process with this folder in `/proc`.
pub(crate) fn of(folder: &Path) -> Signals {
    let status = read(&folder.join("status")).unwrap_or_default();
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    let timers = read(&folder.join("timers")).is_some_and(|timers| !timers.trim().is_empty());
    from(mask("SigCgt:").unwrap_or(0), timers)
}

fn from(caught: u64, timers: bool) -> Signals {
    let catches = |signal: &u32| caught >> (signal - 1) & 1 == 1;
    let named = |signals: &[(u32, &'static str)]| {
        signals.iter().find(|(signal, _)| catches(signal)).map(|(_, name)| *name)
    };
    let why = if timers {
        Some(Wakes::Timer("it has a timer (timer_create)".to_owned()))
    } else if let Some(name) = named(&OF_TIMERS) {
        Some(Wakes::Timer(format!("it handles {name}: a timer may go off")))
    } else if let Some(name) = named(&OF_USERS) {
        Some(Wakes::Sent(format!("it handles {name}, which may come from outside")))
    } else {
        let number = (REAL_TIME..=64).find(catches);
        number.map(|number| Wakes::Sent(format!("it handles signal {number}, which may come from outside")))
    };
    Signals { why, on_child: catches(&CHILD) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caught(signals: &[u32]) -> Signals {
        from(signals.iter().fold(0, |mask, signal| mask | 1 << (signal - 1)), false)
    }

    #[test]
    fn what_ends_a_program_or_tells_of_its_faults_wakes_nobody() {
        assert_eq!(caught(&[2, 3, 6, 8, 11, 15, 32, 33]), Signals::default());
        assert!(caught(&[17]).on_child && caught(&[17]).why.is_none());
    }

    #[test]
    fn timers_and_signals_of_users_do() {
        assert!(caught(&[2, 14]).why.unwrap().to_string().contains("SIGALRM"));
        assert!(caught(&[10]).why.unwrap().to_string().contains("SIGUSR1"));
        assert!(caught(&[40]).why.unwrap().to_string().contains("signal 40"));
        assert!(from(0, true).why.unwrap().to_string().contains("timer_create"));
    }

    #[test]
    fn our_own_are_read() {
        assert!(of(Path::new("/proc/self")).why.is_none());
        assert_eq!(of(Path::new("/nonexistent")), Signals::default());
    }
}
