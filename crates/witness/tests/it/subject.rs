//! A Python program to look at, ended with all it started when the test is over.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpulane_witness::{Change, Evidence, GpuUse, Known, compare, descendants, is_monitor, take};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// Long enough for a loaded machine; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_mins(1);
/// Between two looks.
const GAP: Duration = Duration::from_millis(250);

pub(crate) struct Subject {
    child: Child,
    _folder: TempDir,
}

impl Subject {
    /// Runs this program as `job.py`.
    pub(crate) fn start(program: &str) -> Self {
        Self::with_arguments(program, &[])
    }

    pub(crate) fn with_arguments(program: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.py");
        std::fs::write(&path, program).unwrap();
        let mut command = Command::new(python());
        command.arg(&path).args(arguments);
        Self::of(command, folder)
    }

    /// Any other program; the folder goes with it.
    pub(crate) fn of(mut command: Command, folder: TempDir) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
        Self { child, _folder: folder }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As the watchdog looks: without processes that only watch.
    pub(crate) fn look(&self) -> Evidence {
        let comm = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut tree = descendants(self.pid());
        tree.retain(|pid| !is_monitor(&comm(pid)));
        take(&tree)
    }

    /// Two looks, one after the other.
    pub(crate) fn look_twice(&self) -> (Evidence, Change) {
        let first = self.look();
        sleep(GAP);
        let second = self.look();
        let change = compare(&first, &second, &Known { main: self.pid(), ..Known::default() });
        (second, change)
    }

    /// Looks until two looks show this.
    pub(crate) fn until(&self, mut wanted: impl FnMut(&Evidence, &Change) -> bool) -> Evidence {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (evidence, change) = self.look_twice();
            if wanted(&evidence, &change) {
                return evidence;
            }
            let shown = gpulane_witness::in_full(&evidence, "at the deadline");
            assert!(Instant::now() < deadline, "still {change:?}:\n{shown}");
        }
    }

    pub(crate) fn until_frozen(&self) -> Evidence {
        self.until(|_, change| matches!(change, Change::Frozen(_)))
    }

    /// What it waits for may still come, and it is at this place.
    pub(crate) fn until_told_at(&self, line: u32) -> (Evidence, String) {
        let mut told = String::new();
        let mut last = None;
        let evidence = self.until(|evidence, change| {
            let there = is_at(evidence, line);
            assert!(!there || !matches!(change, Change::Frozen(_)), "{change:?}");
            last = Some(change.clone());
            there && matches!(change, Change::Waiting(_) | Change::Sleeping(_))
        });
        if let Some(Change::Waiting(what) | Change::Sleeping(what)) = last {
            told = what;
        }
        (evidence, told)
    }

    /// What two looks show where the thread of this name is known to only watch, and the GPU to idle.
    pub(crate) fn change_despite(&self, monitor: &str) -> Change {
        let first = self.look();
        sleep(GAP);
        let second = self.look();
        let threads = second.processes.iter().flat_map(|process| &process.threads);
        let monitors = threads.filter(|thread| thread.name == monitor).map(|thread| thread.tid).collect();
        compare(&first, &second, &Known { main: self.pid(), gpu: GpuUse::Idle, monitors, ..Known::default() })
    }

    /// The proof that comes in the end, in the same way.
    pub(crate) fn proof_despite(&self, monitor: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.change_despite(monitor) {
                Change::Frozen(proof) => return proof,
                other if Instant::now() > deadline => {
                    let shown = gpulane_witness::in_full(&self.look(), "at the deadline");
                    panic!("still {other:?}:\n{shown}");
                }
                _ => {}
            }
        }
    }

    /// Ends its stdin.
    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let group = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process_group(group, signal).unwrap();
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }
}

/// Whether some thread is at this line of the program.
pub(crate) fn is_at(evidence: &Evidence, line: u32) -> bool {
    let threads = evidence.processes.iter().flat_map(|process| &process.threads);
    threads
        .flat_map(|thread| &thread.frames)
        .any(|frame| frame.file.ends_with("job.py") && frame.line == line)
}

/// The interpreter itself: what is on the path may be a script that looks for it.
fn python() -> &'static PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let asked =
            Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        PathBuf::from(String::from_utf8(asked.stdout).unwrap().trim())
    })
}
