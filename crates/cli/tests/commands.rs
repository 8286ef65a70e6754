//! The commands as a person or a script uses them: what they print, where, and their exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, tagged, wait_until};
use serde_json::Value;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// Jobs 1, 2, 3 one after the other, each until it is let go.
const GATED: &str = r#"
[[stage]]
name = "s"
parallel = 1
command = ["sh", "-c", "echo begin {n}; while [ ! -e go-{n} ]; do sleep 0.01; done; echo end {n}"]
[stage.matrix]
n = [1, 2, 3]
[[stage]]
name = "after"
after = ["s"]
command = ["true"]
"#;

fn let_go(gpulane: &Gpulane, numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        gpulane.workspace.file(&format!("go-{number}"), "");
    }
}

#[test]
fn check_reports_every_mistake_with_its_place_and_starts_nothing() {
    let gpulane = gpulane();
    gpulane.workspace.file(
        "plan.toml",
        "[[stage]]\nname = \"a\"\ncomand = [\"true\"]\n[[stage]]\nname = \"b\"\ncommand = [\"true\", \"{lrr}\"]\nafter = [\"c\"]\n[stage.matrix]\nlr = [1, 2]\n",
    );
    for args in [
        &["check", "plan.toml"][..],
        &["run", "plan.toml", "--gpus", "none"],
        &["run", "plan.toml", "--dry-run"],
    ] {
        let finished = gpulane.call(args);
        assert_eq!(finished.code, 2, "{args:?}");
        for words in ["plan.toml:3:1", "comand", "did you mean `command`", "lrr", "`lr`", "plan.toml:7:"] {
            assert!(finished.stderr.contains(words), "{args:?}: {words} is missing in\n{}", finished.stderr);
        }
    }
    assert!(!gpulane.workspace.path().join("runs").exists());
}

