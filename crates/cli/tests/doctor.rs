//! `gpulane doctor` as a person or a script uses it: machines with troubles, processes that hang, runs that failed, and
//! what it may end and what not.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{FakeNvml, Finished, Gpulane, wait_until};
use serde_json::{Value, json};

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn on(gpus: &[&str]) -> (FakeNvml, Gpulane) {
    Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), gpus)
}

/// The findings of a call with `--json`, and its exit code.
fn findings(gpulane: &Gpulane, args: &[&str]) -> (Vec<Value>, i32) {
    let finished = gpulane.call(&[&["doctor", "--json"], args].concat());
    let answer: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    (answer["findings"].as_array().unwrap().clone(), finished.code)
}

/// Those of a severity about a topic, as text.
fn about(findings: &[Value], severity: &str, topic: &str) -> String {
    let meant = findings.iter().filter(|it| it["severity"] == severity && it["topic"] == topic);
    meant.map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// Killed and reaped when dropped.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guarded {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

fn sleeper(environment: &[(&str, &str)]) -> Guarded {
    let mut command = Command::new("sleep");
    command.arg("5931").stdout(Stdio::null()).env_remove("GPULANE_RUN");
    Guarded(command.envs(environment.iter().copied()).spawn().unwrap())
}

/// A process that says it belongs to a job of the run in this directory.
fn tagged(run: &Path) -> Guarded {
    sleeper(&[
        ("GPULANE_RUN", run.to_str().unwrap()),
        ("GPULANE_JOB", "s/0"),
        ("GPULANE_STAGE", "s"),
        ("GPULANE_ATTEMPT", "1"),
    ])
}

/// A Python program that has printed `ready`.
fn python(gpulane: &Gpulane, name: &str, text: &str) -> Guarded {
    let file = gpulane.workspace.file(name, text);
    let mut child = Command::new("python3").arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Guarded(child)
}

#[test]
fn a_healthy_machine_says_so_and_shows_what_it_looked_at() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let (found, _) = findings(&gpulane, &[]);
    assert!(about(&found, "fine", "driver").contains("570.00.00, CUDA up to 12.8, 1 GPU"), "{found:#?}");
    for topic in ["GPUs", "leases", "/dev/shm", "disk", "limits", "container", "system", "leftovers"] {
        assert!(found.iter().any(|it| it["topic"] == topic), "{topic} was not looked at");
    }
    let keys: Vec<&String> = found[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["severity", "topic", "seen", "why", "next"]);
}

#[test]
fn troubles_of_gpus_are_told_with_what_to_type() {
    let (nvml, gpulane) = on(&["24GiB", "24GiB", "24GiB", "24GiB"]);
    nvml.set(|script| {
        script["gpus"][0]["lost"] = true.into();
        script["gpus"][1]["compute_mode"] = "prohibited".into();
        script["gpus"][2]["used_extra"] = "9GiB".into();
        script["gpus"][3]["mig"] = json!([]);
    });
    let (found, code) = findings(&gpulane, &[]);
    assert_eq!(code, 3);
    let gpus = about(&found, "bad", "GPUs");
    for words in [
        "is lost",
        "--gpus 2,3 plan.toml",
        "closed to computing",
        "nvidia-smi -i 1 -c 0",
        "MIG mode but has no slices",
    ] {
        assert!(gpus.contains(words), "{words} is missing in {gpus}");
    }
    assert!(about(&found, "bad", "GPU memory").contains("GPU 2: 9 GiB held by nobody"), "{found:#?}");
}

#[test]
fn a_driver_that_does_not_answer_does_not_hold_doctor_up() {
    let (nvml, gpulane) = on(&["24GiB"]);
    nvml.set(|script| script["hang"] = "all".into());
    let gpulane = gpulane.with([("GPULANE_NVML_DEADLINE_MS".to_owned(), "200".to_owned())]);
    let (found, code) = findings(&gpulane, &[]);
    assert_eq!(code, 3);
    assert!(about(&found, "bad", "driver").contains("did not answer"), "{found:#?}");
    assert!(found.iter().any(|it| it["topic"] == "disk"), "the rest is looked at all the same");
}

#[test]
fn a_variable_that_hides_gpus_is_found() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let gpulane = gpulane.with([("CUDA_VISIBLE_DEVICES".to_owned(), "3".to_owned())]);
    let (found, code) = findings(&gpulane, &[]);
    assert_eq!(code, 3);
    let order = about(&found, "bad", "GPU order");
    assert!(order.contains("no GPU `3` here") && order.contains("unset CUDA_VISIBLE_DEVICES"), "{order}");
}

