//! gpulane as the first process of a container: its parent, session and process group are outside, and have number 0 inside.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{Gpulane, processes, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// A gpulane whose every call is a container of its own, as far as processes go.
fn contained(test: &str) -> Option<Gpulane> {
    let container = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane")).unshare(test, &container)
}

#[test]
fn daemons_are_found_and_ended() {
    let Some(gpulane) = contained("daemons in a container") else { return };
    let finished = gpulane.run(
        r#"
[[stage]]
name = "s"
grace = "1s"
command = ["sh", "-c", "(setsid sh -c 'sleep 6711 & sleep 6712' &); sleep 0.1"]
[stage.matrix]
n = [1, 2, 3]
"#,
        "sim:2x1GiB",
    );
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let left = gpulane.events_of("processes_left");
    assert_eq!(left.len(), 3, "{left:?}");
    gpulane.assert_nothing_left();
}

#[test]
fn a_signal_to_the_first_process_ends_all_in_order() {
    let Some(gpulane) = contained("signals in a container") else { return };
    let live = gpulane.start("[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"6713\"]\n", "sim:2x1GiB");
    gpulane.wait_for_events("job_started", 1);
    let first =
        wait_for("its first process", || processes().into_iter().find(|seen| seen.parent == live.pid()));
    kill_process(Pid::from_raw(first.pid).unwrap(), Signal::TERM).unwrap();
    let finished = live.wait();
    assert_eq!(finished.code, 143, "{}", finished.stderr);
    assert_eq!(gpulane.events_of("run_interrupted").len(), 1);
    gpulane.assert_nothing_left();
}

#[test]
fn nothing_is_left_to_a_container_that_ends_with_the_command() {
    let Some(gpulane) = contained("detached in a container") else { return };
    let refused = gpulane.call(&["run", "--detach", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert!(refused.code == 2 && refused.stderr.contains("--detach"), "{}: {}", refused.code, refused.stderr);
    assert!(!gpulane.dir().exists(), "nothing was made");
}

#[test]
fn standbys_serve() {
    let Some(gpulane) = contained("standbys in a container") else { return };
    let train = "import os\nif os.environ['GPULANE_ATTEMPT'] == '0': open('imported', 'w').close()\ndef main(config): pass\n";
    gpulane.workspace.file("train.py", train);
    let plan = "[[stage]]\nname = \"gate\"\ncommand = [\"sh\", \"-c\", \"until test -e imported; do sleep 0.02; done\"]\n\
                [[stage]]\nname = \"s\"\nafter = [\"gate\"]\nentry = \"train.py:main\"\n";
    let finished = gpulane.run(plan, "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let warm = gpulane.events_of("job_started").iter().filter(|event| event["warm"] == true).count();
    assert!(warm > 0, "{:?}", gpulane.events());
    gpulane.assert_nothing_left();
}

/// Takes a lock of the file by one of several ways, which are asked for in the container and outside of it.
const LOCK: &str = r"
import fcntl, struct, sys
way, file = sys.argv[1], open(sys.argv[2], 'a+b')
def take():
    if way == 'flock': fcntl.flock(file, fcntl.LOCK_EX)
    if way == 'open': fcntl.fcntl(file, 38, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
    if way == 'shared': fcntl.lockf(file, fcntl.LOCK_SH)
    if way == 'part': fcntl.lockf(file, fcntl.LOCK_EX, 10, 100)
def take_too():
    if way == 'shared': fcntl.lockf(file, fcntl.LOCK_SH); fcntl.lockf(file, fcntl.LOCK_EX)
    if way == 'part': fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
    take()
";

#[test]
fn who_waits_for_a_lock_that_is_held_outside_is_left_alone() {
    let Some(gpulane) = contained("locks held outside of a container") else { return };
    let workspace = &gpulane.workspace;
    workspace.file("hold.py", &format!("{LOCK}take()\nprint('held', flush=True)\nsys.stdin.read()\n"));
    workspace.file("wait.py", &format!("{LOCK}take_too()\n"));
    // Each ends when we let go of its stdin.
    let hold = |way: &&str| {
        let mut command = Command::new("python3");
        command.args(["hold.py", way, way]).current_dir(workspace.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n", "{way}");
        child
    };
    let ways = ["flock", "open", "shared", "part"];
    let holders: Vec<Child> = ways.iter().map(hold).collect();
    let plan = format!(
        "[[stage]]\nname = \"s\"\ngrace = \"1s\"\nhang = {{ after = \"1s\", action = \"fail\" }}\nstart_gate = \"off\"\n\
         command = [\"python3\", \"wait.py\", \"{{way}}\", \"{{way}}\"]\n[stage.matrix]\nway = {ways:?}\n"
    );
    let live = gpulane.start(&plan, "sim:4x1GiB");
    let told = gpulane.wait_for_events("hang_suspected", ways.len());
    for mut holder in holders {
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    for event in told {
        assert_eq!(event["frozen"], false, "{event}");
        let evidence = event["evidence"].as_str().unwrap();
        assert!(evidence.starts_with("waiting for the lock of a file"), "{event}");
    }
}

/// The kernel keeps signals from the first process of a container that it does not listen to.
#[test]
fn a_leash_that_is_let_go_at_once_is_noticed() {
    let Some(gpulane) = contained("a leash in a container") else { return };
    gpulane.workspace.file("plan.toml", "[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"6714\"]\n");
    let (end, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::empty()).unwrap();
    let leash = format!("--leash={}", end.as_raw_fd());
    let live = gpulane.spawn(&[&leash, "run", "plan.toml", "--gpus", "none", "--run-dir", "r"]);
    drop(ours);
    assert_eq!(live.wait().code, 143);
    gpulane.assert_nothing_left();
}

/// Where `/proc` numbers processes in another way than we do, what jobs leave behind can be neither found nor ended.
#[test]
fn a_proc_of_another_namespace_is_refused_with_what_to_type() {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let Some(gpulane) = gpulane.unshare("a foreign /proc", &["--pid", "--fork", "--kill-child"]) else {
        return;
    };
    let live = gpulane.start(
        "[[stage]]\nname = \"s\"\ncommand = [\"sleep\", \"0.5\"]\n[stage.matrix]\nn = [1, 2]\n",
        "none",
    );
    let finished = live.wait();
    assert_eq!(finished.code, 5, "{}", finished.stderr);
    assert!(finished.stderr.contains("unshare --fork --pid --mount-proc"), "{}", finished.stderr);
    assert!(!gpulane.dir().exists());
}

#[test]
fn a_missing_proc_is_named() {
    let script = "umount -l /proc && exec \"$0\" \"$@\"";
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    let Some(gpulane) = gpulane.unshare("no /proc", &["--mount", "sh", "-c", script]) else { return };
    let finished = gpulane.call(&["run", "--gpus", "none", "--run-dir", "r", "--", "true"]);
    assert_eq!(finished.code, 5, "{}", finished.stderr);
    assert!(finished.stderr.contains("/proc is not mounted"), "{}", finished.stderr);
    assert!(finished.stderr.contains("mount -t proc proc /proc"), "{}", finished.stderr);
}
