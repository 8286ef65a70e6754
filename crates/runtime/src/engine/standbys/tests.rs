//! Standbys with other programs in their place: whom a job goes to, who is missing, who is given up.

use std::os::fd::AsFd;

use gpulane_model::{GpuKind, ProcessExit, RunSettings, Stage};
use rustix::process::Signal;

use super::ends::MOST_DEATHS;
use super::*;
use crate::process::image::{CStrings, Image, PointerArray};
use crate::process::spawn::Spawner;

fn standbys() -> Standbys {
    let plan = Plan {
        format: 1,
        name: "test".into(),
        run: RunSettings::default(),
        stages: vec![Stage { entry: Some("train.py:main".into()), ..Stage::named("train") }],
        jobs: vec![],
    };
    let (kind, gpus) = (GpuKind::None, vec![]);
    Standbys::new(&plan, &Machine { kind, gpus, lanes_per_gpu: 1, packing: false, cores: 4, cpu_lanes: 4 })
}

fn mould(cpus: u32) -> Mould {
    Mould { stage: StageId(0), gpu: None, cpus, reserve: None, extra: vec![] }
}

/// A process that waits for ever, or ends at once.
fn add(standbys: &mut Standbys, mould: Mould, program: &std::ffi::CStr) -> (u32, OwnedFd) {
    let cradle = standbys.cradle().unwrap();
    let (mut argv, envp) = (CStrings::default(), CStrings::default());
    argv.push(program.to_bytes());
    argv.push("600");
    let image = Image { program, argv: PointerArray::of(&[&argv]), envp: PointerArray::of(&[&envp]) };
    let (out, theirs) = (cradle.printed.stdout.as_fd(), cradle.theirs.try_clone().unwrap());
    let spawned = Spawner::new().spawn(&image, out, out, &[]).unwrap();
    let number = cradle.number;
    standbys.add(mould, format!("train/standby-{number}"), cradle, spawned, Millis(0));
    (number, theirs)
}

fn logs() -> LogFiles {
    LogFiles { stdout: speech::scratch().unwrap(), stderr: speech::scratch().unwrap() }
}

/// Waits until it has ended, and hears of it.
fn ended(standbys: &mut Standbys, number: u32) -> Option<(Pid, Option<Useless>)> {
    let pidfd = standbys.waiting[&number].pidfd.as_fd();
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(pidfd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).unwrap();
    standbys.on_ended(number)
}

/// Closes a standby's end of its socket. A process that another test is just starting may have a copy until its exec.
fn hang_up(standbys: &Standbys, number: u32, theirs: OwnedFd) {
    drop(theirs);
    let socket = standbys.waiting[&number].socket.as_fd();
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(socket, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).unwrap();
}

/// Ends a job that was a standby.
fn finish(warm: &Warm) {
    rustix::process::pidfd_send_signal(&warm.spawned.pidfd, Signal::KILL).unwrap();
    rustix::process::waitpid(Some(warm.spawned.pid), rustix::process::WaitOptions::empty()).unwrap();
}

