//! What a program inherits across exec beside descriptors: ignored signals, the signal mask, the limit of open files, the umask. Ours
//! are set right at our start; what we start for a user gets default signals, an empty mask, and the limit and umask we were started with.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Signals of Linux are numbered from 1 to this.
const LAST_SIGNAL: u32 = 64;
/// Bytes of the kernel's signal set.
const SET_BYTES: usize = 8;
/// Signals that stay ignored where they were: `nohup`, and shells that start a command in the background.
const KEPT: [libc::c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT];
/// Signals that we ignore ourselves: the write that causes them fails, and that is told.
const ERRORS: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// The limit of open files we were started with, once ours is raised.
static STARTED_WITH: OnceLock<libc::rlimit> = OnceLock::new();

/// The umask of whoever started gpulane, or [`OURS`].
static USERS_UMASK: AtomicU32 = AtomicU32::new(OURS);
/// Stands for a user's umask that is gpulane's own, too.
const OURS: u32 = u32::MAX;

/// The kernel's `struct sigaction`. All zero is the default. (glibc's own functions hide two real-time signals.)
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// Puts every signal that whoever started us ignores back to its default, except HUP, INT and QUIT, and empties the mask. An ignored
/// SIGCHLD would keep the exit status of every child from us. To be called before any thread is started.
pub(crate) fn reset_signals() {
    for signal in 1..=LAST_SIGNAL {
        let number = signal.cast_signed();
        if !KEPT.contains(&number) && !ERRORS.contains(&number) && is_ignored(number) {
            set_default(signal);
        }
    }
    let mask = no_signals();
    // SAFETY: plain system calls on this process's own dispositions and mask; SIG_IGN runs no code of ours.
    unsafe {
        for signal in ERRORS {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
    }
}

/// Whether the signal is one that stays ignored where whoever started us ignores it, and does.
pub(crate) fn stays_ignored(signal: libc::c_int) -> bool {
    KEPT.contains(&signal) && is_ignored(signal)
}

/// Hears SIGINT also where whoever started us ignores it for itself.
pub(crate) fn hear_interrupts() {
    set_default(libc::SIGINT.cast_unsigned());
}

/// Whether this process ignores the signal.
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = Action::default();
    // SAFETY: without a new action the call only writes the old one, into a struct laid out as the kernel's.
    let read = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal, std::ptr::null::<Action>(), &raw mut action, SET_BYTES)
    };
    read == 0 && action.handler == libc::SIG_IGN
}

fn set_default(signal: u32) {
    let default = Action::default();
    // SAFETY: a plain system call that reads one struct laid out as the kernel's. The kernel refuses what cannot be changed.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const default,
            std::ptr::null_mut::<Action>(),
            SET_BYTES,
        );
    }
}

fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set it is given.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Raises our soft limit of open files to the hard one: a run with many lanes has many open. What we start for a user gets the limit
/// we were started with, because programs that call `select` break with descriptors above 1023.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write the one struct they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 || limit.rlim_cur == limit.rlim_max {
            return;
        }
        STARTED_WITH.get_or_init(|| limit);
        limit.rlim_cur = limit.rlim_max;
        // Not being able to raise it is no reason to stop.
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// Takes back from our umask what it takes from our own user: files of a run that gpulane itself may not read are of no use, and modes
/// are explicit. What we start for a user gets the umask we were started with.
pub(crate) fn keep_own_rights() {
    // SAFETY: plain system calls on this process's own mask, before any thread is started.
    let umask = unsafe { libc::umask(0o077) };
    // SAFETY: likewise.
    unsafe { libc::umask(umask & 0o077) };
    if umask & 0o700 != 0 {
        set_users_umask(Some(umask));
    }
}

/// The umask of whoever started gpulane, where ours is another.
pub(crate) fn users_umask() -> Option<u32> {
    Some(USERS_UMASK.load(Ordering::Relaxed)).filter(|umask| *umask != OURS)
}

/// In a process that was started by one of ours.
pub(crate) fn set_users_umask(umask: Option<u32>) {
    USERS_UMASK.store(umask.unwrap_or(OURS), Ordering::Relaxed);
}

/// What a process gets that is started for a user.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    /// The signals we ignore, one bit each: exec would hand that on. (Signals that are handled become default by exec.)
    ignored: u64,
    mask: libc::sigset_t,
    files: Option<libc::rlimit>,
    umask: Option<libc::mode_t>,
}

impl Beginning {
    /// From what is ignored and was raised by now; both are done once, at our start.
    pub(crate) fn of_jobs() -> Self {
        let ignored = (1..=LAST_SIGNAL).filter(|signal| is_ignored(signal.cast_signed()));
        Self {
            ignored: ignored.fold(0, |set, signal| set | 1 << (signal - 1)),
            mask: no_signals(),
            files: STARTED_WITH.get().copied(),
            umask: users_umask(),
        }
    }

    /// Makes it so for the calling process, which is a child between fork and exec: plain system calls, nothing is allocated.
    pub(crate) fn apply(&self) {
        let mut left = self.ignored;
        while left != 0 {
            set_default(left.trailing_zeros() + 1);
            left &= left - 1;
        }
        // SAFETY: plain system calls that read what they are given.
        unsafe {
            if let Some(umask) = self.umask {
                libc::umask(umask);
            }
            if let Some(files) = &self.files {
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const *files);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
        }
    }
}
