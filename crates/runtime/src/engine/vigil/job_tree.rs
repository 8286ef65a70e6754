//! Which processes belong to a job, also those that left its tree. A daemon (double fork, `setsid`) is adopted by the engine; whose it is,
//! is told by what was seen of it before, by its session, by its environment, or by the logs that it has open. One that can be told by none of
//! them may be the job of whoever began before it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rustix::process::{Pid, getpid};

use crate::process::tree::{self, Mark, Process, Table, Tag};

/// A process for good: its id, and when it started.
type Identity = (Pid, u64);

fn identity(process: &Process) -> Identity {
    (process.pid, process.start)
}

/// A process that the engine adopted, or started in a session of its own.
pub(super) struct Orphan {
    process: Process,
    /// Whose it says it is, if that is somebody of this run.
    tag: Option<Tag>,
}

/// What is known of the processes that the engine adopted, for all jobs of a run.
pub(super) struct Orphans {
    /// This run's directory, as in its processes' environment.
    run: String,
    /// Where the jobs of the run have their logs.
    jobs: PathBuf,
    /// What their environments say: read once, since that is slower than all else.
    marks: HashMap<Identity, Option<Tag>>,
    /// Processes of jobs that are not watched any more: they are no other job's.
    past: HashSet<Identity>,
}

impl Orphans {
    pub(super) fn new(run: String) -> Self {
        Self { jobs: tree::jobs_folder(&run), run, marks: HashMap::new(), past: HashSet::new() }
    }

    /// The living children of the engine that have a session of their own. No process of a job can be in the engine's session, so what
    /// is there is a tool of the engine.
    pub(super) fn look(&mut self, table: &Table) -> Vec<Orphan> {
        let engine = getpid().as_raw_nonzero().get();
        let own_session = table.get(getpid()).map(|engine| engine.session);
        let adopted = |process: &&Process| process.parent == engine && Some(process.session) != own_session;
        let orphans: Vec<Orphan> = table
            .living()
            .filter(adopted)
            .map(|process| Orphan { process: *process, tag: self.tag(process) })
            .collect();
        let living: HashSet<Identity> = orphans.iter().map(|orphan| identity(&orphan.process)).collect();
        self.marks.retain(|known, _| living.contains(known));
        self.past.retain(|known| table.get(known.0).is_some_and(|process| process.start == known.1));
        orphans
    }

    fn tag(&mut self, process: &Process) -> Option<Tag> {
        if let Some(known) = self.marks.get(&identity(process)) {
            return known.clone();
        }
        let tag = match tree::mark_of(process.pid) {
            Mark::Of(tag) => Some(tag).filter(|tag| tag.run == self.run),
            Mark::Nobody => self.by_logs(process.pid),
            // It may have one in a moment, unless it erased its environment.
            Mark::Unclear => Some(self.by_logs(process.pid)?),
        };
        self.marks.insert(identity(process), tag.clone());
        tag
    }

    /// Whose logs the process has open: a daemon often writes where its job wrote.
    fn by_logs(&self, pid: Pid) -> Option<Tag> {
        tree::open_files(pid).find_map(|file| tree::tag_in_path(&self.jobs, &file, &self.run))
    }

    /// A job is not watched any more.
    pub(super) fn leave(&mut self, tree: JobTree) {
        self.past.extend(tree.known);
    }

    /// One that may be the job's whose main process started then: nothing tells whose it is. Programs that only report are nobody's guard.
    pub(super) fn of_nobody<'a>(
        &self,
        started: u64,
        orphans: &'a [Orphan],
        trees: &[&JobTree],
    ) -> Option<&'a Process> {
        let is_known = |orphan: &Orphan| {
            orphan.tag.is_some()
                || orphan.process.start < started
                || orphan.process.monitor
                || self.past.contains(&identity(&orphan.process))
                || trees.iter().any(|tree| tree.owns(orphan))
        };
        orphans.iter().find(|orphan| !is_known(orphan)).map(|orphan| &orphan.process)
    }
}

