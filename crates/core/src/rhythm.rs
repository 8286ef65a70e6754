//! Telling threads that work from those that only look: a monitor that reads `/proc` every two seconds, a heartbeat, a loop that asks
//! again and again whether a file is there. What these do goes on beside a frozen program, so it is no sign of its life. Pure:
//! whoever reads `/proc` has the clock and the figures.
//!
//! A thread is withheld from the signs of life while all that was seen of it fits; once that was often enough, it is known for one
//! that only looks. As soon as something does not fit, all that was withheld counts. Some wakes may be odd by that and yet leave the
//! rhythm; a monitor, which a proof may leave out, has none of those.
//!
//! A thread that another wakes in such a rhythm (it reads what a heartbeat sends) is watched in the same way; whoever knows the
//! others says whether one of them keeps time with it. A wait with a time limit that is over well before that is the work of others, too.
//!
//! What is withheld is in doubt for a number of wakes at most: whatever has not become one that only looks by then works.

use gpulane_model::Millis;

use crate::signs::FEW_FAULTS;
use crate::timeouts::Timeout;
use crate::wakes::{SLACK, Wake, Wakes, is_single};

/// What one thread has done so far, and where it rests. Counters only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSigns {
    /// CPU time, in nanoseconds.
    pub cpu: u64,
    /// How often it was given a CPU.
    pub runs: u64,
    /// How often it gave one up to wait for something: not when others needed it.
    pub waits: u64,
    /// How long it was ready to run and others had the CPUs, in nanoseconds.
    pub delay: u64,
    /// Bytes read, from anything.
    pub read: u64,
    /// Bytes written, to anything.
    pub written: u64,
    /// Page faults.
    pub faults: u64,
    /// Where it was met.
    pub rest: Rest,
    /// The time limit of the wait it was met in, where there is one that can be read.
    pub timeout: Option<Timeout>,
}

/// Where a thread was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Running, or about to.
    #[default]
    Awake,
    /// In a system call that ends by the clock, at this place.
    Clock(Place),
    /// In a system call that only others end, at this place.
    Others(Place),
    /// Not to be seen.
    Other,
}

/// A place in a program: the system call, the stack and the code that called it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The system call's number.
    pub call: u64,
    /// Where its stack ends.
    pub stack: u64,
    /// The instruction it returns to.
    pub code: u64,
    /// Whether the call also ends by events, as that of an event loop does: `poll`, `select`, `epoll_wait`.
    pub events: bool,
}

impl Place {
    /// Whether the same code waits here and there. An interpreter that replaces operations by faster ones while a loop runs (Python
    /// does after eight turns) moves the stack a little.
    fn is_near(&self, other: &Self) -> bool {
        let stack = other.stack;
        Self { stack, ..*self } == *other && self.stack.abs_diff(stack) <= SAME_STACK
    }
}

/// What a thread did that may be a sign of life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// CPU time, in nanoseconds.
    pub cpu: u64,
    /// Bytes read and written.
    pub io: u64,
    /// Page faults.
    pub faults: u64,
    /// Once awake it computed for longer than one that only looks would, or somebody who may work woke it before its time.
    pub computed: bool,
}

/// What is known of one thread.
#[derive(Clone, Debug)]
pub struct Rhythm {
    /// The main thread of its process: what it writes is life, as is more than it takes to ask again, unless it is an event loop.
    main: bool,
    last: ThreadSigns,
    /// When it was last seen to have run.
    ran: Option<Millis>,
    /// Where it rests, each time; a main thread may go round through a few places, the one met last is the last.
    spots: Vec<Spot>,
    /// The most that a main thread has read between two looks in going round.
    most: u64,
    /// What is withheld because it may come from one that only looks.
    held: Work,
    wakes: Wakes,
    /// Wakes at which it was not known for one that only looks, since it last was.
    doubted: u32,
    /// When it was last looked at, also if it had not run.
    looked: Option<Millis>,
    /// Before this its wait does not end by the clock, as far as its time limit is known.
    ends: Option<Millis>,
    /// Looks in a row that met it awake.
    awake: u32,
    /// Whether the thread has run since the look before.
    stirred: Stirred,
    /// Bytes it wrote since the look before that are withheld.
    said: u64,
    /// Somebody waits for what it does: it is no monitor, whatever it looks like.
    needed: bool,
}

