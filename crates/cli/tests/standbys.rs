//! Entries and the standbys kept for them: a process that has imported the file already becomes the job, and is then one like any
//! other.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::BTreeSet;

use gpulane_testkit::{FakeNvml, Finished, Gpulane, Live, Seen, tagged, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

/// Every import leaves a file with the process's id, and everything a job should not share is in a global.
const IMPORT: &str = "
import os, sys, time
RUNS = []
print('imported', flush=True)
if os.environ['GPULANE_ATTEMPT'] == '0':
    open(f'standby-{os.getpid()}', 'w').close()
";

/// Leaves another file when the process has said that it is ready and waits for its job.
const WAITING: &str = "
import threading
def watch(main):
    while 'take_over' not in (frame.f_code.co_name for frame in frames(main)): time.sleep(0.01)
    open('waiting', 'w').close()
def frames(main):
    frame = sys._current_frames().get(main)
    while frame:
        yield frame
        frame = frame.f_back
threading.Thread(target=watch, args=[threading.get_ident()], daemon=True).start()
";

/// Says what it saw.
const MAIN: &str = "
def main(config, out):
    RUNS.append(1)
    print('ran', config['n'], flush=True)
    names = ['GPULANE_JOB', 'GPULANE_ATTEMPT', 'GPULANE_CONFIG', 'CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS']
    seen = [os.environ.get(name) for name in names] + sys.argv + [os.getcwd(), 'GPULANE_STANDBY' in os.environ]
    (out / 'seen').write_text(f'{len(RUNS)} {seen}')
    (out / 'pid').write_text(str(os.getpid()))
";

/// A stage that waits for the file `go`, and after it so many jobs of `train.py`.
fn plan(settings: &str, jobs: usize) -> String {
    let numbers: Vec<String> = (0..jobs).map(|number| number.to_string()).collect();
    format!(
        "[[stage]]\nname = \"gate\"\ncommand = [\"sh\", \"-c\", \"until test -e go; do sleep 0.02; done\"]\n\
         [[stage]]\nname = \"train\"\nafter = [\"gate\"]\nentry = \"train.py:main\"\n{settings}\n\
         [stage.matrix]\nn = [{}]\n",
        numbers.join(", ")
    )
}

fn start(gpulane: &Gpulane, plan: &str, train: &str, lanes: &str) -> Live {
    gpulane.workspace.file("train.py", train);
    gpulane.workspace.file("plan.toml", plan);
    gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", lanes, "--run-dir", "r"])
}

/// Standbys that live.
fn standbys(gpulane: &Gpulane) -> Vec<Seen> {
    let mut all = tagged(&gpulane.dir());
    all.retain(|seen| seen.mentions("/standby-") && seen.command.contains("_entry.py"));
    all
}

/// Waits until so many have imported the file.
fn wait_for_standbys(gpulane: &Gpulane, count: usize) -> Vec<Seen> {
    let imported = |seen: &Seen| gpulane.workspace.path().join(format!("standby-{}", seen.pid)).exists();
    wait_for(&format!("{count} standbys"), || {
        let ready: Vec<Seen> = standbys(gpulane).into_iter().filter(imported).collect();
        (ready.len() >= count).then_some(ready)
    })
}

fn go(gpulane: &Gpulane, run: Live) -> Finished {
    gpulane.workspace.file("go", "");
    run.wait()
}

fn starts(gpulane: &Gpulane) -> Vec<Value> {
    let mut starts = gpulane.events_of("job_started");
    starts.retain(|event| event["job"].as_str().unwrap().starts_with("train/"));
    starts
}

fn is_warm(start: &Value) -> bool {
    start.get("warm").is_some_and(|warm| warm == true)
}

fn read(gpulane: &Gpulane, number: usize, file: &str) -> String {
    let path = gpulane.dir().join(format!("jobs/train/n={number}")).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_standby_becomes_the_job_and_no_other_after_it() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("", 6), &format!("{IMPORT}{MAIN}"), "2");
    let waiting: BTreeSet<u32> =
        wait_for_standbys(&gpulane, 2).iter().map(|seen| seen.pid.unsigned_abs()).collect();
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("from a standby"), "{}", finished.stderr);
    let starts = starts(&gpulane);
    let pids: BTreeSet<u64> = starts.iter().map(|start| start["pid"].as_u64().unwrap()).collect();
    assert_eq!(pids.len(), 6, "one process serves one job");
    let warm: BTreeSet<u32> = starts
        .iter()
        .filter(|start| is_warm(start))
        .map(|start| u32::try_from(start["pid"].as_u64().unwrap()).unwrap())
        .collect();
    assert!(waiting.is_subset(&warm), "those that waited have become jobs: {waiting:?} {warm:?}");
    for number in 0..6 {
        let seen = read(&gpulane, number, "out/seen");
        assert!(seen.starts_with(&format!("1 ['train/n={number}', '1', '{{\"n\":{number}}}'")), "{seen}");
        let log = read(&gpulane, number, "attempt-1/stdout.log");
        assert_eq!(log, format!("imported\nran {number}\n"), "what it printed while importing is there");
        let start = starts.iter().find(|start| start["job"] == format!("train/n={number}")).unwrap();
        assert_eq!(read(&gpulane, number, "out/pid"), start["pid"].to_string());
    }
    gpulane.assert_nothing_left();
}

