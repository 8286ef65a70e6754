//! Threads that only look, told apart from those that work.

use gpulane_core::{Place, Rest, Rhythm, ThreadSigns, Timeout, Work};
use gpulane_model::Millis;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A thread that does the same at every wake.
#[derive(Clone, Copy, Debug)]
struct Habit {
    every: u64,
    /// Milliseconds by which a wake is late.
    jitter: u64,
    /// How often it waits in a wake.
    waits: u64,
    cpu: u64,
    read: u64,
    written: u64,
    rest: Rest,
    timeout: Option<Timeout>,
}

const PLACE: Place = Place { call: 230, stack: 7, code: 8, events: false };
const HEARTBEAT: Habit = Habit {
    every: 2000,
    jitter: 0,
    waits: 1,
    cpu: MS / 2,
    read: 3000,
    written: 40,
    rest: Rest::Clock(PLACE),
    timeout: None,
};

/// What came of watching it for so many milliseconds, looking every `step`: all that counted as work, and whether it is known to
/// only look in the end.
fn watched(habit: impl Fn(u64) -> Habit, main: bool, step: u64, time: u64) -> (Work, Rhythm) {
    let first = habit(0);
    let mut signs = ThreadSigns { rest: first.rest, ..ThreadSigns::default() };
    let mut rhythm = Rhythm::new(main, signs);
    let (mut work, mut wake, mut due) = (Work::default(), 0, first.every);
    for now in (step..=time).step_by(usize::try_from(step).unwrap_or(1)) {
        while due <= now {
            let habit = habit(wake);
            signs = ThreadSigns {
                cpu: signs.cpu + habit.cpu,
                runs: signs.runs + 3,
                waits: signs.waits + habit.waits,
                delay: signs.delay,
                read: signs.read + habit.read,
                written: signs.written + habit.written,
                faults: signs.faults,
                rest: habit.rest,
                timeout: habit.timeout,
            };
            wake += 1;
            due += habit.every + if wake % 2 == 0 { habit.jitter } else { 0 };
        }
        work = work.and(rhythm.look(Millis(now), Millis(step), signs));
    }
    (work, rhythm)
}

fn is_withheld(habit: impl Fn(u64) -> Habit, main: bool, step: u64) -> bool {
    let (work, rhythm) = watched(habit, main, step, 400_000);
    work == Work::default() && rhythm.only_looks()
}

#[test]
fn a_monitor_is_known_however_often_it_is_looked_at() {
    for step in [100, 250, 500, 1000, 2500, 5000] {
        assert!(is_withheld(|_| HEARTBEAT, false, step), "at a look every {step} ms");
    }
    for every in [50, 200, 1000, 2000, 10_000, 30_000] {
        assert!(is_withheld(|_| Habit { every, ..HEARTBEAT }, false, 250), "every {every} ms");
    }
}

#[test]
fn eight_wakes_are_needed_and_until_then_it_is_in_doubt() {
    let (work, rhythm) = watched(|_| HEARTBEAT, false, 250, 14_500);
    assert!(work == Work::default() && rhythm.is_unsettled() && !rhythm.only_looks());
    let (_, rhythm) = watched(|_| HEARTBEAT, false, 250, 16_500);
    assert!(!rhythm.is_unsettled() && rhythm.only_looks());
}

#[test]
fn what_does_not_fit_is_work_and_all_that_was_withheld_counts() {
    let odd = |at: u64, other: Habit| move |wake: u64| if wake == at { other } else { HEARTBEAT };
    let elsewhere = Rest::Clock(Place { code: 9, ..PLACE });
    for (what, other) in [
        ("computed", Habit { cpu: 6 * MS, ..HEARTBEAT }),
        ("read more", Habit { read: 30_000, ..HEARTBEAT }),
        ("wrote more", Habit { written: 9_000, ..HEARTBEAT }),
        ("rests elsewhere", Habit { rest: elsewhere, ..HEARTBEAT }),
        ("rests deeper", Habit { rest: Rest::Clock(Place { stack: 7000, ..PLACE }), ..HEARTBEAT }),
        ("waits for something", Habit { rest: Rest::Other, ..HEARTBEAT }),
        ("came late", Habit { every: 4000, ..HEARTBEAT }),
    ] {
        let (work, _) = watched(odd(5, other), false, 250, 20_500);
        assert!(work.io >= 5 * 3040, "{what}: {work:?}");
    }
    let (work, _) = watched(odd(50, Habit { cpu: 6 * MS, ..HEARTBEAT }), false, 250, 120_000);
    assert!(work.computed, "also of one that was known for long");
}

