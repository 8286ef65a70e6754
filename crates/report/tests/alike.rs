//! Jobs that fail in the same way are told once.

mod scene;

use gpulane_model::{Attempt, Event};
use gpulane_report::{End, Look, Mode};
use scene::{Scene, at, plan};

const TRACEBACK: &[u8] = b"Traceback (most recent call last):\n  File \"train.py\", line 2, in <module>\n    import nosuch\nModuleNotFoundError: No module named 'nosuch'\n";

fn seeds(count: u32) -> (Scene, Vec<String>) {
    let names: Vec<String> = (0..count).map(|seed| format!("seed={seed}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (Scene::new(plan(&[("train", &names)])), names.iter().map(|name| format!("train/{name}")).collect())
}

#[test]
fn the_same_traceback_is_shown_once_and_once_more_at_the_end() {
    let (mut scene, jobs) = seeds(30);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for (n, job) in (0..).zip(&jobs) {
        scene.job_started(n * 100, job, 1, 0);
        scene.says(job, 1, "stdout", format!("hello {n}\n").as_bytes());
        scene.says(job, 1, "stderr", TRACEBACK);
        live.tick(None, at(n * 100)).unwrap();
        scene.job_failed(n * 100 + 50, job, 1, 1, 0.05);
    }
    scene.finished(3000, 0, 30, 0);
    live.finish(&End::Finished, at(3000)).unwrap();
    let text = scene.masked(&err.text());
    let expected = "\
ablation: 30 jobs on 1 simulated GPU, in RUN
train/seed=0  │ hello 0
train/seed=0  ┆ Traceback (most recent call last):
train/seed=0  ┆   File \"train.py\", line 2, in <module>
train/seed=0  ┆     import nosuch
train/seed=0  ┆ ModuleNotFoundError: No module named 'nosuch'
✗ train/seed=0 exit code 1 after 0.1 s (1/30)
train/seed=1  │ hello 1
✗ train/seed=1 exit code 1 after 0.1 s, the same lines as train/seed=0 (2/30)
";
    assert!(text.starts_with(expected), "{text}");
    let expected = "
✗ train/seed=29 exit code 1 after 0.1 s, the same lines as train/seed=0 (30/30)

✗ train/seed=0 exit code 1 after 0.1 s
  │ Traceback (most recent call last):
  │   File \"train.py\", line 2, in <module>
  │     import nosuch
  │ ModuleNotFoundError: No module named 'nosuch'
  RUN/jobs/train/seed=0/attempt-1/stderr.log
  and 29 others in the same way: train/seed=1, train/seed=2, train/seed=3, …

✗ 0 succeeded, 30 failed of 30 jobs in 3.0 s
  again:    gpulane resume RUN --failed
";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn jobs_that_begin_alike_and_end_differently_are_shown_whole() {
    let (mut scene, jobs) = seeds(3);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for (job, error) in jobs.iter().zip(["ValueError: a", "ValueError: b", "ValueError: b"]) {
        scene.job_started(0, job, 1, 0);
        let text = format!("Traceback (most recent call last):\n  <Net at 0x7f{}>\n{error}\n", job.len());
        scene.says(job, 1, "stderr", text.as_bytes());
        scene.job_failed(10, job, 1, 1, 1.0);
        live.tick(None, at(20)).unwrap();
    }
    live.finish(&End::Finished, at(30)).unwrap();
    let text = err.text();
    for line in
        ["train/seed=0 ┆ ValueError: a\n", "train/seed=1 ┆ Traceback", "train/seed=1 ┆ ValueError: b\n"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(
        text.contains("✗ train/seed=2 exit code 1 after 1.0 s, the same lines as train/seed=1 "),
        "{text}"
    );
    assert!(text.contains("\n  and 1 other in the same way: train/seed=2\n"), "{text}");
    assert_eq!(text.matches("\n✗ train/seed=1 ").count(), 2, "it has its own place at the end: {text}");
}

#[test]
fn who_goes_on_or_says_more_is_shown_after_all() {
    let (mut scene, jobs) = seeds(4);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(4);
    for (job, lane) in jobs.iter().zip(0..) {
        scene.job_started(0, job, 1, lane);
        scene.says(job, 1, "stderr", TRACEBACK);
    }
    live.tick(None, at(0)).unwrap();
    assert_eq!(err.text().matches("import nosuch").count(), 1, "{}", err.text());
    scene.says(&jobs[1], 1, "stderr", b"caught, going on\n");
    scene.job_succeeded(100, &jobs[2], 0.1);
    live.tick(None, at(100)).unwrap();
    let text = err.text();
    assert!(
        text.contains(
            "train/seed=1 ┆ ModuleNotFoundError: No module named 'nosuch'\ntrain/seed=1 ┆ caught, going on\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("train/seed=2 ┆ ModuleNotFoundError: No module named 'nosuch'\n✓ train/seed=2"),
        "{text}"
    );
    assert!(!text.contains("train/seed=3 ┆"), "{text}");
    live.tick(None, at(2100)).unwrap();
    assert!(err.text().contains("train/seed=3 ┆     import nosuch\n"), "not for ever: {}", err.text());
}

#[test]
fn another_try_that_fails_alike_says_as_before() {
    let mut plan = plan(&[("train", &["seed=0"])]);
    plan.stages[0].retries = 1;
    let mut scene = Scene::new(plan);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for attempt in [1, 2] {
        scene.job_started(0, "train/seed=0", attempt, 0);
        scene.says("train/seed=0", attempt, "stderr", TRACEBACK);
        scene.job_failed(10, "train/seed=0", attempt, 1, 1.0);
        let next = Event::JobRetrying { job: "train/seed=0".into(), attempt: Attempt(2), delay: 0.0 };
        if attempt == 1 {
            scene.event(10, next);
        }
        live.tick(None, at(20)).unwrap();
    }
    let expected = "✗ train/seed=0 exit code 1 after 1.0 s, the same lines as before, try 2 of 2 (1/1)\n";
    assert!(err.text().ends_with(expected), "{}", err.text());
}

#[test]
fn the_same_lines_with_another_reason_are_another_failure() {
    let (mut scene, jobs) = seeds(2);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for (job, code) in jobs.iter().zip([1, 3]) {
        scene.job_started(0, job, 1, 0);
        scene.says(job, 1, "stderr", b"cannot go on\n");
        scene.job_failed(10, job, 1, code, 1.0);
    }
    live.finish(&End::Finished, at(30)).unwrap();
    assert_eq!(err.text().matches("\n  │ cannot go on\n").count(), 2, "{}", err.text());
}

#[test]
fn of_many_different_failures_the_rest_is_counted() {
    let (mut scene, jobs) = seeds(14);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for (n, job) in jobs.iter().enumerate() {
        scene.job_started(0, job, 1, 0);
        scene.says(job, 1, "stderr", format!("no file {}\n", n.min(12)).as_bytes());
        scene.job_failed(10, job, 1, 1, 1.0);
    }
    live.finish(&End::Finished, at(30)).unwrap();
    let text = err.text();
    assert_eq!(text.matches("\n  │ no file ").count(), 10, "{text}");
    assert!(text.contains("\n… and 4 more failed: gpulane status "), "{text}");
}

#[test]
fn a_long_traceback_is_recognised_at_once() {
    let (mut scene, jobs) = seeds(3);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    let long = format!(
        "Traceback (most recent call last):\n{}Deep: error\n",
        "  File \"deep.py\", line 1\n".repeat(300)
    );
    for (n, job) in (0..).zip(&jobs) {
        scene.job_started(n * 100, job, 1, 0);
        scene.says(job, 1, "stderr", long.as_bytes());
        live.tick(None, at(n * 100)).unwrap();
        scene.job_failed(n * 100 + 50, job, 1, 1, 0.05);
    }
    live.tick(None, at(300)).unwrap();
    let text = err.text();
    assert_eq!(text.matches("Deep: error").count(), 1, "{text}");
    assert_eq!(text.matches("the same lines as train/seed=0").count(), 2, "{text}");
}

#[test]
fn short_numbers_are_no_addresses() {
    let (mut scene, jobs) = seeds(2);
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    scene.started(1);
    for (n, (job, code)) in (0..).zip(jobs.iter().zip(["0xdead", "0xbeef"])) {
        scene.job_started(n * 100, job, 1, 0);
        scene.says(
            job,
            1,
            "stderr",
            format!("Traceback (most recent call last):\nError: {code}\n").as_bytes(),
        );
        live.tick(None, at(n * 100)).unwrap();
        scene.job_failed(n * 100 + 50, job, 1, 1, 0.05);
    }
    live.tick(None, at(300)).unwrap();
    let text = err.text();
    assert!(text.contains("0xdead") && text.contains("0xbeef"), "{text}");
}