#[test]
fn a_job_sees_the_same_warm_and_cold() {
    let seen = |settings: &str, count: usize| {
        let gpulane = gpulane();
        let run = start(&gpulane, &plan(settings, 2), &format!("{IMPORT}{MAIN}"), "2");
        wait_for_standbys(&gpulane, count);
        assert_eq!(go(&gpulane, run).code, 0);
        let warm = starts(&gpulane).iter().filter(|start| is_warm(start)).count();
        let root = gpulane.workspace.path().display().to_string();
        let seen = [0, 1].map(|number| read(&gpulane, number, "out/seen").replace(&root, "/work"));
        (warm, seen)
    };
    let (warm, cold) = (seen("", 2), seen("standbys = \"off\"", 0));
    assert_eq!((warm.0, cold.0), (2, 0));
    assert_eq!(warm.1, cold.1);
}

#[test]
fn an_import_that_fails_is_said_once_and_each_job_shows_its_own_error() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("", 3), "import no_such_module\ndef main(): pass\n", "2");
    let off = gpulane.wait_for_events("standbys_off", 1);
    let why = "importing train.py failed: ModuleNotFoundError: No module named 'no_such_module'";
    assert_eq!((off[0]["stage"].as_str(), off[0]["why"].as_str()), (Some("train"), Some(why)));
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 3);
    assert_eq!(finished.stderr.matches("standbys of train switched off").count(), 1, "{}", finished.stderr);
    for number in 0..3 {
        let log = read(&gpulane, number, "attempt-1/stderr.log");
        assert!(log.contains("ModuleNotFoundError") && !log.contains("_entry.py"), "{log}");
    }
    assert!(!starts(&gpulane).iter().any(is_warm));
    assert_eq!(gpulane.events_of("standbys_off").len(), 1);
}

#[test]
fn those_that_die_while_importing_are_given_up() {
    let gpulane = gpulane();
    let train = format!("import os\nif os.environ['GPULANE_ATTEMPT'] == '0': os._exit(9)\n{IMPORT}{MAIN}");
    let run = start(&gpulane, &plan("", 2), &train, "1");
    let off = gpulane.wait_for_events("standbys_off", 1);
    let why = "they ended by themselves 5 times, the last with exit code 9";
    assert_eq!(off[0]["why"].as_str(), Some(why));
    assert_eq!(go(&gpulane, run).code, 0);
    assert!(!starts(&gpulane).iter().any(is_warm));
}

#[test]
fn those_that_print_without_end_are_given_up_and_that_is_said_once() {
    let gpulane = gpulane();
    let train = format!(
        "{IMPORT}if os.environ['GPULANE_ATTEMPT'] == '0':\n    print('x' * (17 << 20), flush=True)\n{MAIN}"
    );
    let run = start(&gpulane, &plan("", 2), &train, "1");
    let off = gpulane.wait_for_events("standbys_off", 1);
    assert!(off[0]["why"].as_str().unwrap().contains("printing more than 16 MiB"), "{off:?}");
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("a standby of train was ended").count(), 1, "{}", finished.stderr);
    assert!(!starts(&gpulane).iter().any(is_warm));
}

