//! Real programs that live, however quiet: none of them may ever look frozen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use gpulane_witness::{Change, Known, Python, Surroundings, compare, diagnose, take};
use rustix::process::Signal;

use crate::subject::{Subject, is_at};

/// Looked at so often, one after the other.
const LOOKS: usize = 8;

/// A peer that takes one connection and sends a byte every now and then, or never.
struct Peer {
    port: u16,
    over: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Peer {
    fn start(talks: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let serving = spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            while !seen.load(Ordering::Relaxed) {
                if talks && connection.write_all(b"x").is_err() {
                    return;
                }
                sleep(Duration::from_millis(20));
            }
        });
        Self { port, over, serving: Some(serving) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // It may still wait for its connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| stream.read(&mut [0]));
        self.serving.take().unwrap().join().unwrap();
    }
}

/// Connects, reports that it is there, and reads for ever.
fn reader(limit: &str) -> String {
    format!(
        r"
import socket, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
s.settimeout({limit})
while True:
    s.recv(1)
"
    )
}

#[test]
fn a_waiter_with_traffic_is_never_frozen() {
    for limit in ["None", "3600"] {
        let peer = Peer::start(true);
        let subject = Subject::with_arguments(&reader(limit), &[&peer.port.to_string()]);
        subject.until(|evidence, _| is_at(evidence, 6));
        for _ in 0..LOOKS {
            let (_, change) = subject.look_twice();
            assert!(matches!(change, Change::Moved(_)), "limit {limit}: {change:?}");
        }
    }
}

#[test]
fn a_peer_that_says_nothing_may_still_answer() {
    let peer = Peer::start(false);
    let subject = Subject::with_arguments(&reader("None"), &[&peer.port.to_string()]);
    let (evidence, told) = subject.until_told_at(6);
    assert!(told.contains(&format!("→ 127.0.0.1:{}, whose other end process", peer.port)), "{told}");
    let stuck = diagnose(&evidence, &Surroundings { main: subject.pid(), ..Surroundings::default() });
    assert!(
        stuck
            .evidence
            .starts_with(&format!("reading from a socket (socket 127.0.0.1:{}) in job.py:6", peer.port)),
        "{stuck:?}"
    );
    assert!(stuck.cause.unwrap().contains("does not answer"));

    let peer = Peer::start(false);
    let subject = Subject::with_arguments(&reader("3600"), &[&peer.port.to_string()]);
    subject.until(|evidence, change| is_at(evidence, 6) && matches!(change, Change::Sleeping(_)));
}

#[test]
fn a_sleeper_sleeps() {
    let subject = Subject::start("import time\ntime.sleep(3600)\n");
    let sleeping = Change::Sleeping("sleeps in job.py:2".to_owned());
    subject.until(|_, change| *change == sleeping);
}

#[test]
fn a_thread_that_sleeps_while_the_main_one_joins_it() {
    let subject = Subject::start(
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(3600,))\nt.start()\nt.join()\n",
    );
    subject.until(|evidence, change| is_at(evidence, 4) && matches!(change, Change::Sleeping(_)));
}

#[test]
fn a_thread_that_waits_with_a_limit_while_the_main_one_waits_without() {
    for program in [
        "import threading\ne = threading.Event()\nthreading.Timer(3600, e.set).start()\ne.wait()\n",
        "import threading\ne = threading.Event()\nt = threading.Thread(target=e.wait, args=(3600,)); t.start()\nt.join()\n",
    ] {
        let subject = Subject::start(program);
        subject.until(|evidence, change| {
            let there = is_at(evidence, 4);
            assert!(!there || !matches!(change, Change::Frozen(_)), "{program}");
            there && matches!(change, Change::Sleeping(_))
        });
    }
}

/// Takes the lock of a file, in a child that ends at once if told so: the lock stays with the open file.
const HOLDER: &str = r"
import fcntl, os, signal, sys
f = open(sys.argv[1])
if sys.argv[2] == 'itself' or os.fork() == 0:
    fcntl.flock(f, fcntl.LOCK_EX)
    if sys.argv[2] != 'itself': os._exit(0)
else:
    os.wait()
signal.pause()
";

#[test]
fn who_waits_for_a_file_lock_of_another_process_waits() {
    for taken_by in ["itself", "a child"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let holder = Subject::with_arguments(HOLDER, &[path, taken_by]);
        holder.until_told_at(9);
        let waiter = Subject::with_arguments(
            "import fcntl, sys\nfcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)\n",
            &[path],
        );
        let evidence = waiter.until(|evidence, change| {
            let there = is_at(evidence, 2);
            assert!(!there || !matches!(change, Change::Frozen(_)), "{taken_by}");
            there && matches!(change, Change::Waiting(_))
        });
        let held_by = evidence.processes[0].threads[0].wait.as_ref().unwrap().holder.as_ref().unwrap();
        assert_eq!(held_by.pid, Some(holder.pid()), "{taken_by}");
        let stuck = diagnose(&evidence, &Surroundings { main: waiter.pid(), ..Surroundings::default() });
        assert!(stuck.cause.unwrap().contains(&format!("process {} (python", holder.pid())));
    }
}

