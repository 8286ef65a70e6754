//! Jobs that show no life, will not exit or leave something behind, as a person reads it.

mod scene;

use std::fs;
use std::sync::Arc;

use gpulane_model::{Attempt, Event, FailReason, Failure, Hang, Millis, Stuck};
use gpulane_report::{End, Look, Mode, Size, Snapshot, job_detail, job_detail_json, status};
use scene::vt::Terminal;
use scene::{Scene, at, plan};

fn stuck() -> Stuck {
    Stuck {
        evidence: "waiting for a lock in cleanfid.py:88, 7 threads, GPU 0% for 10 min".into(),
        cause: Some("a library that is not safe in threads".into()),
        remedy: Some("use processes".into()),
        ..Stuck::default()
    }
}

fn suspected(frozen: bool, stuck: Stuck) -> Event {
    let (job, attempt) = ("train/a".into(), Attempt(1));
    Event::HangSuspected { job, attempt, quiet: 600.0, frozen, overdue: false, stuck }
}

fn hung() -> Event {
    let failure = Failure {
        message: Some("waiting for a lock in cleanfid.py:88".into()),
        seconds: 700.0,
        ..Failure::because(FailReason::Hang)
    };
    Event::JobFailed { job: "train/a".into(), attempt: Attempt(1), failure }
}

fn scene() -> Scene {
    let mut scene = Scene::new(plan(&[("train", &["a", "b"])]));
    scene.started(2).job_started(0, "train/a", 1, 0).job_started(0, "train/b", 1, 1);
    scene
}

#[test]
fn a_silence_a_freeze_and_what_is_left_are_told_in_lines() {
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    live.tick(None, at(1)).unwrap();
    err.take();
    scene.event(10, suspected(false, Stuck { cause: None, remedy: None, ..stuck() }));
    scene.event(20, suspected(true, stuck()));
    let (job, who) = ("train/b".to_owned(), vec!["python3 (pid 7) held stdout".to_owned()]);
    scene.event(30, Event::ProcessesLeft { job: job.clone(), count: 1, who });
    let because = "state D in nvidia_close".to_owned();
    scene.event(40, Event::ProcessesStuck { job, pids: vec![7, 8], because });
    live.tick(None, at(50)).unwrap();
    assert_eq!(
        err.take(),
        "\
! train/a is quiet: waiting for a lock in cleanfid.py:88, 7 threads, GPU 0% for 10 min
! train/a is frozen: waiting for a lock in cleanfid.py:88, 7 threads, GPU 0% for 10 min
    a library that is not safe in threads → use processes
! train/b left 1 process behind; ended: python3 (pid 7) held stdout
✗ 2 processes of train/b (7, 8) outlived SIGKILL: state D in nvidia_close; the run goes on
"
    );
}

#[test]
fn words_of_a_job_cannot_steer_the_terminal() {
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let nasty = || "\x1b[2Jnasty".to_owned();
    scene.event(
        1,
        suspected(
            true,
            Stuck { evidence: nasty(), cause: Some(nasty()), remedy: Some(nasty()), ..Stuck::default() },
        ),
    );
    scene.event(2, Event::ProcessesLeft { job: "train/a".into(), count: 1, who: vec![nasty()] });
    let (job, because) = ("train/a".to_owned(), nasty());
    scene.event(3, Event::JobLingered { job: job.clone(), attempt: Attempt(1), because: because.clone() });
    scene.event(4, Event::ProcessesStuck { job, pids: vec![7], because });
    live.tick(None, at(5)).unwrap();
    let text = err.text();
    assert_eq!((text.matches("nasty").count(), text.contains('\x1b')), (6, false), "{text}");
}