#[test]
fn a_job_handed_to_one_that_still_imports_fails_as_it_would_have() {
    let gpulane = gpulane();
    let train = "import os, time\nopen(f'standby-{os.getpid()}', 'w').close()\nprint('early')\n\
                 while not os.path.exists('crash'): time.sleep(0.02)\nos.abort()\ndef main(): pass\n";
    let run = start(&gpulane, &plan("", 1), train, "1");
    wait_for_standbys(&gpulane, 1);
    gpulane.workspace.file("go", "");
    gpulane.wait_for_events("job_started", 2);
    assert!(is_warm(&starts(&gpulane)[0]));
    gpulane.workspace.file("crash", "");
    assert_eq!(run.wait().code, 3);
    assert_eq!(gpulane.events_of("job_failed")[0]["reason"], "signal");
    assert_eq!(read(&gpulane, 0, "attempt-1/stdout.log"), "early\n");
    let log = read(&gpulane, 0, "attempt-1/stderr.log");
    assert!(log.contains("Fatal Python error: Aborted"), "{log}");
    gpulane.assert_nothing_left();
}

#[test]
fn a_standby_that_is_killed_is_replaced_and_nobody_notices() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("", 2), &format!("{IMPORT}{MAIN}"), "1");
    let first = wait_for_standbys(&gpulane, 1).remove(0).pid;
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    wait_until("another standby", || wait_for_standbys(&gpulane, 1).iter().all(|seen| seen.pid != first));
    assert_eq!(go(&gpulane, run).code, 0);
    assert!(is_warm(&starts(&gpulane)[0]));
    assert_eq!(gpulane.events_of("job_failed").len() + gpulane.events_of("standbys_off").len(), 0);
}

/// A standby that says it is ready and never reads: as one that is killed and whose memory is being torn down, or stopped by a debugger.
const DEAF: &str = "
import __main__
if os.environ['GPULANE_ATTEMPT'] == '0':
    __main__.Standby.take_over = lambda self: (open('waiting', 'w').close(), time.sleep(600))
";

#[test]
fn a_job_handed_to_one_that_is_dying_or_deaf_is_done_by_another() {
    for dying in [true, false] {
        let gpulane = gpulane();
        let run = start(&gpulane, &plan("", 1), &format!("{IMPORT}{DEAF}{MAIN}"), "1");
        let standby = Pid::from_raw(wait_for_standbys(&gpulane, 1)[0].pid).unwrap();
        wait_until("it waits for a job", || gpulane.workspace.path().join("waiting").exists());
        gpulane.workspace.file("go", "");
        gpulane.wait_for_events("job_started", 2);
        assert!(is_warm(&starts(&gpulane)[0]));
        if dying {
            kill_process(standby, Signal::KILL).unwrap();
        }
        let finished = run.wait();
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        assert_eq!(starts(&gpulane).iter().map(is_warm).collect::<Vec<_>>(), [true, false]);
        let failed = gpulane.events_of("job_failed");
        assert_eq!((failed.len(), failed[0]["reason"].as_str()), (1, Some("lost")), "{failed:?}");
        assert!(read(&gpulane, 0, "out/seen").starts_with("1 "));
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_standby_that_somebody_has_stopped_goes_on_when_it_gets_a_job() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("", 1), &format!("{IMPORT}{WAITING}{MAIN}"), "1");
    let standby = Pid::from_raw(wait_for_standbys(&gpulane, 1)[0].pid).unwrap();
    wait_until("it waits for a job", || gpulane.workspace.path().join("waiting").exists());
    kill_process(standby, Signal::STOP).unwrap();
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(starts(&gpulane).iter().map(is_warm).collect::<Vec<_>>(), [true]);
    gpulane.assert_nothing_left();
}

#[test]
fn whatever_of_gpulane_is_killed_no_standby_stays() {
    for depth in [1, 2] {
        let gpulane = gpulane();
        let _run = start(&gpulane, &plan("", 4), &format!("{IMPORT}{MAIN}"), "2");
        let standby = wait_for_standbys(&gpulane, 2).remove(0);
        // Its parent is the engine, whose parent is the guardian.
        let mut victim = standby.parent;
        if depth == 2 {
            let all = gpulane_testkit::processes();
            victim = all.iter().find(|seen| seen.pid == victim).unwrap().parent;
        }
        kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
        gpulane.assert_nothing_left();
    }
}

#[test]
fn an_interrupt_ends_them_all() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("", 4), &format!("{IMPORT}{MAIN}"), "2");
    wait_for_standbys(&gpulane, 2);
    run.signal(Signal::INT);
    assert_eq!(run.wait().code, 130);
    gpulane.assert_nothing_left();
    assert_eq!(starts(&gpulane).len(), 0);
}

