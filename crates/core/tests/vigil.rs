//! The watch over one job: what counts as life, when evidence is taken, and that no living job is ever judged.

#![allow(clippy::unwrap_used)]

use gpulane_core::{Doubt, Judgement, Limits, ProcessSigns, Seen, Signs, Vigil, Wish};
use gpulane_model::Millis;
use proptest::prelude::*;

const AFTER: Millis = Millis::seconds(100);

fn still() -> Signs {
    let process = ProcessSigns { pid: 7, start: 1, cpu: Millis(500), io: 10, faults: 10, computed: 0 };
    let processes = vec![process, ProcessSigns { pid: 8, ..process }];
    Signs { output: 5, gpu: 3, processes, ..Signs::default() }
}

fn stopped() -> Signs {
    Signs { stopped: true, ..still() }
}

/// A watch with its clock.
struct Watch {
    vigil: Vigil,
    now: Millis,
}

impl Watch {
    fn new(after: Option<Millis>, linger: Option<Millis>) -> Self {
        let mut watch = Self { vigil: Vigil::new(after, linger, Millis(0)), now: Millis(0) };
        assert_eq!(watch.look(&still()), Wish::Rest);
        watch
    }

    fn look(&mut self, signs: &Signs) -> Wish {
        self.vigil.look(self.now, signs)
    }

    /// Looks at a job like this, whenever it is time to, for so long; the time of the first wish, if there was one.
    fn watch(&mut self, signs: &Signs, time: Millis) -> Option<Millis> {
        let end = self.now.after(time);
        while self.vigil.next_look(self.now) <= end {
            self.now = self.vigil.next_look(self.now);
            if self.look(signs) == Wish::Evidence {
                return Some(self.now);
            }
        }
        self.now = end;
        None
    }

    /// Watches a job like this until evidence is asked for, and answers.
    fn answer(&mut self, change: Seen) -> Judgement {
        self.watch(&still(), Millis::seconds(100_000)).unwrap();
        self.vigil.on_evidence(self.now, change)
    }
}

#[test]
fn only_the_same_evidence_twice_is_a_verdict_and_it_is_given_once() {
    let mut watch = Watch::new(Some(AFTER), None);
    assert_eq!(watch.answer(Seen::First), Judgement::Nothing);
    assert_eq!(watch.now, AFTER);
    assert_eq!(watch.vigil.on_evidence(watch.now, Seen::Frozen), Judgement::Nothing, "the pause is not over");
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Frozen);
    assert_eq!(watch.now, Millis::seconds(110));
    assert_eq!(watch.watch(&still(), Millis::seconds(10_000)), None, "nothing more is asked");
    let awake = Signs { output: 6, ..still() };
    watch.now = watch.now.after(Millis(100));
    assert_eq!(watch.look(&awake), Wish::Rest);
    assert_eq!(
        watch.watch(&awake, Millis::seconds(200)).map(|at| at.0 / 1000),
        Some(10_210),
        "a new silence"
    );
}

#[test]
fn without_an_earlier_piece_any_evidence_is_the_first() {
    let mut watch = Watch::new(Some(AFTER), None);
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Nothing);
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Frozen);
}

#[test]
fn evidence_that_moved_is_life() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.answer(Seen::First);
    assert_eq!(watch.answer(Seen::Moved), Judgement::Nothing);
    assert_eq!(watch.vigil.quiet(watch.now), Millis(0));
    assert_eq!(watch.vigil.longest_quiet(), Millis::seconds(110));
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Nothing, "the first of a new silence");
    assert_eq!(watch.now, Millis::seconds(210));
}

#[test]
fn a_sleeper_is_told_of_once_and_looked_at_less_and_less() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.answer(Seen::First);
    assert_eq!(watch.answer(Seen::Sleeping), Judgement::Suspect);
    let mut pauses = vec![];
    for _ in 0..5 {
        let before = watch.now;
        assert_eq!(watch.answer(Seen::Sleeping), Judgement::Nothing);
        pauses.push(watch.now.since(before).0 / 1000);
    }
    assert_eq!(pauses, [20, 40, 80, 100, 100]);
    assert_eq!(
        watch.answer(Seen::Frozen),
        Judgement::Frozen,
        "until it sleeps no more and still does not move"
    );
}

