//! Every rule by which two looks differ, one at a time.

use gpulane_witness::{Change, Evidence, Holder, Known, Loop, Python, Source, ThreadEvidence, Tie, Wait};

use crate::by_hand::{process, seen, thread, wait};

fn frozen() -> Evidence {
    seen(vec![process(10)])
}

/// A second look that differs from the first by this alone.
fn after(change: impl FnOnce(&mut Evidence)) -> Change {
    let mut second = frozen();
    change(&mut second);
    compare(&frozen(), &second)
}

fn compare(first: &Evidence, second: &Evidence) -> Change {
    gpulane_witness::compare(first, second, &Known::default())
}

fn is_frozen(change: &Change) -> bool {
    matches!(change, Change::Frozen(_))
}

fn moved(change: &Change) -> bool {
    matches!(change, Change::Moved(_))
}

#[test]
fn the_same_twice_is_frozen() {
    assert!(is_frozen(&after(|_| {})));
}

/// What happened between the looks, and what it does to the second.
type Happened = (&'static str, fn(&mut Evidence));

#[test]
fn whatever_differs_is_life() {
    let changes: &[Happened] = &[
        ("a process ended", |seen| seen.processes.clear()),
        ("a process was started", |seen| seen.processes.push(process(11))),
        ("the id belongs to another", |seen| seen.processes[0].start = 101),
        ("a thread was started", |seen| {
            seen.processes[0].threads.push(thread(11, wait("futex", Some(false)), &[]));
        }),
        ("a thread ended", |seen| seen.processes[0].threads.clear()),
        ("it runs", |seen| seen.processes[0].threads[0].state = 'R'),
        ("it is deep in the kernel now", |seen| seen.processes[0].threads[0].state = 'D'),
        ("the innermost line", |seen| seen.processes[0].threads[0].frames[0].line = 13),
        ("an outer line", |seen| seen.processes[0].threads[0].frames[1].line = 41),
        ("one frame less", |seen| drop(seen.processes[0].threads[0].frames.pop())),
        ("it was woken", |seen| seen.processes[0].threads[0].switches = 8),
        ("another call", |seen| seen.processes[0].threads[0].wait = Some(wait("read", Some(false)))),
        ("now with a limit", |seen| {
            seen.processes[0].threads[0].wait = Some(wait("futex", Some(true)));
            seen.processes[0].threads[0].switches = 8;
        }),
        ("traffic", |seen| seen.processes[0].tcp_bytes = 1),
        ("a connection was opened", |seen| seen.processes[0].descriptors.sockets.push(5)),
        ("a pipe was opened", |seen| seen.processes[0].descriptors.pipes.push(5)),
        ("it used CPU time", |seen| seen.processes[0].cpu = 20),
        ("another program", |seen| seen.processes[0].command = "other".to_owned()),
    ];
    for (what, change) in changes {
        let change = after(change);
        assert!(moved(&change), "{what}: {change:?}");
    }
}

#[test]
fn the_places_are_named() {
    let change = after(|seen| seen.processes[0].threads[0].frames[0].line = 15);
    assert_eq!(change, Change::Moved("train.py:12 → train.py:15".to_owned()));
}

#[test]
fn what_is_stopped_is_neither_frozen_nor_alive() {
    assert!(matches!(after(|seen| seen.processes[0].state = 'T'), Change::Stopped(_)));
    assert!(matches!(after(|seen| seen.processes[0].threads[0].state = 't'), Change::Stopped(_)));
    let mut first = frozen();
    first.processes[0].state = 'T';
    assert!(matches!(compare(&first, &frozen()), Change::Stopped(_)), "stopped at the first look");
}

#[test]
fn a_ticker_beside_a_frozen_thread_is_no_life() {
    let with_ticker = |switches: u64, call: &str| {
        let mut evidence = frozen();
        let mut ticker = thread(11, wait(call, Some(true)), &["lib:tqdm/_monitor.py:60 run"]);
        ticker.switches = switches;
        evidence.processes[0].threads.push(ticker);
        evidence
    };
    assert!(is_frozen(&compare(&with_ticker(1, "futex"), &with_ticker(9, "futex"))));
    assert!(is_frozen(&compare(&with_ticker(1, "futex"), &with_ticker(9, "poll"))));
    assert!(is_frozen(&compare(&with_ticker(1, "futex"), &with_ticker(1, "futex"))), "a helper's long wait");
}

/// Beside a frozen main thread, one of this call and these frames.
fn beside(call: &str, timed: bool, frames: &[&str]) -> Evidence {
    let mut evidence = frozen();
    evidence.processes[0].threads.push(thread(11, wait(call, Some(timed)), frames));
    evidence
}

#[test]
fn a_python_thread_that_waits_by_the_clock_is_a_sleep_and_a_native_one_is_not() {
    let timer =
        ["std:threading.py:331 wait", "std:threading.py:1378 run", "std:threading.py:1002 _bootstrap"];
    let python = beside("futex", true, &timer);
    assert_eq!(
        compare(&python, &python),
        Change::Sleeping(
            "waits with a time limit for another thread of its process in threading.py:331".to_owned()
        )
    );
    let native = beside("futex", true, &[]);
    assert!(
        matches!(compare(&native, &native), Change::Waiting(_)),
        "but it may release what the others wait for"
    );
}

#[test]
fn whatever_a_monitor_does_is_no_life() {
    let wandb =
        ["std:threading.py:331 wait", "lib:wandb/sdk/wandb_run.py:300 loop", "std:threading.py:982 run"];
    let first = beside("futex", true, &wandb);
    assert!(is_frozen(&compare(&first, &first)), "it sleeps");
    let changes: &[Happened] = &[
        ("it moves", |seen| seen.processes[0].threads[1].frames[1].line = 301),
        ("it runs", |seen| seen.processes[0].threads[1].state = 'R'),
        ("it is in the kernel", |seen| seen.processes[0].threads[1].state = 'D'),
        ("it is met elsewhere", |seen| seen.processes[0].threads[1].frames.truncate(1)),
        ("it ends", |seen| drop(seen.processes[0].threads.pop())),
        ("it uses CPU time", |seen| {
            seen.processes[0].threads[1].cpu = 500;
            seen.processes[0].cpu = 510;
        }),
    ];
    for (what, change) in changes {
        let mut second = first.clone();
        change(&mut second);
        assert!(is_frozen(&compare(&first, &second)), "{what}");
        assert!(is_frozen(&compare(&second, &first)), "{what}, before");
    }
    let mut second = first.clone();
    second.processes[0].threads[0].frames[0].line = 13;
    assert!(moved(&compare(&first, &second)), "what is watched does move");
    let work = beside("futex", true, &["lib:wandb/sdk/wandb_run.py:300 log", "train.py:9 logger"]);
    assert!(matches!(compare(&work, &work), Change::Sleeping(_)), "the user's own thread");
}

#[test]
fn cpu_time_counts_from_half_a_percent() {
    let after_ms = |between: u64, used: u64| {
        after(|seen| {
            seen.taken = between;
            seen.processes[0].cpu = used;
        })
    };
    assert_eq!(after_ms(1000, 20), Change::Moved("used CPU time".to_owned()));
    assert!(is_frozen(&after_ms(1000, 10)));
    assert_eq!(after_ms(30_000, 150), Change::Moved("used CPU time".to_owned()));
    assert!(is_frozen(&after_ms(30_000, 140)), "a poller");
}

#[test]
fn a_main_thread_known_to_ask_again_and_again_may_be_met_while_it_asks() {
    let asks = |second: &mut Evidence| {
        second.processes[0].threads[0].state = 'R';
        second.processes[0].threads[0].wait = None;
        second.processes[0].threads[0].cpu += 500;
        second.processes[0].cpu += 500;
        second.taken += 30_000;
    };
    let mut second = frozen();
    asks(&mut second);
    assert!(moved(&compare(&frozen(), &second)));
    let known = Known { pollers: [10].into(), ..Known::default() };
    let change = gpulane_witness::compare(&frozen(), &second, &known);
    assert!(
        matches!(&change, Change::Sleeping(what) if what.starts_with("asks again and again")),
        "{change:?}"
    );
    second.processes[0].cpu += 5000;
    assert!(moved(&gpulane_witness::compare(&frozen(), &second, &known)), "another thread of it worked");
}

#[test]
fn a_main_thread_known_to_ask_may_be_met_at_any_line_of_its_loop_but_not_of_another() {
    let at = |line: u32, header: u32| {
        let mut seen = frozen();
        let asks = &mut seen.processes[0].threads[0];
        *asks =
            thread(10, wait("clock_nanosleep", Some(true)), &["train.py:17 write", "train.py:40 <module>"]);
        asks.frames[0].line = line;
        let (file, header) = (asks.frames[0].file.clone(), format!("while not done({header}):"));
        asks.in_loop = Some(Loop { file, line: 12, header, ..Loop::default() });
        seen
    };
    let known = Known { pollers: [10].into(), ..Known::default() };
    let compare = |second: &Evidence| gpulane_witness::compare(&at(17, 12), second, &known);
    let change = compare(&at(21, 12));
    assert!(
        matches!(&change, Change::Sleeping(what) if what.ends_with("train.py:21, in the loop `while not done(12):`")),
        "{change:?}"
    );
    assert!(moved(&self::compare(&at(17, 12), &at(21, 12))), "unless it is known to ask");
    let changed = |change: fn(&mut ThreadEvidence)| {
        let mut second = at(21, 12);
        change(&mut second.processes[0].threads[0]);
        second
    };
    assert!(moved(&compare(&changed(|asks| asks.in_loop = None))), "in no loop");
    assert!(moved(&compare(&changed(|asks| asks.in_loop.as_mut().unwrap().line = 30))), "in another loop");
    assert!(moved(&compare(&changed(|asks| asks.frames[1].line = 41))), "called from elsewhere");
}

#[test]
fn who_a_monitor_wakes_is_no_life_and_yet_no_part_of_a_proof() {
    let mut first = frozen();
    first.processes[0].threads.push(thread(11, wait("nanosleep", Some(true)), &[]));
    first.processes[0].threads.push(thread(12, wait("recvfrom", Some(false)), &["train.py:7 read"]));
    let reads = |first: &mut Evidence, source: Source, on: &str| {
        let wait = first.processes[0].threads[2].wait.as_mut().unwrap();
        (wait.sources, wait.on) = (vec![source], Some(on.to_owned()));
    };
    let outside = || Source::Outside("somebody".to_owned());
    let peer = |pid: u32| Source::Processes { pids: vec![pid], what: "pipe 7".to_owned() };
    for (source, on, alive) in [
        (Source::OwnThreads, "", false),
        (peer(10), "pipe", false),
        (outside(), "socket", false),
        (peer(77), "pipe", true),
        (outside(), "socket 10.0.0.1:80", true),
    ] {
        reads(&mut first, source.clone(), on);
        let mut second = first.clone();
        second.processes[0].threads.iter_mut().skip(1).for_each(|thread| thread.switches += 2);
        let compare = |known: &Known| gpulane_witness::compare(&first, &second, known);
        let monitors = Known { monitors: [11].into(), ..Known::default() };
        assert!(moved(&compare(&monitors)), "whom it wakes must be known: {source:?}");
        let change = compare(&Known { followers: [12].into(), ..monitors });
        assert_eq!(moved(&change), alive, "{source:?}: {change:?}");
        assert!(!is_frozen(&change), "{source:?}: {change:?}");
    }
    let rlock = Source::Thread { tid: 99, tie: Tie::RLock };
    first.processes[0].threads[0].wait.as_mut().unwrap().sources = vec![rlock];
    first.processes[0].threads.truncate(2);
    let monitor = |known: Known| gpulane_witness::compare(&first, &first, &known);
    assert!(is_frozen(&monitor(Known { monitors: [11].into(), ..Known::default() })), "its owner is gone");
    assert!(
        !is_frozen(&monitor(Known { followers: [11].into(), ..Known::default() })),
        "it may be no monitor"
    );
}

#[test]
fn traffic_is_no_monitors_that_rests_where_others_send_to_it() {
    let outside = || Source::Outside("somebody".to_owned());
    let peer = |pid: u32| Source::Processes { pids: vec![pid], what: "the connection".to_owned() };
    for (call, source, alive) in [
        ("clock_nanosleep", Source::Clock, false),
        ("futex", Source::OwnThreads, false),
        ("poll", outside(), true),
        ("poll", peer(77), true),
        ("poll", peer(10), false),
        ("epoll_wait", outside(), false),
    ] {
        let mut first = frozen();
        first.processes[0].threads.push(thread(11, wait(call, Some(true)), &[]));
        first.processes[0].threads[1].wait.as_mut().unwrap().sources = vec![source.clone()];
        let mut second = first.clone();
        second.processes[0].threads[1].switches += 2;
        second.processes[0].tcp_bytes = 1;
        for known in [
            Known { monitors: [11].into(), ..Known::default() },
            Known { followers: [11].into(), ..Known::default() },
        ] {
            let change = gpulane_witness::compare(&first, &second, &known);
            assert_eq!(moved(&change), alive, "{call}, {source:?}: {change:?}");
        }
    }
}

#[test]
fn who_waits_for_anothers_file_lock_waits() {
    let mut waiting = beside("flock", false, &["build.py:7 lock"]);
    let holder = Some(Holder { pid: Some(77), name: "ninja".to_owned(), others: None });
    let wait = waiting.processes[0].threads[1].wait.as_mut().unwrap();
    (wait.holder, wait.on) = (holder, Some("/build/lock".to_owned()));
    assert_eq!(
        compare(&waiting, &waiting),
        Change::Waiting(
            "waits for the lock of /build/lock, which process 77 (ninja) holds in build.py:7".to_owned()
        )
    );
}

#[test]
fn who_asks_again_and_again_for_a_lock_file_waits() {
    for library in
        ["filelock/_api.py", "torch/utils/file_baton.py", "fasteners/process_lock.py", "portalocker/utils.py"]
    {
        let polling = format!("lib:{library}:50 acquire");
        let mut first = beside("clock_nanosleep", true, &[&polling, "build.py:7 build"]);
        let second = first.clone();
        first.processes[0].threads[1].switches = 1;
        assert_eq!(
            compare(&first, &second),
            Change::Waiting("waits for a lock file: build.py:7".to_owned()),
            "{library}"
        );
        let held = beside("futex", false, &["build.py:9 work", &polling, "build.py:7 build"]);
        assert!(is_frozen(&compare(&held, &held)), "{library}: it has the lock");
    }
}

#[test]
fn a_main_loop_that_polls_waits_by_the_clock() {
    let polling = |switches: u64| {
        let mut evidence = frozen();
        evidence.processes[0].threads[0] =
            thread(10, wait("clock_nanosleep", Some(true)), &["train.py:12 step"]);
        evidence.processes[0].threads[0].switches = switches;
        evidence
    };
    let again = Change::Sleeping("sleeps again and again in train.py:12".to_owned());
    assert_eq!(compare(&polling(1), &polling(9)), again, "whatever it looks for may come");
    assert_eq!(compare(&polling(1), &polling(1)), Change::Sleeping("sleeps in train.py:12".to_owned()));
}

#[test]
fn a_sleep_in_any_process_or_thread_is_a_sleep() {
    let mut child = frozen();
    child.processes[0].threads[0].wait.as_mut().unwrap().sources = vec![Source::Exit(vec![11])];
    let mut sleeper = process(11);
    sleeper.threads[0] = thread(11, wait("poll", Some(true)), &["train.py:3 fetch"]);
    child.processes.push(sleeper);
    assert_eq!(compare(&child, &child), Change::Sleeping("waits with a time limit in train.py:3".to_owned()));

    let mut beside = frozen();
    beside.processes[0].threads.push(thread(12, wait("nanosleep", Some(true)), &[]));
    assert!(matches!(compare(&beside, &beside), Change::Sleeping(_)));
}

#[test]
fn what_cannot_be_looked_at_is_never_frozen() {
    let mut dark = frozen();
    dark.processes[0].python = Python::Unreadable("not allowed".to_owned());
    dark.processes[0].threads[0].wait = None;
    dark.processes[0].threads[0].frames.clear();
    let change = compare(&dark, &dark);
    assert_eq!(change, Change::Unseen("process 10 cannot be looked at: not allowed".to_owned()));

    let mut beside = frozen();
    beside.processes.extend(dark.processes);
    beside.processes[1].pid = 11;
    let change = compare(&beside, &beside);
    assert!(matches!(change, Change::Unseen(_)), "one that can be seen does not speak for the other");
    let mut later = beside.clone();
    later.processes[0].tcp_bytes = 1;
    assert!(moved(&compare(&beside, &later)), "but its life does");
}

#[test]
fn a_child_that_has_ended_but_is_not_reaped_hides_nothing() {
    let mut evidence = frozen();
    let mut ended = process(11);
    ended.state = 'Z';
    ended.threads[0].state = 'Z';
    ended.threads[0].wait = None;
    ended.threads[0].frames.clear();
    evidence.processes.push(ended);
    assert!(is_frozen(&compare(&evidence, &evidence)));
}

#[test]
fn deep_in_the_kernel_somebody_else_may_answer() {
    let mut stuck = frozen();
    stuck.processes[0].state = 'D';
    stuck.processes[0].threads[0].state = 'D';
    let change = |call: &str, on: Option<&str>, wchan: Option<&str>| {
        let mut stuck = stuck.clone();
        let thread = &mut stuck.processes[0].threads[0];
        let wait = Wait { call: call.into(), on: on.map(Into::into), timed: Some(false), ..Wait::default() };
        (thread.wait, thread.wchan) = (Some(wait), wchan.map(Into::into));
        compare(&stuck, &stuck)
    };
    let waits = |change| matches!(change, Change::Waiting(why) if why.contains("disk or a file server"));
    assert!(waits(change("read", Some("/data/train.bin"), None)));
    assert!(waits(change("openat", None, None)));
    assert!(waits(change("write", None, Some("rpc_wait_bit_killable"))));
    assert!(matches!(change("ioctl", None, None), Change::Waiting(_)), "not known what for");
}

#[test]
fn children_that_only_sleep_for_a_loop_come_and_go_without_being_life() {
    let with_child = |pid: u32| {
        let mut shell = frozen();
        let waits = shell.processes[0].threads[0].wait.as_mut().unwrap();
        (waits.call, waits.sources) = ("wait4".to_owned(), vec![Source::Exit(vec![pid])]);
        shell.processes[0].threads[0].switches += u64::from(pid);
        let mut sleeper = process(pid);
        sleeper.threads[0] = thread(pid, wait("nanosleep", Some(true)), &[]);
        shell.processes.push(sleeper);
        shell
    };
    let (first, second) = (with_child(11), with_child(12));
    assert!(moved(&compare(&first, &second)), "unless that is known");
    let known = Known { naps: [11, 12].into(), pollers: [10].into(), ..Known::default() };
    let change = gpulane_witness::compare(&first, &second, &known);
    assert!(
        matches!(&change, Change::Sleeping(what) if what.starts_with("asks again and again")),
        "{change:?}"
    );
}

#[test]
fn what_a_monitor_sends_over_a_kept_connection_is_no_life_of_the_others() {
    let mut first = frozen();
    first.processes[0].threads.push(thread(11, wait("nanosleep", Some(true)), &[]));
    let mut second = first.clone();
    second.processes[0].tcp_bytes += 300;
    second.processes[0].threads[1].switches += 2;
    assert!(moved(&compare(&first, &second)), "whose it is must be known");
    let known = Known { monitors: [11].into(), ..Known::default() };
    let compare = |second: &Evidence| gpulane_witness::compare(&first, second, &known);
    assert!(!moved(&compare(&second)));
    second.processes[0].threads[0].switches += 1;
    assert!(moved(&compare(&second)), "another thread has run");
    second.processes[0].threads[0].switches -= 1;
    second.processes[0].descriptors.sockets.push(9);
    assert!(moved(&compare(&second)), "a new connection");
}