#[test]
fn crash_and_timeout_are_what_they_are_for_commands() {
    let gpulane = gpulane();
    let train = format!(
        "{IMPORT}import signal\ndef main(config):\n    if config['n'] == 0: os.kill(os.getpid(), signal.SIGSEGV)\n    \
         if config['n'] == 1: time.sleep(600)\n    if config['n'] == 2: raise KeyError('lost')\n    sys.exit(7)\n"
    );
    let run = start(&gpulane, &plan("timeout = \"4s\"\ngrace = \"0s\"", 4), &train, "4");
    wait_for_standbys(&gpulane, 4);
    assert_eq!(go(&gpulane, run).code, 3);
    assert_eq!(starts(&gpulane).iter().filter(|start| is_warm(start)).count(), 4);
    let mut failed = gpulane.events_of("job_failed");
    failed.sort_by_key(|event| event["job"].to_string());
    let reasons: Vec<_> = failed.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["signal", "timeout", "exit", "exit"]);
    assert_eq!((failed[2]["code"].as_i64(), failed[3]["code"].as_i64()), (Some(1), Some(7)));
    let log = read(&gpulane, 2, "attempt-1/stderr.log");
    assert!(log.contains("KeyError: 'lost'") && !log.contains("_entry.py"), "{log}");
    gpulane.assert_nothing_left();
}

#[test]
fn what_was_started_while_importing_belongs_to_the_job_later() {
    let gpulane = gpulane();
    let train = format!(
        "{IMPORT}import subprocess\nhelper = subprocess.Popen(['sh', '-c', 'sleep 572 & exit'], start_new_session=True)\n\
         helper.wait()\n{MAIN}"
    );
    let run = start(&gpulane, &plan("", 1), &train, "1");
    wait_for_standbys(&gpulane, 1);
    let daemon = || tagged(&gpulane.dir()).into_iter().find(|seen| seen.command == "sleep 572");
    let before = wait_for("a daemon", daemon).pid;
    assert_eq!(go(&gpulane, run).code, 0);
    assert!(is_warm(&starts(&gpulane)[0]));
    let left = gpulane.events_of("processes_left");
    assert_eq!((left.len(), left[0]["job"].as_str()), (1, Some("train/n=0")), "{before} was ended with it");
    gpulane.assert_nothing_left();
}

#[test]
fn as_many_as_asked_for_and_none_where_none_are_wanted() {
    let gpulane = gpulane();
    let run = start(&gpulane, &plan("standbys = 3", 5), &format!("{IMPORT}{MAIN}"), "1");
    wait_for_standbys(&gpulane, 3);
    assert_eq!(standbys(&gpulane).len(), 3);
    assert_eq!(go(&gpulane, run).code, 0);
    let none = self::gpulane();
    let run = start(&none, &plan("standbys = 0", 5), &format!("{IMPORT}{MAIN}"), "2");
    none.wait_for_events("job_started", 1);
    assert_eq!(go(&none, run).code, 0);
    assert!(!starts(&none).iter().any(is_warm));
}

#[test]
fn an_environment_that_differs_from_job_to_job_means_no_standbys_and_says_so() {
    let gpulane = gpulane();
    let train = "import os\nVALUE = os.environ['VALUE']\ndef main(out): (out / 'seen').write_text(VALUE)\n";
    let run = start(&gpulane, &plan("env = { VALUE = \"<{n}>\" }", 3), train, "1");
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("no standbys for this stage"), "{}", finished.stderr);
    assert_eq!([0, 1, 2].map(|number| read(&gpulane, number, "out/seen")), ["<0>", "<1>", "<2>"]);
    assert!(!starts(&gpulane).iter().any(is_warm));
}

#[test]
fn a_hundred_short_jobs_over_four_lanes() {
    let gpulane = gpulane();
    let train = format!("{IMPORT}{MAIN}    time.sleep(0.02)\n");
    gpulane.workspace.file("go", "");
    let finished = start(&gpulane, &plan("", 100), &train, "4").wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    for number in 0..100 {
        assert!(read(&gpulane, number, "out/seen").starts_with("1 "));
        assert_eq!(read(&gpulane, number, "attempt-1/stdout.log"), format!("imported\nran {number}\n"));
    }
    gpulane.assert_nothing_left();
}

