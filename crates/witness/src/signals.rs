//! Whether a signal may wake a process: by timers of its own, which cannot all be seen, or because others send it one to let it
//! go on. Signals that ask it to end say nothing of its work.

use std::path::Path;

use crate::Wakes;
use crate::proc_files::read;

/// Signals that timers send, by number.
const OF_TIMERS: [(u32, &str); 3] = [(14, "SIGALRM"), (26, "SIGVTALRM"), (27, "SIGPROF")];
/// Others that have a name.
const NAMED: [(u32, &str); 13] = [
    (1, "SIGHUP"),
    (10, "SIGUSR1"),
    (12, "SIGUSR2"),
    (18, "SIGCONT"),
    (20, "SIGTSTP"),
    (21, "SIGTTIN"),
    (22, "SIGTTOU"),
    (23, "SIGURG"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (28, "SIGWINCH"),
    (29, "SIGIO"),
    (30, "SIGPWR"),
];
/// Signals that let nobody go on: they ask a program to end (INT, QUIT, TERM), tell of its own faults (ILL, TRAP, ABRT, BUS, FPE, SEGV,
/// STKFLT, SYS) or of a pipe without a reader (PIPE), or are the C library's own (32, 33). The end of a child is a source by itself.
const NO_WAKE: [u32; 15] = [2, 3, 4, 5, 6, 7, 8, 11, 13, 15, 16, CHILD, 31, 32, 33];
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
    let unknown = || Wakes::Sent("which signals it handles cannot be read".to_owned());
    mask("SigCgt:")
        .map_or_else(|| Signals { why: Some(unknown()), on_child: true }, |caught| from(caught, timers))
}

fn from(caught: u64, timers: bool) -> Signals {
    let catches = |signal: &u32| caught >> (signal - 1) & 1 == 1;
    let timer = OF_TIMERS.iter().find(|(signal, _)| catches(signal)).map(|(_, name)| *name);
    let other = (1..=64).find(|signal| catches(signal) && !NO_WAKE.contains(signal));
    let why = match (timers, timer, other) {
        (true, ..) => Some(Wakes::Timer("it has a timer (timer_create)".to_owned())),
        (_, Some(name), _) => Some(Wakes::Timer(format!("it handles {name}: a timer may go off"))),
        (.., Some(number)) => {
            let name = NAMED.iter().find(|(known, _)| *known == number);
            let name = name.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned());
            Some(Wakes::Sent(format!("it handles {name}, which may come from outside")))
        }
        _ => None,
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
        assert_eq!(caught(&[2, 3, 4, 6, 7, 8, 11, 13, 15, 31, 32, 33]), Signals::default());
        assert!(caught(&[17]).on_child && caught(&[17]).why.is_none());
    }

    #[test]
    fn whatever_else_is_handled_does() {
        assert!(caught(&[2, 14]).why.unwrap().to_string().contains("SIGALRM"));
        assert!(caught(&[10]).why.unwrap().to_string().contains("SIGUSR1"));
        assert!(caught(&[2, 18]).why.unwrap().to_string().contains("SIGCONT"));
        assert!(caught(&[40]).why.unwrap().to_string().contains("signal 40"));
        let harmless = |signal: &u32| caught(&[*signal]).why.is_none();
        assert_eq!(
            (1..=64).filter(harmless).collect::<Vec<_>>(),
            NO_WAKE,
            "unless it is known to wake nobody"
        );
        assert!(from(0, true).why.unwrap().to_string().contains("timer_create"));
    }

    #[test]
    fn our_own_are_read() {
        assert!(of(Path::new("/proc/self")).why.is_none());
        assert!(of(Path::new("/nonexistent")).why.is_some(), "what cannot be read may wake it");
    }
}
