//! The two proofs, row by row of what a thread can wait for: ended where what it waits for cannot come, told where it may.

use gpulane_witness::{Change, Evidence, GpuUse, Known, Source, ThreadEvidence, Tie, Wait, Wakes, compare};

use crate::by_hand::{process, seen, thread, wait};

/// A wait without a limit for this.
fn waits(call: &str, sources: Vec<Source>) -> Wait {
    Wait { sources, ..wait(call, Some(false)) }
}

fn outside(what: &str) -> Source {
    Source::Outside(what.to_owned())
}

fn processes(pids: &[u32]) -> Source {
    Source::Processes { pids: pids.to_vec(), what: "pipe 77".to_owned() }
}

/// A job of one process whose main thread, at `train.py:12`, waits for this.
fn alone(call: &str, sources: Vec<Source>) -> Evidence {
    let mut main = process(10);
    main.threads[0].wait = Some(waits(call, sources));
    seen(vec![main])
}

/// Adds to the first process a thread that waits by the clock, as a heartbeat does.
fn with_heartbeat(mut evidence: Evidence, tid: u32) -> Evidence {
    evidence.processes[0].threads.push(thread(tid, wait("futex", Some(true)), &["train.py:80 beat"]));
    evidence
}

fn idle() -> Known {
    Known { main: 10, gpu: GpuUse::Idle, ..Known::default() }
}

fn judged(evidence: &Evidence, known: &Known) -> Change {
    compare(evidence, evidence, known)
}

#[track_caller]
fn ended(evidence: &Evidence, known: &Known, because: &str) {
    let change = judged(evidence, known);
    assert!(matches!(&change, Change::Frozen(proof) if proof.contains(because)), "{change:?}");
}

#[track_caller]
fn told(evidence: &Evidence, known: &Known, what: &str) {
    let change = judged(evidence, known);
    assert!(
        matches!(&change, Change::Waiting(told) | Change::Sleeping(told) if told.contains(what)),
        "{change:?}"
    );
}

#[test]
fn a_private_futex() {
    let lock = alone("futex", vec![Source::OwnThreads]);
    ended(&lock, &idle(), "its only thread waits without a limit");
    told(&with_heartbeat(lock.clone(), 11), &idle(), "time limit");
    let known = Known { monitors: [11].into(), ..idle() };
    told(&with_heartbeat(lock, 11), &known, "another thread of its process");
}

#[test]
fn a_forked_process_with_one_thread_left() {
    let mut evidence = alone("wait4", vec![Source::Exit(vec![20])]);
    let mut child = process(20);
    child.parent = 10;
    evidence.processes.push(child);
    ended(&evidence, &idle(), "waits for process 20 to end; process 20");
    evidence.processes[1].signals = Some(Wakes::Timer("it handles SIGALRM: a timer may go off".to_owned()));
    let change = judged(&evidence, &idle());
    assert!(matches!(&change, Change::Sleeping(what) if what.contains("SIGALRM")), "{change:?}");
}

#[test]
fn a_lock_in_shared_memory() {
    let mut evidence = alone("futex", vec![processes(&[10, 20])]);
    told(&evidence, &idle(), "pipe 77");
    evidence.processes.push(process(20));
    ended(&evidence, &idle(), "all 2 threads of 2 processes");
    told(&alone("futex", vec![outside("shared memory /dev/shm/x")]), &idle(), "/dev/shm/x");
    told(&alone("semop", vec![outside("a System V semaphore")]), &idle(), "System V semaphore");
}

#[test]
fn what_waits_by_the_clock_or_for_a_signal() {
    let mut sleep = alone("clock_nanosleep", vec![Source::Clock]);
    sleep.processes[0].threads[0].wait.as_mut().unwrap().timed = Some(true);
    let change = judged(&sleep, &idle());
    assert_eq!(change, Change::Sleeping("sleeps in train.py:12".to_owned()));

    let mut once = alone("futex", vec![Source::OwnThreads]);
    once.processes[0].threads[0].wait.as_mut().unwrap().timed = Some(true);
    assert!(matches!(judged(&once, &idle()), Change::Sleeping(_)), "a wait_for that has not expired");

    for call in ["pause", "rt_sigtimedwait", "rt_sigsuspend"] {
        let mut signal = alone(call, vec![outside("a signal")]);
        assert!(matches!(judged(&signal, &idle()), Change::Waiting(what) if what.contains("a signal")));
        signal.processes[0].signals = Some(Wakes::Timer("it has a timer (timer_create)".to_owned()));
        assert!(matches!(judged(&signal, &idle()), Change::Sleeping(_)), "{call}: it wakes by itself");
    }
}

