//! The thread that goes round: looks at each job when it is due, has evidence taken, passes on what is judged.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_core::{Input, Judgement, Norm, Seen, Vigil, Wish};
use gpulane_journal::RunDir;
use gpulane_model::{Attempt, GpuKind, Hang, JobId, Machine, Millis, Plan, StartGate, Stuck};
use gpulane_witness::{Evidence, GpuSight, Surroundings};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use super::looks::{self, Answer, Look, Lookers};
use super::marks::{self, Results};
use super::pressure::Pressure;
use super::signs::{Sight, Writings};
use super::{Ask, Mailbox};
use crate::engine::gpus::{Pulse, Pulses};
use crate::process::tree::Table;

/// The longest rest between two rounds: a mark without a bell is found this late.
const ROUND: Duration = Duration::from_secs(1);
/// While evidence is awaited.
const SOON: Duration = Duration::from_millis(20);
/// A walk over all processes may come again after so many times what it cost, unless looks would come too late by that.
const WALK_SHARE: u32 = 400;
/// The part of the usual limit after which a job with its results written counts as lingering, and the most that may be.
const LINGER_PART: u64 = 10;
const LINGER_MOST: Millis = Millis::seconds(60);
/// The last part of a job's grace, in which it is looked at why it does not exit.
const STAY_PART: u64 = 4;

pub(super) struct Watchman {
    dir: RunDir,
    plan: Arc<Plan>,
    pulses: Option<Arc<Pulses>>,
    mailbox: Arc<Mailbox>,
    begun: Instant,
    charges: HashMap<JobId, Charge>,
    /// By stage: what its jobs normally show.
    norms: Vec<Norm>,
    lookers: Lookers,
    /// `None`: no stage has its starts held for the CPUs.
    pressure: Option<Pressure>,
    /// When the next walk over all processes may begin.
    walk_at: Millis,
}

/// A job that is watched over.
struct Charge {
    attempt: Attempt,
    main: Pid,
    vigil: Vigil,
    sight: Sight,
    writings: Writings,
    results: Option<Results>,
    /// What it makes when its work is finished; `None` once that was seen.
    mark: Option<PathBuf>,
    stacks: PathBuf,
    /// When to look next.
    due: Millis,
    /// When to see why it is still there, its work being done.
    stays: Option<Millis>,
    /// Evidence is wanted, and for what.
    wanted: Option<Question>,
    look: Option<(Question, Look)>,
    /// The piece that later ones are compared with.
    first: Option<Evidence>,
}

/// What evidence is to tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Why it is silent.
    Silence,
    /// Why it does not exit.
    Stay,
}

