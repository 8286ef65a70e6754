//! Running gpulane as a person would: the binary, in a directory, with arguments.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::{FakeNvml, Workspace, tagged, wait_for};

/// The binary, where it runs, and the one run it works on.
#[derive(Debug)]
pub struct Gpulane {
    binary: PathBuf,
    /// Where it runs.
    pub workspace: Workspace,
    /// What its environment has beside ours.
    pub environment: Vec<(String, String)>,
    /// The command it is started through.
    through: Vec<String>,
}

/// A gpulane that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; -N if signal N ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

/// A gpulane that runs. Killed when dropped, so that a failed test leaves nothing.
#[derive(Debug)]
pub struct Live {
    child: Option<Child>,
}

impl Gpulane {
    /// `binary` is `env!("CARGO_BIN_EXE_gpulane")` in the test. `GPULANE_TEST_BINARY` puts another build in its place, so that
    /// `scripts/regressions.py` can show which tests an older one fails.
    pub fn new(binary: &str) -> Self {
        let binary = std::env::var("GPULANE_TEST_BINARY").unwrap_or_else(|_| binary.to_owned());
        let workspace = Workspace::new();
        // What runs learn of each other stays in here.
        let cache = workspace.path().join("cache").display().to_string();
        let environment = vec![("XDG_CACHE_HOME".to_owned(), cache)];
        Self { binary: PathBuf::from(binary), workspace, environment, through: Vec::new() }
    }

    /// One on fake GPUs of these sizes.
    pub fn on(binary: &str, gpus: &[&str]) -> (FakeNvml, Self) {
        let nvml = FakeNvml::new(gpus);
        let gpulane = Self::new(binary).with(nvml.env());
        (nvml, gpulane)
    }