/// Where a loop asks that is a `DataLoader`'s, and where one of the user's own does.
const LOADER: &str = "lib:torch/utils/data/dataloader.py:1133 _try_get_data";
const MINE: &str = "train.py:12 step";

/// Two looks at a main loop that asks a queue again and again from there, with a limit each time, and at a worker if there is one.
fn asking(call: &str, from: &str, source: &Source, worker: Option<&Wait>) -> (Evidence, Evidence) {
    let frames = [
        "std:multiprocessing/connection.py:931 wait",
        "std:multiprocessing/queues.py:113 get",
        from,
        "train.py:12 <module>",
    ];
    let look = |switches: u64| {
        let mut main = process(10);
        let asks = Wait { timed: Some(true), ..waits(call, vec![source.clone()]) };
        main.threads[0] = ThreadEvidence { switches, ..thread(10, asks, &frames) };
        let worker = worker.map(|wait| {
            let mut worker = process(20);
            worker.threads[0].wait = Some(wait.clone());
            worker
        });
        seen([main].into_iter().chain(worker).collect())
    };
    (look(1), look(9))
}

#[test]
fn a_queue_that_a_library_asks_again_and_again() {
    let judged = |source: &Source, worker: Option<&Wait>| {
        let (first, second) = asking("poll", LOADER, source, worker);
        compare(&first, &second, &idle())
    };
    let change = judged(&processes(&[10]), None);
    assert!(matches!(change, Change::Frozen(_)), "nobody else has the pipe: {change:?}");
    let (_, second) = asking("poll", LOADER, &processes(&[10]), None);
    let change = compare(&second, &second, &idle());
    assert!(matches!(change, Change::Sleeping(_)), "its limit has not come: {change:?}");
    for (worker, ends) in [
        (waits("recvfrom", vec![outside("10.0.0.9:443")]), false),
        (waits("futex", vec![Source::OwnThreads]), true),
        (waits("read", vec![processes(&[10, 20])]), true),
    ] {
        let change = judged(&processes(&[10, 20]), Some(&worker));
        assert_eq!(matches!(change, Change::Frozen(_)), ends, "{worker:?}: {change:?}");
    }
    let (first, second) = asking("futex", LOADER, &Source::OwnThreads, None);
    let change = compare(&first, &second, &idle());
    assert!(matches!(change, Change::Sleeping(_)), "no thread is left to be asked: {change:?}");
}

#[test]
fn a_loop_of_the_users_own_may_end_by_itself_and_give_in_any_turn() {
    let in_memory = Source::Processes { pids: vec![10, 20], what: "a lock in shared memory".to_owned() };
    let shared = Wait { on: Some("shared memory".to_owned()), ..waits("futex", vec![in_memory]) };
    for worker in [
        None,
        Some(waits("futex", vec![Source::OwnThreads])),
        Some(waits("read", vec![processes(&[10, 20])])),
        Some(shared),
    ] {
        for from in [MINE, "lib:mylib/collect.py:12 collect", "lib:torch/utils/data/dataloader.py:9 __next__"]
        {
            let source = processes(if worker.is_some() { &[10, 20] } else { &[10] });
            let (first, second) = asking("poll", from, &source, worker.as_ref());
            let change = compare(&first, &second, &idle());
            assert!(matches!(change, Change::Sleeping(_)), "{from}, {worker:?}: {change:?}");
        }
    }
}

#[test]
fn a_loop_that_looks_for_a_file_is_never_ended() {
    let mut first = alone("clock_nanosleep", vec![Source::Clock]);
    first.processes[0].threads[0].wait.as_mut().unwrap().timed = Some(true);
    let mut second = first.clone();
    second.processes[0].threads[0].switches = 99;
    assert!(matches!(compare(&first, &second, &idle()), Change::Sleeping(_)));
}