impl Watchman {
    pub(super) fn new(
        dir: RunDir,
        plan: Arc<Plan>,
        machine: &Machine,
        pulses: Option<Arc<Pulses>>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        let gated = machine.kind != GpuKind::None
            && plan.stages.iter().any(|stage| stage.gpus > 0 && stage.start_gate == StartGate::Auto);
        let norms = plan.stages.iter().map(|_| Norm::default()).collect();
        Self {
            dir,
            pulses,
            mailbox,
            begun: Instant::now(),
            charges: HashMap::new(),
            norms,
            lookers: Lookers::default(),
            pressure: gated.then(|| Pressure::new(machine.cores)),
            walk_at: Millis(0),
            plan,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            self.hear();
            self.see_marks();
            self.collect_evidence();
            self.go_round();
            self.ask_for_evidence();
            self.feel_pressure();
            std::thread::park_timeout(self.rest());
        }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn hear(&mut self) {
        let now = self.now();
        // The newest word on each job decides: most jobs of a mill have come and gone in one round.
        let mut heard = HashSet::new();
        for ask in self.mailbox.asked().into_iter().rev() {
            match ask {
                Ask::Follow { job, attempt, main } => {
                    if let Some(main) = Pid::from_raw(main).filter(|_| heard.insert(job)) {
                        self.charges.insert(job, self.charge(job, attempt, main, now));
                    }
                }
                Ask::Leave { job, well } => {
                    if heard.insert(job) {
                        self.leave(job, well);
                    }
                }
            }
        }
    }

    fn charge(&self, job: JobId, attempt: Attempt, main: Pid, now: Millis) -> Charge {
        let (dir, plan) = (&self.dir, &*self.plan);
        let stage = plan.stage_of(job);
        let after = self.limit(job);
        let results = Results::new(&dir.attempt_out(plan, job, attempt), &stage.result);
        let linger = Millis(after.unwrap_or(Hang::default().after).0 / LINGER_PART).min(LINGER_MOST);
        let vigil = Vigil::new(after, results.as_ref().map(|_| linger), now);
        let due = aligned(now, vigil.next_look(now));
        Charge {
            attempt,
            main,
            vigil,
            sight: Sight::new(main),
            writings: Writings {
                logs: [
                    dir.stdout_log(plan, job, attempt),
                    dir.stderr_log(plan, job, attempt),
                    dir.metrics_file(plan, job, attempt),
                ],
            },
            results,
            mark: Some(dir.done_file(plan, job, attempt)),
            stacks: dir.stacks_file(plan, job, attempt),
            due,
            stays: None,
            wanted: None,
            look: None,
            first: None,
        }
    }

    /// How long a job of this one's stage may be silent.
    fn limit(&self, job: JobId) -> Option<Millis> {
        let stage = self.plan.job(job).stage;
        let hang = self.plan.stage(stage).hang.as_ref()?;
        Some(self.norms[stage.index()].after(hang))
    }

    fn leave(&mut self, job: JobId, well: bool) {
        let quiet = self.charges.remove(&job).map_or(Millis(0), |charge| charge.vigil.longest_quiet());
        if well {
            let stage = self.plan.job(job).stage;
            self.norms[stage.index()].learn(quiet);
        }
    }

    /// Whose work is done by their own word.
    fn see_marks(&mut self) {
        let now = self.now();
        for (job, charge) in &mut self.charges {
            if charge.mark.as_deref().is_some_and(marks::is_done) {
                charge.mark = None;
                let grace = self.plan.stage_of(*job).grace;
                // In time for the answer to be there when the grace is over.
                charge.stays = Some(now.after(Millis(grace.0 - grace.0 / STAY_PART)));
                self.mailbox.tell(charge.done(*job, None));
            }
            if charge.look.is_none() && charge.stays.is_some_and(|at| at <= now) {
                (charge.stays, charge.wanted) = (None, Some(Question::Stay));
            }
        }
    }

    /// Looks at those whose time has come; walks over all processes once if one of them shows nothing at a glance.
    fn go_round(&mut self) {
        let now = self.now();
        let mut table: Option<Table> = None;
        let due: Vec<JobId> =
            self.charges.iter().filter(|(_, charge)| charge.due <= now).map(|(job, _)| *job).collect();
        for job in due {
            let limit = self.limit(job);
            let beats = self.pulse(job).map_or(0, |pulse| pulse.beats);
            let Some(charge) = self.charges.get_mut(&job) else { continue };
            charge.vigil.set_after(limit);
            let results = charge.results.as_ref().and_then(Results::found);
            charge.vigil.set_result_there(results.is_some());
            let output = charge.writings.bytes().wrapping_add(results.unwrap_or(0));
            if let Some(signs) = charge.sight.glance(output, beats) {
                charge.vigil.look(now, signs);
                charge.want_for_silence(false);
            } else if self.walk_at <= now || table.is_some() {
                let begun = cpu_time();
                let table = table.get_or_insert_with(Table::read);
                let signs = charge.sight.look(table, output, beats);
                let wanted = charge.vigil.look(now, signs) == Wish::Evidence;
                charge.want_for_silence(wanted);
                let tick = charge.vigil.next_look(now).since(now);
                let cost = cpu_time().saturating_sub(begun) * WALK_SHARE;
                let pause = Millis(u64::try_from(cost.as_millis()).unwrap_or(u64::MAX)).min(tick);
                self.walk_at = self.walk_at.max(now.after(pause));
            } else {
                charge.due = self.walk_at;
                continue;
            }
            charge.due = aligned(now, charge.vigil.next_look(now));
        }
    }

    fn pulse(&self, job: JobId) -> Option<Pulse> {
        self.pulses.as_ref()?.get(job)
    }

    fn ask_for_evidence(&mut self) {
        let now = self.now();
        for (job, charge) in &mut self.charges {
            let Some(question) = charge.wanted.filter(|_| charge.look.is_none()) else { continue };
            let what = match question {
                Question::Silence => format!("no sign of life for {}", charge.vigil.quiet(now)),
                Question::Stay => "its work is done, and it does not exit".to_owned(),
            };
            let title = format!("{}, attempt {}: {what}", self.plan.job_name(*job), charge.attempt);
            let look = self.lookers.look(charge.sight.pids(), charge.stacks.clone(), title);
            charge.look = look.map(|look| (question, look));
            if charge.look.is_some() {
                charge.wanted = None;
            }
        }
    }

    fn collect_evidence(&mut self) {
        let now = self.now();
        let awaited: Vec<JobId> =
            self.charges.iter().filter(|(_, charge)| charge.look.is_some()).map(|(job, _)| *job).collect();
        for job in awaited {
            let Some(charge) = self.charges.get_mut(&job) else { continue };
            let Some((question, look)) = charge.look.take() else { continue };
            match (self.lookers.answer(look), question) {
                (Answer::NotYet(look), _) => charge.look = Some((question, look)),
                (Answer::Here(evidence), Question::Silence) => self.on_evidence(job, now, evidence),
                (Answer::Here(evidence), Question::Stay) => {
                    let around = Surroundings { main: charge.main_id(), ..Surroundings::default() };
                    let doing = looks::words(&evidence, &around).evidence;
                    self.mailbox.tell(charge.done(job, Some(doing)));
                }
                (Answer::Never, Question::Stay) => {}
                (Answer::Never, Question::Silence) => {
                    let quiet = charge.vigil.quiet(now);
                    let evidence = "its processes cannot be looked at: /proc does not answer".to_owned();
                    let stuck = Stuck { evidence, ..Stuck::default() };
                    let attempt = charge.attempt;
                    if charge.vigil.on_evidence(now, Seen::Unreadable) == Judgement::Suspect {
                        self.mailbox.tell(Input::Stuck { job, attempt, quiet, frozen: false, stuck });
                    }
                }
            }
        }
    }

    fn on_evidence(&mut self, job: JobId, now: Millis, evidence: Evidence) {
        let pulse = self.pulse(job);
        // A GPU that cannot be seen may be at work.
        let in_the_dark = self.pulses.is_some()
            && self.plan.stage_of(job).gpus > 0
            && !pulse.is_some_and(|pulse| pulse.is_telling());
        let Some(charge) = self.charges.get_mut(&job) else { return };
        let seen = match charge.first.as_ref().filter(|_| charge.vigil.holds_evidence()) {
            Some(first) => looks::compare(first, &evidence),
            None => Seen::First,
        };
        let quiet = charge.vigil.quiet(now);
        let judgement = charge.vigil.on_evidence(now, seen);
        let gpu = pulse.and_then(|pulse| pulse.load).map(|load| GpuSight { load, ..GpuSight::default() });
        let main = charge.main_id();
        let stuck = || looks::words(&evidence, &Surroundings { quiet, gpu, main });
        let attempt = charge.attempt;
        let input = match judgement {
            Judgement::Nothing => None,
            Judgement::Suspect => Some(Input::Stuck { job, attempt, quiet, frozen: false, stuck: stuck() }),
            Judgement::Frozen | Judgement::Lingers if in_the_dark => {
                Some(Input::Stuck { job, attempt, quiet, frozen: false, stuck: stuck() })
            }
            Judgement::Frozen => Some(Input::Stuck { job, attempt, quiet, frozen: true, stuck: stuck() }),
            Judgement::Lingers => charge.results.as_ref().map(|results| {
                let (because, doing) = (results.because(), Some(stuck().evidence));
                Input::WorkDone { job, attempt, because, doing, frozen: true }
            }),
        };
        if seen == Seen::First || !charge.vigil.holds_evidence() {
            charge.first = Some(evidence);
        }
        if let Some(input) = input {
            self.mailbox.tell(input);
        }
    }

    fn feel_pressure(&mut self) {
        let Some(pressure) = &mut self.pressure else { return };
        if self.charges.is_empty() {
            return;
        }
        if let Some(saturated) = pressure.look() {
            self.mailbox.tell(Input::Pressure { saturated });
        }
    }

    fn rest(&self) -> Duration {
        if self.charges.values().any(|charge| charge.look.is_some() || charge.wanted.is_some()) {
            return SOON;
        }
        let now = self.now();
        let next =
            self.charges.values().map(|charge| charge.stays.map_or(charge.due, |at| at.min(charge.due)));
        let next = next.map(|next| next.since(now)).min();
        next.map_or(ROUND, |next| next.duration().clamp(SOON, ROUND))
    }
}

impl Charge {
    fn main_id(&self) -> u32 {
        self.main.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its work is done by its own word.
    fn done(&self, job: JobId, doing: Option<String>) -> Input {
        let because = "called gpulane.done()".to_owned();
        Input::WorkDone { job, attempt: self.attempt, because, doing, frozen: false }
    }

    /// Whether evidence about its silence is wanted; another question comes first.
    fn want_for_silence(&mut self, wanted: bool) {
        if self.wanted != Some(Question::Stay) {
            self.wanted = wanted.then_some(Question::Silence);
        }
    }
}

/// The same moment for all that are looked at equally often, so that one walk serves them.
fn aligned(now: Millis, next: Millis) -> Millis {
    let period = next.since(now).0.max(1);
    Millis((now.0 / period + 1) * period)
}

/// Time this thread has had on a CPU.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_same_pace_come_together() {
        let pace = |now: u64| aligned(Millis(now), Millis(now + 5000));
        assert_eq!([pace(0), pace(1), pace(4999)], [Millis(5000); 3]);
        assert_eq!(pace(5000), Millis(10_000));
    }
}