/// The processes of one job.
pub(super) struct JobTree {
    main: Pid,
    /// What its processes are called in their environment: `STAGE/NAME`, and the attempt.
    name: (String, u32),
    /// What the main process is called in its own, which differs where it was a standby.
    alias: Option<Tag>,
    /// All that were seen to belong to it, as long as they live.
    known: HashSet<Identity>,
    /// Sessions that processes of it were seen in. The main process began one of its own, so nobody else is in them.
    sessions: HashSet<i32>,
}

impl JobTree {
    pub(super) fn new(main: Pid, name: String, attempt: u32) -> Self {
        let sessions = HashSet::from([main.as_raw_nonzero().get()]);
        Self { main, name: (name, attempt), alias: None, known: HashSet::new(), sessions }
    }

    /// The living processes of the job.
    pub(super) fn look(&mut self, table: &Table, orphans: &[Orphan]) -> Vec<Process> {
        // The main process is a child of the engine like those it adopted.
        let main = orphans.iter().find(|orphan| orphan.process.pid == self.main);
        if let Some(tag) = main.and_then(|main| main.tag.as_ref()).filter(|_| self.alias.is_none()) {
            self.alias = Some(tag.clone());
        }
        self.known.retain(|known| table.get(known.0).is_some_and(|process| process.start == known.1));
        let mut family = table.family(self.main);
        loop {
            let inside: HashSet<Identity> = family.iter().map(identity).collect();
            self.known.extend(&inside);
            self.sessions.extend(family.iter().map(|process| process.session).filter(|session| *session > 0));
            let adopted = orphans.iter().filter(|orphan| self.owns(orphan)).map(|orphan| orphan.process);
            let before = self.known.iter().filter_map(|known| table.get(known.0)).copied();
            let outside = adopted.chain(before).filter(|process| !process.has_ended());
            let outside: Vec<Pid> =
                outside.filter(|process| !inside.contains(&identity(process))).map(|one| one.pid).collect();
            if outside.is_empty() {
                break;
            }
            let roots: Vec<Pid> = family.iter().map(|process| process.pid).chain(outside).collect();
            family = table.closure(&roots);
        }
        self.sessions.retain(|session| {
            let here = |process: &Process| process.session == *session;
            family.iter().any(here) || orphans.iter().any(|orphan| here(&orphan.process))
        });
        family
    }

    /// When its main process started, on the clock of all processes; 0: it is not there.
    pub(super) fn started(&self, table: &Table) -> u64 {
        table.get(self.main).map_or(0, |main| main.start)
    }

    fn owns(&self, orphan: &Orphan) -> bool {
        let named = |tag: &Tag| {
            (&tag.job, tag.attempt) == (&self.name.0, self.name.1) || self.alias.as_ref() == Some(tag)
        };
        self.known.contains(&identity(&orphan.process))
            || self.sessions.contains(&orphan.process.session)
            || orphan.tag.as_ref().is_some_and(named)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Higher than any id the kernel gives: nothing is read of these.
    const MAIN: i32 = 5_000_000;
    const DAEMON: i32 = 5_000_007;

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process {
            pid: Pid::from_raw(pid).unwrap(),
            parent,
            start: 7,
            state: b'S',
            session,
            threads: 1,
            monitor: false,
            cpu: 0,
            children: 0,
            faults: 0,
        }
    }

    fn engine() -> i32 {
        getpid().as_raw_nonzero().get()
    }

    fn main() -> Process {
        process(MAIN, engine(), MAIN)
    }

    /// In a session of its own, below the engine.
    fn adopted() -> Process {
        process(DAEMON, engine(), DAEMON)
    }

    fn tree() -> JobTree {
        JobTree::new(Pid::from_raw(MAIN).unwrap(), "train/a".to_owned(), 1)
    }

    fn tag(job: &str) -> Tag {
        Tag { run: "/run".to_owned(), job: job.to_owned(), attempt: 1 }
    }

    fn pids(family: Vec<Process>) -> HashSet<i32> {
        family.into_iter().map(|process| process.pid.as_raw_nonzero().get()).collect()
    }