#[test]
fn a_plan_that_is_not_there_or_not_text_is_bad_input() {
    let gpulane = gpulane();
    let missing = gpulane.call(&["run", "nowhere.toml"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("gpulane init"), "{}", missing.stderr);
    std::fs::write(gpulane.workspace.path().join("binary.toml"), [0x6e, 0x0a, 0xff, 0xfe]).unwrap();
    let binary = gpulane.call(&["check", "binary.toml"]);
    assert_eq!(binary.code, 2);
    assert!(binary.stderr.contains("binary.toml:2: not UTF-8"), "{}", binary.stderr);
}

#[test]
fn dry_run_shows_every_job_with_its_command_and_makes_nothing() {
    let gpulane = gpulane();
    let finished = gpulane.call(&[
        "run",
        "-s",
        "lr=1e-3,1e-4",
        "-s",
        "seed=range(2)",
        "--dry-run",
        "--",
        "echo",
        "{lr}",
        "{seed}",
        "{name}",
    ]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(
        finished.stdout,
        "run/lr=0.001,seed=0\techo 0.001 0 lr=0.001,seed=0\nrun/lr=0.001,seed=1\techo 0.001 1 lr=0.001,seed=1\n\
         run/lr=0.0001,seed=0\techo 0.0001 0 lr=0.0001,seed=0\nrun/lr=0.0001,seed=1\techo 0.0001 1 lr=0.0001,seed=1\n"
    );
    assert!(!gpulane.workspace.path().join("runs").exists());
}

#[test]
fn resources_that_are_not_here_are_exit_5_and_leave_no_directory() {
    let gpulane = gpulane();
    let finished = gpulane.run("[[stage]]\nname = \"s\"\ngpus = 4\ncommand = [\"true\"]\n", "sim:2x24GiB");
    assert_eq!(finished.code, 5, "{}", finished.stderr);
    assert!(finished.stderr.contains("needs 4 GPUs"), "{}", finished.stderr);
    assert!(!gpulane.dir().exists());
}

#[test]
fn json_prints_the_events_and_nothing_else() {
    let gpulane = gpulane();
    let finished =
        gpulane.call(&["run", "--json", "--gpus", "none", "--run-dir", "r", "--", "echo", "noise"]);
    assert_eq!(finished.code, 0);
    let events: Vec<Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_started", "job_started", "job_succeeded", "run_finished"]);
    assert!(events.iter().zip(1..).all(|(event, seq)| event["seq"] == seq && event["time"].is_string()));
    assert!(events.iter().all(|event| event.get("crc").is_none()));
}

#[test]
fn json_tells_the_metrics_of_a_job_before_its_end() {
    let gpulane = gpulane();
    let note = r#"echo '{"step": 1, "loss": 0.5, "job": "mine", "time": "2026-01-01T00:00:00Z"}' >> $GPULANE_METRICS
                  echo 'no JSON' >> $GPULANE_METRICS; printf '{"step": 2}' >> $GPULANE_METRICS"#;
    let finished =
        gpulane.call(&["run", "--json", "--gpus", "none", "--run-dir", "r", "--", "sh", "-c", note]);
    let events: Vec<Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["run_started", "job_started", "metrics", "metrics", "job_succeeded", "run_finished"]);
    let (first, second) = (&events[2], &events[3]);
    assert_eq!((&first["job"], &first["loss"]), (&events[1]["job"], &Value::from(0.5)), "{first}");
    assert_eq!((&first["time"], &first["attempt"]), (&Value::from("2026-01-01T00:00:00Z"), &Value::from(1)));
    assert_eq!((&second["step"], second.get("seq")), (&Value::from(2), None), "{second}");
    assert!(second["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{second}");
}

#[test]
fn quiet_says_nothing_when_all_is_well() {
    let finished = gpulane().call(&["run", "--quiet", "--gpus", "none", "--", "echo", "noise"]);
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (0, "", ""));
}

#[test]
fn a_closed_pipe_does_not_disturb_the_run() {
    let gpulane = gpulane();
    let mut command = gpulane.command(&[
        "run",
        "--json",
        "--gpus",
        "none",
        "--run-dir",
        "r",
        "-s",
        "n=range(50)",
        "--",
        "true",
    ]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(gpulane.events_of("job_succeeded").len(), 50);
}

#[test]
fn status_says_why_a_job_waits() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    let why = |job: &str| gpulane.call(&["status", "r", job]).stdout;
    assert!(why("s/n=1").contains("running for"));
    assert!(why("s/n=2").contains("parallel = 1"), "{}", why("s/n=2"));
    assert!(why("after/main").contains("waits for stage"), "{}", why("after/main"));
    let whole = gpulane.call(&["status", "r"]);
    assert!(whole.stdout.contains("running") && whole.stdout.contains("parallel = 1"), "{}", whole.stdout);
    let json: Value = serde_json::from_str(&gpulane.call(&["status", "r", "--json"]).stdout).unwrap();
    assert!(json.is_object());
    let_go(&gpulane, 1..=3);
    assert_eq!(live.wait().code, 0);
    assert!(gpulane.call(&["status", "r"]).stdout.contains("succeeded"));
}

#[test]
fn logs_shows_one_job_or_all_and_follows_to_the_end() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    let following = gpulane.spawn(&["logs", "r", "-f"]);
    let_go(&gpulane, 1..=3);
    assert_eq!(live.wait().code, 0);
    let followed = following.wait().stdout;
    for number in 1..=3 {
        assert!(
            followed.contains(&format!("begin {number}")) && followed.contains(&format!("end {number}")),
            "{followed}"
        );
    }
    assert_eq!(gpulane.call(&["logs", "r", "s/n=2"]).stdout, "begin 2\nend 2\n");
    let never = gpulane.call(&["logs", "r", "s/n=2", "--attempt", "9"]);
    assert!(
        never.code == 2 && never.stderr.contains("has 1 attempt, not 9"),
        "{}: {}",
        never.code,
        never.stderr
    );
    let unknown = gpulane.call(&["logs", "r", "s/n=22"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("did you mean `s/n=2`"), "{}", unknown.stderr);
}

#[test]
fn cancel_ends_one_job_and_the_others_go_on() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    assert_eq!(gpulane.call(&["cancel", "r", "s/n=1", "s/n=3"]).code, 0);
    gpulane.wait_for_events("job_started", 2);
    let_go(&gpulane, [2]);
    assert_eq!(live.wait().code, 3);
    let reasons: Vec<(Value, Value)> = gpulane
        .events_of("job_failed")
        .into_iter()
        .map(|event| (event["job"].clone(), event["reason"].clone()))
        .collect();
    assert_eq!(reasons.len(), 2);
    assert!(reasons.iter().all(|(_, reason)| reason == "cancelled"), "{reasons:?}");
    assert_eq!(gpulane.jobs_in("job_succeeded"), ["s/n=2"]);
    assert_eq!(gpulane.call(&["cancel", "r"]).code, 4, "a run that has ended cannot be cancelled");
}

#[test]
fn cancel_without_a_job_ends_the_run() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    assert_eq!(gpulane.call(&["cancel", "r"]).code, 0);
    assert_eq!(live.wait().code, 3);
    gpulane.assert_nothing_left();
    assert_eq!(gpulane.events_of("run_finished").len(), 1);
}

