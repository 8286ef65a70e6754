//! How often the kernel has killed for want of memory: in our own cgroup where there is one, else on the whole machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The counter at a moment.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct OomKills {
    count: u64,
}

impl OomKills {
    /// The counter as it is now. Cheap: one small file is read.
    pub(in crate::engine) fn now() -> Self {
        static COUNTER: OnceLock<PathBuf> = OnceLock::new();
        let file = COUNTER.get_or_init(|| counter(Path::new("/proc"), Path::new("/sys/fs/cgroup")));
        Self { count: read(file).unwrap_or(0) }
    }

    /// Kills since then.
    pub(in crate::engine) fn since(self) -> u64 {
        Self::now().count.saturating_sub(self.count)
    }
}

/// The file to read. A cgroup counts those of its processes that were killed, by whatever limit; the machine counts
/// everybody's, so it is the last resort.
fn counter(proc: &Path, cgroups: &Path) -> PathBuf {
    let own = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let candidates = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let path = path.trim_start_matches('/');
        // Inside a container the path may be that of the host, while the mount shows our own part at its top.
        if number == "0" && controllers.is_empty() {
            let file = "memory.events";
            return Some([cgroups.join(path).join(file), cgroups.join(file)]);
        }
        let memory = controllers.split(',').any(|controller| controller == "memory");
        let (root, file) = (cgroups.join("memory"), "memory.oom_control");
        memory.then(|| [root.join(path).join(file), root.join(file)])
    });
    let mut files: Vec<PathBuf> = candidates.flatten().collect();
    files.retain(|file| read(file).is_some());
    files.into_iter().next().unwrap_or_else(|| proc.join("vmstat"))
}

/// The line `oom_kill N`, in whichever of the files.
fn read(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn count(root: &Path) -> Option<u64> {
        read(&counter(&root.join("proc"), &root.join("cgroup")))
    }

    const VMSTAT: (&str, &str) = ("proc/vmstat", "nr_free_pages 7\noom_kill 5\n");

    #[test]
    fn our_own_cgroup_comes_before_the_machine() {
        let events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n";
        let own = files(&[
            VMSTAT,
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("cgroup/user.slice/job.scope/memory.events", events),
        ]);
        assert_eq!(count(own.path()), Some(2));
        let container =
            files(&[VMSTAT, ("proc/self/cgroup", "0::/../host/path\n"), ("cgroup/memory.events", events)]);
        assert_eq!(count(container.path()), Some(2));
    }

    #[test]
    fn the_older_cgroups_are_known_too() {
        let root = files(&[
            VMSTAT,
            ("proc/self/cgroup", "12:cpu,cpuacct:/a\n5:memory:/docker/x\n0::/system.slice\n"),
            ("cgroup/memory/docker/x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
        ]);
        assert_eq!(count(root.path()), Some(4));
    }

    #[test]
    fn without_a_cgroup_the_machine_counts() {
        let root = files(&[VMSTAT, ("proc/self/cgroup", "0::/\n")]);
        assert_eq!(count(root.path()), Some(5));
        assert_eq!(count(files(&[]).path()), None);
    }
}
