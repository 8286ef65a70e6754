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

/// A main loop that asks a queue again and again, with a limit each time.
fn asking(call: &str, source: Source, switches: u64) -> Evidence {
    let frames = [
        "std:multiprocessing/connection.py:931 wait",
        "std:multiprocessing/queues.py:113 get",
        "train.py:12 step",
    ];
    let mut evidence = alone(call, vec![source]);
    evidence.processes[0].threads[0] =
        thread(10, evidence.processes[0].threads[0].wait.clone().unwrap(), &frames);
    let main = &mut evidence.processes[0].threads[0];
    main.wait.as_mut().unwrap().timed = Some(true);
    main.switches = switches;
    evidence
}

#[test]
fn a_queue_that_is_asked_again_and_again() {
    let both = |source: &Source| (asking("poll", source.clone(), 1), asking("poll", source.clone(), 9));
    let (first, second) = both(&processes(&[10]));
    let change = compare(&first, &second, &idle());
    assert!(matches!(change, Change::Frozen(_)), "nobody else has the pipe: {change:?}");
    let change = compare(&second, &second, &idle());
    assert!(matches!(change, Change::Sleeping(_)), "its limit has not come: {change:?}");

    let (mut first, mut second) = both(&processes(&[10, 20]));
    for evidence in [&mut first, &mut second] {
        let mut worker = process(20);
        worker.threads[0].wait = Some(waits("recvfrom", vec![outside("10.0.0.9:443")]));
        evidence.processes.push(worker);
    }
    let change = compare(&first, &second, &idle());
    assert!(matches!(change, Change::Sleeping(_)), "its worker may be answered: {change:?}");
    let with_worker = |wait: Wait, frame: &str| {
        let mut pair = (first.clone(), second.clone());
        for evidence in [&mut pair.0, &mut pair.1] {
            evidence.processes[1].threads[0].wait = Some(wait.clone());
            evidence.processes[0].threads[0].frames[2].file = frame.to_owned();
        }
        compare(&pair.0, &pair.1, &idle())
    };
    let (mine, library) =
        ("/home/me/train.py", "/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py");
    let change = with_worker(waits("futex", vec![Source::OwnThreads]), mine);
    assert!(matches!(change, Change::Frozen(_)), "its worker is closed by itself: {change:?}");
    let for_main = waits("read", vec![processes(&[10, 20])]);
    let change = with_worker(for_main.clone(), mine);
    assert!(matches!(change, Change::Sleeping(_)), "the loop may give its worker work: {change:?}");
    let change = with_worker(for_main, library);
    assert!(matches!(change, Change::Frozen(_)), "the loop of a DataLoader does not: {change:?}");

    let (first, second) = (asking("futex", Source::OwnThreads, 1), asking("futex", Source::OwnThreads, 9));
    let change = compare(&first, &second, &idle());
    assert!(matches!(change, Change::Sleeping(_)), "a loop of its own may end by itself: {change:?}");
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
    for (gpu, ends) in
        [(GpuUse::Idle, true), (GpuUse::Lost, true), (GpuUse::Busy, false), (GpuUse::Unknown, false)]
    {
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
    told(&evidence, &Known { gpu: GpuUse::Busy, ..idle() }, "another thread");
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
    let parent = with_heartbeat(parent, 12);
    ended(&parent, &Known { monitors: [12].into(), ..idle() }, "process 20 to end");
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
fn who_keeps_the_interpreter_keeps_all_its_threads() {
    let with = |holder: Wait| {
        let mut evidence = alone("futex", vec![Source::OwnThreads]);
        evidence.processes[0].threads[0].wait.as_mut().unwrap().timed = Some(true);
        let mut keeps = thread(11, holder, &["native.py:3 call"]);
        keeps.gil = true;
        evidence.processes[0].threads.push(keeps);
        evidence
    };
    ended(&with(owned_by(10, Tie::Mutex)), &idle(), "all 2 threads");
    told(&with(waits("pause", vec![outside("a signal")])), &idle(), "time limit");
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