#[test]
fn torch_without_cuda_on_a_machine_with_gpus_is_found() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let venv = gpulane.workspace.path().join("venv");
    gpulane.workspace.file("venv/bin/python3.12", "");
    gpulane.workspace.file("venv/pyvenv.cfg", "");
    gpulane.workspace.file(
        "venv/lib/python3.12/site-packages/torch/version.py",
        "__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\n",
    );
    let program = venv.join("bin/python3.12");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&program, venv.join("bin/python")).unwrap();
    let gpulane = gpulane.with([("VIRTUAL_ENV".to_owned(), venv.display().to_string())]);
    let (found, code) = findings(&gpulane, &[]);
    assert_eq!(code, 3);
    let python = about(&found, "bad", "Python");
    assert!(python.contains("torch 2.9.0+cpu (CPU only)") && python.contains("pip install"), "{python}");
}

#[test]
fn a_deadlock_is_named_with_its_place() {
    let gpulane = gpulane();
    let deadlock = "import threading\n\
        a, b = threading.Lock(), threading.Lock()\n\
        met = threading.Barrier(2)\n\
        def other():\n    \
            with b:\n        met.wait()\n        a.acquire()\n\
        threading.Thread(target=other).start()\n\
        a.acquire()\n\
        met.wait()\n\
        print('ready', flush=True)\n\
        b.acquire()\n";
    let stuck = python(&gpulane, "stuck.py", deadlock);
    let (found, _) = findings(&gpulane, &[&stuck.pid()]);
    let state = about(&found, "warning", "state");
    assert!(state.contains("has not moved in"), "{found:#?}");
    assert!(state.contains("stuck.py:12"), "where it waits is missing in {state}");
    assert!(state.contains("--for 30s"), "{state}");
    let shown = gpulane.call(&["doctor", &stuck.pid(), "-v"]);
    assert!(shown.stdout.contains("stuck.py\", line 7"), "every stack is shown: {}", shown.stdout);
}

#[test]
fn a_process_that_works_moves() {
    let gpulane = gpulane();
    let busy = python(&gpulane, "busy.py", "print('ready', flush=True)\nwhile True:\n    sum(range(1000))\n");
    let (found, code) = findings(&gpulane, &[&busy.pid()]);
    assert_eq!(code, 0, "{found:#?}");
    assert!(about(&found, "fine", "state").contains("moves"), "{found:#?}");
}

#[test]
fn who_is_not_there_is_bad_input() {
    let gpulane = gpulane();
    let gone = {
        let mut child = sleeper(&[]);
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        child.pid()
    };
    for (subject, words) in [(gone.as_str(), "no process"), ("no-such-run", "no run is called")] {
        let finished = gpulane.call(&["doctor", subject]);
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains(words), "{finished:?}");
    }
}

#[test]
fn a_number_is_a_process_unless_only_a_run_is_called_so() {
    let gpulane = gpulane();
    for dir in ["runs/4194999", "here"] {
        gpulane.call(&["run", "--gpus", "none", "--run-dir", dir, "--", "true"]);
    }
    let as_run = gpulane.call(&["doctor", "4194999"]);
    assert!(as_run.stdout.contains("1 of 1 jobs succeeded"), "no process has such a number: {as_run:?}");
    let process = sleeper(&[]);
    let runs = gpulane.workspace.path();
    std::fs::rename(runs.join("here"), runs.join(process.pid())).unwrap();
    let as_process = gpulane.call(&["doctor", &process.pid(), "--for", "1s"]);
    assert!(as_process.stdout.contains("`sleep 5931`"), "{as_process:?}");
    assert!(as_process.stderr.contains(&format!("gpulane doctor ./{}", process.pid())), "{as_process:?}");
}

const FAILING: &str = r#"
[[stage]]
name = "train"
command = ["sh", "-c", "if [ {n} -lt 3 ]; then echo \"ValueError: bad seed {n}\" >&2; exit 1; fi"]
[stage.matrix]
n = [0, 1, 2, 3]
[[stage]]
name = "slow"
timeout = "200ms"
command = ["sleep", "60"]
[[stage]]
name = "eval"
foreach = "train"
command = ["true"]
"#;

#[test]
fn a_run_is_told_by_cause() {
    let gpulane = gpulane();
    gpulane.run(FAILING, "none");
    let (found, code) = findings(&gpulane, &["r"]);
    assert_eq!(code, 3);
    let failed = about(&found, "bad", "failed");
    assert!(failed.contains("3 jobs (train/n=0, …): exit code 1: ValueError: bad seed 0"), "{failed}");
    assert!(failed.contains("longer than the timeout of 0.2 s"), "{failed}");
    assert_eq!(failed.lines().count(), 2, "one finding for each cause: {failed}");
    assert!(about(&found, "warning", "skipped").contains("3 jobs (eval/n=0, …)"), "{found:#?}");
    assert!(gpulane.call(&["doctor", "r"]).stdout.contains("gpulane resume r --failed"));
}

