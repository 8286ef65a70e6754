//! Causes that need a GPU, a library or a broken machine, from evidence written by hand.

use gpulane_model::{Millis, Stuck};
use gpulane_witness::{Evidence, GpuSight, ProcessEvidence, Source, Surroundings, Tie, Wait, diagnose};

use crate::by_hand::{process, seen, thread, wait};

fn told(evidence: &Evidence) -> Stuck {
    diagnose(evidence, &Surroundings { main: 10, ..Surroundings::default() })
}

#[track_caller]
fn cause(evidence: &Evidence, wanted: &str) {
    let stuck = told(evidence);
    assert!(
        stuck.cause.as_deref().is_some_and(|cause| cause.contains(wanted)),
        "no `{wanted}` in {stuck:#?}"
    );
    let remedy = stuck.remedy.unwrap();
    assert!(
        !remedy.starts_with(char::is_uppercase) && !remedy.ends_with('.'),
        "it follows an arrow: {remedy}"
    );
}

fn child_of(parent: u32, pid: u32) -> ProcessEvidence {
    ProcessEvidence { parent, ..process(pid) }
}

/// The main process waits for its child.
fn waiting(pid: u32) -> ProcessEvidence {
    let frames = [
        "std:multiprocessing/popen_fork.py:27 Popen.poll",
        "std:multiprocessing/process.py:149 join",
        "train.py:50 <module>",
    ];
    ProcessEvidence { threads: vec![thread(pid, wait("wait4", Some(false)), &frames)], ..process(pid) }
}

#[test]
fn the_line_tells_place_threads_gpu_and_time() {
    let mut process = process(10);
    let frames = ["lib:cleanfid/features.py:88 compute", "eval.py:7 score", "eval.py:30 <module>"];
    process.threads[0] = thread(10, wait("futex", Some(false)), &frames);
    process.threads.extend((11..17).map(|tid| thread(tid, wait("futex", Some(false)), &[])));
    let gpu = Some(GpuSight { load: 0, power: 70.0, power_limit: 700.0 });
    let around = Surroundings { quiet: Millis::seconds(600), gpu, main: 10 };
    assert_eq!(
        diagnose(&seen(vec![process]), &around).evidence,
        "waiting for a lock in eval.py:7 (score), inside cleanfid (features.py:88), 7 threads, GPU 0% for 10 min"
    );
}

#[test]
fn nothing_left_is_told() {
    let stuck = told(&Evidence::default());
    assert_eq!((stuck.evidence.as_str(), stuck.cause), ("nothing is left of it", None));
}

#[test]
fn fork_after_cuda() {
    let mut child = child_of(10, 20);
    child.descriptors.gpus = 1;
    let evidence = seen(vec![waiting(10), child]);
    cause(&evidence, "fork after CUDA");
    let line = told(&evidence).evidence;
    assert_eq!(
        line,
        "waiting for a lock in train.py:12 (step) in child 20, train.py:50 waits for it, 2 processes"
    );
}

#[test]
fn advice_on_forks_fits_how_the_child_was_made() {
    let forked = |frames: &[&str]| {
        let mut child = child_of(10, 20);
        child.threads[0] = thread(20, wait("futex", Some(false)), frames);
        let mut parent = process(10);
        parent.threads[0] = thread(10, wait("wait4", Some(false)), &["train.py:50 <module>"]);
        told(&seen(vec![parent, child])).remedy.unwrap()
    };
    assert!(forked(&["train.py:12 step", "train.py:40 <module>"]).contains("instead of `os.fork()`"));
    let by_library =
        forked(&["train.py:12 step", "std:multiprocessing/popen_fork.py:71 _launch", "train.py:40 <module>"]);
    assert!(by_library.contains("set_start_method"));
}

