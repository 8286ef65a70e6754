//! Processes that a run left when it died: found by the tag every process of a run bears, or by the lease they keep, and by the run's
//! lock, which nobody holds any more. Only those are provably ours to end.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use gpulane_journal::RunDir;
use gpulane_model::{ENGINE, GUARDIAN};
use rustix::process::geteuid;

use crate::proc::{self, Process, Tag};

/// gpulane's own two processes hold a run's lock, or are about to end.
const OWN: [&str; 2] = [GUARDIAN, ENGINE];

/// A process that outlived its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) process: Process,
    pub(crate) tag: Tag,
    pub(crate) proof: Proof,
}

/// What is known of the run it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Proof {
    /// The run is there and nobody works on it: the process is ours to end.
    RunOver,
    /// The run's directory is gone or another user's, and with it the lock that would tell. A person must decide.
    RunGone,
}

/// Everything of this user that outlived its run. Processes of other containers are left out: the path they name
/// means another directory, and another lock.
pub(crate) fn find() -> Vec<Leftover> {
    // Processes first, then the locks: a run ends all it started before it gives its lock back.
    let processes = proc::all();
    let me = geteuid().as_raw();
    let mut tagged: Vec<(Process, Tag)> = processes
        .iter()
        .filter(|process| proc::owner(process.pid) == Some(me) && proc::sees_our_files(process.pid))
        .filter_map(|process| Some((process.clone(), proc::tag(process.pid)?)))
        .collect();
    let keepers = keepers(&processes, &tagged);
    tagged.extend(keepers);
    let mut runs: HashMap<PathBuf, Option<Proof>> = HashMap::new();
    let standing: Vec<(Process, Tag, Option<Proof>)> = tagged
        .into_iter()
        .map(|(process, tag)| {
            let proof = *runs.entry(tag.run.clone()).or_insert_with(|| proof(&tag.run));
            (process, tag, proof)
        })
        .collect();
    let spared =
        spared(&processes, standing.iter().filter(|(.., proof)| proof.is_none()).map(|(at, ..)| at.pid));
    let left = standing.into_iter().filter(|(process, ..)| !spared.contains(&process.pid));
    let mut left: Vec<Leftover> =
        left.filter_map(|(process, tag, proof)| Some(Leftover { process, tag, proof: proof? })).collect();
    left.sort_by(|a, b| (&a.tag.run, a.process.pid).cmp(&(&b.tag.run, b.process.pid)));
    left
}

/// Processes that bear no tag any more, but keep the lease of a run whose engine is gone.
fn keepers(processes: &[Process], tagged: &[(Process, Tag)]) -> Vec<(Process, Tag)> {
    let runs: HashSet<PathBuf> =
        gpulane_gpu::survey().leases.into_iter().map(|(_, holder)| holder.run).collect();
    let of_run = |run: PathBuf| gpulane_gpu::keepers(&run).into_iter().map(move |pid| (pid, run.clone()));
    let untagged = runs.into_iter().flat_map(of_run).filter_map(|(pid, run)| {
        let process = processes.iter().find(|process| process.pid == pid)?.clone();
        let known = tagged.iter().any(|(other, _)| other.pid == pid);
        let ours = !known && proc::sees_our_files(pid) && !is_own(pid);
        ours.then(|| (process, Tag { run, job: "a job that cannot be told".to_owned() }))
    });
    untagged.collect()
}

/// What becomes of processes of this run; `None`: somebody works on it, or that cannot be ruled out.
pub(crate) fn proof(run: &Path) -> Option<Proof> {
    match RunDir::open(run) {
        // Whoever owns a lock can say what they like by it.
        Ok(dir) if !dir.is_ours() => Some(Proof::RunGone),
        Ok(dir) => dir.is_surely_over().then_some(Proof::RunOver),
        Err(_) => Some(Proof::RunGone),
    }
}

/// Processes that are not touched whatever their tag says: those of living runs and of ourselves, gpulane's own, all
/// that stand above them, and all that a living engine has below it.
fn spared(processes: &[Process], living: impl Iterator<Item = u32>) -> HashSet<u32> {
    let parents: HashMap<u32, u32> =
        processes.iter().map(|process| (process.pid, process.stat.parent)).collect();
    let own: HashSet<u32> = processes.iter().map(|process| process.pid).filter(|pid| is_own(*pid)).collect();
    let mut spared = below(processes, &parents, &own);
    for pid in living.chain(own).chain([std::process::id()]) {
        let mut next = Some(pid);
        while let Some(pid) = next.filter(|pid| spared.insert(*pid)) {
            next = parents.get(&pid).copied();
        }
    }
    spared
}

/// Those that have one of these somewhere above them.
fn below(processes: &[Process], parents: &HashMap<u32, u32>, above: &HashSet<u32>) -> HashSet<u32> {
    let is_below = |pid: u32| {
        // Families are shallow; the bound keeps a table that changes from leading us round.
        let line = std::iter::successors(parents.get(&pid).copied(), |pid| parents.get(pid).copied());
        line.take(64).any(|pid| above.contains(&pid))
    };
    processes.iter().map(|process| process.pid).filter(|pid| is_below(*pid)).collect()
}

fn is_own(pid: u32) -> bool {
    OWN.contains(&proc::program(pid).as_str())
}

#[cfg(test)]
mod tests {
    use gpulane_witness::Stat;

    use super::*;

    fn process(pid: u32, parent: u32) -> Process {
        let name = String::new();
        Process { pid, stat: Stat { name, state: 'S', parent, session: 1, cpu: 0, threads: 1, start: 0 } }
    }

    #[test]
    fn whoever_stands_above_a_living_job_is_spared() {
        let base = u32::MAX - 10;
        let tree = [process(base, 1), process(base + 1, base), process(base + 2, base)];
        let spared = spared(&tree, [base + 1].into_iter());
        assert!(spared.contains(&base) && spared.contains(&(base + 1)));
        assert!(!spared.contains(&(base + 2)), "a sibling is nobody's parent");
        assert!(spared.contains(&std::process::id()));
    }

    #[test]
    fn whatever_an_engine_has_below_it_is_found() {
        let tree = [process(7, 1), process(8, 7), process(9, 8), process(10, 1)];
        let parents = tree.iter().map(|process| (process.pid, process.stat.parent)).collect();
        assert_eq!(below(&tree, &parents, &HashSet::from([7])), HashSet::from([8, 9]));
    }

    #[test]
    fn a_run_without_its_lock_proves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("r")).unwrap();
        std::fs::write(run.plan_file(), "{}").unwrap();
        drop(run.lock().unwrap());
        assert_eq!(proof(run.root()), Some(Proof::RunOver));
        std::fs::remove_file(run.lock_file()).unwrap();
        assert_eq!(proof(run.root()), None);
    }

    #[test]
    fn a_run_that_is_gone_proves_nothing() {
        assert_eq!(proof(Path::new("/no/such/run")), Some(Proof::RunGone));
    }
}
