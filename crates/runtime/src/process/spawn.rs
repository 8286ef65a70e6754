//! Starting a process with the parent suspended until it has exec'ed: what `posix_spawn` does inside, written out
//! because a job needs three things `posix_spawn` cannot give it together: its own session, death with its
//! parent, and a pidfd without a second system call. Nothing is copied, so the cost does not grow with our memory.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::Pid;

use super::image::Image;
use super::inherited::Beginning;

/// The child runs a handful of system calls on this stack before exec replaces it.
const STACK: usize = 32 * 1024;

/// Starts processes; owns the stack they begin on. Not shared between threads: a child dies with the thread that
/// started it, so that must be the thread that lives as long as the engine.
pub(crate) struct Spawner {
    stack: Box<[u128]>,
    /// Our own id, which a child checks its parent against.
    me: libc::pid_t,
    beginning: Beginning,
}

/// A process just started.
pub(crate) struct Spawned {
    /// Its id, ours until we reap it.
    pub(crate) pid: Pid,
    /// Readable when it has ended.
    pub(crate) pidfd: OwnedFd,
}

/// What the child needs to know; it shares our memory until exec.
struct ChildOrders {
    program: *const libc::c_char,
    argv: *const *const libc::c_char,
    envp: *const *const libc::c_char,
    stdout: RawFd,
    stderr: RawFd,
    /// Descriptors to keep open across exec; all others are closed.
    keep: *const RawFd,
    kept: usize,
    parent: libc::pid_t,
    beginning: Beginning,
    /// Set by the child if it could not become the program.
    error: libc::c_int,
}

impl Spawner {
    pub(crate) fn new() -> Self {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let stack = vec![0; STACK / size_of::<u128>()].into_boxed_slice();
        Self { stack, me, beginning: Beginning::of_jobs() }
    }

    /// Starts `image` in a session of its own, with default signals and an empty mask, stdin as ours (`/dev/null`), stdout and
    /// stderr to the given files, and with the descriptors `keep` open. The error is that of the system call that failed, `execve` included.
    pub(crate) fn spawn(
        &mut self,
        image: &Image<'_>,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
        keep: &[RawFd],
    ) -> io::Result<Spawned> {
        let mut orders = ChildOrders {
            program: image.program.as_ptr(),
            argv: image.argv.as_ptr(),
            envp: image.envp.as_ptr(),
            stdout: stdout.as_raw_fd(),
            stderr: stderr.as_raw_fd(),
            keep: keep.as_ptr(),
            kept: keep.len(),
            parent: self.me,
            beginning: self.beginning,
            error: 0,
        };
        let mut pidfd: RawFd = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: the stack is ours, aligned, large enough for `child_main`, and not in use: CLONE_VFORK suspends
        // this thread until the child has exec'ed or exited, so neither `orders` nor the stack is touched by two
        // at once. No signal handler of ours exists that could run in the child on shared memory.
        let pid = unsafe {
            libc::clone(
                child_main,
                self.stack.as_mut_ptr_range().end.cast(),
                flags,
                (&raw mut orders).cast(),
                &raw mut pidfd,
            )
        };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the kernel gave pid 0"))?;
        // SAFETY: the child wrote this before it ended; volatile because the compiler cannot know of that write.
        let error = unsafe { (&raw const orders.error).read_volatile() };
        if error != 0 {
            // It exits right after writing the error; take it off the process table.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(Spawned { pid, pidfd })
    }
}

/// Becomes the job. Only async-signal-safe calls, no allocation, no panic: the parent's memory is in use.
extern "C" fn child_main(orders: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `orders` is the suspended parent's `ChildOrders`; every pointer in it is valid until exec. The calls
    // below are plain system calls; descriptors and signal dispositions are this process's own copies.
    unsafe {
        let orders = orders.cast::<ChildOrders>();
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        // The parent may have been killed before the line above took effect.
        if libc::getppid() != (*orders).parent {
            libc::_exit(127);
        }
        let failed = libc::dup2((*orders).stdout, 1) < 0 || libc::dup2((*orders).stderr, 2) < 0;
        if (*orders).kept > 0 {
            // A job on a GPU: the driver's library may have left descriptors open that are not closed on exec.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            for at in 0..(*orders).kept {
                libc::fcntl(*(*orders).keep.add(at), libc::F_SETFD, 0);
            }
        }
        if !failed {
            let beginning = &raw const (*orders).beginning;
            (*beginning).apply();
            libc::execve((*orders).program, (*orders).argv, (*orders).envp);
        }
        (&raw mut (*orders).error).write_volatile(*libc::__errno_location());
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;
    use crate::process::image::{CStrings, PointerArray};

    fn run(program: &std::ffi::CStr, args: &[&str], out: &File) -> io::Result<Spawned> {
        let (mut argv, mut envp) = (CStrings::default(), CStrings::default());
        argv.push(program.to_bytes());
        for arg in args {
            argv.push(*arg);
        }
        envp.push("GREETING=hello");
        let image = Image { program, argv: PointerArray::of(&[&argv]), envp: PointerArray::of(&[&envp]) };
        Spawner::new().spawn(&image, out.as_fd(), out.as_fd(), &[])
    }

    #[test]
    fn starts_in_its_own_session_with_its_environment_and_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let spawned =
            run(c"/bin/sh", &["-c", "echo $GREETING; ps -o sid= -p $$ | tr -d ' '"], file.as_file()).unwrap();
        let pid = spawned.pid.as_raw_nonzero().get();
        rustix::process::waitpid(Some(spawned.pid), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), format!("hello\n{pid}\n"));
    }

    #[test]
    fn keeps_what_it_is_told_to_keep_and_nothing_else() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let (kept, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        rustix::io::fcntl_setfd(&other, rustix::io::FdFlags::empty()).unwrap();
        let (mut argv, envp) = (CStrings::default(), CStrings::default());
        for word in ["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '"] {
            argv.push(word);
        }
        let image =
            Image { program: c"/bin/sh", argv: PointerArray::of(&[&argv]), envp: PointerArray::of(&[&envp]) };
        let keep = [kept.as_raw_fd()];
        let spawned =
            Spawner::new().spawn(&image, out.as_file().as_fd(), out.as_file().as_fd(), &keep).unwrap();
        rustix::process::waitpid(Some(spawned.pid), rustix::process::WaitOptions::empty()).unwrap();
        let open = std::fs::read_to_string(out.path()).unwrap();
        let has = |file: &File| open.split(' ').any(|fd| fd == file.as_raw_fd().to_string());
        assert!(has(&kept) && !has(&other), "{open}");
    }

    #[test]
    fn reports_why_it_could_not_start_and_leaves_nothing() {
        let file = tempfile::tempfile().unwrap();
        let missing = run(c"/no/such/program", &[], &file).err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let not_executable = run(c"/etc/passwd", &[], &file).err().unwrap();
        assert_eq!(not_executable.kind(), io::ErrorKind::PermissionDenied);
    }
}