/// Whether a thread has run since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stirred {
    No,
    /// The thread has run; as far as is known, because its wait was over.
    InTime,
    /// The thread has run because others ended its wait before the time limit of that.
    Early,
}

/// Where a thread rests, and what wakes it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    place: Place,
    by_the_clock: bool,
}

/// CPU time of a wake in which a thread only looks, in nanoseconds.
const LOOKS: u64 = 5_000_000;
/// CPU time of a wake in which a main thread only looks, in nanoseconds; of all the time it may compute this part at most.
const MAIN_LOOKS: u64 = 1_000_000;
const MAIN_PART: u64 = 66;
/// What a main thread may read in a wake to see whether something has come, read beside that once in going round, and read and write in a
/// wake of an event loop, in bytes.
const MAIN_READS: u64 = 4096;
const ROUND_READS: u64 = 16_384;
const LOOP_IO: u64 = 65_536;
/// Bytes by which the stack of one place may differ.
const SAME_STACK: u64 = 512;
/// The number of places that a main thread may go round through: a wait for the lock of a database, and a pause before the next try.
const SPOTS: usize = 4;
/// A thread met awake so often in a row works.
const ALWAYS_AWAKE: u32 = 4;
/// A thread that has woken so often and is still not known for one that only looks works.
const MOST_DOUBTED: u32 = 12;
/// CPU time that would be life if it were not withheld, in nanoseconds.
const LEAST_CPU: u64 = 20_000_000;

impl Rhythm {
    /// A thread as it was met first.
    pub fn new(main: bool, signs: ThreadSigns) -> Self {
        Self {
            main,
            last: signs,
            ran: None,
            spots: Vec::new(),
            most: 0,
            held: Work::default(),
            wakes: Wakes::default(),
            doubted: 0,
            looked: None,
            ends: None,
            awake: 0,
            stirred: Stirred::No,
            said: 0,
            needed: false,
        }
    }

    /// Takes in a look, `step` after the look before. What counts as work of this thread, now that it was seen.
    pub fn look(&mut self, now: Millis, step: Millis, signs: ThreadSigns) -> Work {
        (self.stirred, self.said) = (Stirred::No, 0);
        let looked = self.looked.replace(now);
        if signs.runs == self.last.runs {
            return Work::default();
        }
        self.stirred = Stirred::InTime;
        let done = signs.since(&self.last);
        let long = done.cpu > LOOKS.saturating_mul(self.wakes_in(now, step, done.wakes));
        if signs.rest == Rest::Awake && !long && self.awake + 1 < ALWAYS_AWAKE {
            // Met in the middle of it: the next look tells.
            self.awake += 1;
            return Work::default();
        }
        let early = self.was_early(now, &signs);
        self.stirred = if early { Stirred::Early } else { Stirred::InTime };
        self.ends = signs.timeout.and_then(|timeout| timeout.earliest(looked, now, step));
        let spot = signs.rest.spot(early);
        let spot = spot.filter(|spot| !self.needed && (spot.by_the_clock || !self.main));
        let at_rest = spot.is_some_and(|spot| self.rests_at(spot));
        let gap = self.gap(now, &done);
        let fits = at_rest && !long && spot.is_some_and(|spot| self.fits(gap, step, spot, &done));
        (self.last, self.awake, self.ran) = (signs, 0, Some(now));
        let computed = long || (early && self.main);
        let work = Work { cpu: done.cpu, io: done.io(), faults: done.faults, computed };
        if at_rest && let Some(gap) = gap {
            let Done { wakes, cpu, .. } = done;
            self.wakes.add(Wake { gap, step, wakes, io: done.io(), cpu, odd: !fits });
        }
        self.settle_at(spot, &done);
        self.doubted = if self.only_looks() { 0 } else { self.doubted.saturating_add(1) };
        if !fits {
            return std::mem::take(&mut self.held).and(work);
        }
        self.said = done.written;
        self.held = if self.only_looks() { Work::default() } else { self.held.and(work) };
        Work::default()
    }

