//! Watching over one running job: from what looks at its process tree see, when to take evidence, and from two pieces of
//! evidence, whether it is frozen. Pure: whoever watches has the clock, the eyes and the evidence.
//!
//! No single sign proves a hang. Every sign of life must be absent for the whole limit, and then the same evidence must be
//! seen twice with a pause between. Whatever is in doubt counts as life.

use gpulane_model::Millis;

use crate::signs::is_work;
use crate::{Doubt, Signs};

/// What a watch asks for after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Rest,
    /// Evidence is to be taken and told by [`Vigil::on_evidence`]. Asked for at every look until it is told.
    Evidence,
}

/// What the evidence says, beside that which was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No earlier evidence is there to compare with.
    First,
    /// Nothing has moved since the earlier evidence, and what the job waits for provably cannot come.
    Frozen,
    /// Something has moved since the earlier evidence.
    Moved,
    /// Only threads have moved of which it is not known yet whether they work or only look. That delays the end of what is only suspected,
    /// as life would, but not that people are told.
    Doubtful,
    /// Nothing has moved, but what the job waits for may come, or is not known.
    Waiting,
    /// Nothing has moved, but the job waits by the clock and will wake by itself.
    Sleeping,
    /// A person or a debugger has stopped the job.
    Stopped,
    /// Nothing could be seen.
    Unreadable,
}

/// What follows from the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing yet.
    Nothing,
    /// People are to be told that it is quiet; once in a silence.
    Suspect,
    /// The job is frozen.
    Frozen,
    /// The job is only suspected, and has been for longer than that may last.
    Overdue,
    /// The job's results are there, and it waits for something other than the clock: it will not exit by itself.
    Lingers,
}

/// How long is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence before evidence is taken.
    pub after: Millis,
    /// Between two pieces of evidence.
    pub confirm: Millis,
    /// Between two looks.
    pub tick: Millis,
}

impl Limits {
    /// What goes with this much silence.
    pub fn of(after: Millis) -> Self {
        Self {
            after,
            confirm: Millis((after.0 / 10).clamp(1000, 30_000)),
            tick: Millis((after.0 / 20).clamp(250, 5000)),
        }
    }
}

/// The watch over one attempt of a job.
#[derive(Clone, Debug)]
pub struct Vigil {
    /// The silence that is too long; `None`: none is.
    after: Option<Millis>,
    /// The silence that is too long once the job's results are there.
    linger: Option<Millis>,
    /// The silence that is too long even where nothing proves a freeze; `None`: none is.
    outside: Option<Millis>,
    /// All files that `result` declares exist.
    result_there: bool,
    /// When the newest look was, or the watch began.
    looked: Millis,
    /// What the newest look saw.
    seen: Option<Signs>,
    /// For how long no look has seen life. Counts only time that was watched.
    silence: Millis,
    /// CPU time of its processes when that began.
    cpu: Millis,
    /// The longest silence that ended.
    longest: Millis,
    /// For how long no thread has run of which it is not known whether it works or only looks.
    calm: Millis,
    /// How long the silence was when threads had moved that may work.
    doubted: Millis,
    /// People were told of this silence.
    told: bool,
    /// The length of a silence of which people were told, and which ended.
    over: Option<Millis>,
    proof: Proof,
}

/// How far the case has come in this silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// No evidence is held.
    None,
    /// Some is; the next is to be taken when the silence is this long.
    Held { due: Millis, pause: Millis },
    /// The verdict was given.
    Given,
}

/// Between looks at a job that nothing is to be found out about.
const IDLE_TICK: Millis = Millis::seconds(5);
/// A look that comes after more ticks than these is late.
const LATE: u64 = 3;

impl Vigil {
    /// A watch that begins now. `after`: the silence that is too long (`None`: the watchdog is off). `linger`: the same once
    /// its result files are there, where the job declares any.
    pub fn new(after: Option<Millis>, linger: Option<Millis>, now: Millis) -> Self {
        Self {
            after,
            linger,
            outside: None,
            result_there: false,
            looked: now,
            seen: None,
            silence: Millis(0),
            cpu: Millis(0),
            longest: Millis(0),
            calm: Millis(0),
            doubted: Millis(0),
            told: false,
            over: None,
            proof: Proof::None,
        }
    }

    /// The watch with a limit for silences in which nothing proves a freeze.
    #[must_use]
    pub fn with_outside(self, outside: Option<Millis>) -> Self {
        Self { outside, ..self }
    }

    /// Another silence is too long from now on.
    pub fn set_after(&mut self, after: Option<Millis>) {
        self.after = after;
    }

    /// Whether the declared results are there.
    pub fn set_result_there(&mut self, there: bool) {
        self.result_there = there;
    }

    /// Takes in what a look saw.
    pub fn look(&mut self, now: Millis, signs: &Signs) -> Wish {
        let (signs, watched) = (signs.in_order(), self.watched_until(now));
        let works = is_work(signs.cpu().since(self.cpu), self.silence.after(watched));
        let lives = self.seen.as_ref().is_none_or(|before| works || signs.show_life_since(before));
        let stopped = signs.stopped;
        self.calm = if signs.doubt == Doubt::Stirs { Millis(0) } else { self.calm.after(watched) };
        (self.looked, self.seen) = (now, Some(signs));
        if lives {
            self.on_life();
        } else if stopped {
            // What was seen of it so far is no match for what it does when it goes on.
            self.drop_evidence();
        } else {
            self.silence = self.silence.after(watched);
        }
        if !stopped && self.is_due() { Wish::Evidence } else { Wish::Rest }
    }