#[test]
fn a_job_that_froze_has_another_try_and_the_summary_says_where_it_was_stuck() {
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.event(10, hung());
    scene.event(10, Event::JobRetrying { job: "train/a".into(), attempt: Attempt(2), delay: 0.0 });
    live.tick(None, at(20)).unwrap();
    let told = "✗ train/a hang: waiting for a lock in cleanfid.py:88, ended after 11m 40s, try 1 of 2\n";
    assert!(err.take().contains(told), "though its stage has no retries");

    scene.event(30, hung());
    fs::create_dir_all(scene.dir.attempt_dir(&scene.plan, scene.id("train/a"), Attempt(1))).unwrap();
    fs::write(scene.dir.stacks_file(&scene.plan, scene.id("train/a"), Attempt(1)), "stacks").unwrap();
    live.tick(None, at(40)).unwrap();
    live.finish(&End::Interrupted, at(40)).unwrap();
    let text = scene.masked(&err.text());
    assert!(text.contains("\n  where it was stuck: RUN/jobs/train/a/attempt-1/stacks.txt\n"), "{text}");
}

#[test]
fn those_that_would_not_exit_are_told_and_counted() {
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let because = "called gpulane.done(), then did not exit".to_owned();
    scene.event(10, Event::JobLingered { job: "train/a".into(), attempt: Attempt(1), because });
    scene.job_succeeded(10, "train/a", 2.0).job_succeeded(20, "train/b", 2.0).finished(30, 2, 0, 0);
    live.tick(None, at(40)).unwrap();
    live.finish(&End::Finished, at(40)).unwrap();
    let text = err.text();
    let line = "! train/a called gpulane.done(), then did not exit; it counts as succeeded\n✓ train/a 2.0 s";
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("✓ 2 jobs succeeded in 0.0 s (1 did its work but did not exit as it should)\n"),
        "{text}"
    );
}

#[test]
fn lanes_show_who_is_quiet_or_frozen_until_it_prints_again() {
    let look = Look { size: Size::Fixed(60, 24), ..Look::PLAIN };
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Tty, look);
    let mut terminal = Terminal::new(60);
    let mut lanes = |live: &mut gpulane_report::Live, now: u64| {
        live.tick(None, at(now)).unwrap();
        terminal.feed(&err.take());
        let screen = terminal.text();
        let rows: Vec<String> = screen.lines().rev().take(2).map(str::to_owned).collect();
        (rows, screen)
    };
    scene.event(1000, suspected(false, Stuck { cause: None, remedy: None, ..stuck() }));
    assert_eq!(
        lanes(&mut live, 2000).0,
        ["gpu 1  train/b      2 s", "gpu 0  train/a      2 s  quiet for 10m 01s  waiting for a …"]
    );
    scene.event(3000, suspected(true, stuck()));
    let (rows, screen) = lanes(&mut live, 4000);
    assert_eq!(rows[1], "gpu 0  train/a      4 s  ! frozen");
    let advice = "    a library that is not safe in threads → use processes";
    assert!(screen.lines().any(|line| line == advice), "{screen}");
    scene.says("train/a", 1, "stdout", b"epoch 2\n");
    assert_eq!(lanes(&mut live, 5000).0[1], "gpu 0  train/a      5 s");
}

#[test]
fn a_view_that_begins_in_the_middle_knows_who_is_frozen() {
    let mut scene = scene();
    scene.says("train/a", 1, "stdout", b"epoch 1\n");
    scene.event(3000, suspected(true, stuck()));
    // Somebody works on the run.
    let _lock = scene.dir.lock().unwrap();
    let (mut live, _, err) = scene.live(Mode::Tty, Look::PLAIN);
    live.catch_up(None).unwrap();
    live.tick(None, at(4000)).unwrap();
    let text = err.take();
    assert!(text.contains("epoch 1") && text.contains("! frozen"), "{text}");
}

#[test]
fn advice_is_broken_between_words_on_a_terminal_and_nowhere_else() {
    let long = || Some("word ".repeat(30).trim_end().to_owned());
    let stuck = || Stuck { cause: long(), remedy: long(), ..stuck() };
    for (mode, whole) in [(Mode::Tty, false), (Mode::Plain, true)] {
        let mut scene = scene();
        let (mut live, _, err) = scene.live(mode, Look::PLAIN);
        scene.event(1000, suspected(true, stuck()));
        live.tick(None, at(2000)).unwrap();
        let text = err.text();
        let advice: Vec<&str> = text.lines().filter(|line| line.starts_with("    word")).collect();
        let widest = advice.iter().map(|line| line.chars().count()).max().unwrap();
        assert_eq!((advice.len() == 1, widest > 80), (whole, whole), "{text}");
    }
}