#[test]
fn polls_wait_for_all_they_list() {
    ended(&alone("epoll_wait", vec![processes(&[10])]), &idle(), "pipe 77, whose other end process 10 has");
    for (other, named) in [
        (Source::Clock, "the clock"),
        (outside("a change of a file or folder (inotify)"), "inotify"),
        (outside("[uhid]"), "uhid"),
    ] {
        told(&alone("epoll_wait", vec![processes(&[10]), other]), &idle(), named);
    }
    told(&alone("epoll_wait", Vec::new()), &idle(), "not known");
}

#[test]
fn a_pipe() {
    let mut evidence = alone("read", vec![processes(&[10, 20])]);
    let mut writer = process(20);
    writer.threads[0].wait = Some(waits("wait4", vec![Source::Exit(vec![10])]));
    evidence.processes.push(writer);
    ended(&evidence, &idle(), "pipe 77");
    evidence.processes[1].threads.push(thread(21, wait("futex", Some(true)), &["load.py:3 poll"]));
    told(&evidence, &idle(), "time limit");
    told(&evidence, &Known { monitors: [21].into(), ..idle() }, "pipe 77");
    told(&alone("read", vec![outside("pipe 77, whose other end process 5 (tee) has")]), &idle(), "5 (tee)");
    told(&alone("read", vec![processes(&[])]), &idle(), "nobody has");
}

#[test]
fn what_anybody_may_come_for() {
    for what in [
        "somebody who opens the other end of /run/frames",
        "the lock of /data/db.sqlite, which process 77 (sqlite3) holds",
    ] {
        told(&alone("openat", vec![outside(what)]), &idle(), what);
    }
    ended(&alone("flock", vec![processes(&[10])]), &idle(), "process 10 has");
}

#[test]
fn a_socket() {
    ended(&alone("recvfrom", vec![processes(&[10])]), &idle(), "its only thread");
    told(
        &alone("recvfrom", vec![outside("10.0.0.9:443, at the other end of a connection")]),
        &idle(),
        "10.0.0.9:443",
    );
    let mut unknown = alone("recvfrom", vec![processes(&[10])]);
    unknown.processes[0].threads[0].wait.as_mut().unwrap().timed = None;
    assert!(matches!(judged(&unknown, &idle()), Change::Waiting(_)), "it may have a limit of its own");
}

#[test]
fn a_child() {
    let mut evidence = alone("wait4", vec![Source::Exit(vec![20])]);
    told(&evidence, &idle(), "process 20 to end");
    let mut child = process(20);
    child.threads[0].wait = Some(Wait { timed: Some(true), ..waits("clock_nanosleep", vec![Source::Clock]) });
    evidence.processes.push(child);
    told(&evidence, &idle(), "sleeps");
    evidence.processes[1].threads[0].wait = Some(waits("futex", vec![Source::OwnThreads]));
    ended(&evidence, &idle(), "process 20 to end");
    let ended_child = &mut evidence.processes[1];
    (ended_child.state, ended_child.threads[0].state) = ('Z', 'Z');
    told(&evidence, &idle(), "process 20 to end");
    told(&alone("wait4", vec![Source::Exit(Vec::new())]), &idle(), "to end");
}

#[test]
fn deep_in_the_kernel() {
    let deep = |source: Source| {
        let mut evidence = alone("ioctl", vec![source]);
        (evidence.processes[0].state, evidence.processes[0].threads[0].state) = ('D', 'D');
        evidence
    };
    told(&deep(outside("a disk, file server or device with /data/x in the kernel")), &idle(), "/data/x");
    for (gpu, ends) in [(GpuUse::Idle, true), (GpuUse::Unknown, false)] {
        let known = Known { gpu, ..idle() };
        let mut called = alone("ioctl", vec![Source::Gpu]);
        called.processes[0].threads[0].wait.as_mut().unwrap().timed = None;
        for evidence in [deep(Source::Gpu), called] {
            let change = judged(&evidence, &known);
            assert_eq!(matches!(change, Change::Frozen(_)), ends, "{gpu:?}: {change:?}");
        }
    }
}

#[test]
fn threads_of_the_gpu_driver_count_only_while_the_gpu_works() {
    let mut evidence = alone("futex", vec![Source::OwnThreads]);
    let helper = thread(11, Wait { sources: vec![Source::Gpu], ..wait("poll", Some(true)) }, &[]);
    evidence.processes[0].threads.push(ThreadEvidence { name: "cuda-EvtHandlr".to_owned(), ..helper });
    evidence.processes[0].descriptors.gpus = 1;
    ended(&evidence, &idle(), "all 2 threads");
    told(&evidence, &Known { main: 10, ..Known::default() }, "another thread");
}

