//! Telling threads that work from those that only look: a monitor that reads `/proc` every two seconds, a heartbeat, a loop that asks
//! again and again whether a file is there. What these do goes on beside a frozen program, so it is no sign of its life. Pure:
//! whoever reads `/proc` has the clock and the figures.
//!
//! A thread is withheld from the signs of life while all that was seen of it fits; once that was often enough, it is known for one
//! that only looks. As soon as something does not fit, all that was withheld counts.

use std::collections::VecDeque;

use gpulane_model::Millis;

use crate::signs::FEW_FAULTS;

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
}

/// Where a thread was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Running, or about to.
    #[default]
    Awake,
    /// In a system call that ends by the clock, at this place.
    Clock(Place),
    /// In another one, or it cannot be seen.
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
    /// Once awake it computed for longer than one that only looks would.
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
    /// Where it rests, each time.
    place: Option<Place>,
    /// What is withheld because it may come from one that only looks.
    held: Work,
    /// Its newest wakes, as far as looks can tell them apart.
    wakes: VecDeque<Wake>,
    /// Looks in a row that met it awake.
    awake: u32,
    /// Whether the thread has run since the look before.
    stirred: bool,
    /// Bytes it wrote since the look before that are withheld.
    said: u64,
    /// Somebody waits for what it does: it is no monitor, whatever it looks like.
    needed: bool,
}

/// One wake, or some between two looks.
#[derive(Clone, Copy, Debug)]
struct Wake {
    /// Since the one before.
    gap: Millis,
    /// Since the look before: as exact as `gap` is.
    step: Millis,
    wakes: u64,
    io: u64,
    cpu: u64,
}

/// The number of wakes that make a rhythm: the first, and one for each interval.
const WAKES: usize = 8;
/// The number of wakes that are remembered.
const REMEMBERED: usize = 16;
/// CPU time of a wake in which a thread only looks, in nanoseconds.
const LOOKS: u64 = 5_000_000;
/// CPU time of a wake in which a main thread only looks, in nanoseconds; of all the time it may compute this part at most.
const MAIN_LOOKS: u64 = 1_000_000;
const MAIN_PART: u64 = 66;
/// What a main thread may read in a wake to see whether something has come, and read and write in one of an event loop, in bytes.
const MAIN_READS: u64 = 4096;
const LOOP_IO: u64 = 65_536;
/// What I/O may differ by from wake to wake beside a quarter, in bytes.
const SLACK: u64 = 1024;
/// Bytes by which the stack of one place may differ.
const SAME_STACK: u64 = 512;
/// In one wake a thread may wait so often for locks and disks.
const ONE_WAKE: u64 = 4;
/// A thread met awake so often in a row works.
const ALWAYS_AWAKE: u32 = 4;
/// CPU time that would be life if it were not withheld, in nanoseconds.
const LEAST_CPU: u64 = 20_000_000;

impl Rhythm {
    /// A thread as it was met first.
    pub fn new(main: bool, signs: ThreadSigns) -> Self {
        Self {
            main,
            last: signs,
            ran: None,
            place: None,
            held: Work::default(),
            wakes: VecDeque::new(),
            awake: 0,
            stirred: false,
            said: 0,
            needed: false,
        }
    }

    /// Takes in a look, `step` after the look before. What counts as work of this thread, now that it was seen.
    pub fn look(&mut self, now: Millis, step: Millis, signs: ThreadSigns) -> Work {
        (self.stirred, self.said) = (signs.runs != self.last.runs, 0);
        if !self.stirred {
            return Work::default();
        }
        let done = signs.since(&self.last);
        let long = done.cpu > LOOKS.saturating_mul(self.wakes_in(now, step, done.wakes));
        let fits = match signs.rest {
            Rest::Awake if !long && self.awake + 1 < ALWAYS_AWAKE => {
                // Met in the middle of it: the next look tells.
                self.awake += 1;
                return Work::default();
            }
            Rest::Clock(place) => !long && !self.needed && self.fits(now, step, place, &done),
            Rest::Awake | Rest::Other => false,
        };
        (self.last, self.awake) = (signs, 0);
        let gap = self.gap(now, &done);
        self.ran = Some(now);
        let work = Work { cpu: done.cpu, io: done.io(), faults: done.faults, computed: long };
        if !fits {
            let held = std::mem::take(&mut self.held);
            self.wakes.clear();
            self.place = None;
            return held.and(work);
        }
        if let Rest::Clock(place) = signs.rest {
            self.place = Some(place);
        }
        self.said = done.written;
        if let Some(gap) = gap {
            self.wakes.push_back(Wake { gap, step, wakes: done.wakes, io: done.io(), cpu: done.cpu });
        }
        if self.wakes.len() > REMEMBERED {
            self.wakes.pop_front();
        }
        self.held = if self.only_looks() { Work::default() } else { self.held.and(work) };
        Work::default()
    }