#[test]
fn a_quiet_job_is_not_called_stuck() {
    let mut scene = scene();
    let quiet = Stuck {
        evidence: "sleeping in job.py:7, quiet for 12 s".into(),
        waits_for: Some("sleeps in job.py:7".into()),
        ..Stuck::default()
    };
    let detail = |scene: &Scene| {
        let state = scene.state();
        let live = scene.snapshot(&state, at(15_000));
        job_detail(&live, scene.id("train/a"), Look { size: Size::Fixed(120, 24), ..Look::PLAIN })
    };
    scene.event(12_000, suspected(false, quiet.clone()));
    let text = detail(&scene);
    let line = "  quiet:    sleeping in job.py:7, quiet for 12 s, seen 3.0 s ago; sleeps in job.py:7; it is left alone\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("life:") && !text.contains("stuck:") && !text.contains("cause:"), "{text}");

    let (cause, remedy) = (Some("a lock is held".into()), Some("use spawn".into()));
    scene.event(12_000, suspected(false, Stuck { cause, remedy, ..quiet }));
    let text = detail(&scene);
    assert!(text.contains("  perhaps:  a lock is held\n") && !text.contains("spawn"), "{text}");
}

#[test]
fn what_is_told_says_when_outside_ends_it() {
    let mut scene = scene();
    let mut plan = (*scene.plan).clone();
    for stage in &mut plan.stages {
        stage.hang = Some(Hang { outside: Some(Millis::seconds(1800)), ..Hang::default() });
    }
    scene.plan = Arc::new(plan);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let waits_for = Some("waits for a file lock".into());
    scene.event(10, suspected(false, Stuck { evidence: "in flock".into(), waits_for, ..Stuck::default() }));
    live.tick(None, at(20)).unwrap();
    let until = "it is left alone until that has lasted for 30m 00s (`outside`)\n";
    assert!(err.text().contains(&format!("waits for a file lock; {until}")), "{}", err.text());
}

#[test]
fn what_is_told_and_left_alone_is_shown_with_its_cost_and_what_to_do() {
    let mut scene = scene();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let waits_for = Some("waits for a file lock that process 7 (python3) holds".into());
    scene.event(10, suspected(false, Stuck { evidence: "in flock".into(), waits_for, ..Stuck::default() }));
    let state = scene.state();
    let (dir, plan, now) = (&scene.dir, &*scene.plan, at(3_000_010));
    let text =
        status(&Snapshot { dir, plan, state: &state, live: true, core: None, now }, Look::PLAIN, false);
    let text = scene.masked(&text);
    let quiet = "\
Quiet
  train/a  1h 00m  1.0 GPU-hours idle  waits for a file lock that process 7 (python3) holds
  nothing proves that they cannot go on, so they are left alone; to limit such waits: `hang = { outside = \"1h\" }`, or `timeout`, in the plan
  gpulane doctor 5000    # what it does now
  gpulane cancel RUN train/a    # end it
";
    assert!(text.contains(quiet), "{text}");
    if rustix::process::geteuid().is_root() {
        // Another user's run: nothing is suggested that only its owner may do.
        std::os::unix::fs::chown(dir.root(), Some(65_102), None).unwrap();
        let theirs = Snapshot { dir, plan, state: &state, live: true, core: None, now };
        let text = status(&theirs, Look::PLAIN, false);
        std::os::unix::fs::chown(dir.root(), Some(0), None).unwrap();
        assert!(text.contains("waits for a file lock") && !text.contains("gpulane doctor"), "{text}");
        assert!(!text.contains("gpulane cancel"), "{text}");
    }

    let revived = Event::JobRevived { job: "train/a".into(), attempt: Attempt(1), quiet: 7200.0 };
    scene.event(20, revived);
    assert!(scene.state().suspected.is_empty(), "it lives");
    scene.event(30, suspected(false, stuck()));
    scene.job_succeeded(3_600_030, "train/a", 2.0).job_succeeded(3_600_030, "train/b", 2.0);
    scene.finished(3_600_040, 2, 0, 0);
    live.tick(None, at(3_600_040)).unwrap();
    live.finish(&End::Finished, at(3_600_040)).unwrap();
    let text = err.text();
    assert!(
        text.contains("    waits for a file lock that process 7 (python3) holds; it is left alone\n"),
        "{text}"
    );
    assert!(text.contains("train/a shows life again, after 2h 00m\n"), "{text}");
    let end = "! 1 job waited for 3h 10m without a sign of life, 3.2 GPU-hours idle, which was told: train/a; to limit such waits: ";
    assert!(text.contains(end), "{text}");
}

