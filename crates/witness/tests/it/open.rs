//! Real programs that wait for what may still come, though nobody outside is in it: each was once taken for frozen, and must be told.

use gpulane_witness::{Change, in_full};

use crate::subject::{Subject, is_at};

/// Looks at a program once it is at this line: none may find it frozen.
const LOOKS: usize = 4;

/// Runs a program until one of its threads is at this line, and looks at it.
#[track_caller]
fn may_go_on(program: &str, line: u32) {
    let subject = Subject::start(program);
    subject.until_told_at(line);
    for _ in 0..LOOKS {
        let (evidence, change) = subject.look_twice();
        let shown = in_full(&evidence, "seen");
        assert!(is_at(&evidence, line) && !matches!(change, Change::Frozen(_)), "{change:?}\n{shown}");
    }
}

#[test]
fn a_loop_of_its_own_may_set_an_event_between_processes() {
    may_go_on(
        r"
import multiprocessing, queue
def work(event, results):
    event.wait()
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    event, results = context.Event(), context.Queue()
    context.Process(target=work, args=(event, results)).start()
    turns = 0
    while True:
        try: results.get(timeout=0.05)
        except queue.Empty: turns += 1
        if turns == 100000: event.set()
",
        4,
    );
}

#[test]
fn a_loop_of_its_own_may_release_a_semaphore_between_processes() {
    may_go_on(
        r"
import multiprocessing
def work(slot, connection):
    slot.acquire()
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    slot, (ours, theirs) = context.Semaphore(0), context.Pipe()
    context.Process(target=work, args=(slot, theirs)).start()
    turns = 0
    while not ours.poll(0.05):
        turns += 1
        if turns == 100000: slot.release()
",
        4,
    );
}

#[test]
fn a_loop_of_its_own_may_have_a_deadline() {
    may_go_on(
        r"
import multiprocessing, queue, threading, time
def work(results):
    threading.Event().wait()
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    results = context.Queue()
    context.Process(target=work, args=(results,), daemon=True).start()
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        try: results.get(timeout=0.05)
        except queue.Empty: pass
",
        4,
    );
}

#[test]
fn a_queue_without_any_producer_may_be_asked_until_a_deadline() {
    may_go_on(
        r"
import multiprocessing, queue, time
results = multiprocessing.get_context('fork').Queue()
end = time.monotonic() + 3600
while time.monotonic() < end:
    try: results.get(timeout=0.05)
    except queue.Empty: pass
",
        6,
    );
}

#[test]
fn anybody_may_connect_to_a_process_that_the_fork_server_has_made() {
    may_go_on(
        r"
import multiprocessing, socket
def serve():
    server = socket.create_server(('127.0.0.1', 0))
    server.accept()
if __name__ == '__main__':
    process = multiprocessing.get_context('forkserver').Process(target=serve)
    process.start()
    process.join()
",
        5,
    );
}

#[test]
fn a_child_may_give_back_the_lock_of_an_open_file_that_its_parent_took() {
    may_go_on(
        r"
import fcntl, os, time
file = open(__file__)
fcntl.flock(file, fcntl.LOCK_EX)
if os.fork() == 0:
    time.sleep(3600)
    fcntl.flock(file, fcntl.LOCK_UN)
fcntl.flock(open(__file__), fcntl.LOCK_EX)
",
        8,
    );
}

#[test]
fn epolls_that_are_too_deep_to_follow_may_wake() {
    may_go_on(
        r"
import ctypes, os, select, struct
libc = ctypes.CDLL(None)
timer = libc.timerfd_create(1, 0)
libc.timerfd_settime(timer, 0, struct.pack('@qqqq', 0, 0, 3600, 0), None)
silent, _ = os.pipe()
loops = [select.epoll() for _ in range(4)]
loops[3].register(timer, select.EPOLLIN)
for outer, inner in zip(loops, loops[1:]):
    outer.register(inner.fileno(), select.EPOLLIN)
    outer.register(silent, select.EPOLLIN)
loops[0].poll()
",
        12,
    );
}

#[test]
fn any_signal_that_is_handled_may_come() {
    for signal in ["CONT", "WINCH", "TSTP", "URG"] {
        let program = format!(
            "import signal, threading\ngo_on = threading.Event()\n\
             signal.signal(signal.SIG{signal}, lambda *_: go_on.set())\ngo_on.wait()\n"
        );
        may_go_on(&program, 4);
    }
}