#[test]
fn a_detached_run_goes_on_without_its_command_and_can_be_watched() {
    let gpulane = gpulane();
    gpulane.workspace.file("plan.toml", GATED);
    let started = gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r", "--detach"]);
    assert_eq!((started.code, started.stdout.trim()), (0, gpulane.dir().to_str().unwrap()));
    gpulane.wait_for_events("job_started", 1);
    let second = gpulane.call(&["resume", "r"]);
    assert_eq!(second.code, 2, "a live run cannot be resumed");
    assert!(second.stderr.contains("in use by another gpulane"), "{}", second.stderr);
    let watching = gpulane.spawn(&["watch", "r"]);
    let_go(&gpulane, 1..=3);
    assert_eq!(watching.wait().code, 0);
    wait_until("the end", || {
        !gpulane.events_of("run_finished").is_empty() && tagged(&gpulane.dir()).is_empty()
    });
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);
}

#[test]
fn an_occupied_or_unwritable_run_directory_is_refused() {
    let gpulane = gpulane();
    gpulane.workspace.file("r/precious", "data");
    let occupied = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert_eq!(occupied.code, 2);
    assert!(occupied.stderr.contains("not empty"), "{}", occupied.stderr);
    assert!(gpulane.dir().join("precious").exists());
    let file = gpulane.workspace.file("file", "");
    let below =
        gpulane.call(&["run", "--gpus", "none", "--run-dir", &format!("{}/r", file.display()), "--", "true"]);
    assert_eq!(below.code, 2, "{}", below.stderr);
}

#[test]
fn a_refused_start_removes_nothing_but_what_gpulane_made() {
    use std::process::Stdio;
    for was_there in [true, false] {
        let gpulane = gpulane();
        let dir = gpulane.dir();
        gpulane.workspace.file("model.py", "def Model(batch):\n    return batch\n");
        if was_there {
            std::fs::create_dir(&dir).unwrap();
        }
        // While it waits for the list, others put something there; then it finds that there is no such GPU.
        let mut command = gpulane.command(&["map", "model.py:Model", "@-", "--out", "r", "--gpus", "97"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("its list", || dir.join("stdin.list").exists());
        gpulane.workspace.file("r/mine.txt", "mine");
        gpulane.workspace.file("r/sub/deep/mine.txt", "mine");
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(5));
        let left = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        assert_eq!(
            [left("mine.txt"), left("sub/deep/mine.txt")],
            ["mine"; 2],
            "it was there before: {was_there}"
        );
        let mut names: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["mine.txt", "sub"], "what gpulane made is gone");
    }
}

#[test]
fn a_run_is_private_and_named_after_its_plan() {
    use std::os::unix::fs::PermissionsExt;
    let gpulane = gpulane();
    assert_eq!(gpulane.call(&["run", "--gpus", "none", "--name", "mine", "--", "true"]).code, 0);
    let runs = gpulane.workspace.path().join("runs");
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap();
    assert!(run.file_name().to_str().unwrap().starts_with("mine-"));
    assert_eq!(run.metadata().unwrap().permissions().mode() & 0o077, 0);
    let listed = gpulane.call(&["status"]);
    assert!(listed.stdout.contains("mine-") && listed.stdout.contains("succeeded"), "{}", listed.stdout);
    assert_eq!(gpulane.call(&["status", "mine"]).code, 0, "the beginning of its name will do");
}

#[test]
fn a_run_that_may_not_be_read_is_called_that() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    const NOBODY: u32 = 65534;
    let gpulane = gpulane();
    assert_eq!(gpulane.run("[[stage]]\nname = \"a\"\ncommand = [\"true\"]\n", "none").code, 0);
    let (work, dir) = (gpulane.workspace.path(), gpulane.dir());
    let allow = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let (said, expected) = if rustix::process::geteuid().is_root() {
        // Nothing is closed to root, so somebody else looks at what is root's.
        allow(&work, 0o755);
        let program = work.join("program");
        std::fs::copy(env!("CARGO_BIN_EXE_gpulane"), &program).unwrap();
        let mut command = std::process::Command::new(program);
        let output =
            command.arg("status").arg(&dir).current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        (String::from_utf8(output.stderr).unwrap(), "belongs to another user (uid 0) and cannot be read")
    } else {
        allow(&dir, 0o000);
        let refused = gpulane.call(&["status", "r"]);
        allow(&dir, 0o700);
        assert_eq!(refused.code, 2, "{refused:?}");
        (refused.stderr, "cannot be read: its permissions do not allow it")
    };
    assert!(said.contains(expected) && !said.contains("plan.json"), "{said}");
}

#[test]
fn init_writes_a_plan_that_checks_and_never_overwrites() {
    let gpulane = gpulane();
    assert_eq!(gpulane.call(&["init"]).code, 0);
    assert_eq!(gpulane.call(&["check", "plan.toml"]).code, 0);
    gpulane.workspace.file("plan.toml", "mine");
    assert_eq!(gpulane.call(&["init"]).code, 2);
    assert_eq!(std::fs::read_to_string(gpulane.workspace.path().join("plan.toml")).unwrap(), "mine");
}