    /// Whether evidence is to be taken.
    fn is_due(&self) -> bool {
        let Some(limits) = self.limits() else { return false };
        let in_doubt = self.seen.as_ref().is_some_and(|signs| signs.doubt != Doubt::None);
        if in_doubt && self.calm < limits.after {
            return false;
        }
        match self.proof {
            Proof::None => self.silence >= limits.after,
            Proof::Held { due, .. } => self.silence >= due.max(limits.after),
            Proof::Given => false,
        }
    }

    /// Takes in the evidence that was asked for. What comes when life has returned, or before its time, means nothing; and
    /// where no earlier piece counts any more, whatever it is like, it is the first.
    pub fn on_evidence(&mut self, now: Millis, change: Seen) -> Judgement {
        if !self.is_due() {
            return Judgement::Nothing;
        }
        match (change, self.proof) {
            (Seen::Moved, _) => self.on_life(),
            (Seen::Stopped, _) => self.drop_evidence(),
            (Seen::Frozen, Proof::Held { .. }) => {
                self.proof = Proof::Given;
                return if self.result_there { Judgement::Lingers } else { Judgement::Frozen };
            }
            (Seen::Waiting, Proof::Held { .. }) if self.result_there => {
                self.proof = Proof::Given;
                return Judgement::Lingers;
            }
            (Seen::Waiting | Seen::Sleeping, Proof::Held { .. }) | (Seen::Unreadable, _) => {
                return self.suspect(now);
            }
            // What was seen last is what the next piece is compared with.
            (Seen::Doubtful, _) => {
                self.doubted = self.quiet(now);
                self.hold_evidence(now, Millis(0));
            }
            (Seen::First | Seen::Frozen | Seen::Waiting | Seen::Sleeping, _) => {
                self.hold_evidence(now, Millis(0));
            }
        }
        Judgement::Nothing
    }

    /// Whether an earlier piece of evidence counts; otherwise the next is the first.
    pub fn holds_evidence(&self) -> bool {
        matches!(self.proof, Proof::Held { .. })
    }

    /// How long a silence was of which people were told, if one has ended since this was last asked.
    pub fn take_over(&mut self) -> Option<Millis> {
        self.over.take()
    }

    /// For how long the job has shown no sign of life.
    pub fn quiet(&self, now: Millis) -> Millis {
        let stopped = self.seen.as_ref().is_some_and(|signs| signs.stopped);
        if stopped { self.silence } else { self.silence.after(self.watched_until(now)) }
    }

    /// The longest silence of the job, also if it is the one that lasts now.
    pub fn longest_quiet(&self) -> Millis {
        self.longest.max(self.silence)
    }

    /// When to look next.
    pub fn next_look(&self, now: Millis) -> Millis {
        self.looked.after(self.tick()).max(now)
    }

    /// The silence that counts now; the shorter one if its results are there.
    fn limits(&self) -> Option<Limits> {
        let linger = self.linger.filter(|_| self.result_there);
        let after = match (self.after, linger) {
            (Some(after), Some(linger)) => after.min(linger),
            (after, linger) => after.or(linger)?,
        };
        Some(Limits::of(after))
    }

    fn tick(&self) -> Millis {
        self.limits().map_or(IDLE_TICK, |limits| limits.tick)
    }

    /// How much of the time since the last look was watched. A look that comes late says that we, or the whole machine, were
    /// stopped or busy, and so perhaps was the job: that time is not held against it.
    fn watched_until(&self, now: Millis) -> Millis {
        let (interval, tick) = (now.since(self.looked), self.tick());
        if interval.0 > LATE * tick.0 { tick } else { interval }
    }

    fn on_life(&mut self) {
        self.cpu = self.seen.as_ref().map_or(Millis(0), Signs::cpu);
        self.longest = self.longest_quiet();
        if self.told {
            self.over = Some(self.silence);
        }
        (self.silence, self.doubted, self.told) = (Millis(0), Millis(0), false);
        self.proof = Proof::None;
    }

    fn drop_evidence(&mut self) {
        if let Proof::Held { .. } = self.proof {
            self.proof = Proof::None;
        }
    }

    /// The next piece is due after the pause, at least the usual one, and when a suspicion has lasted too long.
    fn hold_evidence(&mut self, now: Millis, pause: Millis) {
        let Some(limits) = self.limits() else { return };
        let (quiet, pause) = (self.quiet(now), pause.min(limits.after).max(limits.confirm));
        let due = quiet.after(pause);
        let end = self.outside.map(|outside| self.doubted.after(outside)).filter(|end| *end > quiet);
        let end = end.map_or(due, |end| end.max(quiet.after(limits.confirm)));
        self.proof = Proof::Held { due: due.min(end), pause };
    }

    /// Puts the next evidence off: the longer a job neither wakes by itself nor can be seen better, the less often it is taken.
    fn wait_longer(&mut self, now: Millis) {
        let pause = match self.proof {
            Proof::Held { pause, .. } => pause.after(pause),
            _ => Millis(0),
        };
        self.hold_evidence(now, pause);
    }

    /// Nothing proves a freeze. That is told once, and may last for as long as `outside` says.
    fn suspect(&mut self, now: Millis) -> Judgement {
        let still = self.quiet(now).since(self.doubted);
        let overdue = self.outside.is_some_and(|outside| self.after.is_some() && still >= outside);
        if overdue && self.told {
            self.proof = Proof::Given;
            return Judgement::Overdue;
        }
        self.wait_longer(now);
        if std::mem::replace(&mut self.told, true) { Judgement::Nothing } else { Judgement::Suspect }
    }
}