#[test]
fn a_prompt_of_a_child_is_a_prompt_though_its_parent_has_the_same_stdin() {
    let mut parent = waiting(10);
    parent.descriptors.pipes = vec![7];
    let mut child = ProcessEvidence { command: "ssh host".to_owned(), ..child_of(10, 20) };
    child.descriptors.pipes = vec![7];
    let read = Wait { fd: Some(0), on: Some("pipe".to_owned()), inode: Some(7), ..wait("read", Some(false)) };
    child.threads[0] = thread(20, read, &[]);
    cause(&seen(vec![parent, child]), "child 20 (ssh host) asks for something on stdin");
}

#[test]
fn a_spawned_child_is_no_fork() {
    let child = ProcessEvidence { command: "python -c spawn_main".to_owned(), ..child_of(10, 20) };
    cause(&seen(vec![waiting(10), child]), "a lock is not released");
}

#[test]
fn a_loader_whose_worker_is_stuck_and_one_whose_worker_is_gone() {
    let mut main = process(10);
    let frames = [
        "std:multiprocessing/connection.py:947 wait",
        "std:multiprocessing/queues.py:113 get",
        "lib:torch/utils/data/dataloader.py:1133 _try_get_data",
        "train.py:12 <module>",
    ];
    main.threads[0] = thread(10, wait("poll", Some(true)), &frames);
    cause(&seen(vec![main.clone()]), "waits for a batch of a DataLoader");

    let mut worker = child_of(10, 20);
    worker.command = "python worker".to_owned();
    let frames = [
        "data.py:33 __getitem__",
        "lib:torch/utils/data/_utils/worker.py:308 _worker_loop",
        "train.py:50 <module>",
    ];
    worker.threads[0] = thread(20, wait("futex", Some(false)), &frames);
    cause(&seen(vec![main, worker]), "a worker of a DataLoader does not go on: data.py:33 (__getitem__)");
}

#[test]
fn a_collective_spins_at_little_power() {
    let mut rank = process(10);
    rank.threads.push(thread(11, wait("poll", Some(true)), &[]));
    rank.threads[1].name = "pt_nccl_watchdg".to_owned();
    let at = |power: f64| {
        let gpu = Some(GpuSight { load: 100, power, power_limit: 700.0 });
        diagnose(&seen(vec![rank.clone()]), &Surroundings { gpu, main: 10, quiet: Millis(0) }).cause.unwrap()
    };
    assert!(at(120.0).contains("a rank that does not take part (the GPU shows full load at little power"));
    assert!(!at(600.0).contains("rank"), "a GPU that computes is no collective that spins");

    let mut rank = process(10);
    let frames = ["lib:torch/distributed/distributed_c10d.py:2000 all_reduce", "train.py:12 step"];
    rank.threads[0] = thread(10, wait("futex", Some(false)), &frames);
    cause(&seen(vec![rank]), "a collective (NCCL)");
}

#[test]
fn deep_in_the_kernel() {
    let on = |path: &str| {
        let mut stuck = process(10);
        stuck.state = 'D';
        let wait = Wait { on: Some(path.to_owned()), fd: Some(3), ..wait("read", Some(false)) };
        stuck.threads[0] = thread(10, wait, &["train.py:12 load"]);
        stuck.threads[0].state = 'D';
        seen(vec![stuck])
    };
    cause(&on("/mnt/data/x.bin"), "network file system");
    assert!(
        told(&on("/mnt/data/x.bin")).evidence.contains("(D) in read (/mnt/data/x.bin) in train.py:12 (load)")
    );
    cause(&on("/dev/nvidia0"), "inside the GPU driver");
}

#[test]
fn descriptors_at_their_limit() {
    let mut full = process(10);
    full.descriptors.limit = Some(1024);
    full.descriptors.open = 1000;
    cause(&seen(vec![full.clone()]), "a lock is not released");
    full.descriptors.open = 1024;
    cause(&seen(vec![full]), "1024 of 1024 file descriptors");
}

