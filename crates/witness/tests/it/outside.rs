//! Real programs that wait for somebody outside, or for the clock, in ways that look like a freeze: each is told as what it is.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use gpulane_witness::{Change, Known, Surroundings, compare, diagnose, take};

use crate::subject::Subject;

/// A program that waits at the line that ends with `# here` is told, with these words, and never proven to be frozen.
#[track_caller]
fn is_left_alone(program: &str, arguments: &[&str], words: &str) {
    let line = 1 + program.lines().position(|line| line.ends_with("# here")).unwrap();
    let subject = Subject::with_arguments(program, arguments);
    let (_, told) = subject.until_told_at(u32::try_from(line).unwrap());
    assert!(told.contains(words), "no `{words}` in: {told}");
}

#[test]
fn timers_that_cannot_be_seen() {
    let alarm = "import signal\nsignal.signal(signal.SIGALRM, lambda *_: None)\nsignal.alarm(3600)\n";
    is_left_alone(&format!("{alarm}signal.pause()  # here\n"), &[], "SIGALRM");
    is_left_alone(
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\nsignal.setitimer(signal.ITIMER_REAL, 3600)\n\
         signal.sigwait([signal.SIGALRM])  # here\n",
        &[],
        "a signal",
    );
    is_left_alone(
        "import signal, threading\nevent = threading.Event()\nsignal.signal(signal.SIGALRM, lambda *_: event.set())\n\
         signal.alarm(3600)\nevent.wait()  # here\n",
        &[],
        "SIGALRM",
    );
}

#[test]
fn signals_that_let_it_go_on() {
    is_left_alone(
        "import signal, threading\nevent = threading.Event()\nsignal.signal(signal.SIGUSR1, lambda *_: event.set())\n\
         event.wait()  # here\n",
        &[],
        "SIGUSR1",
    );
    is_left_alone(
        "import signal, subprocess, threading\nevent = threading.Event()\n\
         signal.signal(signal.SIGCHLD, lambda *_: event.set())\nchild = subprocess.Popen(['sleep', '3600'])\n\
         event.wait()  # here\n",
        &[],
        "sleeps",
    );
}

#[test]
fn a_timer_as_a_descriptor() {
    is_left_alone(
        r"
import ctypes, select
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 3600, 0), None)
epoll = select.epoll()
epoll.register(timer, select.EPOLLIN)
epoll.poll()  # here
",
        &[],
        "the clock",
    );
}

#[test]
fn a_semaphore_that_any_process_may_raise() {
    let name = format!("/witness-{}", std::process::id());
    let program = "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlibc.sem_open.restype = ctypes.c_void_p\n\
                   s = libc.sem_open(sys.argv[1].encode(), 64, 0o600, 0)\nlibc.sem_wait(ctypes.c_void_p(s))  # here\n";
    is_left_alone(program, &[&name], &format!("/dev/shm/sem.{}", &name[1..]));
    std::fs::remove_file(format!("/dev/shm/sem.{}", &name[1..])).unwrap();
}

#[test]
fn changes_of_a_folder() {
    is_left_alone(
        r"
import ctypes, os
libc = ctypes.CDLL(None)
watch = libc.inotify_init()
libc.inotify_add_watch(watch, os.path.dirname(__file__).encode(), 0x100)
os.read(watch, 4096)  # here
",
        &[],
        "inotify",
    );
}

#[test]
fn a_database_that_a_neighbour_has_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let path = path.to_str().unwrap();
    let holder = Subject::with_arguments(
        "import sqlite3, sys, signal\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\nc.execute('create table t (x)')\n\
         c.execute('begin exclusive')\nsignal.pause()  # here\n",
        &[path],
    );
    holder.until_told_at(5);
    is_left_alone(
        "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], timeout=3600, isolation_level=None)\n\
         c.execute('begin exclusive')  # here\n",
        &[path],
        "sleeps",
    );
}

#[test]
fn a_fifo_whose_other_end_is_silent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frames");
    let path = path.to_str().unwrap();
    let program = "import os, sys\nos.mkfifo(sys.argv[1])\nend = os.open(sys.argv[1], os.O_RDWR)\nos.read(end, 1)  # here\n";
    is_left_alone(program, &[path], path);
}