#[test]
fn a_little_work_now_and_then_moves() {
    let subject = Subject::start(
        r"
import time
while True:
    end = time.perf_counter() + 0.0004
    while time.perf_counter() < end: pass
    time.sleep(0.01)
",
    );
    let first = subject.until(|evidence, _| is_at(evidence, 6));
    let used = |evidence: &gpulane_witness::Evidence| evidence.processes[0].cpu;
    let second = subject.until(|evidence, _| used(evidence) >= used(&first) + 40);
    let change = compare(&first, &second, &Known::default());
    assert!(matches!(change, Change::Moved(_)), "{change:?}");
    assert!(second.taken > first.taken);
}

#[test]
fn a_child_that_sleeps_while_its_parent_waits() {
    let subject = Subject::start("import subprocess\nsubprocess.run(['sleep', '3600'])\n");
    subject.until(|evidence, change| evidence.processes.len() == 2 && matches!(change, Change::Sleeping(_)));
}

#[test]
fn a_busy_loop_moves() {
    let subject = Subject::start("x = 0\nwhile True: x += 1\n");
    for _ in 0..LOOKS {
        let (_, change) = subject.look_twice();
        assert!(matches!(change, Change::Moved(_)), "{change:?}");
    }
}

#[test]
fn work_that_comes_through_a_queue_now_and_then_moves() {
    let subject = Subject::start(
        r"
import queue, threading, time
q = queue.Queue()
def worker():
    while True: q.get()
threading.Thread(target=worker, daemon=True).start()
while True:
    time.sleep(0.02)
    q.put(1)
",
    );
    subject.until(|evidence, _| is_at(evidence, 8));
    for _ in 0..LOOKS {
        let (_, change) = subject.look_twice();
        assert!(matches!(change, Change::Moved(_)), "{change:?}");
    }
}

#[test]
fn a_stopped_process_is_stopped_and_goes_on() {
    let subject = Subject::start("import threading\nthreading.Event().wait()\n");
    subject.until_frozen();
    subject.signal(Signal::STOP);
    let evidence = subject.until(|_, change| matches!(change, Change::Stopped(_)));
    let stuck = diagnose(&evidence, &Surroundings { main: subject.pid(), ..Surroundings::default() });
    assert!(stuck.remedy.unwrap().contains(&format!("kill -CONT {}", subject.pid())));
    subject.signal(Signal::CONT);
    subject.until_frozen();
}

#[test]
fn what_ends_is_left_out_and_counts_as_life() {
    let program = "import subprocess, sys\np = subprocess.Popen(['sleep', '3600'])\nsys.stdin.read()\np.kill()\np.wait()\n\
                   while True: pass\n";
    let mut subject = Subject::start(program);
    let first = subject.until(|evidence, _| is_at(evidence, 3));
    subject.close_stdin();
    let second = subject.until(|evidence, _| evidence.processes.len() == 1);
    assert_eq!(compare(&first, &second, &Known::default()), Change::Moved("a process ended".to_owned()));
    assert!(take(&[u32::MAX]).processes.is_empty());
}

#[test]
fn versions_names_and_descriptors_are_seen() {
    let subject = Subject::start(
        "import threading\nt = threading.Thread(target=threading.Event().wait, name='helper')\nt.start()\nt.join()\n",
    );
    let evidence = subject.until_frozen();
    let process = &evidence.processes[0];
    assert!(
        matches!(&process.python, Python::Version(version) if version.starts_with('3')),
        "{:?}",
        process.python
    );
    assert_eq!(
        process.threads.iter().map(|thread| thread.name.as_str()).collect::<Vec<_>>(),
        ["MainThread", "helper"]
    );
    assert!(process.command.ends_with("job.py"));
    assert_eq!(process.descriptors.standard[0].as_deref(), Some("pipe"));
    assert_eq!(process.descriptors.standard[1].as_deref(), Some("/dev/null"));
    assert!(process.descriptors.open >= 3 && process.descriptors.limit.is_some());
}

/// Says how long a look takes; run it with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a claim"]
#[allow(clippy::print_stderr)]
fn a_look_at_many_threads() {
    let subject = Subject::start(
        r"
import threading
never = threading.Event()
for _ in range(200): threading.Thread(target=never.wait).start()
",
    );
    let evidence = subject.until(|evidence, change| {
        matches!(change, Change::Frozen(_)) && evidence.processes[0].threads.len() == 201
    });
    let began = Instant::now();
    let rounds = 5;
    for _ in 0..rounds {
        take(&[subject.pid()]);
    }
    eprintln!("{} threads: {:?} a look", evidence.processes[0].threads.len(), began.elapsed() / rounds);
}
