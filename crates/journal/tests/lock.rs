//! A view that looks at a run's lock. In a process of its own: a child that another test starts has a copy of every lock until it runs.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::time::{Duration, Instant};

use gpulane_journal::RunDir;

#[test]
fn a_view_that_looks_does_not_keep_an_engine_out() {
    let temp = tempfile::tempdir().unwrap();
    let dir = RunDir::create(&temp.path().join("run")).unwrap();
    let until = Instant::now() + Duration::from_millis(300);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < until {
                dir.is_live();
            }
        });
        while Instant::now() < until {
            drop(dir.lock().unwrap());
        }
    });
}