#[test]
fn gpu_memory_is_told_with_what_was_held_and_what_there_is() {
    let (_nvml, gpulane) = on(&["24GiB"]);
    let plan = "[[stage]]\nname = \"s\"\nmemory = \"6GiB\"\n\
        command = [\"sh\", \"-c\", '''echo \"$CUDA_VISIBLE_DEVICES 7GiB\" > \"$FAKE_VRAM/$$\"; sleep 1; \
        echo 'torch.OutOfMemoryError: CUDA out of memory.' >&2; exit 1''']\n";
    gpulane.run(plan, "all");
    let (found, code) = findings(&gpulane, &["r"]);
    assert_eq!(code, 3);
    let failed = about(&found, "bad", "failed");
    // The last try had the GPU to itself, and no reservation gives it more.
    assert!(!failed.contains("memory = "), "{failed}");
    for words in ["CUDA out of memory", "7 GiB it held", "on a GPU of its own (24 GiB)", "only a smaller job"]
    {
        assert!(failed.contains(words), "{words} is missing in {failed}");
    }
}

#[test]
fn a_run_that_went_well_and_one_that_is_damaged() {
    let gpulane = gpulane();
    gpulane.run("[[stage]]\nname = \"s\"\ncommand = [\"true\"]\n[stage.matrix]\nn = [1, 2, 3]\n", "none");
    let well = gpulane.call(&["doctor", "r"]);
    assert_eq!(well.code, 0, "{well:?}");
    assert!(
        well.stdout.contains("3 of 3 jobs succeeded") && well.stdout.contains("nothing is wrong"),
        "{well:?}"
    );
    let journal = gpulane.dir().join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replacen("job_succeeded", "job_succeedeX", 1)).unwrap();
    let (found, code) = findings(&gpulane, &["r"]);
    assert_eq!(code, 3);
    assert!(about(&found, "bad", "journal").contains("gpulane resume r --salvage"), "{found:#?}");
    let resumes = format!("{found:?}").matches("gpulane resume").count();
    assert_eq!(resumes, 1, "a damaged journal is salvaged, or nothing is resumed: {found:#?}");
}

#[test]
fn a_live_run_tells_why_its_jobs_wait() {
    let gpulane = gpulane();
    let plan = "[[stage]]\nname = \"s\"\nparallel = 1\ncommand = [\"sleep\", \"60\"]\n[stage.matrix]\nn = [1, 2, 3]\n";
    let live = gpulane.start(plan, "none");
    gpulane.wait_for_events("job_started", 1);
    let (found, code) = findings(&gpulane, &["r"]);
    gpulane.call(&["cancel", "r"]);
    live.wait();
    assert_eq!(code, 0, "{found:#?}");
    assert!(
        about(&found, "fine", "waiting").contains("2 jobs (s/n=2, …): stage runs 1 job at a time"),
        "{found:#?}"
    );
}

#[test]
fn a_job_that_is_quiet_now_is_told_with_its_wait_its_limit_and_how_to_end_it() {
    let gpulane = gpulane();
    let fifo = gpulane.workspace.path().join("frames");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let plan = format!(
        "[[stage]]\nname = \"s\"\nhang = {{ after = \"1s\", outside = \"10m\" }}\ncommand = [\"cat\", \"{}\"]\n",
        fifo.display()
    );
    let live = gpulane.start(&plan, "none");
    gpulane.wait_for_events("hang_suspected", 1);
    let (found, _) = findings(&gpulane, &["r"]);
    gpulane.call(&["cancel", "r"]);
    live.wait();
    let told = about(&found, "warning", "quiet");
    for words in
        ["has been quiet for", "/frames", "`outside` ends it after 10m 00s", "gpulane cancel r s/main"]
    {
        assert!(told.contains(words), "{words} is missing in {found:#?}");
    }
    assert!(!told.contains("outside = "), "it is set: {told}");
}

/// A run that has ended.
fn over(gpulane: &Gpulane) {
    assert_eq!(gpulane.run("[[stage]]\nname = \"s\"\ncommand = [\"true\"]\n", "none").code, 0);
}

/// Of this run alone: what other runs of this machine have left is not for a test to end.
fn fix(gpulane: &Gpulane) -> Finished {
    gpulane.call(&["doctor", "r", "--fix", "--json"])
}