#[test]
fn an_odd_wake_is_work_and_yet_leaves_the_rhythm_but_a_monitor_has_none() {
    let odd = |wake: u64| if wake == 5 { Habit { cpu: 6 * MS, read: 5000, ..HEARTBEAT } } else { HEARTBEAT };
    let (work, rhythm) = watched(odd, false, 250, 18_500);
    assert!(work.computed && work.io > 5 * 3040, "what it did counts: {work:?}");
    assert!(rhythm.only_looks() && !rhythm.is_monitor(), "but not the eight wakes again");
    assert!(watched(odd, false, 250, 30_500).1.is_monitor(), "the newest eight are alike");
    let often = |wake: u64| if wake % 3 == 2 { Habit { cpu: 6 * MS, ..HEARTBEAT } } else { HEARTBEAT };
    assert!(!watched(often, false, 250, 400_000).1.only_looks(), "every third is odd");
}

/// A wait for the lock of a database, then a pause before the next try, which reads what it begins with.
fn retries(wake: u64) -> Habit {
    let lock = Rest::Clock(Place { stack: 9000, ..PLACE });
    match wake % 10 {
        9 => Habit { every: 100, cpu: MS / 10, read: 16, written: 0, ..HEARTBEAT },
        0 => Habit { every: 500, cpu: MS / 2, read: 4300, written: 0, rest: lock, ..HEARTBEAT },
        _ => Habit { every: 100, cpu: MS / 20, read: 16, written: 0, rest: lock, ..HEARTBEAT },
    }
}

#[test]
fn a_main_thread_that_goes_round_through_a_few_places_is_no_life_once_they_are_known() {
    for step in [100, 250, 400, 1000, 5000] {
        let work = |time: u64| watched(retries, true, step, time);
        let ((early, _), (late, rhythm)) = (work(60_000), work(600_000));
        assert!(early == late && rhythm.only_looks(), "at a look every {step} ms: {early:?}, {late:?}");
        let writes = |wake: u64| Habit { written: u64::from(wake % 10 == 9), ..retries(wake) };
        let (more, _) = watched(writes, true, step, 600_000);
        assert!(more.io > late.io + 1000, "what it writes is life, every {step} ms: {more:?}");
        let grows = |wake: u64| Habit { read: wake * wake / 10, ..retries(wake) };
        let (more, _) = watched(grows, true, step, 600_000);
        assert!(more.io > 1 << 20, "and so is what it reads that grows, every {step} ms: {more:?}");
        let moves =
            |wake: u64| Habit { rest: Rest::Clock(Place { code: wake / 3, ..PLACE }), ..retries(wake) };
        let (more, _) = watched(moves, true, step, 600_000);
        assert!(more.io > 1 << 16, "and who is elsewhere each time, every {step} ms: {more:?}");
    }
}

#[test]
fn who_is_woken_follows_whoever_keeps_time_with_it() {
    let reader = Habit { read: 40, written: 0, rest: Rest::Others(Place { call: 45, ..PLACE }), ..HEARTBEAT };
    for step in [250, 1000, 5000] {
        let (work, woken) = watched(|_| reader, false, step, 60_000);
        assert!(work == Work::default() && woken.is_woken() && woken.only_looks() && !woken.is_monitor());
        let (_, beats) = watched(|_| HEARTBEAT, false, step, 60_000);
        assert!(woken.follows(&beats) && !beats.follows(&woken), "at a look every {step} ms");
        assert!(!beats.follows(&beats), "what the clock wakes follows nobody");
        let (_, main) = watched(|_| HEARTBEAT, true, step, 60_000);
        assert!(!woken.follows(&main), "a main thread is not what makes others idle");
        let (_, slow) = watched(|_| Habit { every: 30_000, ..HEARTBEAT }, false, step, 400_000);
        assert!(!woken.follows(&slow), "at a look every {step} ms");
    }
    let locks = |wake: u64| Habit { every: 500, waits: 1 + wake % 3, ..reader };
    let (work, woken) = watched(locks, false, 1250, 60_000);
    assert!(
        work == Work::default() && woken.only_looks(),
        "it waits for a lock or two of a queue, or for none"
    );
    let (work, main) = watched(|_| reader, true, 250, 60_000);
    assert!(work.io > 0 && !main.only_looks(), "a main thread that is woken works");
    let (work, _) = watched(|wake| Habit { every: 500 + wake % 4 * 3000, ..reader }, false, 250, 60_000);
    assert!(work.io > 0, "at odd times");
}

