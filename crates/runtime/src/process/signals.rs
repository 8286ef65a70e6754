//! Signals read as data, by signalfd. Blocked before any thread starts that could be hit by one, so that every thread inherits the mask.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::inherited::{Beginning, stays_ignored};

/// Has the command's process begin as a job does, with default signals and an empty mask, and get `death` when the thread that starts
/// it ends. What blocks signals to read them as data would hand that on: a program that never sees TERM.
pub(crate) fn unblocked(command: &mut Command, death: libc::c_int) -> &mut Command {
    let beginning = Beginning::of_jobs();
    // SAFETY: plain system calls, made by the child alone between fork and exec.
    unsafe {
        command.pre_exec(move || {
            beginning.apply();
            libc::prctl(libc::PR_SET_PDEATHSIG, death);
            Ok(())
        })
    }
}

/// Waits for the end of a child that was killed, and takes it off the process table. Gives up after a time: one that is stuck in the
/// kernel outlives SIGKILL.
pub(crate) fn reap_within(child: &mut Child, patience: Duration) {
    let until = Instant::now() + patience;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Signals that arrive as readable data instead of interrupting.
pub(crate) struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks `signals` for this thread and those it starts, and opens a descriptor to read them from. Those that `nohup` has us
    /// ignore are left out: they would be read all the same.
    pub(crate) fn listen(signals: &[libc::c_int]) -> io::Result<Self> {
        let mut set = std::mem::MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set before anything reads it; the other calls only read it.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals.iter().filter(|signal| !stays_ignored(**signal)) {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: signalfd just made this descriptor for us.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// The signals that came since the last call.
    pub(crate) fn take(&self) -> Vec<libc::c_int> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut buffer = [0u8; SIZE * 8];
        let mut signals = Vec::new();
        while let Ok(read) = rustix::io::read(&self.fd, &mut buffer) {
            if read == 0 {
                break;
            }
            // ssi_signo is the first field, a u32.
            let numbers = buffer[..read].chunks_exact(SIZE).map(|info| [info[0], info[1], info[2], info[3]]);
            signals.extend(numbers.filter_map(|number| i32::try_from(u32::from_ne_bytes(number)).ok()));
        }
        signals
    }
}

/// Until [`Signals::listen`] a signal that asks for an end ends this process with the exit code that is documented for it: nothing has
/// been started by then. What `nohup` has us ignore stays ignored; programs that are started have the default.
pub(crate) fn end_by_signals() {
    extern "C" fn end(signal: libc::c_int) {
        end_now(if signal == libc::SIGINT { 130 } else { 143 });
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if !stays_ignored(signal) {
            let handler = end as extern "C" fn(libc::c_int);
            // SAFETY: the handler makes one system call that may be made in a handler, and does not return.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
    }
}

/// A thread that no signal is delivered to, whatever the others block or will block.
pub(crate) fn deaf_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut all, mut before) = (std::mem::MaybeUninit::uninit(), std::mem::MaybeUninit::uninit());
    // SAFETY: sigfillset initialises the one set before it is read, pthread_sigmask the other.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // It begins with the mask of who starts it: so there is no moment in which it could be hit.
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    // SAFETY: initialised above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(drop)
}

/// As a signal would, in the middle of whatever the other threads do.
pub(crate) fn end_now(code: libc::c_int) -> ! {
    // SAFETY: a plain system call; nothing of this process is used after it.
    unsafe { libc::_exit(code) }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
