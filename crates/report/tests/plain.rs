//! Plain output: what a file, a pipe or a CI log shows of a run.

mod scene;

use gpulane_model::{Attempt, Event, FailReason, Failure};
use gpulane_report::{End, Look, Mode};
use scene::{Scene, at, plan};

fn sweep() -> Scene {
    let mut plan = plan(&[("train", &["lr=0.1", "lr=0.2", "lr=0.3"]), ("eval", &["lr=0.1"])]);
    plan.stages[0].retries = 1;
    Scene::new(plan)
}

#[test]
fn a_run_is_told_from_start_to_end() {
    let mut scene = sweep();
    let (mut live, out, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(1, "train/lr=0.1", 1, 0).job_started(2, "train/lr=0.2", 1, 1);
    scene.says("train/lr=0.1", 1, "stdout", b"epoch 1 loss 0.9\nepoch 2");
    live.tick(None, at(10)).unwrap();
    scene.says("train/lr=0.1", 1, "stdout", b" loss 0.2");
    scene.says("train/lr=0.2", 1, "stderr", b"Traceback\nValueError: bad\n");
    scene.job_succeeded(1200, "train/lr=0.1", 1.2).job_failed(1300, "train/lr=0.2", 1, 3, 0.4);
    scene.event(1300, Event::JobRetrying { job: "train/lr=0.2".into(), attempt: Attempt(2), delay: 5.0 });
    scene.job_started(6300, "train/lr=0.2", 2, 1);
    scene.says("train/lr=0.2", 2, "stderr", b"ValueError: bad\n");
    scene.job_failed(6700, "train/lr=0.2", 2, 3, 0.4);
    live.tick(None, at(6700)).unwrap();
    scene.job_started(6800, "train/lr=0.3", 1, 0).job_succeeded(7800, "train/lr=0.3", 1.0);
    scene.event(7800, Event::JobSkipped { job: "eval/lr=0.1".into(), because: "train/lr=0.2 failed".into() });
    scene.finished(7800, 2, 1, 1);
    live.finish(&End::Finished, at(7900)).unwrap();

    let expected = "\
ablation: 4 jobs (train 3, eval 1) on 2 simulated GPUs, in RUN
train/lr=0.1 │ epoch 1 loss 0.9
train/lr=0.1 │ epoch 2 loss 0.2
✓ train/lr=0.1 1.2 s (1/4)
train/lr=0.2 ┆ Traceback
train/lr=0.2 ┆ ValueError: bad
✗ train/lr=0.2 exit code 3 after 0.4 s, try 1 of 2
↻ train/lr=0.2 is tried again in 5.0 s
train/lr=0.2 ┆ ValueError: bad
✗ train/lr=0.2 exit code 3 after 0.4 s, try 2 of 2 (2/4)
✓ train/lr=0.3 1.0 s (3/4)
⊘ eval/lr=0.1 skipped: train/lr=0.2 failed (4/4)

✗ train/lr=0.2 exit code 3 after 0.4 s, 2 tries
  │ ValueError: bad
  RUN/jobs/train/lr=0.2/attempt-2/stderr.log

⊘ eval/lr=0.1 skipped: train/lr=0.2 failed

✗ 2 succeeded, 1 failed, 1 skipped of 4 jobs in 7.8 s
  outputs:  RUN/jobs/STAGE/NAME/out
  again:    gpulane resume RUN --failed
";
    assert_eq!(scene.masked(&err.text()), expected);
    assert_eq!(out.text(), "", "stdout is for data");
}

#[test]
fn ascii_where_the_locale_knows_no_more() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look { unicode: false, ..Look::PLAIN });
    scene.started(1).job_started(1, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stdout", b"hello\n");
    scene.job_succeeded(1000, "train/lr=0.1", 1.0);
    live.tick(None, at(1000)).unwrap();
    live.finish(&End::Interrupted, at(1000)).unwrap();
    assert!(err.text().is_ascii(), "{}", err.text());
    assert!(err.text().contains("train/lr=0.1 | hello\nok train/lr=0.1 1.0 s (1/4)\n"));
}

#[test]
fn silence_is_broken_every_ten_seconds() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    for second in 0..=25 {
        live.tick(None, at(second * 1000)).unwrap();
    }
    let text = err.text();
    let beats: Vec<&str> = text.lines().filter(|line| line.starts_with('…')).collect();
    assert_eq!(beats, ["… 0/4 done · 1 running · 10 s", "… 0/4 done · 1 running · 20 s"]);
}

#[test]
fn a_progress_bar_is_shown_now_and_then_and_in_its_final_form() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    for second in 0..=25_u64 {
        scene.says("train/lr=0.1", 1, "stderr", format!("\r {:>3}%", second * 4).as_bytes());
        live.tick(None, at(second * 1000)).unwrap();
    }
    scene.says("train/lr=0.1", 1, "stderr", b"\n");
    live.tick(None, at(25_500)).unwrap();
    let text = err.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains('%')).collect();
    assert_eq!(lines, ["train/lr=0.1 ┆   40%", "train/lr=0.1 ┆   80%", "train/lr=0.1 ┆  100%"]);
}