    /// Whether the thread is known for one that only looks.
    pub fn only_looks(&self) -> bool {
        self.wakes.are_a_rhythm()
    }

    /// Whether the thread only looks, by the clock, and has done nothing else in all the wakes that this is known by.
    pub fn is_monitor(&self) -> bool {
        !self.main && self.only_looks() && !self.is_woken() && self.wakes.are_all_alike()
    }

    /// Whether others wake the thread, not the clock.
    pub fn is_woken(&self) -> bool {
        self.spots.last().is_some_and(|spot| !spot.by_the_clock)
    }

    /// Whether the thread, which others wake, runs as often as this one does, which the clock wakes: it is this one that wakes it.
    pub fn follows(&self, other: &Self) -> bool {
        let leads = !other.main && !other.is_woken() && !other.spots.is_empty();
        self.is_woken() && leads && self.wakes.keep_time_with(&other.wakes)
    }

    /// Whether the thread may turn out to be one that only looks: what was seen of it fits, and it has not been in doubt for too long.
    pub fn may_only_look(&self) -> bool {
        !self.main && !self.spots.is_empty() && self.doubted <= MOST_DOUBTED
    }

    /// Counts what was withheld of a thread that others woke, none of which only looks: they may work. A wait with a time limit shows that
    /// nowhere else.
    pub fn dismiss_unled(&mut self) -> Work {
        let computed = self.stirred == Stirred::Early;
        self.dismiss().and(Work { computed, ..Work::default() })
    }

    /// Whether what it does is withheld although it is not yet known for one that only looks, and would be life.
    pub fn is_unsettled(&self) -> bool {
        let held = &self.held;
        !self.only_looks() && (held.io > 0 || held.faults > FEW_FAULTS || held.cpu >= LEAST_CPU)
    }

    /// Whether it is to be looked at again soon, though its process seems to rest: what it is will be known then.
    pub fn is_to_be_known(&self) -> bool {
        self.is_unsettled() || (self.main && !self.wakes.is_empty())
    }

    /// How often the thread had been given a CPU when it was last met at rest.
    pub fn runs(&self) -> u64 {
        self.last.runs
    }

    /// Whether the thread has run since the look before.
    pub fn has_stirred(&self) -> bool {
        self.stirred != Stirred::No
    }

    /// Bytes it wrote since the look before that do not count as life.
    pub fn withheld_output(&self) -> u64 {
        self.said
    }

    /// Notes that somebody waits for what the thread does: from now on that counts.
    pub fn need(&mut self) -> Work {
        self.needed = true;
        self.dismiss()
    }

    /// Counts what was withheld of the thread after all.
    pub fn dismiss(&mut self) -> Work {
        self.wakes.clear();
        self.spots.clear();
        (self.most, self.doubted) = (0, 0);
        std::mem::take(&mut self.held)
    }

    /// Whether its last wait, at the place where it waits again, was over before its time limit.
    fn was_early(&self, now: Millis, signs: &ThreadSigns) -> bool {
        let again = match (self.last.rest, signs.rest) {
            (Rest::Clock(before), Rest::Clock(after)) => before.is_near(&after),
            _ => false,
        };
        again && self.ends.is_some_and(|ends| now < ends)
    }

    /// How many wakes there were at least: one, if looks are close enough to tell them apart.
    fn wakes_in(&self, now: Millis, step: Millis, wakes: u64) -> u64 {
        let gap = self.ran.map_or(step, |ran| now.since(ran));
        if is_single(gap, step, wakes) { 1 } else { wakes }
    }

    /// Time since it last ran, without that in which it was ready and others had the CPUs.
    fn gap(&self, now: Millis, done: &Done) -> Option<Millis> {
        self.ran.map(|ran| Millis(now.since(ran).0.saturating_sub(done.delay)))
    }

    fn rests_at(&self, spot: Spot) -> bool {
        self.spots.is_empty() || self.spots.iter().any(|known| known.is_near(&spot))
    }