#[test]
fn what_may_still_come_is_told_and_never_ended_for_it() {
    for seen in [Seen::Waiting, Seen::Sleeping, Seen::Unreadable] {
        let mut watch = Watch::new(Some(AFTER), None);
        watch.answer(Seen::First);
        assert_eq!(watch.answer(seen), Judgement::Suspect);
        for _ in 0..50 {
            assert_eq!(watch.answer(seen), Judgement::Nothing, "{seen:?}");
        }
    }
}

#[test]
fn a_suspicion_may_last_as_long_as_outside_says() {
    let outside = Some(Millis::seconds(300));
    for seen in [Seen::Waiting, Seen::Sleeping, Seen::Unreadable] {
        let mut watch = Watch::new(Some(AFTER), None);
        watch.vigil = watch.vigil.with_outside(outside);
        watch.answer(Seen::First);
        assert_eq!(watch.answer(seen), Judgement::Suspect);
        let judged = std::iter::repeat_with(|| watch.answer(seen)).find(|it| *it != Judgement::Nothing);
        assert_eq!((judged, watch.now), (Some(Judgement::Overdue), Millis::seconds(300)), "{seen:?}");
        assert_eq!(watch.watch(&still(), Millis::seconds(10_000)), None, "nothing more is asked");
    }
}

#[test]
fn nobody_is_overdue_who_was_not_told_of() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.vigil = watch.vigil.with_outside(Some(AFTER));
    watch.answer(Seen::First);
    assert_eq!(watch.answer(Seen::Waiting), Judgement::Suspect);
    assert_eq!(watch.answer(Seen::Waiting), Judgement::Overdue);
}

#[test]
fn what_cannot_be_seen_is_never_judged() {
    let mut watch = Watch::new(Some(AFTER), None);
    assert_eq!(watch.answer(Seen::Unreadable), Judgement::Suspect);
    for _ in 0..20 {
        assert_eq!(watch.answer(Seen::Unreadable), Judgement::Nothing);
    }
}

#[test]
fn a_stopped_job_is_not_quiet_and_what_was_seen_of_it_is_forgotten() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.answer(Seen::First);
    assert_eq!(watch.watch(&stopped(), Millis::seconds(10_000)), None);
    assert_eq!(watch.vigil.quiet(watch.now), AFTER);
    watch.now = watch.now.after(Millis(1));
    assert_eq!(watch.look(&still()), Wish::Evidence);
    assert_eq!(
        watch.vigil.on_evidence(watch.now, Seen::Frozen),
        Judgement::Nothing,
        "it may be about to go on"
    );
    assert_eq!(watch.answer(Seen::Stopped), Judgement::Nothing);
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Nothing);
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Frozen);
}

#[test]
fn time_in_which_nobody_looked_is_not_held_against_a_job() {
    let mut watch = Watch::new(Some(AFTER), None);
    for _ in 0..19 {
        watch.now = watch.now.after(Millis::seconds(3600));
        assert_eq!(watch.look(&still()), Wish::Rest);
    }
    assert_eq!(watch.vigil.longest_quiet(), Millis::seconds(95));
}

