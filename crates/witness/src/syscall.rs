//! What `/proc/PID/task/TID/syscall` says: the system call a thread sits in, on what, and whether it ends by itself.

use crate::Wait;

/// A system call with its arguments, as the kernel shows it.
pub(crate) struct Call {
    number: u64,
    arguments: [u64; 6],
    /// Where the thread's stack ends, and the instruction that the call returns to.
    place: Option<(u64, u64)>,
}

/// How a call says that it has a time limit.
#[derive(Clone, Copy)]
enum Limit {
    /// The call has no limit.
    Never,
    /// The call always has a limit.
    Always,
    /// A pointer to a time in this argument, if it is not null.
    Pointer(usize),
    /// Milliseconds in this argument, if they are not negative.
    Millis(usize),
    /// A futex: depends on the operation.
    Futex,
    /// Not to be seen from outside.
    Unknown,
}

/// A call that matters: its number here, its name, its time limit, and whether its first argument is a descriptor.
type Row = (u64, &'static str, Limit, bool);

use Limit::{Always, Futex, Millis, Never, Pointer, Unknown};

#[cfg(target_arch = "x86_64")]
const CALLS: &[Row] = &[
    (0, "read", Unknown, true),
    (1, "write", Unknown, true),
    (7, "poll", Millis(2), false),
    (16, "ioctl", Unknown, true),
    (17, "pread64", Never, true),
    (18, "pwrite64", Never, true),
    (19, "readv", Unknown, true),
    (20, "writev", Unknown, true),
    (23, "select", Pointer(4), false),
    (34, "pause", Never, false),
    (35, "nanosleep", Always, false),
    (42, "connect", Unknown, true),
    (43, "accept", Unknown, true),
    (44, "sendto", Unknown, true),
    (45, "recvfrom", Unknown, true),
    (46, "sendmsg", Unknown, true),
    (47, "recvmsg", Unknown, true),
    (61, "wait4", Never, false),
    (65, "semop", Never, false),
    (69, "msgsnd", Never, false),
    (70, "msgrcv", Never, false),
    (72, "fcntl", Never, true),
    (73, "flock", Never, true),
    (74, "fsync", Never, true),
    (75, "fdatasync", Never, true),
    (128, "rt_sigtimedwait", Pointer(2), false),
    (130, "rt_sigsuspend", Never, false),
    (202, "futex", Futex, false),
    (208, "io_getevents", Pointer(4), false),
    (219, "restart_syscall", Always, false),
    (220, "semtimedop", Pointer(3), false),
    (230, "clock_nanosleep", Always, false),
    (232, "epoll_wait", Millis(3), true),
    (242, "mq_timedsend", Pointer(4), true),
    (243, "mq_timedreceive", Pointer(4), true),
    (247, "waitid", Never, false),
    (257, "openat", Never, false),
    (262, "newfstatat", Never, false),
    (270, "pselect6", Pointer(4), false),
    (271, "ppoll", Pointer(2), false),
    (275, "splice", Unknown, true),
    (281, "epoll_pwait", Millis(3), true),
    (288, "accept4", Unknown, true),
    (299, "recvmmsg", Pointer(4), true),
    (426, "io_uring_enter", Unknown, true),
    (441, "epoll_pwait2", Pointer(3), true),
    (449, "futex_waitv", Pointer(3), false),
];

#[cfg(target_arch = "aarch64")]
const CALLS: &[Row] = &[
    (4, "io_getevents", Pointer(4), false),
    (22, "epoll_pwait", Millis(3), true),
    (25, "fcntl", Never, true),
    (29, "ioctl", Unknown, true),
    (32, "flock", Never, true),
    (56, "openat", Never, false),
    (63, "read", Unknown, true),
    (64, "write", Unknown, true),
    (65, "readv", Unknown, true),
    (66, "writev", Unknown, true),
    (67, "pread64", Never, true),
    (68, "pwrite64", Never, true),
    (72, "pselect6", Pointer(4), false),
    (73, "ppoll", Pointer(2), false),
    (76, "splice", Unknown, true),
    (79, "newfstatat", Never, false),
    (82, "fsync", Never, true),
    (83, "fdatasync", Never, true),
    (95, "waitid", Never, false),
    (98, "futex", Futex, false),
    (101, "nanosleep", Always, false),
    (115, "clock_nanosleep", Always, false),
    (128, "restart_syscall", Always, false),
    (133, "rt_sigsuspend", Never, false),
    (137, "rt_sigtimedwait", Pointer(2), false),
    (182, "mq_timedsend", Pointer(4), true),
    (183, "mq_timedreceive", Pointer(4), true),
    (188, "msgrcv", Never, false),
    (189, "msgsnd", Never, false),
    (192, "semtimedop", Pointer(3), false),
    (193, "semop", Never, false),
    (202, "accept", Unknown, true),
    (203, "connect", Unknown, true),
    (206, "sendto", Unknown, true),
    (207, "recvfrom", Unknown, true),
    (211, "sendmsg", Unknown, true),
    (212, "recvmsg", Unknown, true),
    (242, "accept4", Unknown, true),
    (243, "recvmmsg", Pointer(4), true),
    (260, "wait4", Never, false),
    (426, "io_uring_enter", Unknown, true),
    (441, "epoll_pwait2", Pointer(3), true),
    (449, "futex_waitv", Pointer(3), false),
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CALLS: &[Row] = &[];

/// What a futex that processes share waits on.
pub(crate) const SHARED_MEMORY: &str = "shared memory";
/// What a select without descriptors waits on.
pub(crate) const CLOCK: &str = "the clock";

/// The flag of a futex that no other process shares.
pub(crate) const FUTEX_PRIVATE: u64 = 128;
/// Operations that wait for a lock whose owner stands in the word itself.
pub(crate) const FUTEX_LOCK_PI: u64 = 6;
pub(crate) const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_WAITS: [u64; 5] = [0, 9, 11, FUTEX_LOCK_PI, FUTEX_LOCK_PI2];

/// The file's text. `None` for a thread that runs or sits in no call.
pub(crate) fn parse(text: &str) -> Option<Call> {
    let mut words = text.split_whitespace();
    // `running`, or -1 for one that is blocked outside of any call (a page fault).
    let number = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    let mut next = || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
    for argument in &mut arguments {
        *argument = next()?;
    }
    let place = next().zip(next());
    Some(Call { number, arguments, place })
}

impl Call {
    /// The wait as far as the call alone shows it; what its descriptor is, others know.
    pub(crate) fn wait(&self) -> Wait {
        let Some((_, name, limit, on_fd)) = self.row() else {
            return Wait { call: format!("call {}", self.number), ..Wait::default() };
        };
        let on = match *name {
            "futex" if self.arguments[1] & FUTEX_PRIVATE == 0 => Some(SHARED_MEMORY),
            // Without descriptors it is a sleep: that of Python before 3.11.
            "select" | "pselect6" if self.arguments[0] == 0 => Some(CLOCK),
            _ => None,
        };
        Wait {
            call: (*name).to_owned(),
            fd: on_fd.then(|| low_word(self.arguments[0])),
            on: on.map(str::to_owned),
            timed: self.timed(*limit),
            ..Wait::default()
        }
    }

    /// Its name; `None` for one that is not known here.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.row().map(|(_, name, ..)| *name)
    }

    /// One of its arguments.
    pub(crate) const fn argument(&self, at: usize) -> u64 {
        self.arguments[at]
    }

    /// Where the thread's stack ends, and the instruction that the call returns to.
    pub(crate) const fn place(&self) -> Option<(u64, u64)> {
        self.place
    }

    fn row(&self) -> Option<&'static Row> {
        CALLS.iter().find(|(number, ..)| *number == self.number)
    }

    fn timed(&self, limit: Limit) -> Option<bool> {
        match limit {
            Never => Some(false),
            Always => Some(true),
            Pointer(at) => Some(self.arguments[at] != 0),
            // An `int`: only its 32 bits count, and -1 means for ever.
            Millis(at) => Some(low_word(self.arguments[at]).cast_signed() >= 0),
            Futex => self.futex_timed(),
            Unknown => None,
        }
    }

    fn futex_timed(&self) -> Option<bool> {
        let operation = self.arguments[1] & 0x7f;
        FUTEX_WAITS.contains(&operation).then_some(self.arguments[3] != 0)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the kernel itself looks at these 32 bits only")]
pub(crate) const fn low_word(argument: u64) -> u32 {
    argument as u32
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    fn wait(text: &str) -> Wait {
        parse(text).unwrap().wait()
    }

    #[test]
    fn a_thread_that_runs_sits_in_no_call() {
        assert!(parse("running\n").is_none());
        assert!(parse("-1 0x7ffe 0x55aa\n").is_none());
        assert!(parse("").is_none());
    }

    #[test]
    fn a_lock_with_and_without_a_limit() {
        let forever = wait("202 0x1 0x189 0x0 0x0 0x0 0xffffffff 0x7f 0x7f");
        assert_eq!((forever.call.as_str(), forever.timed, forever.on), ("futex", Some(false), None));
        assert_eq!(wait("202 0x1 0x189 0x0 0x7ffe 0x0 0xffffffff 0x7f 0x7f").timed, Some(true));
    }

    #[test]
    fn a_lock_between_processes_is_told_apart() {
        assert_eq!(wait("202 0x1 0x109 0x0 0x0 0x0 0xffffffff 0x7f 0x7f").on.as_deref(), Some(SHARED_MEMORY));
    }

    #[test]
    fn a_select_of_nothing_is_a_sleep() {
        let sleep = wait("23 0x0 0x0 0x0 0x0 0x7ffe 0x0 0x7f 0x7f");
        assert_eq!((sleep.on.as_deref(), sleep.timed), (Some(CLOCK), Some(true)));
        assert_eq!(wait("23 0x4 0x1 0x0 0x0 0x7ffe 0x0 0x7f 0x7f").on, None);
    }

    #[test]
    fn minus_one_means_for_ever() {
        assert_eq!(wait("232 0x4 0x1 0x2 0xffffffff 0x0 0x8 0x7f 0x7f").timed, Some(false));
        assert_eq!(wait("7 0x1 0x1 0xffffffffffffffff 0x0 0x0 0x0 0x7f 0x7f").timed, Some(false));
        assert_eq!(wait("7 0x1 0x1 0x1388 0x0 0x0 0x0 0x7f 0x7f").timed, Some(true));
    }

    #[test]
    fn a_read_names_its_descriptor_and_an_unknown_call_its_number() {
        assert_eq!(wait("0 0x3 0x1 0x2 0x0 0x0 0x0 0x7f 0x7f").fd, Some(3));
        assert_eq!(wait("9999 0x0 0x0 0x0 0x0 0x0 0x0 0x7f 0x7f").call, "call 9999");
    }
}