#[test]
fn silent_sockets_name_who_is_at_the_other_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let program = "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\ns.recv(1)  # here\n";
    is_left_alone(
        program,
        &[&port],
        &format!("127.0.0.1:{port}, which was not accepted, whose other end process {}", std::process::id()),
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service");
    let unix = UnixListener::bind(&path).unwrap();
    let program =
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.recv(1)  # here\n";
    let path = path.to_str().unwrap();
    is_left_alone(
        program,
        &[path],
        &format!(
            "unix socket {path}, which was not accepted, whose other end process {}",
            std::process::id()
        ),
    );
    drop(unix);

    let program = "import socket\ns = socket.create_server(('127.0.0.1', 0))\ns.accept()  # here\n";
    is_left_alone(program, &[], "anybody who connects to 127.0.0.1:");
    let program = "import socket, struct\na, b = socket.socketpair()\n\
                   a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 3600, 0))\na.recv(1)  # here\n";
    is_left_alone(program, &[], "time limit");
}

#[test]
fn a_program_in_another_language_whose_stdin_is_a_silent_socket() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut cat = Command::new("cat").stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).spawn().unwrap();
    let stuck = loop {
        let evidence = take(&[cat.id()]);
        let waits = evidence.processes[0].threads[0].wait.as_ref().is_some_and(|wait| wait.call == "read");
        let known = Known { main: cat.id(), ..Known::default() };
        if waits && let Change::Waiting(told) = compare(&evidence, &take(&[cat.id()]), &known) {
            assert!(told.contains(&format!("whose other end process {}", std::process::id())), "{told}");
            break diagnose(&evidence, &Surroundings { main: cat.id(), ..Surroundings::default() });
        }
    };
    (&ours).write_all(b"x").unwrap();
    drop(ours);
    cat.wait().unwrap();
    assert!(stuck.evidence.starts_with("reading from a socket (unix socket of a pair"), "{stuck:?}");
    assert!(stuck.cause.unwrap().contains("does not answer"));
}

#[test]
fn a_thread_that_looks_for_a_file_and_then_lets_the_others_go_on() {
    let poller = "import os, threading, time\ndef poll(tell):\n    while not os.path.exists('/nonexistent'): time.sleep(0.05)\n    tell()\n";
    for waits in [
        "e = threading.Event()\nthreading.Thread(target=poll, args=(e.set,), name='beat').start()\ne.wait()  # here\n",
        "r, w = os.pipe()\nthreading.Thread(target=poll, args=(lambda: os.write(w, b'x'),), name='beat').start()\nos.read(r, 1)  # here\n",
        "import asyncio\nloop = asyncio.new_event_loop()\nf = loop.create_future()\n\
         wake = lambda: loop.call_soon_threadsafe(f.set_result, 1)\n\
         threading.Thread(target=poll, args=(wake,), name='beat').start()\nloop.run_until_complete(f)  # here\n",
    ] {
        let program = format!("{poller}{waits}");
        let line = 1 + program.lines().position(|line| line.ends_with("# here")).unwrap();
        let subject = Subject::start(&program);
        subject.until_told_at(u32::try_from(line).unwrap());
        for _ in 0..3 {
            let change = subject.change_despite("beat");
            assert!(!matches!(change, Change::Frozen(_)), "{waits}: {change:?}");
        }
    }
}

#[test]
fn a_watchdog_of_its_own_that_would_interrupt() {
    is_left_alone(
        "import _thread, threading\nthreading.Timer(3600, _thread.interrupt_main).start()\nlock = threading.Lock()\n\
         lock.acquire()\nlock.acquire()  # here\n",
        &[],
        "time limit",
    );
}

#[test]
fn a_loop_that_asks_its_worker_and_may_give_it_work() {
    is_left_alone(
        r"
import multiprocessing, os
def work(end):
    while True: end.send(end.recv())
mine, theirs = multiprocessing.Pipe()
multiprocessing.get_context('fork').Process(target=work, args=(theirs,), daemon=True).start()
while True:
    if mine.poll(0.05): break  # here
    if os.path.exists('/nonexistent'): mine.send(1)
",
        &[],
        "again and again",
    );
}