#[test]
fn with_its_results_there_the_shorter_limit_counts_and_it_lingers() {
    let mut watch = Watch::new(Some(AFTER), Some(Millis::seconds(10)));
    watch.watch(&still(), Millis::seconds(5));
    watch.vigil.set_result_there(true);
    assert_eq!(watch.answer(Seen::First), Judgement::Nothing);
    assert_eq!(watch.now, Millis::seconds(10));
    assert_eq!(watch.answer(Seen::Frozen), Judgement::Lingers);

    let mut waits = Watch::new(Some(AFTER), Some(Millis::seconds(10)));
    waits.vigil.set_result_there(true);
    waits.answer(Seen::First);
    assert_eq!(waits.answer(Seen::Waiting), Judgement::Lingers, "whatever it waits for, its work is done");

    for seen in [Seen::Sleeping, Seen::Unreadable] {
        let mut sleeps = Watch::new(Some(AFTER), Some(Millis::seconds(10)));
        sleeps.vigil.set_result_there(true);
        sleeps.answer(Seen::First);
        assert_eq!(sleeps.answer(seen), Judgement::Suspect, "it may go on to write by itself: {seen:?}");
        assert_eq!(sleeps.answer(seen), Judgement::Nothing);
    }

    let mut off = Watch::new(None, Some(Millis::seconds(10)));
    assert_eq!(off.watch(&still(), Millis::seconds(1000)), None, "off, and no results");
    off.vigil.set_result_there(true);
    off.answer(Seen::First);
    assert_eq!(off.answer(Seen::Frozen), Judgement::Lingers, "also where the watchdog is off");
}

#[test]
fn another_limit_counts_from_now_on() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.watch(&still(), Millis::seconds(90));
    watch.vigil.set_after(Some(Millis::seconds(200)));
    assert_eq!(watch.watch(&still(), Millis::seconds(500)), Some(Millis::seconds(200)));
    watch.vigil.set_after(None);
    assert_eq!(watch.watch(&still(), Millis::seconds(500)), None);
}

#[test]
fn what_is_life_and_what_is_not() {
    let signs = |change: fn(&mut Signs)| {
        let mut signs = still();
        change(&mut signs);
        signs
    };
    let life: [fn(&mut Signs); 9] = [
        |signs| signs.processes[1].computed += 1,
        |signs| signs.output += 1,
        |signs| signs.gpu += 1,
        |signs| signs.processes[0].cpu = Millis(525),
        |signs| signs.processes[1].io += 1,
        |signs| signs.processes[1].faults += 17,
        |signs| signs.processes[0].start = 2,
        |signs| signs.processes.truncate(1),
        |signs| signs.processes.push(ProcessSigns { pid: 9, ..ProcessSigns::default() }),
    ];
    let none: [fn(&mut Signs); 3] = [
        |signs| signs.processes[0].cpu = Millis(520),
        |signs| signs.processes[1].faults += 16,
        |signs| signs.processes.reverse(),
    ];
    let quiet = |signs: &Signs| {
        let mut watch = Watch::new(Some(AFTER), None);
        watch.now = Millis::seconds(5);
        watch.look(signs);
        watch.vigil.quiet(watch.now)
    };
    for (at, change) in life.into_iter().enumerate() {
        assert_eq!(quiet(&signs(change)), Millis(0), "{at}");
    }
    for (at, change) in none.into_iter().enumerate() {
        assert_eq!(quiet(&signs(change)), Millis::seconds(5), "{at}");
    }
}

#[test]
fn a_thread_that_may_only_be_looking_holds_up_the_case_until_it_is_known() {
    let doubtful = |doubt| Signs { doubt, ..still() };
    let mut watch = Watch::new(Some(AFTER), None);
    assert_eq!(watch.watch(&doubtful(Doubt::Stirs), Millis::seconds(1000)), None, "it may be at work");
    assert_eq!(
        watch.watch(&still(), Millis::seconds(10)),
        Some(Millis::seconds(1005)),
        "it was a monitor, and the job has been silent all along"
    );

    let mut watch = Watch::new(Some(AFTER), None);
    watch.watch(&doubtful(Doubt::Stirs), Millis::seconds(50));
    assert_eq!(
        watch.watch(&doubtful(Doubt::Still), Millis::seconds(1000)),
        Some(Millis::seconds(150)),
        "it has not run for the whole limit either"
    );
}

#[test]
fn threads_that_may_only_be_looking_hold_up_a_verdict_but_not_that_people_are_told() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.answer(Seen::First);
    for _ in 0..5 {
        assert_eq!(watch.answer(Seen::Doubtful), Judgement::Nothing);
        assert!(watch.vigil.holds_evidence() && watch.vigil.quiet(watch.now) > AFTER);
    }
    assert_eq!(watch.answer(Seen::Waiting), Judgement::Suspect);
    assert!(watch.now < Millis::seconds(200), "without another limit: {}", watch.now);
}

