//! What a job's process gets, and how its whole tree ends.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{Gpulane, processes, wait_for, wait_until};

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// One job running `script`, with these further keys.
fn one(script: &str, keys: &str) -> String {
    format!("[[stage]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{keys}\n")
}

fn output(gpulane: &Gpulane, file: &str) -> String {
    let path = gpulane.dir().join("jobs/s/main").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_job_gets_the_environment_the_contract_promises() {
    let gpulane = gpulane();
    let plan = one(
        "env > $GPULANE_OUT/env; readlink /proc/self/fd/0 > $GPULANE_OUT/stdin",
        "cpus = 3\nenv = { MINE = \"{name}!\" }",
    );
    assert_eq!(gpulane.run(&plan, "sim:2x24GiB").code, 0);
    let env = output(&gpulane, "out/env");
    let root = gpulane.dir().display().to_string();
    for expected in [
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=GPU-51300000-0000-4000-8000-000000000000",
        "PYTHONUNBUFFERED=1",
        "GPULANE_CONFIG={}",
        &format!("GPULANE_CONFIG_FILE={root}/jobs/s/main/config.json"),
        &format!("GPULANE_OUT={root}/jobs/s/main/attempt-1/out"),
        &format!("GPULANE_RUN={root}"),
        "GPULANE_STAGE=s",
        "GPULANE_JOB=s/main",
        "GPULANE_ATTEMPT=1",
        "GPULANE_LANE=0",
        "GPULANE_GPUS=1",
        "OMP_NUM_THREADS=3",
        "MKL_NUM_THREADS=3",
        "TORCHINDUCTOR_COMPILE_THREADS=3",
        "MINE=main!",
    ] {
        assert!(env.lines().any(|line| line == expected), "{expected} is missing in\n{env}");
    }
    assert!(!env.contains("GPULANE_ORDERS"), "what gpulane tells itself is not the job's business");
    assert_eq!(output(&gpulane, "out/stdin"), "/dev/null\n");
}

#[test]
fn without_gpus_the_devices_are_hidden_and_what_the_user_set_is_kept() {
    let gpulane = gpulane();
    gpulane
        .workspace
        .file("plan.toml", &one("echo [$CUDA_VISIBLE_DEVICES] $OMP_NUM_THREADS > $GPULANE_OUT/seen", ""));
    let mut command = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    assert!(command.env("OMP_NUM_THREADS", "5").output().unwrap().status.success());
    assert_eq!(output(&gpulane, "out/seen"), "[] 5\n");
}

#[test]
fn a_job_runs_in_its_own_session_and_holds_none_of_our_descriptors() {
    let gpulane = gpulane();
    let plan = one("cut -d' ' -f1,6 /proc/$$/stat > $GPULANE_OUT/ids; ls /proc/$$/fd > $GPULANE_OUT/fds", "");
    assert_eq!(gpulane.run(&plan, "none").code, 0);
    let ids = output(&gpulane, "out/ids");
    let (pid, session) = ids.trim().split_once(' ').unwrap();
    assert_eq!(pid, session);
    let fds: Vec<i32> = output(&gpulane, "out/fds").lines().map(|fd| fd.parse().unwrap()).collect();
    assert!(fds.iter().all(|fd| *fd <= 2 || *fd >= 10), "only the shell's own: {fds:?}");
}

#[test]
fn the_argument_list_is_never_seen_by_a_shell() {
    let gpulane = gpulane();
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"printf\", \"%s|\", \"$(touch pwned)\", \"; touch pwned\", \"a b\"]\n";
    assert_eq!(gpulane.run(plan, "none").code, 0);
    assert_eq!(output(&gpulane, "attempt-1/stdout.log"), "$(touch pwned)|; touch pwned|a b|");
    assert!(!gpulane.workspace.path().join("pwned").exists());
}

#[test]
fn a_timeout_ends_the_whole_tree_even_daemons_that_ignore_term() {
    let gpulane = gpulane();
    let script = r#"trap "" TERM; (setsid sh -c "sleep 4711 & sleep 4712" &); sleep 4713"#;
    let plan = one(script, "timeout = \"300ms\"\ngrace = \"200ms\"");
    let finished = gpulane.run(&plan, "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed[0]["reason"], "timeout");
    gpulane.assert_nothing_left();
}

#[test]
fn what_a_finished_job_leaves_behind_is_ended_and_said() {
    let gpulane = gpulane();
    let plan = one("(setsid sleep 4714 >/dev/null 2>&1 &); echo done > $GPULANE_OUT/x", "grace = \"1s\"");
    let finished = gpulane.run(&plan, "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let left = gpulane.events_of("processes_left");
    assert_eq!((left[0]["job"].as_str(), left[0]["count"].as_i64()), (Some("s/main"), Some(1)));
    assert_eq!(output(&gpulane, "out/x"), "done\n");
    gpulane.assert_nothing_left();
}

/// The daemon has neither session nor environment of its job any more, only the logs; as long as others run it could be theirs.
#[test]
fn a_daemon_that_erased_its_environment_is_ended_with_the_job_whose_log_it_writes() {
    for environment in ["", "A=1"] {
        let gpulane = gpulane();
        let plan = format!(
            "[[stage]]\nname = \"s\"\ngrace = \"1s\"\n\
             command = [\"sh\", \"-c\", \"(env -i {environment} setsid sleep 4716 &); sleep 0.3\"]\n\
             [[stage]]\nname = \"beside\"\n\
             command = [\"sh\", \"-c\", \"until test -e {{run}}/go; do sleep 0.01; done\"]\n"
        );
        let live = gpulane.start(&plan, "sim:2x24GiB");
        gpulane.wait_for_events("job_succeeded", 1);
        assert_eq!(gpulane.jobs_in("processes_left"), ["s/main"], "`{environment}`");
        std::fs::write(gpulane.dir().join("go"), "").unwrap();
        assert_eq!(live.wait().code, 0);
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_helper_that_ends_by_itself_is_no_news() {
    let gpulane = gpulane();
    assert_eq!(gpulane.run(&one("sleep 0.05 & exit 0", ""), "none").code, 0);
    assert!(gpulane.events_of("processes_left").is_empty());
}

#[test]
fn a_failed_attempt_keeps_its_output_aside_and_the_next_starts_fresh() {
    let gpulane = gpulane();
    let plan = one("echo $GPULANE_ATTEMPT > $GPULANE_OUT/try; test $GPULANE_ATTEMPT = 2", "retries = 1");
    assert_eq!(gpulane.run(&plan, "none").code, 0);
    assert_eq!(output(&gpulane, "attempt-1/out/try"), "1\n");
    assert_eq!(output(&gpulane, "out/try"), "2\n");
    assert_eq!(gpulane.events_of("job_retrying").len(), 1);
}

#[test]
fn a_program_that_cannot_start_is_reported_with_the_reason() {
    let gpulane = gpulane();
    // Not there yet when the run begins, so only its start can tell.
    let plan = "[[stage]]\nname = \"make\"\ncommand = [\"sh\", \"-c\", \"echo no program > notes.txt\"]\n\
                [[stage]]\nname = \"s\"\nafter = [\"make\"]\ncommand = [\"./notes.txt\"]\nretries = 5\n";
    let finished = gpulane.run(plan, "none");
    assert_eq!(finished.code, 3);
    let failed = gpulane.events_of("job_failed");
    assert_eq!((failed.len(), failed[0]["reason"].as_str()), (1, Some("start")), "and is not tried again");
    assert!(failed[0]["message"].as_str().unwrap().contains("not executable"));
}

#[test]
fn a_file_that_cannot_be_executed_is_refused_before_anything_starts() {
    let gpulane = gpulane();
    gpulane.workspace.file("notes.txt", "no program");
    let finished = gpulane.run("[[stage]]\nname = \"s\"\ncommand = [\"./notes.txt\"]\n", "none");
    assert_eq!(finished.code, 2);
    assert!(finished.stderr.contains("plan.toml:3:"), "{}", finished.stderr);
}

#[test]
fn a_program_nowhere_on_the_path_is_refused_before_anything_starts() {
    let gpulane = gpulane();
    let finished = gpulane.run("[[stage]]\nname = \"s\"\ncommand = [\"pyhton\", \"x.py\"]\n", "none");
    assert_eq!(finished.code, 2);
    assert!(finished.stderr.contains("`pyhton` is not on the PATH"), "{}", finished.stderr);
    assert!(!gpulane.dir().exists());
}

#[test]
fn a_job_killed_by_a_signal_is_told_from_one_that_exited() {
    let gpulane = gpulane();
    assert_eq!(gpulane.run(&one("kill -SEGV $$", ""), "none").code, 3);
    let failed = &gpulane.events_of("job_failed")[0];
    assert_eq!((failed["reason"].as_str(), failed["signal"].as_i64()), (Some("signal"), Some(11)));
}

#[test]
fn a_working_directory_that_vanishes_is_named() {
    let gpulane = gpulane();
    let work = gpulane.workspace.path().join("work");
    std::fs::create_dir(&work).unwrap();
    gpulane.workspace.file("work/go.sh", "#!/bin/sh\nrm -r ../work\n");
    gpulane.workspace.file("work/plan.toml", "[[stage]]\nname = \"a\"\ncommand = [\"sh\", \"go.sh\"]\n[[stage]]\nname = \"b\"\nafter = [\"a\"]\ncommand = [\"./later.sh\"]\n");
    let mut command = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "../r"]);
    let output = command.current_dir(&work).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let failed = &gpulane.events_of("job_failed")[0];
    assert!(failed["message"].as_str().unwrap().contains("is gone"), "{failed}");
}

#[test]
fn a_removed_run_directory_ends_the_run_and_everything_in_it() {
    let gpulane = gpulane();
    let mut plan = one("sleep 4715", "parallel = 2\n[stage.matrix]\nn = [1, 2, 3]");
    plan = plan.replace("sleep 4715", "if [ {n} = 3 ]; then exit; fi; sleep 0.3");
    let live = gpulane.start(&plan, "none");
    gpulane.wait_for_events("job_started", 2);
    std::fs::remove_dir_all(gpulane.dir()).unwrap();
    let finished = live.wait();
    assert_ne!(finished.code, 0);
    wait_until("no process of the run", || {
        processes().iter().all(|process| !process.command.contains("sleep 0.3"))
    });
}

#[test]
fn output_arrives_while_the_job_still_runs() {
    let gpulane = gpulane();
    let plan = one("echo first words; while [ ! -e go ]; do sleep 0.01; done", "");
    gpulane.workspace.file("plan.toml", &plan);
    let errors = gpulane.workspace.path().join("errors");
    let mut command = gpulane.command(&["run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    let mut child = command.stderr(std::fs::File::create(&errors).unwrap()).spawn().unwrap();
    wait_for("the job's words", || {
        std::fs::read_to_string(&errors).ok().filter(|text| text.contains("│ first words"))
    });
    gpulane.workspace.file("go", "");
    assert!(child.wait().unwrap().success());
}

/// Programs that call `select` break where a descriptor's number may be above 1023.
#[test]
fn a_job_gets_the_limit_of_open_files_that_gpulane_was_started_with() {
    let gpulane = gpulane().after("ulimit -Sn 512");
    assert_eq!(gpulane.run(&one("ulimit -Sn > $GPULANE_OUT/limit", ""), "none").code, 0);
    assert_eq!(output(&gpulane, "out/limit"), "512\n");
}

#[test]
fn a_stack_of_64_kib_is_enough() {
    let gpulane = gpulane().after("ulimit -s 64");
    let finished = gpulane.run(&one("ulimit -s > $GPULANE_OUT/limit", ""), "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(output(&gpulane, "out/limit"), "64\n");
}

/// A user of whom nothing else runs.
const LONELY: u32 = 61_234;

#[test]
fn few_processes_are_said_with_what_to_do_and_never_a_panic() {
    let name = "few_processes_are_said_with_what_to_do_and_never_a_panic";
    // Up to where a run stands still and asks to be let go on; of a map, where engine, feeder and its threads lack the next one.
    let map = [
        "map",
        "model.py:Model",
        "@items.txt",
        "--out",
        "r",
        "--gpus",
        "none",
        "--lanes",
        "1",
        "--decode",
        "value",
    ];
    let run = ["run", "--gpus", "none", "--lanes", "1", "--run-dir", "r", "--", "true"];
    for (most, args) in
        (1..=5).map(|most| (most, &run[..])).chain([4, 5, 8, 9, 10].map(|most| (most, &map[..])))
    {
        let Some(gpulane) = gpulane().as_user(name, LONELY + most) else { return };
        gpulane.workspace.file("items.txt", "a\nb\n");
        gpulane.workspace.file("model.py", "def Model(batch):\n    return [len(item) for item in batch]\n");
        let user = LONELY + most;
        let gpulane = gpulane.limited(&format!(
            "set -- prlimit --nproc={most} setpriv --reuid={user} --regid={user} --clear-groups \"$@\""
        ));
        let finished = gpulane.call(args);
        let told = &finished.stderr;
        let refused = args == run || most <= 5;
        assert!(
            if refused { finished.code == 5 } else { [0, 3].contains(&finished.code) },
            "{most} {args:?}: {finished:?}"
        );
        assert!(!refused || told.contains("`ulimit -u`"), "{most} {args:?}: {told}");
        for log in ["engine.log", "feeder.log"] {
            let log = std::fs::read_to_string(gpulane.dir().join(log)).unwrap_or_default();
            assert!(!log.contains("panicked"), "{most} {args:?}: {log}");
        }
        assert!(!told.contains("panicked") && !told.contains("a bug"), "{most} {args:?}: {told}");
    }
}

#[test]
fn files_of_a_run_have_their_modes_and_jobs_their_umask_whatever_it_is() {
    use std::os::unix::fs::PermissionsExt;
    for umask in ["0777", "0700", "0477", "0177", "0022"] {
        let gpulane = gpulane().limited(&format!("umask {umask}"));
        let finished = gpulane.run(&one("umask", ""), "none");
        assert_eq!(finished.code, 0, "{umask}: {finished:?}");
        let mode = |path: &str| {
            let path = gpulane.dir().join(path);
            std::fs::metadata(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
                .permissions()
                .mode()
                & 0o777
        };
        for (path, expected) in [
            ("", 0o700),
            ("jobs/s/main/attempt-1", 0o700),
            ("plan.json", 0o600),
            ("journal.jsonl", 0o600),
            ("jobs/s/main/attempt-1/stdout.log", 0o600),
        ] {
            assert_eq!(mode(path), expected, "{umask}: {path}");
        }
        assert_eq!(output(&gpulane, "attempt-1/stdout.log"), format!("{umask}\n"));
    }
}

#[test]
fn a_machine_without_dev_null_is_told_so() {
    let name = "a_machine_without_dev_null_is_told_so";
    let Some(gpulane) =
        gpulane().unshare(name, &["--mount", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"])
    else {
        return;
    };
    let finished = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert_eq!(finished.code, 5, "{finished:?}");
    assert!(finished.stderr.contains("/dev/null"), "{}", finished.stderr);
    assert!(!gpulane.dir().exists(), "nothing is left of a start that was refused");
}