#[test]
fn what_a_dead_run_left_is_ended_and_nothing_else_is() {
    let gpulane = gpulane();
    over(&gpulane);
    let mut left = tagged(&gpulane.dir());
    let mut of_nobody = tagged(&gpulane.workspace.path().join("no-such-run"));
    let mut untagged = sleeper(&[]);
    let elsewhere = gpulane.workspace.path().join("other");
    gpulane.call(&["run", "--gpus", "none", "--run-dir", "other", "--", "true"]);
    let mut of_another = tagged(&elsewhere);
    for (args, topic) in [(&[][..], "leftovers"), (&["r"], "processes")] {
        let (found, code) = findings(&gpulane, args);
        assert_eq!(code, 3, "what is left is told first");
        let told = about(&found, "bad", topic);
        assert!(told.contains(&left.pid()) && told.contains("--fix"), "{told}");
    }

    let unproved = about(&findings(&gpulane, &[]).0, "warning", "leftovers");
    assert!(unproved.contains(&of_nobody.pid()), "without a run's lock nothing is proved: {unproved}");

    let finished = fix(&gpulane);
    let answer: Value = serde_json::from_str(&finished.stdout).unwrap();
    let ended: Vec<String> =
        answer["ended"].as_array().unwrap().iter().map(|it| it["pid"].to_string()).collect();
    assert!(ended.contains(&left.pid()), "{answer:#}");
    wait_until("its end", || !left.is_alive());
    assert!(!ended.contains(&of_nobody.pid()) && !ended.contains(&untagged.pid()), "{answer:#}");
    assert!(of_nobody.is_alive(), "without a run nothing is proved");
    assert!(untagged.is_alive());
    assert!(of_another.is_alive(), "another run was not named");
}

#[test]
fn jobs_of_a_live_run_are_never_touched() {
    let gpulane = gpulane();
    let live = gpulane.start("[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"5932\"]\n", "none");
    let pid = gpulane.wait_for_events("job_started", 1)[0]["pid"].to_string();
    let mut of_it = tagged(&gpulane.dir());
    let finished = fix(&gpulane);
    let answer: Value = serde_json::from_str(&finished.stdout).unwrap();
    let ended = answer["ended"].to_string();
    assert!(!ended.contains(&pid) && !ended.contains(&of_it.pid()), "{ended}");
    assert!(Path::new(&format!("/proc/{pid}")).exists() && of_it.is_alive());
    assert!(gpulane.events_of("job_failed").is_empty());
    gpulane.call(&["cancel", "r"]);
    live.wait();
}

#[test]
fn one_that_ignores_to_be_asked_is_killed() {
    let gpulane = gpulane();
    over(&gpulane);
    let dir = gpulane.dir();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]).stdout(Stdio::piped());
    command.envs([("GPULANE_RUN", dir.to_str().unwrap()), ("GPULANE_JOB", "s/0"), ("GPULANE_ATTEMPT", "1")]);
    let mut stubborn = Guarded(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(stubborn.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let answer: Value = serde_json::from_str(&fix(&gpulane).stdout).unwrap();
    let pid = stubborn.0.id();
    let ended = answer["ended"].as_array().unwrap().iter().find(|it| it["pid"] == pid).unwrap();
    assert_eq!((&ended["how"], &ended["gone"]), (&json!("killed"), &json!(true)), "{answer:#}");
    wait_until("its end", || !stubborn.is_alive());
}

#[test]
fn which_tool_names_every_case() {
    let told = gpulane().call(&["doctor", "--which-tool"]);
    assert_eq!(told.code, 0);
    for words in ["torchrun", "Slurm", "gpulane run", "threads", "spawn", "IPC"] {
        assert!(told.stdout.contains(words), "{words} is missing in\n{}", told.stdout);
    }
}

#[test]
fn items_that_failed_are_told_by_reason() {
    let gpulane = gpulane();
    let items: Vec<String> = (0..40).map(|number| format!("item-{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
    let model = "def one(item):\n    if item.endswith('7'):\n        raise ValueError(f'no {item}')\n    if item == 'item-5':\n        raise KeyError('five')\n    return 1\n\n\ndef Model(batch):\n    return [one(item) for item in batch]\n";
    assert_eq!(gpulane.map(model, &["@items.txt"], &["--decode", "value", "--workers", "1"]).code, 3);
    let (found, code) = findings(&gpulane, &["r"]);
    assert_eq!(code, 3, "{found:#?}");
    let told = about(&found, "bad", "items");
    let reasons: Vec<&str> = told.lines().collect();
    assert_eq!(reasons.len(), 2, "one finding for each reason: {told}");
    assert!(
        reasons[0].contains("4 items: ValueError: no item-") && reasons[0].contains("r/failed.jsonl"),
        "{told}"
    );
    assert!(reasons[1].contains("1 item: KeyError: 'five'") && reasons[1].contains("it is item-5"), "{told}");
    let text = gpulane.call(&["doctor", "r"]).stdout;
    assert!(
        text.contains("model: 5 of 40 items failed") && text.contains("gpulane resume r --failed"),
        "{text}"
    );
    assert!(!text.contains("nothing is wrong"), "{text}");
}