fn owned_by(tid: u32, tie: Tie) -> Wait {
    waits("futex", vec![Source::Thread { tid, tie }])
}

/// Two threads, each of which owns what the other waits for.
fn circle() -> Evidence {
    let mut main = process(10);
    main.threads[0].wait = Some(owned_by(11, Tie::RLock));
    main.threads.push(thread(11, owned_by(10, Tie::Mutex), &["save.py:7 save"]));
    seen(vec![main])
}

#[test]
fn a_circle_of_owners_is_closed_whatever_watches_it() {
    ended(
        &circle(),
        &idle(),
        "thread 11 to release an RLock; thread 11 (save.py:7) waits for thread 10 to unlock a mutex",
    );
    let watched = with_heartbeat(circle(), 12);
    told(&watched, &idle(), "time limit");
    let known = Known { monitors: [12].into(), ..idle() };
    ended(&watched, &known, "its main thread waits, without a limit, for what cannot come");
    ended(&watched, &known, "closes the circle");
}

#[test]
fn a_chain_leads_through_threads_and_children_to_what_is_gone() {
    let mut evidence = circle();
    evidence.processes[0].threads[0].wait = Some(owned_by(11, Tie::Joined));
    evidence.processes[0].threads[1].wait = Some(owned_by(99, Tie::Mutex));
    ended(&with_heartbeat(evidence.clone(), 12), &Known { monitors: [12].into(), ..idle() }, "thread 99");

    let mut parent = alone("wait4", vec![Source::Exit(vec![20])]);
    let mut child = process(20);
    child.threads[0].wait = Some(owned_by(21, Tie::RLock));
    child.threads.push(thread(21, owned_by(20, Tie::RLock), &["save.py:7 save"]));
    parent.processes.push(child);
    ended(&parent, &idle(), "process 20 to end");
    // A thread that looks at a child again and again may be there to kill it.
    told(&with_heartbeat(parent, 12), &Known { monitors: [12].into(), ..idle() }, "process 20 to end");
}

/// A parent that waits for this of a child which is stuck in a lock of its own, beside another child.
fn guarded(call: &str, source: Source, guard: Wait) -> Evidence {
    let mut evidence = alone(call, vec![source]);
    let mut other = process(30);
    other.threads[0].wait = Some(guard);
    evidence.processes.extend([process(20), other]);
    evidence
}

#[test]
fn a_process_that_is_not_stuck_may_kill_the_one_that_is() {
    let sleeps = Wait { timed: Some(true), ..waits("clock_nanosleep", vec![Source::Clock]) };
    let guards = [
        sleeps.clone(),
        Wait { timed: Some(true), ..waits("poll", vec![processes(&[30])]) },
        waits("recvfrom", vec![outside("10.0.0.9:443")]),
        waits("read", Vec::new()),
        wait("rt_sigtimedwait", None),
    ];
    let of_child = [
        ("wait4", Source::Exit(vec![20])),
        ("read", processes(&[20])),
        ("flock", processes(&[20])),
        ("futex", Source::Thread { tid: 20, tie: Tie::Mutex }),
    ];
    for (call, source) in of_child {
        for guard in &guards {
            told(&guarded(call, source.clone(), guard.clone()), &idle(), "");
        }
        // One that is stuck itself kills nobody.
        let stuck = waits("futex", vec![Source::OwnThreads]);
        ended(&guarded(call, source.clone(), stuck), &idle(), "all 3 threads of 3 processes");
        let mut gone = guarded(call, source, sleeps.clone());
        (gone.processes[2].state, gone.processes[2].threads[0].state) = ('Z', 'Z');
        ended(&gone, &idle(), "of 3 processes");
    }
}