#[test]
fn a_main_thread_that_asks_again_and_again_is_no_life_but_what_it_writes_is() {
    let poll = |every: u64, cpu: u64| Habit { every, cpu, read: 0, written: 0, ..HEARTBEAT };
    assert!(is_withheld(|_| poll(10, MS / 25), true, 250), "joblib's loop");
    assert!(is_withheld(|_| poll(50, MS / 3), true, 250), "a soft lock's");
    assert!(!is_withheld(|_| poll(10, MS / 4), true, 250), "2.5% of a core is work");
    assert!(!is_withheld(|_| poll(2000, 10 * MS), true, 250), "sleeps 2 s and works 10 ms");
    assert!(watched(|_| poll(2000, 10 * MS), true, 250, 60_000).0.computed);
    assert!(is_withheld(|_| Habit { read: 200, ..poll(500, MS / 10) }, true, 250), "reads whose lock it is");
    assert!(!is_withheld(|_| Habit { read: 5000, ..poll(500, MS / 10) }, true, 250), "reads");
    let other = |wake: u64| Habit { read: wake % 3 * 2000, ..poll(500, MS / 10) };
    assert!(!is_withheld(other, true, 250), "reads something else each time");
    assert!(!is_withheld(|_| Habit { written: 1, ..poll(500, MS / 10) }, true, 250), "writes");
}

#[test]
fn a_heartbeat_that_is_a_task_of_an_event_loop_is_no_life_of_what_the_loop_waits_for() {
    let waits = Habit { rest: Rest::Clock(Place { events: true, ..PLACE }), ..HEARTBEAT };
    assert!(is_withheld(|_| waits, true, 250));
    assert!(!is_withheld(|_| HEARTBEAT, true, 250), "one that sleeps and writes works");
    assert!(!is_withheld(|wake| Habit { every: 500 + wake % 3 * 1500, ..waits }, true, 250), "at odd times");
    assert!(!is_withheld(|_| Habit { written: 1 << 20, ..waits }, true, 250), "writes a lot");
}

#[test]
fn a_loop_that_an_interpreter_has_made_faster_rests_at_the_same_place() {
    let faster = Habit { rest: Rest::Clock(Place { stack: 87, ..PLACE }), ..HEARTBEAT };
    assert!(is_withheld(|wake| if wake < 8 { HEARTBEAT } else { faster }, false, 250));
}

#[test]
fn a_wake_that_comes_late_because_others_had_the_cpus_is_no_other_habit() {
    let mut rhythm = Rhythm::new(false, ThreadSigns::default());
    let mut signs = ThreadSigns { rest: HEARTBEAT.rest, ..ThreadSigns::default() };
    let mut now = 0;
    for wake in 1..20_u64 {
        now += 2000 + wake % 2 * 3000;
        signs = ThreadSigns {
            runs: signs.runs + 1,
            waits: signs.waits + 1,
            written: signs.written + 40,
            delay: signs.delay + wake % 2 * 3000 * MS,
            ..signs
        };
        assert_eq!(rhythm.look(Millis(now), Millis(100), signs), Work::default(), "wake {wake}");
    }
    assert!(rhythm.only_looks());
}

#[test]
fn one_that_is_met_awake_is_judged_when_it_rests() {
    let awake = |wake: u64| if wake % 3 == 1 { Habit { rest: Rest::Awake, ..HEARTBEAT } } else { HEARTBEAT };
    let (work, _) = watched(awake, false, 2000, 400_000);
    assert_eq!(work, Work::default());
    let (work, _) = watched(|_| Habit { rest: Rest::Awake, ..HEARTBEAT }, false, 2000, 60_000);
    assert!(work.io > 0, "always awake");
}

