//! The threads of one process, one by one: which of them work, and which only look. They are read only where the process as a whole
//! moved a little; a process that moves much works, and one that does not move at all has nothing to tell.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use gpulane_core::{Doubt, Place, Rest, Rhythm, ThreadSigns, Timeout, Work};
use gpulane_model::Millis;
use gpulane_witness::{Resting, TimeLimit, resting};

use super::naps::Nap;

/// What is known of the threads of one process.
pub(super) struct Threads {
    pid: u32,
    known: HashMap<u32, Rhythm>,
    /// Threads that serve the others and have no work of their own.
    servants: BTreeSet<u32>,
}

/// How threads are called that compile what other threads of a Java program run. They come and go, and go on for a while after
/// the program has frozen; where there is work, those others show it.
const SERVANTS: [&str; 2] = ["C1 CompilerThre", "C2 CompilerThre"];

/// What a look at all of them told.
pub(super) struct Told {
    /// What those did that work.
    pub(super) work: Work,
    /// A thread came or went.
    pub(super) changed: bool,
    /// One of them at least has run.
    pub(super) ran: bool,
    /// Bytes written by those that only look.
    pub(super) said: u64,
}

impl Threads {
    /// The threads as they are now; later looks tell what they do. `None`: the kernel does not say.
    pub(super) fn meet(pid: u32) -> Option<Self> {
        let signs = |tid: u32| Some((tid, Rhythm::new(tid == pid, read(pid, tid, None, Nap::No)?)));
        let (servants, others): (BTreeSet<u32>, _) =
            tasks(pid).into_iter().partition(|tid| serves(pid, *tid));
        let known: HashMap<u32, Rhythm> = others.into_iter().filter_map(signs).collect();
        (!known.is_empty()).then_some(Self { pid, known, servants })
    }

    /// What they did since the look before, which was `step` ago. `nap`: whether the main one sleeps by a child.
    pub(super) fn look(&mut self, now: Millis, step: Millis, nap: Nap) -> Told {
        let mut told = Told { work: Work::default(), changed: false, ran: false, said: 0 };
        let mut tids = tasks(self.pid);
        self.servants.retain(|tid| tids.contains(tid));
        let (pid, known) = (self.pid, &self.known);
        self.servants.extend(tids.iter().filter(|tid| !known.contains_key(tid) && serves(pid, **tid)));
        tids.retain(|tid| !self.servants.contains(tid));
        // What those do is nobody's work, so it is known whose doing all of it was.
        told.ran = !self.servants.is_empty();
        let before = self.known.len();
        self.known.retain(|tid, _| tids.contains(tid));
        told.changed = self.known.len() != before;
        for tid in tids {
            let known = self.known.get_mut(&tid);
            let Some(signs) = read(self.pid, tid, known.as_deref().map(Rhythm::runs), nap) else { continue };
            let Some(rhythm) = known else {
                told.changed = true;
                self.known.insert(tid, Rhythm::new(tid == self.pid, signs));
                continue;
            };
            told.work = told.work.and(rhythm.look(now, step, signs));
            told.ran |= rhythm.has_stirred();
            told.said += rhythm.withheld_output();
        }
        told.work = told.work.and(self.dismiss_unled());
        if told.changed {
            // Whoever did that is not one that only looks, and nobody can say who it was.
            told.work = self.known.values_mut().fold(told.work, |work, rhythm| work.and(rhythm.dismiss()));
        }
        told
    }

    /// What those did that others wake, but none of the threads here that only look: it comes from somebody who may work.
    fn dismiss_unled(&mut self) -> Work {
        let woken = self.known.iter().filter(|(_, rhythm)| rhythm.has_stirred() && rhythm.is_woken());
        let unled: Vec<u32> = woken.map(|(tid, _)| *tid).filter(|tid| !self.is_led(*tid)).collect();
        let dismissed = self.known.iter_mut().filter(|(tid, _)| unled.contains(tid));
        dismissed.fold(Work::default(), |work, (_, rhythm)| work.and(rhythm.dismiss_unled()))
    }

    /// Whether a thread that the clock wakes keeps time with this one.
    fn is_led(&self, tid: u32) -> bool {
        self.known.get(&tid).is_some_and(|rhythm| self.known.values().any(|other| rhythm.follows(other)))
    }

    /// Whether some of them may be at work, or may only be looking.
    pub(super) fn doubt(&self) -> Doubt {
        let mut unsettled = self.known.values().filter(|rhythm| rhythm.is_unsettled()).peekable();
        match (unsettled.peek().is_some(), unsettled.any(Rhythm::has_stirred)) {
            (false, _) => Doubt::None,
            (true, false) => Doubt::Still,
            (true, true) => Doubt::Stirs,
        }
    }

    /// Others wait for these of them to end: what they did was work.
    pub(super) fn need(&mut self, tids: &BTreeSet<u32>) -> Work {
        let needed = self.known.iter_mut().filter(|(tid, _)| tids.contains(tid));
        needed.fold(Work::default(), |work, (_, rhythm)| work.and(rhythm.need()))
    }

