//! Real programs that hang: each is proven to be frozen, or told as what may still go on, with its place, cause and remedy.

use gpulane_model::Millis;
use gpulane_witness::{Change, Evidence, Surroundings, diagnose};

use crate::subject::Subject;

/// Runs a program until it is proven to be frozen; then the line must name the place and the cause must be this one.
pub(crate) fn hangs(program: &str, place: &str, cause: &str) {
    let subject = Subject::start(program);
    let evidence = subject.until_frozen();
    is_named(&subject, &evidence, place, cause);
}

/// The same for one that cannot be proven to be frozen: somebody outside, or the clock, may let it go on at this line.
pub(crate) fn is_told(program: &str, line: u32, place: &str, cause: &str) {
    let subject = Subject::start(program);
    let (evidence, _) = subject.until_told_at(line);
    is_named(&subject, &evidence, place, cause);
}

/// A program that starts another, which is at this line of `inner.py`.
fn is_told_of(program: &str, place: &str, cause: &str) {
    let subject = Subject::start(program);
    let evidence = subject.until(|evidence, change| {
        let there =
            evidence.processes.len() == 2 && gpulane_witness::in_full(evidence, "").contains("inner.py");
        assert!(!there || !matches!(change, Change::Frozen(_)), "{change:?}");
        there && matches!(change, Change::Waiting(_) | Change::Sleeping(_))
    });
    is_named(&subject, &evidence, place, cause);
}

fn is_named(subject: &Subject, evidence: &Evidence, place: &str, cause: &str) {
    let around = Surroundings { main: subject.pid(), quiet: Millis::seconds(600), gpu: None };
    let stuck = diagnose(evidence, &around);
    let shown = format!("{stuck:#?}\n{}", gpulane_witness::in_full(evidence, "seen"));
    assert!(stuck.evidence.contains(place), "no `{place}` in {shown}");
    assert!(stuck.evidence.contains("quiet for 10 min"), "{shown}");
    assert!(stuck.cause.as_deref().is_some_and(|found| found.contains(cause)), "no `{cause}` in {shown}");
    assert!(stuck.remedy.is_some(), "{shown}");
}

#[test]
fn locks_taken_in_different_order() {
    hangs(
        r"
import threading
a, b, met = threading.Lock(), threading.Lock(), threading.Barrier(2)
def one():
    with a:
        met.wait()
        with b: pass
def two():
    with b:
        met.wait()
        with a: pass
threads = [threading.Thread(target=f) for f in (one, two)]
for t in threads: t.start()
for t in threads: t.join()
",
        "waiting for a lock in job.py:7 (one)",
        "deadlock: 2 threads each wait for a lock, among them job.py:7 (one) and job.py:11 (two)",
    );
}

#[test]
fn a_heartbeat_does_not_hide_a_deadlock() {
    is_told(
        r"
import threading
quit = threading.Event()
def heartbeat():
    while not quit.wait(0.2): pass
threading.Thread(target=heartbeat, daemon=True).start()
lock = threading.Lock()
lock.acquire()
lock.acquire()
",
        9,
        "waiting for a lock in job.py:9 (<module>)",
        "a lock is not released",
    );
}

#[test]
fn a_lock_held_across_a_fork() {
    hangs(
        r"
import multiprocessing, threading, time
lock = threading.Lock()
held = threading.Event()
def keep():
    with lock:
        held.set()
        threading.Event().wait()
threading.Thread(target=keep, daemon=True).start()
held.wait()
def work():
    with lock: pass
p = multiprocessing.get_context('fork').Process(target=work)
p.start()
p.join()
",
        "waiting for a lock in job.py:12 (work) in child",
        "a lock was held when the process was forked",
    );
}

#[test]
fn a_plain_fork_is_recognised_too() {
    hangs(
        r"
import os, threading
lock = threading.Lock()
lock.acquire()
if os.fork() == 0:
    lock.acquire()
os.wait()
",
        "waiting for a lock in job.py:6 (<module>) in child",
        "a lock was held when the process was forked",
    );
}

#[test]
fn a_child_that_fills_a_pipe() {
    hangs(
        r#"
import subprocess, sys
p = subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE)
p.wait()
"#,
        "job.py:4 waits for it",
        "while its parent waits for it to end and does not read",
    );
}

#[test]
fn a_question_on_stdin() {
    is_told("name = input('name? ')\n", 1, "reading from stdin (pipe", "nobody answers");
}

