//! The watchdog around the zoo: what it does with what it found, and what it makes of GPUs.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::collections::HashSet;
use std::process::{Child, Command, Stdio};

use gpulane_testkit::{FakeNvml, Gpulane, skip};
use serde_json::Value;

/// Freezes at once, in a lock that nobody gives back.
const LOCKED: &str = "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n";

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn on(gpus: &[&str]) -> (FakeNvml, Gpulane) {
    Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), gpus)
}

/// A stage that runs this Python with these settings.
fn stage(name: &str, settings: &str, python: &str) -> String {
    format!(
        "[[stage]]\nname = \"{name}\"\ngrace = \"1s\"\n{settings}\ncommand = [\"python3\", \"-c\", '''\n{python}''']\n"
    )
}

fn stacks(gpulane: &Gpulane, job: &str, attempt: u32) -> String {
    let path = gpulane.dir().join(format!("jobs/{job}/attempt-{attempt}/stacks.txt"));
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn what_froze_is_tried_again_also_where_nothing_else_is() {
    let gpulane = gpulane();
    let python = format!("import os\nif os.environ['GPULANE_ATTEMPT'] == '1':\n exec({LOCKED:?})\n");
    let finished = gpulane.run(&stage("s", "hang = \"1s\"", &python), "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["reason"], "hang");
    let stacks = stacks(&gpulane, "s/main", 1);
    assert!(stacks.contains("line 4, in <module>") && stacks.contains("waits in futex"), "{stacks}");
    assert!(finished.stderr.contains("waiting for a lock"), "{}", finished.stderr);
    gpulane.assert_nothing_left();
}

#[test]
fn it_freezes_again_and_then_has_failed() {
    let gpulane = gpulane();
    let finished = gpulane.run(&stage("s", "hang = \"1s\"", LOCKED), "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    assert_eq!(gpulane.events_of("job_failed").len(), 2);
    assert!(finished.stderr.contains("stacks.txt"), "{}", finished.stderr);
}

#[test]
fn a_warning_ends_nothing() {
    let gpulane = gpulane();
    let settings = "hang = { after = \"1s\", action = \"warn\" }";
    // A child ends it a while after the warning.
    let python = format!(
        "import os, subprocess, sys\n\
         subprocess.Popen([sys.executable, '-c', 'import os, time\\nwhile not os.path.exists(\"go\"): time.sleep(0.05)\\nos.kill({{}}, 9)'.format(os.getpid())])\n{LOCKED}"
    );
    let live = gpulane.start(&stage("s", settings, &python), "none");
    let warned = gpulane.wait_for_events("hang_suspected", 1);
    assert_eq!(warned[0]["frozen"], true, "{warned:?}");
    assert!(gpulane.events_of("job_failed").is_empty());
    gpulane.workspace.file("go", "");
    assert_eq!(live.wait().code, 3);
    assert_eq!(gpulane.events_of("job_failed")[0]["reason"], "signal");
}

#[test]
fn a_frozen_program_that_does_not_mind_term_shows_its_threads_when_it_is_aborted() {
    let gpulane = gpulane();
    let python = format!("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{LOCKED}");
    let settings = "hang = { after = \"1s\", action = \"fail\" }";
    let finished = gpulane.run(&stage("s", settings, &python), "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let stacks = stacks(&gpulane, "s/main", 1);
    assert!(stacks.contains("faulthandler") && stacks.contains("most recent call first"), "{stacks}");
    gpulane.assert_nothing_left();
}

#[test]
fn off_is_off() {
    let gpulane = gpulane();
    let on = "hang = { after = \"1s\", action = \"fail\" }";
    let plan = stage("off", "hang = \"off\"", LOCKED) + &stage("on", on, LOCKED);
    let live = gpulane.start(&plan, "none");
    // By the time the other was judged, this one would have been, too.
    gpulane.wait_for_events("job_failed", 1);
    assert_eq!(gpulane.jobs_in("hang_suspected"), ["on/main"]);
    gpulane.call(&["cancel", "r"]);
    assert_eq!(live.wait().code, 3);
}

#[test]
fn a_silent_job_lives_as_long_as_its_gpu_works() {
    let (nvml, gpulane) = on(&["24GiB", "24GiB"]);
    nvml.set(|script| {
        script["gpus"][0]["load"] = 40.into();
        script["gpus"][1]["load"] = 0.into();
    });
    let settings = "hang = { after = \"1s\", action = \"fail\" }";
    let live = gpulane.start(&(stage("busy", settings, LOCKED) + &stage("idle", settings, LOCKED)), "all");
    gpulane.wait_for_events("job_failed", 1);
    assert_eq!(gpulane.jobs_in("hang_suspected"), ["idle/main"]);
    nvml.set(|script| script["gpus"][0]["load"] = 0.into());
    assert_eq!(live.wait().code, 3);
    let failed = gpulane.events_of("job_failed");
    assert_eq!((&failed[1]["job"], &failed[1]["reason"]), (&"busy/main".into(), &"hang".into()));
    assert!(failed[1]["message"].as_str().unwrap().contains("GPU 0%"), "{failed:?}");
}

#[test]
fn a_gpu_that_cannot_be_seen_may_be_at_work_until_it_is_seen() {
    let (nvml, gpulane) = on(&["24GiB"]);
    // It says nothing of its load, as slices do.
    nvml.set(|script| script["gpus"][0]["load"] = Value::Null);
    let live = gpulane.start(&stage("s", "hang = { after = \"1s\", action = \"fail\" }", LOCKED), "all");
    let suspected = gpulane.wait_for_events("hang_suspected", 1);
    assert_eq!(suspected[0]["frozen"], false, "{suspected:?}");
    assert!(gpulane.events_of("job_failed").is_empty());
    nvml.set(|script| script["gpus"][0]["load"] = 0.into());
    assert_eq!(live.wait().code, 3);
    assert_eq!(gpulane.events_of("job_failed")[0]["reason"], "hang");
}

#[test]
fn where_its_results_are_there_a_suspect_has_succeeded_also_on_a_gpu_that_cannot_be_read() {
    let python =
        format!("import os\nopen(os.environ['GPULANE_OUT'] + '/model.pt', 'w').write('weights')\n{LOCKED}");
    let plan = stage("s", "hang = \"10s\"\nresult = [\"model.pt\"]", &python);
    for hangs in [false, true] {
        let (nvml, gpulane) = on(&["24GiB"]);
        nvml.set(|script| script["gpus"][0]["load"] = Value::Null);
        let live = gpulane.start(&plan, "all");
        gpulane.wait_for_events("job_started", 1);
        if hangs {
            nvml.set(|script| script["hang"] = "all".into());
        }
        let lingered = gpulane.wait_for_events("job_lingered", 1);
        assert_eq!(lingered[0]["job"], "s/main", "{lingered:?}");
        assert_eq!(live.wait().code, 0);
        assert_eq!(gpulane.jobs_in("job_succeeded"), ["s/main"]);
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_process_whose_main_thread_has_left_is_ended_all_the_same() {
    let gpulane = gpulane();
    let python = "import ctypes, threading, time\n\
                  threading.Thread(target=time.sleep, args=(1000,)).start()\n\
                  time.sleep(0.2)\n\
                  ctypes.CDLL(None).syscall(60, 0)\n";
    let finished = gpulane.run(&stage("s", "timeout = \"2s\"", python), "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let failed = gpulane.events_of("job_failed");
    assert_eq!(failed[0]["reason"], "timeout");
    gpulane.assert_nothing_left();
}

#[test]
fn a_stopped_job_is_told_of_and_goes_on_when_it_may() {
    let gpulane = gpulane();
    let settings = "hang = { after = \"1s\", action = \"fail\" }";
    let live = gpulane
        .start(&stage("s", settings, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"), "none");
    let told = gpulane.wait_for_events("hang_suspected", 1);
    assert_eq!(told[0]["frozen"], false);
    let evidence = told[0]["evidence"].as_str().unwrap();
    assert!(evidence.contains("is stopped"), "{evidence}");
    let pid = gpulane.events_of("job_started")[0]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert_eq!(live.wait().code, 0);
}

#[test]
fn who_waits_for_a_lock_that_a_living_neighbour_holds_is_left_alone() {
    let gpulane = gpulane();
    let lock = "import fcntl, os, time\nfile = open('shared.lock', 'w')\n";
    let holder = format!(
        "{lock}fcntl.flock(file, fcntl.LOCK_EX)\nopen('held', 'w')\nend = time.time() + 7\nwhile time.time() < end: sum(range(1000))\n"
    );
    let waiter = format!(
        "{lock}while not os.path.exists('held'): time.sleep(0.01)\nfcntl.flock(file, fcntl.LOCK_EX)\n"
    );
    let settings = "hang = { after = \"1s\", action = \"fail\" }";
    let plan = stage("holder", settings, &holder) + &stage("waiter", settings, &waiter);
    let finished = gpulane.run(&plan, "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.jobs_in("hang_suspected"), ["waiter/main"], "it was looked at, and left");
}

/// Programs that wait for the clock, for a signal or for somebody outside, and a word that must be said about each.
const WAITING: [(&str, &str, &str); 9] = [
    (
        "alarm",
        "import signal, threading\ne = threading.Event()\nsignal.signal(signal.SIGALRM, lambda *_: e.set())\nsignal.alarm(3600)\ne.wait()\n",
        "event",
    ),
    (
        "sigwait",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [14])\nsignal.setitimer(signal.ITIMER_REAL, 3600)\nsignal.sigwait([14])\n",
        "rt_sigtimedwait",
    ),
    (
        "timerfd",
        "import ctypes, select\nc = ctypes.CDLL(None)\nt = c.timerfd_create(1, 0)\n\
         c.timerfd_settime(t, 0, (ctypes.c_long * 4)(0, 0, 3600, 0), None)\ne = select.epoll()\ne.register(t)\ne.poll()\n",
        "epoll_wait, for the clock",
    ),
    (
        "inotify",
        "import ctypes, os\nc = ctypes.CDLL(None)\nw = c.inotify_init()\nos.mkdir('inbox')\nc.inotify_add_watch(w, b'inbox', 256)\nos.read(w, 4096)\n",
        "inotify",
    ),
    ("fifo", "import os\nos.mkfifo('frames')\nopen('frames').read()\n", "frames"),
    ("server", "import socket\ns = socket.create_server(('127.0.0.1', 0))\ns.accept()\n", "127.0.0.1:"),
    (
        "cat",
        "import socket, subprocess\ns = socket.create_connection(('127.0.0.1', PORT))\nsubprocess.run(['cat'], stdin=s)\n",
        "reading from a socket (socket 127.0.0.1:PORT)",
    ),
    (
        "naps",
        "import time\nwhile True:\n    time.sleep(2)\n    end = time.time() + 0.01\n    while time.time() < end: pass\n",
        "",
    ),
    (
        "soft_lock",
        "import os, time\nopen('build.lock', 'w')\nwhile os.path.exists('build.lock'): time.sleep(0.2)\n",
        "sleeping",
    ),
];

#[test]
fn who_waits_for_the_clock_a_signal_or_somebody_outside_is_told_and_left_alone() {
    let gpulane = gpulane();
    // It takes the connection and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let settings = "hang = { after = \"1s\", action = \"fail\" }";
    let stages = WAITING.map(|(name, python, _)| stage(name, settings, &python.replace("PORT", &port)));
    gpulane.workspace.file("plan.toml", &format!("name = \"waits\"\n{}", stages.concat()));
    let run = ["run", "plan.toml", "--gpus", "none", "--lanes", "9", "--run-dir", "r"];
    let live = gpulane.spawn(&run);
    let told = gpulane_testkit::wait_for("all to be told", || {
        let told = gpulane.events_of("hang_suspected");
        // One that naps may show life each time it is looked at.
        let quiet = WAITING.iter().filter(|(name, _, _)| *name != "naps");
        let is_of = |name: &str| told.iter().any(|event| event["job"] == format!("{name}/main"));
        quiet.clone().all(|(name, _, _)| is_of(name)).then(|| told.clone())
    });
    assert!(told.iter().all(|event| event["frozen"] == false), "{told:?}");
    assert!(gpulane.events_of("job_failed").is_empty(), "{:?}", gpulane.events_of("job_failed"));
    for (name, _, word) in WAITING.iter().filter(|(name, _, _)| *name != "naps") {
        let event = told.iter().find(|event| event["job"] == format!("{name}/main")).unwrap();
        let word = word.replace("PORT", &port);
        assert!(event["evidence"].as_str().unwrap().contains(&word), "{name}: no `{word}` in {event}");
    }
    gpulane.call(&["cancel", "r"]);
    assert_eq!(live.wait().code, 3);
}

#[test]
fn a_lock_of_a_file_that_the_process_holds_itself_is_named_as_its_own() {
    let gpulane = gpulane();
    let python = "import fcntl\na, b = open('f', 'w'), open('f')\nfcntl.flock(a, fcntl.LOCK_EX)\nfcntl.flock(b, fcntl.LOCK_EX)\n";
    let finished = gpulane.run(&stage("s", "hang = { after = \"1s\", action = \"fail\" }", python), "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let told = gpulane.events_of("hang_suspected");
    let cause = told[0]["cause"].as_str().unwrap();
    assert!(cause.starts_with("it holds the lock of ") && cause.contains("itself"), "{told:?}");
}

#[test]
fn a_job_that_works_a_little_between_its_sleeps_is_not_ended() {
    let gpulane = gpulane();
    let python = "import time\n\
                  end = time.monotonic() + 20\n\
                  while time.monotonic() < end:\n    \
                      time.sleep(2)\n    \
                      begun = time.process_time()\n    \
                      while time.process_time() - begun < 0.01: pass\n";
    let settings = "hang = { after = \"3s\", action = \"fail\" }";
    let finished = gpulane.run(&stage("s", settings, python), "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

/// Waits for somebody who writes to a FIFO: anybody may come.
const FIFO: &str = "import os\nos.mkfifo(os.environ['GPULANE_OUT'] + '/frames')\n\
                    open(os.environ['GPULANE_OUT'] + '/frames').read()\n";

#[test]
fn a_wait_that_may_still_end_is_told_with_what_for_and_ended_as_outside_says() {
    let gpulane = gpulane();
    let settings = "hang = { after = \"1s\", outside = \"4s\", action = \"fail\" }";
    let finished = gpulane.run(&stage("s", settings, FIFO), "none");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let told = gpulane.events_of("hang_suspected");
    assert_eq!((&told[0]["frozen"], told[0].get("overdue")), (&false.into(), None), "{told:?}");
    assert!(told[0]["waits_for"].as_str().unwrap().contains("/frames"), "{told:?}");
    assert_eq!((&told[1]["frozen"], &told[1]["overdue"]), (&false.into(), &true.into()), "{told:?}");
    assert!(told[1]["quiet"].as_f64().unwrap() >= 4.0, "{told:?}");
    let failed = &gpulane.events_of("job_failed")[0];
    assert_eq!(failed["reason"], "hang");
    assert!(failed["message"].as_str().unwrap().starts_with("waited for longer than its limit"), "{failed}");
    assert!(
        finished.stderr.contains("which was told: s/main\n"),
        "what limits it is there: {}",
        finished.stderr
    );
    gpulane.assert_nothing_left();
}

#[test]
fn a_suspect_with_its_results_written_has_succeeded_unless_it_waits_by_the_clock() {
    let gpulane = gpulane();
    let wrote = "import os\nopen(os.environ['GPULANE_OUT'] + '/model.pt', 'w').write('weights')\n";
    let settings = "hang = \"10s\"\nresult = [\"model.pt\"]";
    let sleeps = format!("{wrote}import time\ntime.sleep(1000)\n");
    let plan = stage("waits", settings, &format!("{wrote}{FIFO}")) + &stage("sleeps", settings, &sleeps);
    let live = gpulane.start(&plan, "none");
    gpulane.wait_for_events("job_lingered", 1);
    gpulane_testkit::wait_until("the sleeper to be told", || {
        gpulane.jobs_in("hang_suspected").contains(&"sleeps/main".to_owned())
    });
    gpulane.call(&["cancel", "r"]);
    live.wait();
    assert_eq!(gpulane.jobs_in("job_lingered"), ["waits/main"]);
}

/// What a thread does beside a main one that is frozen.
fn beside(what: &str) -> String {
    format!(
        "import threading, time\ndef beat():\n    while True:\n        {what}\n        time.sleep(0.2)\nthreading.Thread(target=beat, daemon=True).start()\n{LOCKED}"
    )
}

#[test]
fn a_heartbeat_beside_a_freeze_does_not_hide_it() {
    let gpulane = gpulane();
    let settings = "hang = { after = \"2s\", action = \"fail\" }";
    let plan = stage("writes", settings, &beside("open('beat.txt', 'w').write('beat')"))
        + &stage("reads", settings, &beside("open('/proc/self/statm').read()"))
        + &stage("prints", settings, &beside("print('still here', flush=True)"))
        + &stage(
            "asks",
            settings,
            "import os, time\nopen('lock', 'w')\nwhile os.path.exists('lock'): time.sleep(0.01)\n",
        );
    gpulane.workspace.file("plan.toml", &plan);
    let live = gpulane.spawn(&["run", "plan.toml", "--gpus", "none", "--lanes", "4", "--run-dir", "r"]);
    gpulane_testkit::wait_until("all of them to be told", || {
        gpulane.jobs_in("hang_suspected").into_iter().collect::<HashSet<_>>().len() == 4
    });
    let told = gpulane.events_of("hang_suspected");
    for (job, what) in [("writes", "a lock"), ("reads", "a lock"), ("prints", "a lock"), ("asks", "sleeping")]
    {
        let told = told.iter().find(|event| event["job"] == format!("{job}/main")).unwrap();
        assert!(told["evidence"].as_str().unwrap().contains(what), "{told}");
        assert_eq!(told["frozen"], false, "the beat may be what releases the lock: {told}");
    }
    assert!(gpulane.events_of("job_failed").is_empty());
    gpulane.call(&["cancel", "r"]);
    live.wait();
}

#[test]
fn what_is_left_after_the_main_process_is_named_with_what_it_holds() {
    let gpulane = gpulane();
    let python = "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\n";
    let finished = gpulane.run(&stage("s", "", python), "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let left = gpulane.events_of("processes_left");
    let who = left[0]["who"][0].as_str().unwrap();
    assert!(who.starts_with("sleep 1000 (pid ") && who.ends_with(") held stdout and stderr"), "{who}");
}

/// Keeps a process from ending, whatever it is sent: it stops on its way out and waits for its tracer.
struct Grip(Child);

impl Grip {
    /// Takes hold of the first job's process. `None`: tracing is not allowed here.
    fn on(pid: u64) -> Option<Self> {
        const HOLD: &str = "import ctypes, sys, time\n\
            libc = ctypes.CDLL(None)\n\
            libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]\n\
            taken = libc.ptrace(0x4206, int(sys.argv[1]), None, 0x40) == 0\n\
            print('held' if taken else 'no', flush=True)\n\
            time.sleep(300)\n";
        let mut child = Command::new("python3")
            .args(["-c", HOLD, &pid.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let grip = Self(child);
        (line == "held\n").then_some(grip)
    }
}

impl Drop for Grip {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_nothing_ends_costs_its_gpu_and_not_the_run() {
    let (_nvml, gpulane) = on(&["24GiB", "24GiB"]);
    let python = "import os, time\nif os.environ['GPULANE_ATTEMPT'] == '1': time.sleep(1000)\n";
    let live = gpulane.start(&stage("s", "timeout = \"2s\"", python), "all");
    let started = gpulane.wait_for_events("job_started", 1);
    let Some(grip) = Grip::on(started[0]["pid"].as_u64().unwrap()) else {
        return skip("a_process_that_nothing_ends_costs_its_gpu_and_not_the_run", "ptrace is not allowed");
    };
    let again = gpulane.wait_for_events("job_started", 2);
    assert_ne!(again[1]["gpus"], started[0]["gpus"]);
    let stuck = gpulane.events_of("processes_stuck");
    assert_eq!(stuck[0]["pids"][0], started[0]["pid"]);
    let quarantined = gpulane.events_of("gpu_quarantined");
    assert_eq!(quarantined[0]["gpu"], started[0]["gpus"][0], "{quarantined:?}");
    let finished = live.wait();
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    drop(grip);
    gpulane.assert_nothing_left();
}

#[test]
fn finished_work_counts_also_if_its_process_does_not_end() {
    let gpulane = gpulane();
    let script = "echo weights > \"$GPULANE_OUT/model.pt\"; touch \"$GPULANE_DONE\"; mkfifo \"$GPULANE_OUT/../pipe\"; \
                  cat \"$GPULANE_OUT/../pipe\"";
    let plan =
        format!("[[stage]]\nname = \"s\"\ngrace = \"1s\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n");
    let finished = gpulane.run(&plan, "none");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(gpulane.jobs_in("job_lingered"), ["s/main"]);
    let model = gpulane.dir().join("jobs/s/main/out/model.pt");
    assert_eq!(std::fs::read_to_string(model).unwrap(), "weights\n");
    gpulane.assert_nothing_left();
}

#[test]
fn finished_work_is_not_lost_with_its_engine() {
    let gpulane = gpulane();
    let script = "echo $GPULANE_ATTEMPT > \"$GPULANE_OUT/model.pt\"; touch \"$GPULANE_DONE\"; sleep 1000";
    let plan =
        format!("[[stage]]\nname = \"s\"\ngrace = \"30s\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n");
    let live = gpulane.start(&plan, "none");
    let mark = gpulane.dir().join("jobs/s/main/attempt-1/done");
    gpulane_testkit::wait_until("the mark", || mark.exists());
    live.signal(rustix::process::Signal::KILL);
    live.wait();
    gpulane.assert_nothing_left();
    let resumed = gpulane.call(&["resume", "r"]);
    assert!(resumed.code == 0 || resumed.code == 4, "{}", resumed.stderr);
    let model = gpulane.dir().join("jobs/s/main/out/model.pt");
    assert_eq!(std::fs::read_to_string(model).unwrap(), "1\n");
    assert_eq!(gpulane.jobs_in("job_succeeded"), ["s/main"]);
}

#[test]
fn one_start_at_a_time_is_one_at_a_time() {
    let gpulane = gpulane();
    let plan =
        stage("s", "start_gate = 1", "import time\ntime.sleep(0.3)\n") + "[stage.matrix]\ni = [1, 2, 3]\n";
    let finished = gpulane.run(&plan, "sim:3x8GiB");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let events: Vec<Value> = gpulane.events_of("job_started");
    let lanes: Vec<_> = events.iter().map(|event| event["lane"].clone()).collect();
    assert_eq!(lanes, [0, 0, 0], "each had the first lane because the one before had left it");
}