    /// The same with more in its environment.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(more);
        self
    }

    /// The same, with every call made through a shell that does this first.
    #[must_use]
    pub fn after(mut self, script: &str) -> Self {
        let script = format!("{script}; exec \"$0\" \"$@\"");
        self.through = vec!["bash".to_owned(), "-c".to_owned(), script];
        self
    }

    /// The same, with every call made through `unshare` with these arguments, and with the rights it needs. `None` where that is not
    /// allowed, which has been said of the test.
    pub fn unshare(mut self, test: &str, arguments: &[&str]) -> Option<Self> {
        let rights: &[&str] =
            if rustix::process::geteuid().is_root() { &[] } else { &["--user", "--map-root-user"] };
        let words = [&["unshare"], rights, arguments].concat();
        self.through = words.into_iter().map(str::to_owned).collect();
        let tried = self.command(&["--version"]).output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(self);
        }
        crate::skip(test, "`unshare` is not allowed here");
        None
    }

    /// This gpulane with these words before the program, after whatever it is started through already. `None` where that does not work,
    /// which has been said of the test.
    pub fn then(mut self, test: &str, words: &[&str]) -> Option<Self> {
        self.through.extend(words.iter().map(|word| (*word).to_owned()));
        let tried = self.command(&["--version"]).output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(self);
        }
        crate::skip(test, &format!("`{}` does not work here", words.join(" ")));
        None
    }

    /// Calls the program as whoever runs the test, whatever else it is started through.
    #[must_use]
    pub fn call_directly(&self, args: &[&str]) -> Finished {
        let mut command = Command::new(&self.binary);
        command.args(args).current_dir(self.workspace.path()).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gpulane starts");
        Live { child: Some(child) }.wait_at_most(crate::DEADLINE)
    }

    /// The same, started by a shell after `limits`, such as `ulimit -v 2000000`.
    #[must_use]
    pub fn limited(mut self, limits: &str) -> Self {
        let script = format!("{limits} && exec \"$@\"");
        self.through = ["sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
        self
    }

    /// The same, with every call made by the user `uid`, who owns the workspace. `None` where that is not allowed, which has been said of
    /// the test.
    pub fn as_user(mut self, test: &str, uid: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            crate::skip(test, "only root can act as several users");
            return None;
        }
        let (reuid, regid) = (format!("--reuid={uid}"), format!("--regid={uid}"));
        self.through = ["setpriv", &reuid, &regid, "--clear-groups"].map(str::to_owned).to_vec();
        self.binary = for_all(&self.binary);
        std::os::unix::fs::chown(self.workspace.path(), Some(uid), Some(uid)).expect("root gives it away");
        let home = self.workspace.path().display().to_string();
        self.environment.push(("HOME".to_owned(), home));
        let tried = self.command(&["--version"]).output();
        if tried.is_ok_and(|output| output.status.success()) {
            return Some(self);
        }
        crate::skip(test, "`setpriv` is missing, or may not change the user");
        None
    }

    /// The run directory all calls of [`run`](Self::run) use.
    pub fn dir(&self) -> PathBuf {
        self.workspace.path().join("r")
    }

    /// The command with these arguments, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = match self.through.split_first() {
            Some((first, words)) => {
                let mut command = Command::new(first);
                command.args(words).arg(&self.binary);
                command
            }
            None => Command::new(&self.binary),
        };
        command.args(args).current_dir(self.workspace.path()).stdin(Stdio::null());
        for name in ["GPULANE_RUN", "GPULANE_JOB", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs to its end. One that does not come is ended, and the test with it: it may hang, CI must not.
    pub fn call(&self, args: &[&str]) -> Finished {
        self.spawn(args).wait_at_most(5 * crate::DEADLINE)
    }

    /// Writes `plan` and runs it in [`dir`](Self::dir) on `gpus`.
    pub fn run(&self, plan: &str, gpus: &str) -> Finished {
        self.workspace.file("plan.toml", plan);
        self.call(&["run", "plan.toml", "--gpus", gpus, "--run-dir", "r"])
    }

    /// The same, without waiting for its end.
    pub fn start(&self, plan: &str, gpus: &str) -> Live {
        self.workspace.file("plan.toml", plan);
        self.spawn(&["run", "plan.toml", "--gpus", gpus, "--run-dir", "r"])
    }

    /// Starts gpulane with these arguments.
    pub fn spawn(&self, args: &[&str]) -> Live {
        let mut command = self.command(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gpulane starts");
        Live { child: Some(child) }
    }

    /// The run's events so far, as written.
    pub fn events(&self) -> Vec<Value> {
        events(&self.dir())
    }

    /// Events of this kind.
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Names of the jobs in events of this kind, in order.
    pub fn jobs_in(&self, kind: &str) -> Vec<String> {
        self.events_of(kind).iter().filter_map(|event| event["job"].as_str().map(str::to_owned)).collect()
    }

    /// Waits until `count` events of this kind are there.
    pub fn wait_for_events(&self, kind: &str, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} events `{kind}`"), || {
            let events = self.events_of(kind);
            (events.len() >= count).then_some(events)
        })
    }

    /// Asserts that nothing the run started is alive. Ending takes a moment, so this waits, two seconds at most.
    pub fn assert_nothing_left(&self) {
        let begun = std::time::Instant::now();
        loop {
            let left = tagged(&self.dir());
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed().as_secs() < 2, "still alive: {left:#?}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// The program where every user can start it: the directory it was built in may be closed to them.
fn for_all(binary: &Path) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(binary).expect("the program is there");
    let binary = &binary.canonicalize().expect("the program is there");
    if binary.ancestors().all(|place| std::fs::metadata(place).is_ok_and(|found| found.mode() & 0o001 != 0)) {
        return binary.clone();
    }
    let modified = found.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let name = format!("gpulane-test-{}-{}", found.len(), modified.unwrap_or_default().as_nanos());
    let path = std::env::temp_dir().join(name);
    if !path.exists() {
        // Tests run side by side, as processes and as threads.
        let draft = path.with_extension(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::copy(binary, &draft)
            .and_then(|_| std::fs::rename(&draft, &path))
            .expect("the program can be copied");
    }
    path
}

/// The events in a run directory's journal; none if there is no journal. A torn last line is left out.
fn events(dir: &Path) -> Vec<Value> {
    let text = std::fs::read(dir.join("journal.jsonl")).unwrap_or_default();
    text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

impl Live {
    /// The front's process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.as_ref().expect("it was started").id()).expect("a process id")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        rustix::process::kill_process(pid, signal).expect("gpulane can be signalled");
    }

    /// Waits for its end. One that does not come is ended, and the test with it.
    pub fn wait(self) -> Finished {
        self.wait_at_most(crate::DEADLINE)
    }

    fn wait_at_most(mut self, patience: std::time::Duration) -> Finished {
        let pid = rustix::process::Pid::from_raw(self.pid()).expect("a process id");
        let child = self.child.take().expect("it was started");
        let (ended, watch) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            let late = watch.recv_timeout(patience) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if late {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            late
        });
        let output = child.wait_with_output().expect("gpulane can be waited for");
        drop(ended);
        assert!(!watchdog.join().expect("the watchdog lives"), "gpulane did not end: {output:?}");
        finished(&output)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn finished(output: &Output) -> Finished {
    use std::os::unix::process::ExitStatusExt;
    Finished {
        code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
