//! Where a thread rests between two runs, read so cheaply that it can be asked often. What it waits for there is the work of `take`.

use crate::limits::{TimeLimit, limit_of};
use crate::proc_files::{folder_of, read};
use crate::syscall;

/// Where a thread was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resting {
    /// Running, or about to.
    Awake,
    /// In a system call.
    In {
        /// The call's number.
        call: u64,
        /// Where the thread's stack ends.
        stack: u64,
        /// The instruction that the call returns to.
        code: u64,
        /// The call has a time limit.
        by_the_clock: bool,
        /// The call also ends by events, of descriptors or of children: `poll`, `select`, `epoll_wait`, `wait4`.
        by_events: bool,
        /// How long the wait may last, where that can be read and others can end it before.
        limit: Option<TimeLimit>,
    },
    /// Not to be seen, or asleep outside of any call.
    Hidden,
}

/// Where this thread rests now.
pub fn resting(pid: u32, tid: u32) -> Resting {
    let folder = folder_of(pid);
    let file = folder.join("task").join(tid.to_string()).join("syscall");
    let Some(text) = read(&file) else { return Resting::Hidden };
    let mut rest = parse(&text);
    if let Resting::In { by_the_clock: true, limit, .. } = &mut rest {
        let found = syscall::parse(&text).and_then(|call| limit_of(&call, &folder));
        // If the call was over meanwhile, something else may have been in its memory.
        *limit = found.filter(|_| read(&file).as_ref() == Some(&text));
    }
    rest
}

/// `230 0x1 0x1 0x7ffc… 0x0 0x0 0x0 STACK CODE`
fn parse(text: &str) -> Resting {
    if text.starts_with("running") {
        return Resting::Awake;
    }
    let word = |at: usize| text.split_whitespace().nth(at);
    let address = |at: usize| u64::from_str_radix(word(at)?.trim_start_matches("0x"), 16).ok();
    let number = word(0).and_then(|number| number.parse().ok());
    match (syscall::parse(text), number, address(7), address(8)) {
        (Some(found), Some(call), Some(stack), Some(code)) => {
            let wait = found.wait();
            let by_events = ["poll", "select", "wait4", "waitid"].iter().any(|name| wait.call.contains(name));
            let by_the_clock = wait.timed == Some(true);
            Resting::In { call, stack, code, by_the_clock, by_events, limit: None }
        }
        _ => Resting::Hidden,
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_call_stack_and_code() {
        let sleep = parse("230 0x1 0x1 0x7ffe 0x0 0x0 0x0 0x7ffd10 0x4010\n");
        let (stack, code, by_the_clock) = (0x7f_fd10, 0x4010, true);
        let (by_events, limit) = (false, None);
        assert_eq!(sleep, Resting::In { call: 230, stack, code, by_the_clock, by_events, limit });
        let events = parse("232 0x4 0x7ffe 0x3 0x3e8 0x0 0x8 0x7ffd10 0x4010\n");
        assert_eq!(events, Resting::In { call: 232, stack, code, by_the_clock, by_events: true, limit });
        let lock = parse("202 0x1 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x4010\n");
        assert!(matches!(lock, Resting::In { by_the_clock: false, .. }), "{lock:?}");
        assert_eq!(parse("running\n"), Resting::Awake);
        assert_eq!([parse("-1 0x7ffd10 0x4010\n"), parse("")], [Resting::Hidden; 2]);
    }
}
