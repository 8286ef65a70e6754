//! Run directories: made, found, frozen, locked.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::run::sample::plan;
use crate::run::{new_run, temp_dir};
use gpulane_journal::{RunDir, RunDirError};
use gpulane_model::{Attempt, Config, Job, JobId, StageId};

#[test]
fn a_new_run_has_a_private_directory_of_its_own() {
    let temp = temp_dir();
    let path = temp.path().join("a/b/run");
    let dir = RunDir::create(&path).unwrap();
    assert_eq!(fs::metadata(dir.root()).unwrap().permissions().mode() & 0o777, 0o700);
    // Empty: taken again.
    RunDir::create(&path).unwrap();
    fs::write(path.join("x"), "").unwrap();
    let error = RunDir::create(&path).unwrap_err();
    assert!(matches!(error, RunDirError::NotEmpty { is_run: false, .. }), "{error}");
    dir.freeze(&plan()).unwrap();
    let error = RunDir::create(&path).unwrap_err();
    assert!(error.hint().unwrap().contains("gpulane resume"), "{error}");
    assert!(matches!(RunDir::create(&path.join("x")), Err(RunDirError::Io { .. })));
}

#[test]
fn everything_lies_where_the_contract_says() {
    let (_temp, dir) = new_run();
    let (plan, job, attempt) = (plan(), JobId(3), Attempt(2));
    let below = |path: std::path::PathBuf| path.strip_prefix(dir.root()).unwrap().display().to_string();
    assert!(dir.root().is_absolute());
    assert_eq!(below(dir.plan_file()), "plan.json");
    assert_eq!(below(dir.journal_file()), "journal.jsonl");
    assert_eq!(below(dir.job_dir(&plan, job)), "jobs/train/seed=3");
    assert_eq!(below(dir.config_file(&plan, job)), "jobs/train/seed=3/config.json");
    assert_eq!(below(dir.out_dir(&plan, job)), "jobs/train/seed=3/out");
    assert_eq!(below(dir.attempt_out(&plan, job, attempt)), "jobs/train/seed=3/attempt-2/out");
    assert_eq!(below(dir.stdout_log(&plan, job, attempt)), "jobs/train/seed=3/attempt-2/stdout.log");
    assert_eq!(below(dir.stderr_log(&plan, job, attempt)), "jobs/train/seed=3/attempt-2/stderr.log");
}