#[test]
fn lines_of_two_jobs_are_never_mixed() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_started(0, "train/lr=0.2", 1, 1);
    for round in 0..200_u64 {
        for (job, letter) in [("train/lr=0.1", b'a'), ("train/lr=0.2", b'b')] {
            let mut piece = vec![letter; 7];
            if round % 3 == 0 {
                piece.push(b'\n');
            }
            scene.says(job, 1, "stdout", &piece);
        }
        live.tick(None, at(round)).unwrap();
    }
    live.finish(&End::Interrupted, at(300)).unwrap();
    let text = err.text();
    let mut seen = 0;
    for line in text.lines().filter(|line| line.contains(" │ ") && !line.starts_with(' ')) {
        let (name, rest) = line.split_once(" │ ").unwrap();
        let letter = if name == "train/lr=0.1" { 'a' } else { 'b' };
        assert!(rest.chars().all(|c| c == letter), "{line}");
        seen += 1;
    }
    assert_eq!(seen, 2 * 68, "67 whole lines and the last unfinished one, of each");
}

#[test]
fn a_flood_is_cut_and_says_where_the_rest_is() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stdout", &b"0123456789abcde\n".repeat(250_000));
    scene.job_succeeded(10, "train/lr=0.1", 0.01);
    live.tick(None, at(20)).unwrap();
    let text = scene.masked(&err.text());
    assert!(
        text.contains("train/lr=0.1 │ … 3.8 MiB not shown, see RUN/jobs/train/lr=0.1/attempt-1/stdout.log\n"),
        "{}",
        &text[..300]
    );
    assert!(text.len() < 200_000);
}

#[test]
fn thousands_of_short_jobs_are_thinned_and_failures_are_not() {
    let names: Vec<String> = (0..2000).map(|n| format!("n={n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut scene = Scene::new(plan(&[("many", &names)]));
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2);
    for (n, name) in names.iter().enumerate() {
        let job = format!("many/{name}");
        scene.job_started(n as u64, &job, 1, 0);
        if n % 500 == 499 {
            scene.job_failed(n as u64, &job, 1, 1, 0.001);
        } else {
            scene.job_succeeded(n as u64, &job, 0.001);
        }
    }
    live.tick(None, at(500)).unwrap();
    live.tick(None, at(2000)).unwrap();
    let text = err.text();
    assert_eq!(text.lines().filter(|line| line.starts_with('✓')).count(), 20);
    assert_eq!(text.lines().filter(|line| line.starts_with('✗')).count(), 4);
    assert!(text.contains("… 1,976 more succeeded (2,000/2,000)\n"), "{text}");
}

#[test]
fn an_engine_that_died_is_told_with_the_way_on() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stdout", b"last words");
    live.finish(&End::EngineDied { message: "killed by SIGKILL".into() }, at(100)).unwrap();
    let expected = "\
ablation: 4 jobs (train 3, eval 1) on 2 simulated GPUs, in RUN
train/lr=0.1 │ last words

✗ the run broke off: killed by SIGKILL
  0 of 4 jobs done, 4 to go.
  go on:    gpulane resume RUN
";
    assert_eq!(scene.masked(&err.text()), expected);
}

#[test]
fn a_view_that_begins_in_the_middle_does_not_tell_the_past() {
    let mut scene = sweep();
    let _engine = scene.dir.lock().unwrap();
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stdout", b"old\n");
    scene.job_succeeded(10, "train/lr=0.1", 0.01).job_started(10, "train/lr=0.2", 1, 0);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    live.catch_up(None).unwrap();
    scene.says("train/lr=0.2", 1, "stdout", b"new\n");
    live.tick(None, at(20)).unwrap();
    assert_eq!(err.text(), "train/lr=0.2 │ new\n");
    assert_eq!(live.state().counts.succeeded, 1);
}

#[test]
fn a_resumed_run_is_told_from_there() {
    let mut scene = sweep();
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stdout", b"before the crash\n");
    scene.job_started(0, "train/lr=0.2", 1, 1).job_failed(10, "train/lr=0.2", 1, 1, 0.01);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    live.catch_up(None).unwrap();
    let (gpulane, machine) = ("0.1.0".to_owned(), scene::machine(2));
    scene.event(5000, Event::RunResumed { gpulane, machine, pid: 2, boot: None });
    let failure = Failure::because(FailReason::Lost);
    scene.event(5000, Event::JobFailed { job: "train/lr=0.1".into(), attempt: Attempt(1), failure });
    scene.event(5000, Event::JobRequeued { job: "train/lr=0.2".into() });
    live.tick(None, at(5000)).unwrap();
    live.tick(None, at(7000)).unwrap();
    let expected = "\
ablation: goes on, 4 jobs to do on 2 simulated GPUs
✗ train/lr=0.1 lost, does not count as a try
… 1 tried afresh (0/4)
";
    assert_eq!(err.text(), expected);
}