#[test]
fn one_that_takes_gpu_memory_while_importing_is_noticed() {
    let (_nvml, gpulane) = Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), &["24GiB"]);
    let train = format!(
        "{IMPORT}if os.environ['GPULANE_ATTEMPT'] == '0':\n    \
         open(os.path.join(os.environ['FAKE_VRAM'], str(os.getpid())), 'w').write('{} 612MiB\\n')\n{MAIN}",
        FakeNvml::uuid(0)
    );
    gpulane.workspace.file("train.py", &train);
    let run = gpulane.start(&plan("", 3), "all");
    let off = gpulane.wait_for_events("standbys_off", 1);
    assert_eq!(
        off[0]["why"].as_str(),
        Some("importing train.py took 612 MiB on GPU 0; move CUDA calls into main()")
    );
    wait_until("no standby", || standbys(&gpulane).is_empty());
    let finished = go(&gpulane, run);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(!starts(&gpulane).iter().any(is_warm));
    for kind in ["vram_held", "gpu_quarantined", "job_failed"] {
        assert_eq!(gpulane.events_of(kind), [] as [Value; 0], "nobody was taken for a stranger");
    }
    assert_eq!(gpulane.events_of("standbys_off").len(), 1);
    gpulane.assert_nothing_left();
}

#[test]
fn memory_of_a_job_that_was_a_standby_is_the_jobs_own() {
    let (_nvml, gpulane) = Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), &["24GiB"]);
    let train = format!(
        "{IMPORT}def main(config):\n    while not os.path.exists('go'): time.sleep(0.02)\n    \
         claim = os.path.join(os.environ['FAKE_VRAM'], str(os.getpid()))\n    \
         open(claim, 'w').write(os.environ['CUDA_VISIBLE_DEVICES'] + ' 3GiB\\n')\n    \
         while not os.path.exists(f\"seen-{{config['n']}}\"): time.sleep(0.02)\n"
    );
    gpulane.workspace.file("train.py", &train);
    // Taking more than it said is what shows that its memory was seen.
    let plan = "[[stage]]\nname = \"train\"\nentry = \"train.py:main\"\nmemory = \"2GiB\"\nparallel = 1\n\
                [stage.matrix]\nn = [0, 1]\n";
    let run = gpulane.start(plan, "all");
    wait_for_standbys(&gpulane, 1);
    gpulane.workspace.file("go", "");
    for number in 0..2 {
        gpulane.wait_for_events("memory_exceeded", number + 1);
        gpulane.workspace.file(&format!("seen-{number}"), "");
    }
    let finished = run.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(starts(&gpulane).iter().map(is_warm).collect::<Vec<_>>(), [false, true]);
    for event in gpulane.events_of("job_succeeded") {
        assert_eq!(event["peak_vram"].as_u64(), Some(3 << 30), "{event}");
    }
    assert_eq!(gpulane.events_of("vram_held").len() + gpulane.events_of("standbys_off").len(), 0);
}

#[test]
fn a_map_worker_that_dies_is_followed_by_its_standby() {
    let gpulane = gpulane();
    let model = "import glob, os, time\nif os.environ['GPULANE_ATTEMPT'] == '0':\n    open(f'standby-{os.getpid()}', 'w').close()\n\
                 def Model(batch):\n    if not os.path.exists('died'):\n        while not glob.glob('standby-*'): time.sleep(0.02)\n        \
                 open('died', 'w').close()\n        os._exit(9)\n    return [len(item) for item in batch]\n";
    let items: Vec<String> = (0..40).map(|number| format!("item-{number}\n")).collect();
    gpulane.workspace.file("items.txt", &items.concat());
    let more = ["--decode", "value", "--batch", "8", "--workers", "1"];
    let finished = gpulane.map(model, &["@items.txt"], &more);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.rows().len(), 40);
    let starts = gpulane.events_of("job_started");
    assert_eq!(starts.iter().map(is_warm).collect::<Vec<_>>(), [false, true], "{starts:?}");
    gpulane.assert_nothing_left();
}

#[test]
fn a_file_or_function_that_is_not_there_is_a_mistake_with_its_place() {
    let gpulane = gpulane();
    gpulane.workspace.file("train.py", "def main(config, out): pass\n");
    for (entry, words) in [
        ("gone.py:main", "cannot read `gone.py`"),
        ("train.py:mian", "did you mean `train.py:main`?"),
        ("train.py:main.x", "ok, 1 job"),
    ] {
        let text = format!("[[stage]]\nname = \"s\"\nentry = \"{entry}\"\n");
        gpulane.workspace.file("plan.toml", &text);
        let checked = gpulane.call(&["check", "plan.toml"]);
        assert!(checked.stderr.contains(words), "{entry}: {}", checked.stderr);
        assert_eq!(checked.code == 0, words.starts_with("ok"));
    }
}