#[test]
fn workers_whose_main_process_is_gone() {
    let mut worker = process(20);
    let wait = Wait { on: Some("pipe".to_owned()), fd: Some(5), ..wait("write", Some(false)) };
    worker.threads[0] = thread(20, wait, &["data.py:33 send"]);
    cause(&seen(vec![worker.clone()]), "the process that started it is gone");

    worker.descriptors.gpus = 1;
    let seen_alone = diagnose(&seen(vec![worker]), &Surroundings { main: 20, ..Surroundings::default() });
    assert!(seen_alone.remedy.unwrap().contains("`kill 20`"));
}

#[test]
fn a_thread_that_keeps_the_interpreter_busy() {
    let mut process = process(10);
    process.threads[0] = thread(10, wait("futex", Some(true)), &["train.py:12 feed", "train.py:50 <module>"]);
    process.threads.push(thread(11, wait("futex", Some(true)), &["train.py:20 feed"]));
    let mut busy = thread(12, wait("futex", None), &["prepare.py:5 crunch"]);
    (busy.state, busy.wait, busy.gil) = ('R', None, true);
    process.threads.push(busy);
    cause(
        &seen(vec![process]),
        "2 threads wait for Python's own lock (GIL), which prepare.py:5 (crunch) keeps busy",
    );
}

#[test]
fn connections_in_all_directions() {
    for (call, wanted) in [
        ("recvfrom", "does not answer"),
        ("sendto", "does not read"),
        ("connect", "does not take the connection"),
        ("accept4", "nobody does"),
    ] {
        let mut process = process(10);
        let wait = Wait { on: Some("socket 10.0.0.1:80".to_owned()), fd: Some(3), ..wait(call, None) };
        process.threads[0] =
            thread(10, wait, &["std:socket.py:706 readinto", "fetch.py:9 get", "fetch.py:20 <module>"]);
        cause(&seen(vec![process]), wanted);
    }
}

#[test]
fn waits_of_the_standard_library() {
    for (frames, wanted) in [
        (&["std:threading.py:327 wait", "std:queue.py:140 put"][..], "the queue is full"),
        (
            &["std:threading.py:327 wait", "std:threading.py:705 _wait", "std:threading.py:680 wait"],
            "a barrier",
        ),
        (&["std:threading.py:327 wait", "std:threading.py:629 Event.wait"], "an event that nobody sets"),
        (&["std:threading.py:327 wait"], "a condition that nobody notifies"),
        (&["std:threading.py:327 wait", "std:threading.py:365 wait_for"], "a condition that nobody notifies"),
        (&["std:multiprocessing/managers.py:810 _callmethod"], "a multiprocessing.Manager does not answer"),
        (
            &["std:threading.py:327 wait", "std:concurrent/futures/_base.py:451 result"],
            "the result of a future",
        ),
        (
            &["std:threading.py:1116 join", "std:multiprocessing/queues.py:199 _finalize_join"],
            "have not been read",
        ),
        (
            &["std:multiprocessing/process.py:149 join", "std:multiprocessing/util.py:360 _exit_function"],
            "a child process does not end",
        ),
        (
            &["std:selectors.py:468 select", "std:asyncio/base_events.py:607 run_forever"],
            "nothing left that would wake it",
        ),
    ] {
        let mut process = process(10);
        let frames: Vec<&str> = frames.iter().copied().chain(["train.py:12 <module>"]).collect();
        process.threads[0] = thread(10, wait("futex", Some(false)), &frames);
        cause(&seen(vec![process]), wanted);
    }
}

#[test]
fn a_helper_that_waits_for_work_is_not_the_culprit() {
    let mut process = process(10);
    process.threads[0] =
        thread(10, wait("futex", Some(false)), &["std:threading.py:1116 join", "train.py:12 <module>"]);
    process.threads.push(thread(
        11,
        wait("futex", Some(false)),
        &["std:concurrent/futures/thread.py:81 _worker"],
    ));
    process.threads.push(thread(
        12,
        wait("pause", Some(false)),
        &["native.py:4 call", "std:threading.py:982 run"],
    ));
    let line = told(&seen(vec![process])).evidence;
    assert_eq!(
        line,
        "in a C function that does not return (pause) in native.py:4 (call), train.py:12 waits for it, 3 threads"
    );
}