#[test]
fn helpers_of_an_idle_gpu_and_threads_that_report_kill_nobody() {
    let mut evidence = alone("wait4", vec![Source::Exit(vec![20])]);
    evidence.processes.push(process(20));
    let helper = thread(11, Wait { sources: vec![Source::Gpu], ..wait("poll", Some(true)) }, &[]);
    evidence.processes[0].threads.push(ThreadEvidence { name: "cuda-EvtHandlr".to_owned(), ..helper });
    evidence.processes[0].descriptors.gpus = 1;
    let bar = ["std:threading.py:331 wait", "lib:tqdm/_monitor.py:60 run"];
    evidence.processes[0].threads.push(thread(12, wait("futex", Some(true)), &bar));
    ended(&evidence, &idle(), "process 20 to end");
    told(&evidence, &Known { main: 10, ..Known::default() }, "process 20 to end");
}

#[test]
fn a_thread_that_is_no_monitor_may_break_any_circle() {
    let mut evidence = circle();
    evidence.processes[0].threads.push(thread(
        12,
        waits("poll", vec![outside("10.0.0.9:443")]),
        &["serve.py:3 serve"],
    ));
    told(&evidence, &idle(), "10.0.0.9:443");
    let mut evidence = circle();
    evidence.processes[0].signals = Some(Wakes::Sent("it handles SIGUSR1".to_owned()));
    told(&evidence, &idle(), "SIGUSR1");
}

#[test]
fn another_process_that_lives_does_not_save_a_main_thread_in_a_circle() {
    let mut evidence = circle();
    let mut other = process(20);
    other.threads[0].wait = Some(Wait { timed: Some(true), ..waits("clock_nanosleep", vec![Source::Clock]) });
    evidence.processes.push(other);
    ended(&evidence, &idle(), "its main thread waits");
    told(&evidence, &Known { main: 20, ..idle() }, "sleeps");
}

#[test]
fn who_keeps_the_interpreter_keeps_those_who_wait_for_it() {
    let with = |waiting: Source, holder: Wait, switches: u64| {
        let mut evidence = alone("futex", vec![waiting]);
        let main = &mut evidence.processes[0].threads[0];
        (main.wait.as_mut().unwrap().timed, main.switches) = (Some(true), switches);
        let mut keeps = thread(11, holder, &["native.py:3 call"]);
        keeps.gil = true;
        evidence.processes[0].threads.push(keeps);
        evidence
    };
    let judged = |waiting: &Source, holder: &Wait, later: u64| {
        let look = |switches| with(waiting.clone(), holder.clone(), switches);
        compare(&look(1), &look(later), &idle())
    };
    let (gil, mutex) = (Source::Thread { tid: 11, tie: Tie::Interpreter }, owned_by(10, Tie::Mutex));
    let change = judged(&gil, &mutex, 400);
    assert!(matches!(&change, Change::Frozen(proof) if proof.contains("all 2 threads")), "{change:?}");
    let change = judged(&gil, &waits("pause", vec![outside("a signal")]), 400);
    assert!(matches!(&change, Change::Sleeping(_)), "{change:?}");
    let change = judged(&gil, &mutex, 1);
    assert!(matches!(&change, Change::Sleeping(_)), "who asks for the interpreter asks often: {change:?}");
    let change = judged(&Source::OwnThreads, &mutex, 400);
    assert!(matches!(&change, Change::Sleeping(_)), "a limit in C may end without Python: {change:?}");
}

#[test]
fn who_waits_inside_a_library_that_watches_waits_for_it() {
    let uploads = |frames: &[&str]| {
        let mut evidence = alone("futex", vec![Source::OwnThreads]);
        evidence.processes[0].threads[0] = thread(10, waits("futex", vec![Source::OwnThreads]), frames);
        let upload =
            thread(11, waits("recvfrom", vec![outside("10.0.0.9:443")]), &["lib:wandb/sdk/send.py:9 send"]);
        evidence.processes[0].threads.push(upload);
        evidence
    };
    ended(&uploads(&["train.py:12 step"]), &idle(), "without a limit");
    told(&uploads(&["lib:wandb/sdk/wandb_run.py:3 finish", "train.py:40 main"]), &idle(), "10.0.0.9:443");
}

#[test]
fn what_is_left_of_a_job_is_judged_as_a_whole() {
    let mut left = alone("futex", vec![Source::OwnThreads]);
    ended(&left, &Known { main: 9, ..idle() }, "its only thread");
    let mut gone = process(20);
    (gone.state, gone.threads[0].state) = ('Z', 'Z');
    left.processes = vec![gone];
    assert!(!matches!(judged(&left, &idle()), Change::Frozen(_)), "only exit statuses");
}