    /// Whether the thread is known for one that only looks.
    pub fn only_looks(&self) -> bool {
        self.wakes.len() + 1 >= WAKES
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
        self.stirred
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
        self.place = None;
        std::mem::take(&mut self.held)
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

    fn fits(&self, now: Millis, step: Millis, place: Place, done: &Done) -> bool {
        let gap = self.gap(now, done);
        let at_rest = self.place.is_none_or(|known| known.is_near(&place));
        let modest = done.faults <= FEW_FAULTS.saturating_mul(done.wakes);
        let regular = self.is_alike(done) && self.is_regular(gap, step, done);
        let fits = if self.main {
            // A heartbeat may also be a task of an event loop that waits for something else.
            let beats = place.events && done.io() <= LOOP_IO.saturating_mul(done.wakes) && regular;
            beats || self.asks(gap.unwrap_or(step), done)
        } else {
            regular
        };
        at_rest && modest && fits
    }

    /// Whether a main thread only asked whether something has come. When it asks does not matter.
    fn asks(&self, gap: Millis, done: &Done) -> bool {
        let reads_alike = done.read <= MAIN_READS.saturating_mul(done.wakes) && self.is_alike(done);
        let quick = done.cpu <= MAIN_LOOKS.saturating_mul(done.wakes);
        done.written == 0 && (done.read == 0 || reads_alike) && quick && self.is_modest(gap, done.cpu)
    }

    /// Whether a main thread computed for a small part of the time, as far as is remembered.
    fn is_modest(&self, gap: Millis, cpu: u64) -> bool {
        let time = self.wakes.iter().fold(gap.0, |time, wake| time.saturating_add(wake.gap.0));
        let used = self.wakes.iter().fold(cpu, |used, wake| used.saturating_add(wake.cpu));
        let part = |cpu: u64, time: u64| cpu.saturating_mul(MAIN_PART) / 1_000_000 / time.max(1);
        part(used, time) < 1 && part(cpu, gap.0) < 3
    }

    /// Whether it read and wrote about as much as before, by looks or by wakes.
    fn is_alike(&self, done: &Done) -> bool {
        let whole = median(self.wakes.iter().map(|wake| wake.io));
        let each = median(self.wakes.iter().map(|wake| wake.io / wake.wakes.max(1)));
        let (Some(whole), Some(each)) = (whole, each) else { return true };
        near(done.io(), whole, SLACK) || near(done.io() / done.wakes.max(1), each, SLACK)
    }

    /// Whether it woke when it was due, as exactly as looks can tell.
    fn is_regular(&self, gap: Option<Millis>, step: Millis, done: &Done) -> bool {
        let Some(gap) = gap else { return true };
        let single = |wake: &Wake| is_single(wake.gap, wake.step, wake.wakes);
        if is_single(gap, step, done.wakes) && self.wakes.iter().all(single) {
            let usual = median(self.wakes.iter().map(|wake| wake.gap.0));
            let exact = self.wakes.iter().map(|wake| wake.step.0).max().unwrap_or(0).max(step.0);
            return usual.is_none_or(|usual| near(gap.0, usual, 2 * exact));
        }
        let pace = |wakes: u64, gap: u64| wakes.saturating_mul(1_000_000) / gap.max(1);
        let usual = median(self.wakes.iter().map(|wake| pace(wake.wakes, wake.gap.0)));
        let Some(usual) = usual else { return true };
        if gap.0 <= step.0 + step.0 / 2
            && self.wakes.iter().all(|wake| wake.gap.0 <= wake.step.0 + wake.step.0 / 2)
        {
            // It runs between all looks: as often as before, give or take a wake.
            let least = self.wakes.iter().map(|wake| wake.wakes).min().unwrap_or(1).max(1);
            return near(pace(done.wakes, gap.0), usual, pace(least + least / 4, gap.0));
        }
        // When it ran is known to a look before and after, now and then.
        let (mut many, mut time, mut exact) = (0_u64, 0_u64, 0);
        for wake in &self.wakes {
            (many, time) = (many.saturating_add(wake.wakes), time.saturating_add(wake.gap.0));
            exact = wake.step.0.max(exact);
        }
        let (slow, fast) = (pace(many, time.saturating_add(exact)), pace(many, time.saturating_sub(exact)));
        let (slowest, fastest) =
            (pace(done.wakes, gap.0 + step.0), pace(done.wakes, gap.0.saturating_sub(step.0)));
        slowest <= fast.saturating_add(fast / 4) && fastest >= slow - slow / 4
    }
}

/// Whether looks are close enough to see each wake by itself.
const fn is_single(gap: Millis, step: Millis, wakes: u64) -> bool {
    gap.0 >= 3 * step.0 && wakes <= ONE_WAKE
}

/// Within a quarter, or within so much.
fn near(value: u64, usual: u64, slack: u64) -> bool {
    value.abs_diff(usual) <= (usual / 4).saturating_add(slack)
}

fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
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