#[test]
fn a_monitor_is_the_culprit_only_if_its_end_is_waited_for() {
    let beside_monitor = |frames: &[&str]| {
        let mut process = process(10);
        process.threads[0] = thread(10, wait("futex", Some(false)), frames);
        let monitor = ["lib:wandb/sdk/wandb_run.py:300 loop", "std:threading.py:982 run"];
        process.threads.push(thread(11, wait("pause", Some(false)), &monitor));
        told(&seen(vec![process])).evidence
    };
    assert_eq!(
        beside_monitor(&["std:threading.py:629 Event.wait", "train.py:12 <module>"]),
        "waiting for an event in train.py:12 (<module>), 2 threads"
    );
    let at_exit = beside_monitor(&["std:threading.py:1590 _shutdown"]);
    assert!(at_exit.contains("in wandb_run.py:300 (loop)"), "{at_exit}");
}

#[test]
fn a_program_that_is_not_python_has_a_line_of_its_own() {
    let mut main = process(10);
    main.python = gpulane_witness::Python::NotPython;
    main.threads[0] = thread(10, wait("wait4", Some(false)), &[]);
    let mut child = child_of(10, 20);
    child.command = "rsync a b".to_owned();
    child.threads[0] = thread(20, wait("call 999", None), &[]);
    let stuck = told(&seen(vec![main, child]));
    assert_eq!(stuck.evidence, "in a C function that does not return (call 999) in child 20, 2 processes");
    assert_eq!(stuck.cause.unwrap(), "it waits for child 20 (rsync a b), which does not go on");
}

#[test]
fn locks_of_programs_that_are_not_python_are_told_with_their_owner() {
    let owned = |tid: u32| Wait {
        sources: vec![Source::Thread { tid, tie: Tie::Mutex }],
        ..wait("futex", Some(false))
    };
    let mut main = process(10);
    main.threads = vec![thread(10, owned(11), &[]), thread(11, owned(10), &[])];
    cause(
        &seen(vec![main.clone()]),
        "deadlock: threads hold mutexes that others of them wait for, around: thread 10 waits for one that thread 11 holds",
    );
    main.threads[0].wait = Some(owned(10));
    let stuck = told(&seen(vec![main.clone()]));
    assert!(stuck.cause.unwrap().contains("holds it already"));
    assert!(
        stuck.evidence.contains("waiting for a mutex (thread 10 to unlock a mutex)"),
        "{}",
        stuck.evidence
    );
    // Each waits for the next, and the last two for each other: what takes the square of it would not end.
    let last = 200_000;
    main.threads = (10..last).map(|tid| thread(tid, owned(tid + 1), &[])).collect();
    main.threads.push(thread(last, owned(last - 1), &[]));
    let last_two = format!("around: thread {} waits for one that thread {last} holds", last - 1);
    cause(&seen(vec![main]), &last_two);
}

#[test]
fn a_lock_of_the_standard_library_is_no_queue() {
    let of = |frames: &[&str]| {
        let mut main = process(10);
        main.threads = vec![thread(10, wait("futex", Some(false)), frames)];
        told(&seen(vec![main])).cause.unwrap()
    };
    let own = of(&["train.py:12 step", "train.py:40 <module>"]);
    assert!(own.contains("a queue.SimpleQueue, nobody puts an item"), "{own}");
    let logging = of(&["std:logging/__init__.py:900 acquire", "train.py:40 <module>"]);
    assert!(logging.contains("a lock is not released") && !logging.contains("SimpleQueue"), "{logging}");
}