#[test]
fn a_queue_whose_worker_died() {
    hangs(
        r"
import queue, threading
threading.excepthook = lambda _: None
q = queue.Queue()
def worker():
    q.get()
    raise ValueError
threading.Thread(target=worker).start()
q.put(1)
q.join()
",
        "waiting for a queue to be worked off in job.py:10",
        "did not call task_done()",
    );
}

#[test]
fn a_queue_that_nobody_fills() {
    hangs(
        "import queue\nqueue.Queue().get()\n",
        "waiting for an item of a queue in job.py:2",
        "an item that nobody puts",
    );
}

#[test]
fn a_pool_whose_worker_was_killed() {
    hangs(
        r"
import multiprocessing, os, signal
def work(x):
    os.kill(os.getpid(), signal.SIGKILL)
if __name__ == '__main__':
    pool = multiprocessing.get_context('fork').Pool(2)
    pool.apply_async(work, (1,)).get()
",
        "waiting for a result of a multiprocessing.Pool in job.py:7",
        "a worker was killed and its task is lost",
    );
}

#[test]
fn a_thread_that_holds_up_the_exit() {
    hangs(
        r"
import threading
def forever():
    threading.Event().wait()
threading.Thread(target=forever).start()
",
        "waiting for an event in job.py:4 (forever)",
        "is not a daemon and does not end: job.py:4 (forever)",
    );
}

#[test]
fn an_exit_function_that_does_not_return() {
    hangs(
        r"
import atexit, threading
@atexit.register
def farewell():
    threading.Event().wait()
",
        "waiting for an event in job.py:5 (farewell)",
        "a function called at exit (atexit) does not return: job.py:5 (farewell)",
    );
}

#[test]
fn parent_and_child_that_wait_for_each_other() {
    hangs(
        r"
import multiprocessing
def child(c):
    c.recv()
if __name__ == '__main__':
    a, b = multiprocessing.Pipe()
    multiprocessing.get_context('fork').Process(target=child, args=(b,)).start()
    a.recv()
",
        ") in job.py:4 (child) in child",
        "parent and child wait for each other: job.py:8 (<module>) and job.py:4 (child)",
    );
}

#[test]
fn a_child_that_waits_for_input_its_parent_does_not_give() {
    hangs(
        r#"
import subprocess
p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.wait()
"#,
        "reading from stdin (pipe",
        "(cat) asks for something on stdin, and nobody answers",
    );
}

#[test]
fn a_child_that_waits_for_input_while_its_parent_waits_for_output() {
    hangs(
        r#"
import subprocess
p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdout.read()
"#,
        "reading from stdin (pipe",
        "parent and child wait for each other: job.py:4 (<module>)",
    );
}

#[test]
fn a_program_under_timeout() {
    is_told_of(
        r#"
import os, sys
program = os.path.join(os.path.dirname(__file__), "inner.py")
with open(program, "w") as f:
    f.write("import threading\nthreading.Event().wait()\n")
os.execvp("timeout", ["timeout", "3600", sys.executable, program])
"#,
        "waiting for an event in inner.py:2 (<module>) in child",
        "an event that nobody sets",
    );
}

#[test]
fn a_fifo_without_a_writer() {
    is_told(
        r#"
import os
path = os.path.join(os.path.dirname(__file__), "frames")
os.mkfifo(path)
open(path)
"#,
        5,
        "/frames) in job.py:5",
        "/frames that nobody has opened at the other end",
    );
}

#[test]
fn threads_that_wait_at_one_place() {
    hangs(
        r"
import threading
lock = threading.Lock()
lock.acquire()
def work():
    lock.acquire()
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
for t in threads: t.join()
",
        "waiting for a lock in job.py:6 (work)",
        "deadlock: 3 threads each wait for a lock, all of them at job.py:6 (work)",
    );
}