#[test]
fn outside_counts_from_when_threads_last_ran_that_may_work() {
    let mut watch = Watch::new(Some(AFTER), None);
    let outside = Millis::seconds(300);
    watch.vigil = watch.vigil.with_outside(Some(outside));
    watch.answer(Seen::First);
    assert_eq!(watch.answer(Seen::Waiting), Judgement::Suspect);
    while watch.now < Millis::seconds(3000) {
        assert_eq!(watch.answer(Seen::Doubtful), Judgement::Nothing);
        assert_eq!(watch.answer(Seen::Waiting), Judgement::Nothing, "it may be at work: {}", watch.now);
    }
    watch.answer(Seen::Doubtful);
    let doubted = watch.now;
    while watch.answer(Seen::Waiting) == Judgement::Nothing {
        assert!(watch.now.since(doubted) < outside, "{}", watch.now);
    }
    assert_eq!(watch.now.since(doubted), outside);
}

#[test]
fn the_end_of_a_silence_that_was_told_is_told() {
    let mut watch = Watch::new(Some(AFTER), None);
    watch.answer(Seen::First);
    watch.answer(Seen::Moved);
    assert_eq!(watch.vigil.take_over(), None, "nobody knew of it");
    watch.answer(Seen::First);
    assert_eq!(watch.answer(Seen::Waiting), Judgement::Suspect);
    watch.now = watch.now.after(Millis::seconds(1));
    watch.look(&Signs { output: 6, ..still() });
    assert_eq!(watch.vigil.take_over(), Some(Millis::seconds(110)));
    assert_eq!(watch.vigil.take_over(), None);
}

fn any_after() -> impl Strategy<Value = Millis> {
    (500..2_000_000_u64).prop_map(Millis)
}

/// What happens between two looks: how late the second is in thousandths of a tick, and what there is to see.
fn any_course() -> impl Strategy<Value = Vec<(u64, u8)>> {
    prop::collection::vec((0..8000_u64, any::<u8>()), 1..400)
}

fn any_seen() -> impl Strategy<Value = Seen> {
    use Seen::{Doubtful, First, Frozen, Moved, Sleeping, Stopped, Unreadable, Waiting};
    prop::sample::select(vec![First, Frozen, Moved, Doubtful, Waiting, Sleeping, Stopped, Unreadable])
}