    /// Whether the main one only asks again and again for something.
    pub(super) fn polls(&self) -> bool {
        self.known.get(&self.pid).is_some_and(Rhythm::only_looks)
    }

    /// Threads that only look or serve the others, but for the main one.
    pub(super) fn monitors(&self) -> impl Iterator<Item = u32> {
        let known = self.known.iter().filter(|(_, rhythm)| rhythm.is_monitor());
        known.map(|(tid, _)| *tid).chain(self.servants.iter().copied())
    }

    /// Threads that may turn out to be such.
    pub(super) fn unknown(&self) -> impl Iterator<Item = u32> {
        let may = |(_, rhythm): &(&u32, &Rhythm)| rhythm.may_only_look() && !rhythm.only_looks();
        self.known.iter().filter(may).map(|(tid, _)| *tid)
    }

    /// Threads that seem to do no more than those: now and then they did, or it is one of those that wakes them.
    pub(super) fn followers(&self) -> impl Iterator<Item = u32> {
        let seem = |(tid, rhythm): &(&u32, &Rhythm)| {
            let by_the_clock = !rhythm.is_woken() && !rhythm.is_monitor();
            **tid != self.pid && rhythm.only_looks() && (by_the_clock || self.is_led(**tid))
        };
        self.known.iter().filter(seem).map(|(tid, _)| *tid)
    }

    /// Whether they are to be looked at though their process seems to rest.
    pub(super) fn are_to_be_known(&self) -> bool {
        self.known.values().any(Rhythm::is_to_be_known)
    }
}

fn serves(pid: u32, tid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    SERVANTS.contains(&name.trim_end())
}

fn tasks(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// One thread. Of one that has not run since it had run so often, no more is read than that.
fn read(pid: u32, tid: u32, runs_before: Option<u64>, nap: Nap) -> Option<ThreadSigns> {
    let folder = PathBuf::from(format!("/proc/{pid}/task/{tid}"));
    let schedule = std::fs::read_to_string(folder.join("schedstat")).ok()?;
    let mut numbers = schedule.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let (cpu, delay, runs) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if runs_before == Some(runs) {
        return Some(ThreadSigns { cpu, runs, ..ThreadSigns::default() });
    }
    let io = std::fs::read_to_string(folder.join("io")).unwrap_or_default();
    let met = resting(pid, tid);
    let timeout = match met {
        Resting::In { limit: Some(TimeLimit::Whole(limit)), .. } => Some(Timeout::Whole(limit)),
        Resting::In { limit: Some(TimeLimit::Left(limit)), .. } => Some(Timeout::Left(limit)),
        _ => None,
    };
    let rest = match met {
        Resting::Awake => Rest::Awake,
        Resting::In { call, stack, code, by_the_clock: true, by_events: events, .. } => {
            Rest::Clock(Place { call, stack, code, events })
        }
        Resting::In { call, stack, code, by_events: events @ true, .. }
            if tid == pid && nap == Nap::Asleep =>
        {
            Rest::Clock(Place { call, stack, code, events })
        }
        Resting::In { .. } | Resting::Hidden if tid == pid && nap == Nap::Between => Rest::Awake,
        Resting::In { call, stack, code, by_events: events, .. } => {
            Rest::Others(Place { call, stack, code, events })
        }
        Resting::Hidden => Rest::Other,
    };
    let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    let waits = field(&status, "voluntary_ctxt_switches:");
    // Who starts a child touches its own memory anew by that.
    let faults = match nap {
        Nap::No => faults(&std::fs::read_to_string(folder.join("stat")).unwrap_or_default()),
        Nap::Asleep | Nap::Between => 0,
    };
    let (read, written) = (field(&io, "rchar:"), field(&io, "wchar:"));
    Some(ThreadSigns { cpu, runs, waits, delay, read, written, faults, rest, timeout })
}

/// The number behind a name that begins a line.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Page faults, minor and major, of a `stat` line. The name in it may hold anything, brackets too.
fn faults(stat: &str) -> u64 {
    let rest = stat.rfind(')').map_or("", |at| &stat[at + 1..]);
    let mut fields = rest.split_ascii_whitespace().map(|field| field.parse::<u64>().unwrap_or(0));
    fields.nth(7).unwrap_or(0) + fields.nth(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_threads_are_told_apart() {
        let pid = std::process::id();
        let Some(mut threads) = Threads::meet(pid) else { return };
        let (send, go) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || go.recv());
        let told = threads.look(Millis(100), Millis(100), Nap::No);
        assert!(told.changed, "a thread came");
        drop(send);
        let _ = worker.join();
    }

    #[test]
    fn faults_are_found_behind_a_name_that_tries_to_confuse() {
        assert_eq!(faults("42 (a) b (c)) S 7 8 9 0 -1 4194560 1 20 3 40 5 60 7 8 20 0 1 0 12345 0 0"), 4);
    }
}