#[test]
fn a_long_reason_does_not_make_every_line_long() {
    let mut scene = scene();
    let failure = Failure {
        message: Some("waiting for a lock in a/b/c.py:88, ".repeat(9)),
        seconds: 7.0,
        ..Failure::because(FailReason::Hang)
    };
    scene.event(10, Event::JobFailed { job: "train/a".into(), attempt: Attempt(1), failure });
    let state = scene.state();
    let (dir, plan) = (&scene.dir, &*scene.plan);
    let of = Snapshot { dir, plan, state: &state, live: false, core: None, now: at(20) };
    for all in [false, true] {
        let text = status(&of, Look::PLAIN, all);
        let row = text.lines().find(|line| line.contains("waiting for a lock")).unwrap();
        assert!(row.chars().count() < 120 && row.contains('…'), "{row}");
    }
    let text = job_detail(&of, scene.id("train/a"), Look::PLAIN);
    assert_eq!(text.matches("c.py:88").count(), 9, "in full: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn nobody_is_sent_to_an_empty_log() {
    let mut scene = scene();
    scene.job_succeeded(10, "train/a", 1.0).job_succeeded(10, "train/b", 1.0);
    scene.says("train/b", 1, "stdout", b"hello\n");
    let state = scene.state();
    let (dir, plan) = (&scene.dir, &*scene.plan);
    let of = Snapshot { dir, plan, state: &state, live: true, core: None, now: at(20) };
    let text = job_detail(&of, scene.id("train/a"), Look::PLAIN);
    assert!(text.contains("it printed nothing") && !text.contains("gpulane logs"), "{text}");
    assert!(job_detail(&of, scene.id("train/b"), Look::PLAIN).contains("gpulane logs"));
}

#[test]
fn a_job_without_life_is_seen_in_status_while_that_lasts() {
    let mut scene = scene();
    scene.event(600_000, suspected(true, stuck()));
    let state = scene.state();
    let (dir, plan) = (scene.dir.clone(), std::sync::Arc::clone(&scene.plan));
    let (dir, plan) = (&dir, &*plan);
    let live = Snapshot { dir, plan, state: &state, live: true, core: None, now: at(612_000) };
    let text = status(&live, Look::PLAIN, false);
    let row = text.lines().find(|line| line.contains("train/a")).unwrap();
    assert!(row.ends_with("frozen for 10m 00s, seen 12 s ago"), "{row}");

    let text = scene.masked(&job_detail(&live, scene.id("train/a"), Look::PLAIN));
    let expected = "\
  process:  5000
  life:     none: frozen for 10m 00s, seen 12 s ago
  stuck:    waiting for a lock in cleanfid.py:88, 7 threads, GPU 0% for 10 min
  cause:    a library that is not safe in threads
  remedy:   use processes
";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("\nTo see what it does now: gpulane doctor 5000\n"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&job_detail_json(&live, scene.id("train/a"))).unwrap();
    assert_eq!((&json["suspected"]["quiet"], &json["suspected"]["frozen"]), (&600.0.into(), &true.into()));

    let gone = Snapshot { live: false, ..live };
    assert!(!job_detail(&gone, scene.id("train/a"), Look::PLAIN).contains("doctor"));
    assert!(!job_detail(&live, scene.id("train/b"), Look::PLAIN).contains("life:"));
    scene.event(620_000, hung());
    let state = scene.state();
    let ended = Snapshot { state: &state, ..live };
    assert!(!job_detail(&ended, scene.id("train/a"), Look::PLAIN).contains("life:"));
}