    #[test]
    fn who_says_so_is_the_jobs_with_all_below() {
        let table = Table::of(&[main(), adopted(), process(DAEMON + 1, DAEMON, DAEMON + 1)]);
        let look =
            |job: &str| pids(tree().look(&table, &[Orphan { process: adopted(), tag: Some(tag(job)) }]));
        assert_eq!(look("train/a"), HashSet::from([MAIN, DAEMON, DAEMON + 1]));
        assert_eq!(look("train/b"), HashSet::from([MAIN]));
    }

    #[test]
    fn what_a_standby_left_is_the_jobs_that_it_became() {
        let standby = || Some(tag("train/standby-1"));
        let table = Table::of(&[main(), adopted()]);
        let orphans =
            [Orphan { process: main(), tag: standby() }, Orphan { process: adopted(), tag: standby() }];
        assert_eq!(pids(tree().look(&table, &orphans)), HashSet::from([MAIN, DAEMON]));
    }

    #[test]
    fn who_was_seen_before_stays_the_jobs_though_it_says_nothing() {
        let mut orphans = Orphans::new("/run".to_owned());
        let mut tree = tree();
        let starts = Table::of(&[main(), process(DAEMON, MAIN, DAEMON)]);
        tree.look(&starts, &orphans.look(&starts));
        // Its parent is gone, and so is a child of it that is in its session.
        let leaves = Table::of(&[main(), adopted(), process(DAEMON + 1, engine(), DAEMON)]);
        let adopted = orphans.look(&leaves);
        assert_eq!(pids(tree.look(&leaves, &adopted)), HashSet::from([MAIN, DAEMON, DAEMON + 1]));
        assert_eq!(orphans.of_nobody(7, &adopted, &[&tree]), None);
    }

    #[test]
    fn another_process_with_the_number_of_one_that_was_seen_is_not_the_jobs() {
        let mut orphans = Orphans::new("/run".to_owned());
        let mut tree = tree();
        let before = Table::of(&[main(), process(DAEMON, MAIN, MAIN)]);
        tree.look(&before, &orphans.look(&before));
        let other = Process { start: 8, ..adopted() };
        let after = Table::of(&[main(), other]);
        let adopted = orphans.look(&after);
        assert_eq!(pids(tree.look(&after, &adopted)), HashSet::from([MAIN]));
        assert_eq!(orphans.of_nobody(7, &adopted, &[&tree]), Some(&other));
    }

    #[test]
    fn who_is_nobodys_may_be_any_jobs_unless_it_was_that_of_one_that_ended() {
        let mut orphans = Orphans::new("/run".to_owned());
        let table = Table::of(&[main(), adopted()]);
        let adopted_now = orphans.look(&table);
        let mut watched = tree();
        watched.look(&table, &adopted_now);
        assert_eq!(orphans.of_nobody(7, &adopted_now, &[&watched]), Some(&adopted()));
        let mut ended = JobTree::new(Pid::from_raw(DAEMON).unwrap(), "train/b".to_owned(), 1);
        ended.look(&table, &[]);
        orphans.leave(ended);
        assert_eq!(orphans.of_nobody(7, &adopted_now, &[&watched]), None);
    }

    #[test]
    fn who_started_before_a_job_is_not_its_own() {
        let mut orphans = Orphans::new("/run".to_owned());
        let table = Table::of(&[main(), adopted()]);
        let adopted = orphans.look(&table);
        assert_eq!(tree().started(&table), 7);
        assert!(orphans.of_nobody(7, &adopted, &[]).is_some());
        assert!(orphans.of_nobody(8, &adopted, &[]).is_none());
    }

    #[test]
    fn a_log_tells_the_job_that_it_is_of() {
        let of = |file: &str| tree::tag_in_path(Path::new("/run/jobs"), Path::new(file), "/run");
        assert_eq!(of("/run/jobs/train/a/attempt-1/stdout.log"), Some(tag("train/a")));
        assert_eq!(of("/run/jobs/train/a/attempt-1/out/model (deleted)"), Some(tag("train/a")));
        for other in [
            "/run/jobs/train/a/out/model",
            "/run/journal.jsonl",
            "/other/jobs/train/a/attempt-1/x",
            "pipe:[7]",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