#[test]
fn a_watcher_sees_the_last_words_of_jobs_whose_engine_was_replaced() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    live.tick(None, at(10)).unwrap();
    scene.says("train/lr=0.1", 1, "stdout", b"before the crash");
    scene.event(
        5000,
        Event::RunResumed { gpulane: "0.1.0".into(), machine: scene::machine(2), pid: 2, boot: None },
    );
    live.tick(None, at(5000)).unwrap();
    live.tick(None, at(5600)).unwrap();
    assert!(err.text().contains("train/lr=0.1 │ before the crash\nablation: goes on"), "{}", err.text());
}

#[test]
fn what_an_event_quotes_cannot_reach_the_terminal() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).event(1, Event::StartsHeld { because: "disk full\n\x1b[2Jgone".into() });
    live.tick(None, at(10)).unwrap();
    assert!(err.text().ends_with("! no new starts: disk full\\x0agone\n"), "{}", err.text());
}

#[test]
fn resume_shows_nothing_of_what_the_last_engine_left() {
    let mut scene = sweep();
    // As `resume` does it: the new engine has the run already, the journal still ends with the old one.
    let _engine = scene.dir.lock().unwrap();
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0).job_started(0, "train/lr=0.2", 1, 1);
    scene.says("train/lr=0.1", 1, "stdout", b"start 1 try 1\n");
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    live.catch_up(Some(std::fs::metadata(scene.dir.journal_file()).unwrap().len())).unwrap();
    live.tick(Some(0), at(4000)).unwrap();
    scene.event(
        5000,
        Event::RunResumed { gpulane: "0.1.0".into(), machine: scene::machine(2), pid: 2, boot: None },
    );
    for job in ["train/lr=0.1", "train/lr=0.2"] {
        let failure = Failure::because(FailReason::Lost);
        scene.event(5000, Event::JobFailed { job: job.into(), attempt: Attempt(1), failure });
    }
    scene.job_started(5010, "train/lr=0.1", 2, 0);
    scene.says("train/lr=0.1", 2, "stdout", b"start 1 try 2\n");
    live.tick(None, at(5020)).unwrap();
    let expected = "\
ablation: goes on, 4 jobs to do on 2 simulated GPUs
✗ train/lr=0.1 lost, does not count as a try
✗ train/lr=0.2 lost, does not count as a try
train/lr=0.1 │ start 1 try 2
";
    assert_eq!(err.text(), expected);
}

#[test]
fn what_resume_tries_afresh_is_counted_in_its_heading() {
    let mut scene = sweep();
    scene.started(2).job_started(0, "train/lr=0.2", 1, 1).job_failed(10, "train/lr=0.2", 1, 1, 0.01);
    for job in ["train/lr=0.1", "train/lr=0.3", "eval/lr=0.1"] {
        scene.job_succeeded(20, job, 0.01);
    }
    scene.finished(20, 3, 1, 0);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    live.catch_up(None).unwrap();
    scene.event(
        60_000,
        Event::RunResumed { gpulane: "0.1.0".into(), machine: scene::machine(2), pid: 2, boot: None },
    );
    live.tick(None, at(60_000)).unwrap();
    scene.event(60_001, Event::JobRequeued { job: "train/lr=0.2".into() });
    scene.job_started(60_002, "train/lr=0.2", 2, 0).job_succeeded(61_000, "train/lr=0.2", 1.0);
    scene.finished(62_000, 4, 0, 0);
    live.finish(&End::Finished, at(62_000)).unwrap();
    let text = err.text();
    assert!(text.starts_with("ablation: goes on, 1 job to do on 2 simulated GPUs\n"), "{text}");
    assert!(text.contains("✓ 4 jobs succeeded in 2.0 s (1m 02s since the run began)\n"), "{text}");
}

#[test]
fn names_are_never_shortened_outside_of_terminals() {
    let long = ["learning_rate=0.1,model=resnet50_pretrained_imagenet", "learning_rate=0.2,model=x"];
    let mut scene = Scene::new(plan(&[("run", &long)]));
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2);
    for (lane, name) in (0..).zip(long) {
        scene.job_started(0, &format!("run/{name}"), 1, lane);
        scene.says(&format!("run/{name}"), 1, "stdout", b"hello\n");
    }
    live.tick(None, at(10)).unwrap();
    let text = err.text();
    assert!(text.contains("\nrun/learning_rate=0.1,model=resnet50_pretrained_imagenet │ hello\n"), "{text}");
    assert!(text.contains("\nrun/learning_rate=0.2,model=x            │ hello\n"), "{text}");
}

#[test]
fn a_failure_without_a_word_points_nowhere() {
    let mut scene = sweep();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(2).job_started(0, "train/lr=0.1", 1, 0);
    scene.says("train/lr=0.1", 1, "stderr", b"");
    let mut failure = Failure::because(FailReason::Timeout);
    (failure.message, failure.seconds) = (Some("took longer than 1.0 s".into()), 11.0);
    scene.event(11_000, Event::JobFailed { job: "train/lr=0.1".into(), attempt: Attempt(1), failure });
    live.finish(&End::Finished, at(11_000)).unwrap();
    let text = err.text();
    let expected =
        "\n\n✗ train/lr=0.1 timeout: took longer than 1.0 s, ended after 11 s\n  it printed nothing\n\n";
    assert!(text.contains(expected), "{text}");
}