#[test]
fn a_job_goes_to_a_standby_of_its_mould_and_rather_to_one_that_is_ready() {
    let mut standbys = standbys();
    let (first, _one) = add(&mut standbys, mould(2), c"/bin/sleep");
    let (second, other) = add(&mut standbys, mould(2), c"/bin/sleep");
    rustix::net::send(&other, br#"{"ready": {}}"#, rustix::net::SendFlags::empty()).unwrap();
    assert!(standbys.hear(second, Millis(0)).is_none());
    assert!(standbys.hand_over(JobId(0), &mould(3), &logs(), b"").is_none(), "another number of threads");
    let warm = standbys.hand_over(JobId(0), &mould(2), &logs(), b"A=1\0").unwrap();
    assert_eq!(warm.alias, format!("train/standby-{second}"));
    let later = standbys.hand_over(JobId(1), &mould(2), &logs(), b"A=1\0").unwrap();
    assert_eq!(later.alias, format!("train/standby-{first}"), "one that imports beats none");
    assert!(standbys.hand_over(JobId(2), &mould(2), &logs(), b"").is_none());
    [warm, later].iter().for_each(finish);
}

#[test]
fn one_that_does_not_listen_is_passed_over() {
    let mut standbys = standbys();
    let (first, dead) = add(&mut standbys, mould(1), c"/bin/sleep");
    hang_up(&standbys, first, dead);
    let (second, _alive) = add(&mut standbys, mould(1), c"/bin/sleep");
    // The first one's end of the socket is closed: its process has no copy.
    let warm = standbys.hand_over(JobId(0), &mould(1), &logs(), b"").unwrap();
    assert_eq!(warm.alias, format!("train/standby-{second}"));
    finish(&warm);
}

#[test]
fn wishes_are_compared_by_mould() {
    let mut standbys = standbys();
    standbys.sizes.insert(StageId(0), 1 << 20);
    let (first, _one) = add(&mut standbys, mould(1), c"/bin/sleep");
    let (second, _two) = add(&mut standbys, mould(1), c"/bin/sleep");
    assert_eq!(standbys.there().len(), 2);
    let (surplus, missing) = standbys.compare(&[(mould(1), 1), (mould(2), 2)]);
    assert_eq!((surplus, missing), (vec![second], vec![mould(2), mould(2)]));
    let (surplus, missing) = standbys.compare(&[]);
    assert_eq!((surplus, missing.len()), (vec![first, second], 0));
    standbys.end_all();
    assert_eq!(standbys.there().len(), 0);
    for number in [first, second] {
        assert!(ended(&mut standbys, number).is_some_and(|(_, useless)| useless.is_none()));
    }
}

#[test]
fn those_that_keep_dying_are_given_up() {
    let mut standbys = standbys();
    let mut useless = None;
    for _ in 0..MOST_DEATHS {
        assert!(useless.is_none());
        let (number, _theirs) = add(&mut standbys, mould(1), c"/bin/false");
        useless = ended(&mut standbys, number).unwrap().1;
    }
    let Some(Useless { why: Why::Deaths(why), .. }) = useless else { panic!("nothing was said") };
    assert_eq!(why, "they ended by themselves 5 times, the last with exit code 1");
}

/// Says something as the runner would.
fn say(theirs: &OwnedFd, word: &str) {
    rustix::net::send(theirs, word.as_bytes(), rustix::net::SendFlags::empty()).unwrap();
}

#[test]
fn a_death_counts_also_where_the_end_of_file_is_heard_first() {
    let mut standbys = standbys();
    let mut useless = None;
    for _ in 0..MOST_DEATHS {
        assert!(useless.is_none());
        let (number, theirs) = add(&mut standbys, mould(1), c"/bin/false");
        hang_up(&standbys, number, theirs);
        assert!(standbys.hear(number, Millis(0)).is_none());
        assert!(standbys.silenced(number).is_some(), "its end of file would wake us for ever");
        assert!(standbys.there().is_empty());
        useless = ended(&mut standbys, number).unwrap().1;
    }
    assert!(matches!(useless, Some(Useless { why: Why::Deaths(_), .. })));
}

#[test]
fn one_that_lives_but_says_nothing_that_can_be_read_is_ended_and_counts() {
    let mut standbys = standbys();
    let mut useless = None;
    for _ in 0..MOST_DEATHS {
        let (number, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
        say(&theirs, "garbage");
        assert!(standbys.hear(number, Millis(0)).is_none());
        useless = ended(&mut standbys, number).unwrap().1;
    }
    let Some(Useless { why: Why::Deaths(why), .. }) = useless else { panic!("nothing was said") };
    assert!(why.contains("signal 9"), "{why}");
}

#[test]
fn one_that_was_ended_does_not_become_ready_again() {
    let mut standbys = standbys();
    let (number, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    standbys.end(number);
    say(&theirs, r#"{"ready": {}}"#);
    assert!(standbys.hear(number, Millis(0)).is_none());
    assert!(standbys.there().is_empty());
    assert!(standbys.hand_over(JobId(0), &mould(1), &logs(), b"").is_none());
    assert!(ended(&mut standbys, number).is_some());
}

#[test]
fn until_their_size_is_known_a_few_import_at_a_time() {
    let mut standbys = standbys();
    let other = Mould { stage: StageId(1), ..mould(1) };
    let wanted = [(mould(1), 5), (mould(2), 1), (other.clone(), 1)];
    assert_eq!(standbys.compare(&wanted).1, [mould(1), mould(1), mould(1), mould(1), other.clone()]);
    let (first, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    assert!(standbys.taken() > 0, "what it has now counts");
    assert_eq!(standbys.compare(&wanted).1, [mould(1), mould(1), mould(1), other.clone()]);
    say(&theirs, r#"{"ready": {}}"#);
    assert!(standbys.hear(first, Millis(0)).is_none());
    assert_eq!(standbys.compare(&wanted).1, [mould(1), mould(1), mould(1), mould(1), mould(2), other]);
    let (second, _theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    standbys.sizes.insert(StageId(0), 1 << 30);
    assert_eq!(standbys.taken(), 2 << 30, "the second will be as large");
    standbys.end_all();
    for number in [first, second] {
        assert!(ended(&mut standbys, number).is_some());
    }
}

#[test]
fn the_youngest_go_if_those_of_unknown_size_take_too_much() {
    let mut standbys = standbys();
    let all: Vec<_> = (0..3).map(|_| add(&mut standbys, mould(1), c"/bin/sleep")).collect();
    standbys.keep_within(u64::MAX);
    assert_eq!(standbys.there().len(), 3);
    standbys.keep_within(1);
    assert_eq!(standbys.there().len(), 1, "one may always be tried");
    assert!(standbys.waiting[&all[0].0].stand.is_of_use());
    assert!(standbys.least_sizes[&StageId(0)] > 0, "the next one is not started only to be ended again");
    assert!(standbys.sizes.is_empty(), "how large they become is not known by that");
    let wanted = [(mould(1), 9)];
    assert_eq!(standbys.compare(&wanted).1.len(), SOUNDING - 1);
    standbys.end_all();
    for (number, _) in all {
        assert!(ended(&mut standbys, number).is_some());
    }
}

#[test]
fn the_size_is_learnt_also_from_one_that_has_its_job_already() {
    let mut standbys = standbys();
    let (number, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    let warm = standbys.hand_over(JobId(0), &mould(1), &logs(), b"").unwrap();
    say(&theirs, r#"{"ready": {}}"#);
    assert!(standbys.hear(number, Millis(0)).is_none());
    assert!(standbys.sizes.contains_key(&StageId(0)));
    finish(&warm);
}

#[test]
fn where_all_cores_are_busy_for_good_one_imports_after_a_while() {
    let mut standbys = Standbys { priority: Priority::default(), idle: 0, ..standbys() };
    assert!(!standbys.has_room(Millis(4_999)));
    assert!(standbys.has_room(Millis(5_000)));
    let (first, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    assert!(!standbys.has_room(Millis(60_000)), "it is importing");
    say(&theirs, r#"{"ready": {}}"#);
    assert!(standbys.hear(first, Millis(0)).is_none());
    standbys.last_start = Millis(58_000);
    assert!(!standbys.has_room(Millis(60_000)), "the last one was a moment ago");
    assert!(standbys.has_room(Millis(63_000)));
    standbys.end_all();
    assert!(ended(&mut standbys, first).is_some());
}

#[test]
fn a_job_that_its_standby_never_took_is_started_anew_without_one() {
    let mut standbys = standbys();
    let (number, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
    say(&theirs, r#"{"ready": {}}"#);
    assert!(standbys.hear(number, Millis(0)).is_none());
    let warm = standbys.hand_over(JobId(7), &mould(1), &logs(), b"").unwrap();
    finish(&warm);
    drop(theirs);
    let Parting { never_begun, useless } = standbys.on_job_gone(JobId(7), ProcessExit::Signal(9), Millis(0));
    assert_eq!(never_begun.as_deref(), Some("its standby ended by signal 9 before it began"));
    assert!(useless.is_none() && standbys.deaths[&StageId(0)] == 1, "it counts among the standbys");
    assert!(standbys.is_cold(JobId(7)) && !standbys.is_cold(JobId(8)));
    standbys.on_cold_start(JobId(7), StageId(0), Millis(0));
    assert!(!standbys.is_cold(JobId(7)), "a later try may have one again");
}

#[test]
fn a_job_that_began_or_whose_import_failed_has_its_own_end() {
    let mut standbys = standbys();
    for words in [&[r#"{"ready": {}}"#, r#"{"begun": {}}"#][..], &[]] {
        let (_, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
        let warm = standbys.hand_over(JobId(7), &mould(1), &logs(), b"").unwrap();
        // Heard only when it is gone.
        for word in words {
            say(&theirs, word);
        }
        finish(&warm);
        assert!(standbys.on_job_gone(JobId(7), ProcessExit::Signal(9), Millis(0)).never_begun.is_none());
        assert!(!standbys.is_cold(JobId(7)) && standbys.handed.is_empty());
    }
}

#[test]
fn one_that_prints_without_end_is_ended_said_once_and_counted() {
    let mut standbys = standbys();
    let mut useless = None;
    for round in 0..MOST_DEATHS {
        let (number, _theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
        assert_eq!(standbys.end_the_loud(), []);
        for (size, file) in [(9 << 20, 0), (8 << 20, 1)] {
            let printed = &standbys.waiting[&number].printed;
            let file = [&printed.stdout, &printed.stderr][file];
            rustix::fs::ftruncate(file, size).unwrap();
        }
        assert_eq!(standbys.end_the_loud().len(), usize::from(round == 0));
        assert!(standbys.there().is_empty());
        useless = ended(&mut standbys, number).unwrap().1;
    }
    let Some(Useless { why: Why::Deaths(why), .. }) = useless else { panic!("nothing was said") };
    assert!(why.ends_with("the last for printing more than 16 MiB while importing or waiting"), "{why}");
}

#[test]
fn an_exit_code_of_0_is_no_success_of_a_job_that_nobody_spoke_of() {
    let mut standbys = standbys();
    // An import that closes the socket keeps the runner from saying anything; one that calls `sys.exit()` is told of.
    for (words, never_begun) in [(None, true), (Some(r#"{"failed": "SystemExit: 0"}"#), false)] {
        let (_, theirs) = add(&mut standbys, mould(1), c"/bin/sleep");
        let warm = standbys.hand_over(JobId(7), &mould(1), &logs(), b"").unwrap();
        if let Some(word) = words {
            say(&theirs, word);
        }
        finish(&warm);
        let parting = standbys.on_job_gone(JobId(7), ProcessExit::Code(0), Millis(0));
        assert_eq!((parting.never_begun.is_some(), parting.useless.is_some()), (never_begun, !never_begun));
        standbys.on_cold_start(JobId(7), StageId(0), Millis(0));
    }
}