#[test]
fn whom_others_wait_for_is_no_monitor() {
    let (_, mut rhythm) = watched(|_| HEARTBEAT, false, 250, 8500);
    assert!(rhythm.need().io > 0 && !rhythm.is_unsettled());
    let signs = ThreadSigns { read: 1 << 20, runs: 1 << 20, rest: HEARTBEAT.rest, ..ThreadSigns::default() };
    assert!(rhythm.look(Millis(10_500), Millis(250), signs).io > 0);
}

/// A thread that waits for a connection with a limit of 30 s; each time something comes, which no counter of I/O shows.
const RECEIVER: Habit = Habit {
    every: 300,
    read: 0,
    written: 0,
    rest: Rest::Clock(Place { call: 7, events: true, ..PLACE }),
    timeout: Some(Timeout::Whole(Millis::seconds(30))),
    ..HEARTBEAT
};

#[test]
fn who_wakes_before_its_time_is_woken_by_others() {
    for step in [250, 1000, 5000] {
        let (_, mut receiver) = watched(|_| RECEIVER, false, step, 60_000);
        assert!(receiver.is_woken() && !receiver.is_monitor(), "at a look every {step} ms");
        let (_, beats) = watched(|_| HEARTBEAT, false, step, 60_000);
        assert!(!receiver.follows(&beats), "at a look every {step} ms");
        assert!(receiver.dismiss_unled().computed, "whoever wakes it may work: that is life");
        let (work, main) = watched(|_| RECEIVER, true, step, 60_000);
        assert!(work.computed && !main.only_looks(), "a main thread, at a look every {step} ms");
    }
}

#[test]
fn a_monitor_wakes_when_its_wait_is_over_and_stays_one() {
    for every in [300, 1000, 2000, 10_000] {
        for timeout in [Timeout::Whole(Millis(every)), Timeout::Left(Millis(every / 2))] {
            for step in [100, 250, 1000, 5000] {
                let waits = Habit { every, timeout: Some(timeout), ..HEARTBEAT };
                let (work, rhythm) = watched(|_| waits, false, step, 400_000);
                assert!(work == Work::default() && rhythm.is_monitor(), "{waits:?} at {step}: {work:?}");
                let (work, _) = watched(|_| Habit { read: 0, written: 0, ..waits }, true, step, 400_000);
                assert!(!work.computed, "a main thread: {waits:?} at {step}");
            }
        }
    }
}

#[test]
fn who_never_becomes_one_that_only_looks_is_not_in_doubt_for_good() {
    let irregular = |timeout| {
        let every = [500, 6000, 1000, 4000, 2000, 6000, 500, 3000];
        move |wake: u64| Habit { every: every[usize::try_from(wake % 8).unwrap()], timeout, ..RECEIVER }
    };
    assert!(watched(irregular(None), false, 250, 12_000).1.may_only_look(), "at first it may be a monitor");
    for time in (60_000..120_000).step_by(700) {
        let (_, rhythm) = watched(irregular(None), false, 250, time);
        assert!(!rhythm.may_only_look() && !rhythm.only_looks(), "after {time} ms");
        let (_, rhythm) = watched(irregular(RECEIVER.timeout), false, 250, time);
        assert!(rhythm.is_woken() && !rhythm.only_looks(), "after {time} ms");
    }
}

proptest! {
    #[test]
    fn jitter_within_a_quarter_is_borne_and_work_is_never_withheld_for_good(
        every in 500..20_000_u64,
        step in 100..5000_u64,
        jitter in 0..20_u64,
        busy in 6..50_u64,
    ) {
        let steady = Habit { every, jitter: every * jitter / 100, ..HEARTBEAT };
        let (work, rhythm) = watched(|_| steady, false, step, every.max(step) * 60);
        prop_assert!(work == Work::default() && rhythm.only_looks(), "{steady:?} at {step}: {work:?}");
        let (work, _) = watched(|_| Habit { cpu: busy * MS, ..steady }, false, step, every * 60);
        prop_assert!(work.computed);
    }
}