#[test]
fn completions_and_help_are_printed() {
    let gpulane = gpulane();
    for shell in ["bash", "zsh", "fish"] {
        let finished = gpulane.call(&["completions", shell]);
        assert!(finished.code == 0 && finished.stdout.contains("resume"), "{shell}");
    }
    assert_eq!(gpulane.call(&["--version"]).code, 0);
    assert_eq!(gpulane.call(&["frobnicate"]).code, 2);
}

#[test]
fn progress_bars_of_jobs_stay_readable() {
    let gpulane = gpulane();
    let script = "for i in 1 2 3; do printf 'step %d\\r' $i; done; printf 'all steps\\nnext line\\n'";
    let finished = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "sh", "-c", script]);
    assert!(
        finished.stderr.contains("│ all steps\n") && finished.stderr.contains("│ next line\n"),
        "{}",
        finished.stderr
    );
    assert!(!finished.stderr.contains('\r'), "{:?}", finished.stderr);
}

#[test]
fn the_demo_trains_thirteen_models_and_shows_their_results() {
    let gpulane = gpulane();
    let mut command = gpulane.command(&["demo"]);
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("26 jobs succeeded"), "{stderr}");
    let rows = stdout.lines().filter(|line| line.contains("0.") || line.contains("1.")).count();
    assert_eq!(rows, 13, "{stdout}");
    assert!(gpulane.workspace.path().join("gpulane-demo/run-1/jobs/evaluate").is_dir());
}

#[test]
fn of_many_starters_on_one_directory_one_runs_and_none_harms_it() {
    for _ in 0..5 {
        let gpulane = gpulane();
        let starters: Vec<_> = (0..4)
            .map(|_| {
                gpulane.spawn(&["run", "--gpus", "none", "--run-dir", "r", "-s", "n=range(20)", "--", "true"])
            })
            .collect();
        let mut codes: Vec<i32> = starters.into_iter().map(|starter| starter.wait().code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 2, 2, 2]);
        assert_eq!(gpulane.events_of("job_succeeded").len(), 20);
    }
}

#[test]
fn output_that_cannot_be_written_does_not_disturb_the_run() {
    let gpulane = gpulane();
    let mut command = gpulane.command(&[
        "run",
        "--json",
        "--gpus",
        "none",
        "--run-dir",
        "r",
        "-s",
        "n=range(5)",
        "--",
        "true",
    ]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert!(command.stdout(full).output().unwrap().status.success());
    assert_eq!(gpulane.events_of("job_succeeded").len(), 5);
}

#[test]
fn a_request_to_an_engine_that_is_gone_is_not_for_the_next() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    live.signal(rustix::process::Signal::INT);
    assert_eq!(live.wait().code, 130);
    gpulane.workspace.file("r/control/1.json", "{\"cancel\":[]}");
    let_go(&gpulane, 1..=3);
    assert_eq!(gpulane.call(&["resume", "r"]).code, 0);
}

#[test]
fn a_run_killed_just_before_its_last_word_is_finished_by_resume() {
    let gpulane = gpulane();
    assert_eq!(gpulane.run("[[stage]]\nname = \"s\"\ncommand = [\"true\"]\n", "none").code, 0);
    let journal = gpulane.dir().join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    let cut = text.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&journal, &text[..cut]).unwrap();
    assert_eq!(gpulane.call(&["resume", "r"]).code, 4);
    assert_eq!(gpulane.events_of("run_finished").len(), 1);
}

#[test]
fn nothing_starts_while_the_journal_cannot_be_written() {
    let gpulane = gpulane();
    let live = gpulane.start(GATED, "none");
    gpulane.wait_for_events("job_started", 1);
    std::fs::remove_file(gpulane.dir().join("journal.jsonl")).unwrap();
    let_go(&gpulane, [1]);
    // The second may start before the loss is noticed, at the next commit.
    let said = |job: u32| {
        let log = gpulane.dir().join(format!("jobs/s/n={job}/attempt-1/stdout.log"));
        std::fs::read_to_string(log).unwrap_or_default()
    };
    std::thread::sleep(std::time::Duration::from_secs(1)); // several commits' time, with nothing to be seen
    let_go(&gpulane, [2, 3]);
    assert_eq!(live.wait().code, 70);
    assert_eq!(said(3), "", "the third job has started");
}

#[test]
fn what_cannot_be_printed_is_said_and_is_no_success() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let finished = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    for command in ["status r --json", "status r", "doctor r"] {
        let words: Vec<&str> = command.split(' ').collect();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            gpulane.command(&words).stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("cannot write to stdout: No space left on device"), "{command}: {said}");
    }
}
