//! Real programs whose waits lead back to themselves: who is waited for is found, and the proof names it.

use crate::subject::Subject;

/// The proof for a program, which must name this.
#[track_caller]
fn is_proven(program: &str, words: &[&str]) {
    let subject = Subject::start(program);
    let proof = subject.proof_despite("beat");
    for word in words {
        assert!(proof.contains(word), "no `{word}` in: {proof}");
    }
}

/// A thread that beats while all else is frozen.
const BEAT: &str = "
import threading, time
def beat():
    while True: time.sleep(0.05)
threading.Thread(target=beat, name='beat', daemon=True).start()
";

#[test]
fn locks_that_know_their_owner() {
    let program = format!(
        "{BEAT}
a, b, met = threading.RLock(), threading.RLock(), threading.Barrier(2)
def other():
    with b:
        met.wait()
        with a: pass
threading.Thread(target=other).start()
with a:
    met.wait()
    with b: pass
"
    );
    is_proven(&program, &["to release an RLock", "job.py:11", "job.py:15", "closes the circle"]);
}

#[test]
fn a_thread_that_is_joined() {
    let program = format!(
        "{BEAT}
lock = threading.RLock()
worker = threading.Thread(target=lambda: lock.acquire())
lock.acquire()
worker.start()
worker.join()
"
    );
    is_proven(&program, &["to end", "to release an RLock", "closes the circle"]);
}

#[test]
fn a_forked_child_below_a_parent_that_waits_for_it() {
    let program = "
import os, threading
lock = threading.Lock()
lock.acquire()
child = os.fork()
if child == 0:
    lock.acquire()
os.waitpid(child, 0)
";
    is_proven(program, &["to end", "job.py:7", "no other thread is left"]);
}

#[test]
fn mutexes_and_threads_of_c() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("stuck.c"), folder.path().join("stuck.so"));
    let code = r"
#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t met;
static void *other(void *x) { pthread_mutex_lock(&b); pthread_barrier_wait(&met); pthread_mutex_lock(&a); return x; }
static void *holder(void *x) { pthread_mutex_lock(&a); pthread_barrier_wait(&met); pthread_mutex_lock(&b); return x; }
void stuck(void) {
    pthread_t one, two;
    pthread_barrier_init(&met, 0, 2);
    pthread_create(&one, 0, other, 0);
    pthread_create(&two, 0, holder, 0);
    pthread_join(one, 0);
}
";
    std::fs::write(&source, code).unwrap();
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    if !compiler.is_ok_and(|status| status.success()) {
        return; // No compiler: what it would make cannot be looked at.
    }
    let program = format!("{BEAT}\nimport ctypes\nctypes.CDLL({:?}).stuck()\n", library.to_str().unwrap());
    is_proven(&program, &["to end", "to unlock a mutex", "closes the circle"]);
}

#[test]
fn pipes_sockets_and_events_of_its_own() {
    for (program, word) in [
        ("import os\nr, w = os.pipe()\nos.read(r, 1)\n", "pipe "),
        ("import os\nr, w = os.pipe()\nos.write(w, b'x' * 100000)\n", "pipe "),
        ("import os\ne = os.eventfd(0)\nos.read(e, 8)\n", "eventfd"),
        ("import socket\na, b = socket.socketpair()\na.recv(1)\n", "unix socket of a pair"),
        (
            "import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\nc.recv(1)\n",
            "which was not accepted",
        ),
        (
            "import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(s.getsockname())\n\
             d, _ = s.accept()\nd.recv(1)\n",
            "the connection 127.0.0.1:",
        ),
        ("import select, os\nr, w = os.pipe()\np = select.poll()\np.register(r)\np.poll()\n", "pipe "),
        ("import select, os\nr, w = os.pipe()\nselect.select([r], [], [])\n", "pipe "),
        (
            "import select, os\nr, w = os.pipe()\ne = select.epoll()\ne.register(r)\nf = select.epoll()\nf.register(e)\nf.poll()\n",
            "pipe ",
        ),
        (
            "import fcntl\na, b = open(__file__), open(__file__)\nfcntl.flock(a, fcntl.LOCK_EX)\nfcntl.flock(b, fcntl.LOCK_EX)\n",
            "the lock of",
        ),
        (
            "import os, signal\nlock = __import__('threading').Lock(); lock.acquire()\nchild = os.fork()\nif child == 0: lock.acquire()\n\
          os.waitid(os.P_PIDFD, os.pidfd_open(child), os.WEXITED)\n",
            "to end",
        ),
    ] {
        is_proven(program, &[word]);
    }
}

/// The loop of a `DataLoader`, which asks its queue again and again.
const LOADER: &str = "
import multiprocessing, os, sys
folder = os.path.join(os.path.dirname(__file__), 'site-packages')
os.makedirs(folder + '/torch/utils/data')
with open(folder + '/torch/utils/data/dataloader.py', 'w') as f:
    f.write('''
import queue
def _try_get_data(batches):
    try: return batches.get(timeout=0.05)
    except queue.Empty: return None
def _get_data(batches):
    while True: _try_get_data(batches)
''')
sys.path.insert(0, folder)
from torch.utils.data import dataloader
context = multiprocessing.get_context('fork')
batches = context.Queue()
";

#[test]
fn workers_that_died_or_wait_for_each_other() {
    let died = "worker = context.Process(target=os._exit, args=(1,))
worker.start()
worker.join()
dataloader._get_data(batches)
";
    is_proven(&format!("{LOADER}{died}"), &["pipe "]);
    let waits = "lock = context.Lock()
def load():
    with lock: batches.put(1)
lock.acquire()
workers = [context.Process(target=load, daemon=True) for _ in range(2)]
for worker in workers: worker.start()
dataloader._get_data(batches)
";
    is_proven(&format!("{LOADER}{waits}"), &["3 processes wait without a limit"]);
    is_proven(
        r"
import multiprocessing
def work(lock):
    lock.acquire()
if __name__ == '__main__':
    context = multiprocessing.get_context('forkserver')
    lock = context.Lock()
    lock.acquire()
    workers = [context.Process(target=work, args=(lock,)) for _ in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
",
        &["5 processes wait without a limit"],
    );
}

#[test]
fn the_lock_of_the_interpreter() {
    let program = "
import ctypes, threading
keeping, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
keeping.pthread_mutex_lock(mutex)
def native():
    keeping.pthread_mutex_lock(mutex)
threading.Thread(target=native).start()
x = 0
while True: x += 1
";
    is_proven(program, &["to give Python's own lock (GIL) back", "to unlock a mutex", "closes the circle"]);
}