#[test]
fn a_frozen_plan_is_read_back_and_an_edited_one_refused() {
    let (_temp, dir) = new_run();
    assert_eq!(dir.plan().unwrap(), plan());
    let text = fs::read_to_string(dir.plan_file()).unwrap();
    for (from, to) in [
        ("\"jobs\":{\"start\":0,\"end\":12}", "\"jobs\":{\"start\":0,\"end\":13}"),
        ("\"stage\":0", "\"stage\":7"),
        ("{", ""),
        ("\"name\":\"sample\",", ""),
        (&text[..], ""),
    ] {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{from}");
        fs::write(dir.plan_file(), edited).unwrap();
        let error = dir.plan().unwrap_err();
        assert!(matches!(error, RunDirError::BadPlan { .. }), "{error}");
    }
    fs::write(dir.plan_file(), r#"{"format":9,"new":true}"#).unwrap();
    assert!(matches!(dir.plan(), Err(RunDirError::NewerPlan { format: 9, .. })));
}

fn run_named(runs: &Path, name: &str, age: u64) {
    let dir = RunDir::create(&runs.join(name)).unwrap();
    dir.freeze(&plan()).unwrap();
    let time = SystemTime::now() - Duration::from_secs(age);
    fs::File::open(dir.plan_file()).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_run_is_found_by_its_path_or_the_beginning_of_its_name() {
    let temp = temp_dir();
    let runs = temp.path();
    for (name, age) in [("ablation-1", 30), ("ablation-10", 20), ("sweep", 10)] {
        run_named(runs, name, age);
    }
    fs::create_dir(runs.join("no-run")).unwrap();
    let found = |text: &str| RunDir::find(text, runs).map(|dir| dir.root().to_owned());
    for (text, name) in [("s", "sweep"), ("ablation-1", "ablation-1"), ("ablation-10", "ablation-10")] {
        assert_eq!(found(text).unwrap(), runs.join(name));
    }
    let path = runs.join("sweep");
    assert_eq!(found(path.to_str().unwrap()).unwrap(), path);
    let error = found("abl").unwrap_err();
    assert_eq!(error.to_string(), "`abl` could be any of 2 runs: ablation-10, ablation-1");
    let error = found("ablatoin").unwrap_err();
    assert_eq!(error.hint().unwrap(), "there are: ablation-10, ablation-1");
    let error = found("").unwrap_err();
    assert_eq!(error.hint().unwrap(), "there are: sweep, ablation-10, ablation-1");
    let none = runs.join("no-run");
    assert!(matches!(found(none.to_str().unwrap()), Err(RunDirError::NotARun { .. })));
    assert_eq!(RunDir::latest(runs).unwrap().root(), runs.join("sweep"));
    assert_eq!(RunDir::latest(&none), None);
}

#[test]
fn a_second_engine_is_refused_and_told_who_has_the_run() {
    let (_temp, dir) = new_run();
    assert!(!dir.is_live());
    let lock = dir.lock().unwrap();
    assert!(dir.is_live());
    let error = dir.lock().unwrap_err();
    assert!(matches!(error, RunDirError::Locked { pid, .. } if pid == Some(std::process::id())), "{error}");
    assert!(error.hint().unwrap().contains("gpulane cancel"));
    drop(lock);
    assert!(!dir.is_live());
    drop(dir.lock().unwrap());
}

#[test]
fn the_lock_ends_with_whoever_holds_it() {
    let (_temp, dir) = new_run();
    let lock: std::os::fd::OwnedFd = dir.lock().unwrap().into();
    // The child holds the same descriptor; nothing else does once it runs.
    let mut child = Command::new("sleep").arg("600").stdin(Stdio::from(lock)).spawn().unwrap();
    assert!(dir.is_live());
    assert!(dir.lock().is_err());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.is_live());
    drop(dir.lock().unwrap());
}

#[test]
fn a_plan_of_a_hundred_thousand_jobs_is_frozen_and_read() {
    let temp = temp_dir();
    let mut plan = plan();
    plan.jobs = (0..100_000)
        .map(|index| Job {
            stage: StageId(0),
            name: format!("lr=0.001,seed={index}").into(),
            config: serde_json::from_str::<Config>(&format!(r#"{{"lr":0.001,"seed":{index},"type":"edm"}}"#))
                .unwrap(),
            source: None,
        })
        .collect();
    plan.stages[0].jobs = 0..100_000;
    let dir = RunDir::create(&temp.path().join("run")).unwrap();
    let start = Instant::now();
    dir.freeze(&plan).unwrap();
    let frozen = start.elapsed();
    let start = Instant::now();
    let read = dir.plan().unwrap();
    println!("freeze {frozen:?}, read {:?}", start.elapsed());
    assert_eq!(read, plan);
}

#[test]
fn a_path_is_walked_as_the_kernel_would() {
    use std::os::unix::fs::symlink;
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("b/../b", root.join("a/relative")).unwrap();
    symlink(root.join("a/relative"), root.join("absolute")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    for (path, real) in [
        ("absolute/x", "a/b/x"),
        ("a/relative/../y", "a/y"),
        ("a/./b/../b/z", "a/b/z"),
        ("new/../other", "other"),
        ("a/deep/er", "a/deep/er"),
    ] {
        let dir = RunDir::create(&root.join(path)).unwrap();
        assert_eq!(dir.root(), root.join(real), "{path}");
        assert!(root.join(real).is_dir());
    }
    assert!(!root.join("new").exists());
    assert!(RunDir::create(&root.join("loop/x")).is_err());
    assert!(RunDir::create_new(&root.join("absolute"), &[]).is_err(), "there already, though empty");
}