    /// Remembers where the thread was met. At a new place all begins anew; but a main thread may come back to the old ones.
    fn settle_at(&mut self, spot: Option<Spot>, done: &Done) {
        let Some(spot) = spot else {
            self.wakes.clear();
            self.spots.clear();
            self.most = 0;
            return;
        };
        if !self.rests_at(spot) {
            self.wakes.clear();
            let kept = if self.main { SPOTS - 1 } else { 0 };
            self.spots.drain(..self.spots.len().saturating_sub(kept));
        }
        self.spots.retain(|known| !known.is_near(&spot));
        self.spots.push(spot);
        self.most = self.most.max(done.io());
    }

    fn fits(&self, gap: Option<Millis>, step: Millis, spot: Spot, done: &Done) -> bool {
        if done.faults > FEW_FAULTS.saturating_mul(done.wakes) {
            return false;
        }
        let alike = || self.wakes.are_alike(done.io(), done.wakes);
        if !spot.by_the_clock {
            return alike() && self.wakes.come_evenly(gap, step, done.wakes);
        }
        let regular = || alike() && self.wakes.are_regular(gap, step, done.wakes);
        if !self.main {
            return regular();
        }
        // A heartbeat may also be a task of an event loop that waits for something else.
        let beats = spot.place.events && done.io() <= LOOP_IO.saturating_mul(done.wakes) && regular();
        beats || self.asks(gap.unwrap_or(step), done)
    }

    /// Whether a main thread only asked whether something has come. When it asks does not matter.
    fn asks(&self, gap: Millis, done: &Done) -> bool {
        let quick = done.cpu <= MAIN_LOOKS.saturating_mul(done.wakes);
        done.written == 0 && self.reads_as_before(done) && quick && self.is_modest(gap, done.cpu)
    }

    /// Whether a main thread read nothing, or a little and no other than before.
    fn reads_as_before(&self, done: &Done) -> bool {
        let few = MAIN_READS.saturating_mul(done.wakes);
        let alike = done.read <= few && self.wakes.are_alike(done.io(), done.wakes);
        // What it reads at one of several places comes again with each round.
        let round = self.spots.len() > 1
            && done.read <= few.saturating_add(ROUND_READS)
            && done.read <= self.most.saturating_add(self.most / 4).saturating_add(SLACK);
        done.read == 0 || alike || round
    }

    /// Whether a main thread computed for a small part of the time, as far as is remembered.
    fn is_modest(&self, gap: Millis, cpu: u64) -> bool {
        let (time, used) = self.wakes.totals(gap, cpu);
        let part = |cpu: u64, time: u64| cpu.saturating_mul(MAIN_PART) / 1_000_000 / time.max(1);
        part(used, time) < 1 && part(cpu, gap.0) < 3
    }
}

impl Spot {
    fn is_near(&self, other: &Self) -> bool {
        self.by_the_clock == other.by_the_clock && self.place.is_near(&other.place)
    }
}

impl Rest {
    /// The place, and whether the clock wakes it there: not if that was `early`.
    const fn spot(self, early: bool) -> Option<Spot> {
        match self {
            Self::Clock(place) => Some(Spot { place, by_the_clock: !early }),
            Self::Others(place) => Some(Spot { place, by_the_clock: false }),
            Self::Awake | Self::Other => None,
        }
    }
}

/// What a thread did between two looks.
struct Done {
    cpu: u64,
    wakes: u64,
    /// In milliseconds.
    delay: u64,
    read: u64,
    written: u64,
    faults: u64,
}

impl Done {
    fn io(&self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

impl ThreadSigns {
    fn since(&self, before: &Self) -> Done {
        Done {
            cpu: self.cpu.saturating_sub(before.cpu),
            wakes: self.waits.saturating_sub(before.waits).max(1),
            delay: self.delay.saturating_sub(before.delay) / 1_000_000,
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            faults: self.faults.saturating_sub(before.faults),
        }
    }
}

impl Work {
    /// The sum of two pieces of work.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            io: self.io.saturating_add(other.io),
            faults: self.faults.saturating_add(other.faults),
            computed: self.computed || other.computed,
        }
    }
}