proptest! {
    #[test]
    fn evidence_is_never_asked_for_before_the_limit(after in any_after(), course in any_course()) {
        let (tick, mut watch, mut signs) = (Limits::of(after).tick, Watch::new(Some(after), None), still());
        let mut lived = Millis(0);
        for (late, mood) in course {
            watch.now = watch.now.after(Millis(tick.0 * late / 1000));
            signs.stopped = mood % 16 == 1;
            if mood % 16 == 0 {
                (signs.output, lived) = (signs.output + 1, watch.now);
            }
            if watch.look(&signs) == Wish::Evidence {
                prop_assert!(watch.now.since(lived) >= after && !signs.stopped);
            }
        }
    }

    #[test]
    fn a_job_that_lives_in_every_limit_is_never_judged(
        after in any_after(),
        course in any_course(),
        change in any_seen(),
    ) {
        let (tick, mut watch, mut signs) = (Limits::of(after).tick, Watch::new(Some(after), None), still());
        let mut lived = Millis(0);
        for (late, mood) in course {
            let next = watch.now.after(Millis(tick.0 * late / 1000));
            if mood % 64 == 0 || next.since(lived) >= after {
                (signs.output, lived) = (signs.output + 1, next);
            }
            watch.now = next;
            prop_assert_eq!(watch.look(&signs), Wish::Rest);
            prop_assert_eq!(watch.vigil.on_evidence(watch.now, change), Judgement::Nothing);
        }
    }

    #[test]
    fn a_frozen_job_is_judged_in_time(after in any_after(), busy in 0..2000_u64, delay in 0..1000_u64) {
        let (limits, mut watch, mut signs) = (Limits::of(after), Watch::new(Some(after), None), still());
        for _ in 0..busy % 20 {
            signs.output += 1;
            watch.watch(&signs, limits.tick);
        }
        // It froze right after a look.
        signs.output += busy % 2;
        let froze = watch.now;
        let mut seen = Seen::First;
        loop {
            watch.watch(&signs, Millis(after.0 * 2 + 100_000)).unwrap();
            // Evidence takes a while.
            watch.now = watch.now.after(Millis(limits.tick.0 * delay / 2000));
            match watch.vigil.on_evidence(watch.now, seen) {
                Judgement::Frozen => break,
                other => prop_assert_eq!((other, seen), (Judgement::Nothing, Seen::First)),
            }
            seen = Seen::Frozen;
        }
        let most = after.after(Millis(2 * limits.confirm.0 + 2 * limits.tick.0));
        prop_assert!(watch.now.since(froze) <= most, "{} after {}", watch.now.since(froze), after);
    }

    #[test]
    fn nothing_is_ended_without_a_proof_or_the_word_of_its_plan(
        after in any_after(),
        outside in prop::option::of(1..20_u64),
        course in any_course(),
        all in prop::collection::vec(any_seen(), 1..40),
    ) {
        let outside = outside.map(|times| Millis(after.0 * times));
        let (tick, mut watch, mut signs) = (Limits::of(after).tick, Watch::new(Some(after), None), still());
        watch.vigil = watch.vigil.with_outside(outside);
        let (mut lived, mut told) = (Millis(0), false);
        for ((late, mood), seen) in course.into_iter().zip(all.iter().cycle()) {
            watch.now = watch.now.after(Millis(tick.0 * late / 1000));
            if mood % 64 == 0 {
                (signs.output, lived, told) = (signs.output + 1, watch.now, false);
            }
            let asked = watch.look(&signs) == Wish::Evidence;
            if asked && *seen == Seen::Doubtful {
                lived = watch.now;
            }
            let judged = watch.vigil.on_evidence(watch.now, *seen);
            prop_assert!(asked || judged == Judgement::Nothing);
            match judged {
                Judgement::Frozen => prop_assert_eq!(*seen, Seen::Frozen),
                Judgement::Overdue => {
                    let long = outside.is_some_and(|outside| watch.now.since(lived) >= outside);
                    prop_assert!(told && long, "after {}", watch.now.since(lived));
                }
                Judgement::Lingers => prop_assert!(false, "there are no results"),
                Judgement::Suspect => told = true,
                Judgement::Nothing => told &= *seen != Seen::Moved || !asked,
            }
        }
    }

    #[test]
    fn a_stopped_job_is_never_judged(after in any_after(), course in any_course(), change in any_seen()) {
        let (tick, mut watch) = (Limits::of(after).tick, Watch::new(Some(after), None));
        watch.look(&stopped());
        for (late, _) in course {
            watch.now = watch.now.after(Millis(tick.0 * late / 1000));
            prop_assert_eq!(watch.look(&stopped()), Wish::Rest);
            prop_assert_eq!(watch.vigil.on_evidence(watch.now, change), Judgement::Nothing);
        }
    }
}

/// Whether evidence is asked for of a job whose two processes each use CPU time in this many thousandths.
fn is_suspected(thousandths: u64, after: Millis) -> bool {
    let mut watch = Watch::new(Some(after), None);
    while watch.now < Millis(after.0 * 20) {
        watch.now = watch.vigil.next_look(watch.now);
        let mut signs = still();
        for process in &mut signs.processes {
            // As the kernel counts: in ticks of 10 ms.
            process.cpu = Millis(500 + watch.now.0 * thousandths / 10_000 * 10);
        }
        if watch.look(&signs) == Wish::Evidence {
            return true;
        }
    }
    false
}

#[test]
fn steady_work_is_life_however_short_the_looks_and_a_poller_is_not() {
    for after in [1, 2, 5, 10, 60, 600].map(Millis::seconds) {
        assert!(!is_suspected(20, after), "two times 2% of a core is work, at {after}");
        assert!(is_suspected(1, after), "two times 0.1% is a poller's, at {after}");
    }
}
