//! Time limits of system calls: how long a wait may last, from the call's arguments and the memory they point to.

use std::path::Path;

use gpulane_model::Millis;
use rustix::time::{ClockId, clock_gettime};

use crate::sources::Memory;
use crate::syscall::{Call, low_word};

/// The time limit of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// The limit counts from the begin of the wait.
    Whole(Millis),
    /// The limit counts from this look.
    Left(Millis),
}

/// Operations of a futex that wait for so long, and until then.
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
/// The flag of a futex that means the time of day.
const FUTEX_REALTIME: u64 = 256;

/// The limit of this call of the process with this folder in `/proc`. `None`: there is none, the call ends by the clock alone, or it cannot be
/// read.
pub(crate) fn limit_of(call: &Call, folder: &Path) -> Option<TimeLimit> {
    let at = |argument: usize| Some(call.argument(argument)).filter(|address| *address != 0);
    let whole = |time: Option<Millis>| time.map(TimeLimit::Whole);
    match call.name()? {
        "poll" => whole(millis(call.argument(2))),
        "epoll_wait" | "epoll_pwait" => whole(millis(call.argument(3))),
        "ppoll" => whole(time(folder, at(2)?, 1_000_000)),
        "epoll_pwait2" => whole(time(folder, at(3)?, 1_000_000)),
        // Without descriptors it is a sleep.
        "select" | "pselect6" if call.argument(0) == 0 => None,
        "select" => whole(time(folder, at(4)?, 1000)),
        "pselect6" => whole(time(folder, at(4)?, 1_000_000)),
        "futex" => match call.argument(1) & 0x7f {
            FUTEX_WAIT => whole(time(folder, at(3)?, 1_000_000)),
            FUTEX_WAIT_BITSET => {
                let of_day = call.argument(1) & FUTEX_REALTIME != 0;
                let end = time(folder, at(3)?, 1_000_000)?;
                Some(TimeLimit::Left(end.since(now(of_day)?)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// An `int` of milliseconds; negative ones mean for ever.
fn millis(argument: u64) -> Option<Millis> {
    u64::try_from(low_word(argument).cast_signed()).ok().map(Millis)
}

/// Seconds and parts of a second, so many of which are a millisecond.
fn time(folder: &Path, address: u64, parts: u64) -> Option<Millis> {
    let memory = Memory::of(folder);
    let (seconds, rest) = (memory.u64(address)?, memory.u64(address.checked_add(8)?)?);
    // The kernel would have refused what is no time.
    (rest < parts * 1000).then(|| seconds.checked_mul(1000)?.checked_add(rest / parts).map(Millis))?
}

fn now(of_day: bool) -> Option<Millis> {
    let clock = if of_day { ClockId::Realtime } else { ClockId::Monotonic };
    let now = std::time::Duration::try_from(clock_gettime(clock)).ok()?;
    u64::try_from(now.as_millis()).ok().map(Millis)
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;
    use crate::syscall;

    fn limit(text: &str) -> Option<TimeLimit> {
        limit_of(&syscall::parse(text)?, Path::new("/proc/self"))
    }

    #[test]
    fn limits_in_milliseconds_are_arguments() {
        let five = Some(TimeLimit::Whole(Millis(5000)));
        assert_eq!(limit("7 0x1 0x1 0x1388 0x0 0x0 0x0 0x7f 0x7f"), five);
        assert_eq!(limit("232 0x4 0x1 0x2 0x1388 0x0 0x8 0x7f 0x7f"), five);
        assert_eq!(limit("232 0x4 0x1 0x2 0xffffffff 0x0 0x8 0x7f 0x7f"), None);
        assert_eq!(limit("230 0x1 0x1 0x7ffe 0x0 0x0 0x0 0x7f 0x7f"), None, "a sleep ends by nobody else");
    }

    #[test]
    fn limits_in_memory_are_read() {
        let (nanos, micros) = ([30_u64, 500_000_000], [30_u64, 500_000]);
        let at = |time: &[u64; 2]| std::ptr::from_ref(time) as usize;
        let limit = |text: String| limit(&text);
        let whole = Some(TimeLimit::Whole(Millis(30_500)));
        assert_eq!(limit(format!("271 0x1 0x1 {:#x} 0x0 0x0 0x0 0x7f 0x7f", at(&nanos))), whole);
        assert_eq!(limit(format!("23 0x4 0x1 0x0 0x0 {:#x} 0x0 0x7f 0x7f", at(&micros))), whole);
        assert_eq!(limit(format!("202 0x1 0x80 0x0 {:#x} 0x0 0x0 0x7f 0x7f", at(&nanos))), whole);
        assert_eq!(limit(format!("23 0x0 0x0 0x0 0x0 {:#x} 0x0 0x7f 0x7f", at(&micros))), None, "a sleep");
        assert_eq!(limit("271 0x1 0x1 0x8 0x0 0x0 0x0 0x7f 0x7f".to_owned()), None, "no memory");
        let end = now(false).unwrap().after(Millis(60_000)).0;
        let until = [end / 1000, end % 1000 * 1_000_000];
        let left = limit(format!("202 0x1 0x189 0x0 {:#x} 0x0 0xffffffff 0x7f 0x7f", at(&until)));
        let by_day = left.is_some_and(|left| matches!(left, TimeLimit::Left(Millis(0))));
        assert!(by_day, "that time of day is long over: {left:?}");
        let left = limit(format!("202 0x1 0x89 0x0 {:#x} 0x0 0xffffffff 0x7f 0x7f", at(&until)));
        assert!(matches!(left, Some(TimeLimit::Left(Millis(50_000..=60_000)))), "{left:?}");
    }
}