#[test]
fn a_monitor_does_not_hide_a_freeze() {
    hangs(
        r"
import os, sys, threading
folder = os.path.join(os.path.dirname(__file__), 'site-packages', 'wandb')
os.makedirs(folder)
with open(os.path.join(folder, '__init__.py'), 'w') as f:
    f.write('''
import os, socket, threading, time
def serve(listener):
    with open('/proc/self/comm', 'w') as f: f.write('wandb-core')
    connection, _ = listener.accept()
    while connection.recv(1): connection.send(b'x')
def watch(connection):
    while True:
        connection.send(b'x')
        connection.recv(1)
        time.sleep(0.05)
        end = time.monotonic() + 0.02
        while time.monotonic() < end: pass
def init():
    listener = socket.create_server(('127.0.0.1', 0))
    if os.fork() == 0: serve(listener)
    connection = socket.create_connection(listener.getsockname())
    threading.Thread(target=watch, args=(connection,), daemon=True).start()
''')
sys.path.insert(0, os.path.dirname(folder))
import wandb
wandb.init()
threading.Event().wait()
",
        "waiting for an event in job.py:28 (<module>)",
        "an event that nobody sets",
    );
}

#[test]
fn a_semaphore_that_is_not_given_back() {
    hangs(
        "import threading\ns = threading.Semaphore(1)\ns.acquire()\ns.acquire()\n",
        "waiting for a semaphore in job.py:4",
        "a semaphore is not released",
    );
}

#[test]
fn a_semaphore_between_processes() {
    hangs(
        "import multiprocessing\ns = multiprocessing.Semaphore(1)\ns.acquire()\ns.acquire()\n",
        "waiting for a lock shared between processes (a lock in shared memory (/dev/shm/sem.",
        "shared between processes is not released",
    );
}

#[test]
fn an_asyncio_loop_that_nothing_wakes() {
    hangs(
        r"
import asyncio
async def main():
    await asyncio.get_running_loop().create_future()
asyncio.run(main())
",
        "waiting in an asyncio loop in job.py:5",
        "nothing left that would wake it",
    );
}

#[test]
fn a_c_function_that_does_not_return() {
    is_told(
        "import ctypes\nctypes.CDLL(None).pause()\n",
        2,
        "in a C function that does not return (pause, for a signal) in job.py:2",
        "a C function called at job.py:2",
    );
}

#[test]
fn a_c_function_that_keeps_the_interpreter() {
    is_told(
        r"
import ctypes, threading
inside = threading.Event()
def call():
    inside.set()
    ctypes.PyDLL(None).pause()
threading.Thread(target=call).start()
inside.wait()
x = 0
while True: x += 1
",
        6,
        "in a C function that does not return (pause, for a signal) in job.py:6 (call)",
        "keeps Python's own lock (GIL) while it waits",
    );
}

#[test]
fn a_file_that_it_has_locked_itself() {
    hangs(
        r"
import fcntl
a, b = open(__file__), open(__file__)
fcntl.flock(a, fcntl.LOCK_EX)
fcntl.flock(b, fcntl.LOCK_EX)
",
        "job.py) in job.py:5",
        "it holds the lock of",
    );
}

#[test]
fn a_thread_pool_whose_task_waits_for_another() {
    hangs(
        r"
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def outer():
    return pool.submit(int).result()
print(pool.submit(outer).result())
",
        "waiting for the result of a future in job.py:5 (outer)",
        "every worker of the pool runs a task that waits for the future of another task",
    );
}

#[test]
fn a_queue_between_processes_that_is_not_read() {
    hangs(
        r"
import multiprocessing
def work(q):
    q.put('x' * 1000000)
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    q = context.Queue()
    p = context.Process(target=work, args=(q,))
    p.start()
    p.join()
",
        "job.py:10 waits for it",
        "items it put on a multiprocessing.Queue have not been read",
    );
}

#[test]
fn a_library_that_is_not_made_for_threads() {
    hangs(
        r"
import os, sys, threading
folder = os.path.join(os.path.dirname(__file__), 'site-packages', 'fidlib')
os.makedirs(folder)
with open(os.path.join(folder, '__init__.py'), 'w') as f:
    f.write('''
import threading
lock = threading.Lock()
lock.acquire()
def compute():
    lock.acquire()
''')
sys.path.insert(0, os.path.dirname(folder))
import fidlib
def score():
    fidlib.compute()
threads = [threading.Thread(target=score) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
",
        "waiting for a lock in job.py:16 (score), inside fidlib (__init__.py:6), job.py:19 waits for it, 5 threads",
        "4 threads are inside fidlib",
    );
}

#[test]
fn a_loop_that_looks_for_what_does_not_come() {
    is_told(
        "import os, time\nwhile not os.path.exists('/nonexistent'):\n    time.sleep(0.05)\n",
        3,
        "sleeping in job.py:3",
        "polls for a file, which does not come: `while not os.path.exists('/nonexistent'):`",
    );
}
