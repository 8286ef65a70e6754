//! `--json` and `--quiet`: what scripts rely on.

mod scene;

use std::cell::Cell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::Arc;

use gpulane_report::{End, Live, Look, Mode};
use scene::{Scene, at, plan};

fn failing() -> Scene {
    let mut scene = Scene::new(plan(&[("train", &["a", "b"])]));
    scene.started(2).job_started(1, "train/a", 1, 0).job_succeeded(100, "train/a", 0.1);
    scene.job_started(101, "train/b", 1, 0);
    scene.says("train/b", 1, "stderr", b"no such file\n");
    scene.job_failed(200, "train/b", 1, 2, 0.1).finished(200, 1, 1, 0);
    scene
}

#[test]
fn json_is_the_journal_without_its_checksums_and_nothing_else() {
    let scene = failing();
    let (mut live, out, err) = scene.live(Mode::Json, Look::PLAIN);
    live.tick(None, at(200)).unwrap();
    live.finish(&End::Finished, at(200)).unwrap();
    let text = out.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(
        lines[4],
        r#"{"seq":5,"time":"2023-11-14T22:13:20.200Z","event":"job_failed","job":"train/b","attempt":1,"reason":"exit","code":2,"seconds":0.1}"#
    );
    assert!(!text.contains("crc"));
    assert!(err.text().contains("✗ train/b exit code 2 after 0.1 s\n"), "{}", err.text());
}

#[test]
fn json_shows_no_more_than_is_durable() {
    let scene = failing();
    let (mut live, out, _) = scene.live(Mode::Json, Look::PLAIN);
    let journal = std::fs::read(scene.dir.journal_file()).unwrap();
    let two = journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0 as u64 + 1;
    live.tick(Some(two), at(200)).unwrap();
    assert_eq!(out.text().lines().count(), 2);
}

#[test]
fn quiet_says_only_what_failed() {
    let scene = failing();
    let (mut live, out, err) = scene.live(Mode::Quiet, Look::PLAIN);
    live.tick(None, at(200)).unwrap();
    live.note("not worth a word");
    live.finish(&End::Finished, at(200)).unwrap();
    let expected = "
✗ train/b exit code 2 after 0.1 s
  │ no such file
  RUN/jobs/train/b/attempt-1/stderr.log

✗ 1 succeeded, 1 failed of 2 jobs in 0.2 s
  again:    gpulane resume RUN --failed
";
    assert_eq!(scene.masked(&err.text()), expected);
    assert_eq!(out.text(), "");
}

#[test]
fn quiet_says_nothing_when_all_is_well() {
    let mut scene = Scene::new(plan(&[("train", &["a"])]));
    scene.started(1).job_started(0, "train/a", 1, 0).job_succeeded(10, "train/a", 0.01).finished(10, 1, 0, 0);
    for mode in [Mode::Quiet, Mode::Json] {
        let (mut live, _, err) = scene.live(mode, Look::PLAIN);
        live.finish(&End::Finished, at(20)).unwrap();
        assert_eq!(err.text(), "");
    }
}

/// Takes some bytes, then fails with this error at every call.
struct Failing(Rc<Cell<u32>>, io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + 1);
        Err(self.1.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_takes_no_more_is_no_error_and_is_not_written_to_again() {
    let scene = failing();
    let modes = [Mode::Json, Mode::Plain, Mode::Tty];
    let errors = [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull, io::ErrorKind::Other];
    for (mode, error) in modes.into_iter().flat_map(|mode| errors.map(|error| (mode, error))) {
        let calls = Rc::new(Cell::new(0));
        let broken = || Box::new(Failing(Rc::clone(&calls), error));
        let mut live =
            Live::new(scene.dir.clone(), Arc::clone(&scene.plan), mode, Look::PLAIN, broken(), broken());
        live.tick(None, at(200)).unwrap();
        live.tick(None, at(400)).unwrap();
        live.finish(&End::Finished, at(600)).unwrap();
        assert_eq!(live.state().counts.ended(), 2);
        assert!((1..=2).contains(&calls.get()), "{} calls in {mode:?}", calls.get());
    }
}
