//! The thread that goes round: looks at each job when it is due, has evidence taken, passes on what is judged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_core::{Input, Judgement, Norm, Seen, Verdict, YOUTH};
use gpulane_journal::RunDir;
use gpulane_model::{JobId, Machine, Millis, Plan, Stuck};
use gpulane_witness::{Evidence, GpuSight, GpuUse, Surroundings};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use super::charge::{Charge, Question, aligned};
use super::job_tree::{JobTree, Orphan, Orphans};
use super::looks::{self, Answer, Lookers};
use super::marks;
use super::pressure::{self, Pressure};
use super::{Ask, Mailbox};
use crate::engine::gpus::{Pulse, Pulses};
use crate::process::tree::Table;

/// The longest rest between two rounds: a mark without a bell is found this late.
const ROUND: Duration = Duration::from_secs(1);
/// While evidence is awaited.
const SOON: Duration = Duration::from_millis(20);
/// A walk over all processes may come again after so many times what it cost, unless looks would come too late by that.
const WALK_SHARE: u32 = 400;
/// A worker of a map that has nothing to do shows life only when its feeder asks for it, every few seconds.
const IDLE_WORKER: Millis = Millis::seconds(15);
/// What a job may wait for whose GPU says nothing.
const DARK: &str = "its GPU, which cannot be read and may be at work";
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
    orphans: Orphans,
    /// `None`: no stage has its starts held for the CPUs.
    pressure: Option<Pressure>,
    /// When the next walk over all processes may begin.
    walk_at: Millis,
}

impl Watchman {
    pub(super) fn new(
        dir: RunDir,
        plan: Arc<Plan>,
        machine: &Machine,
        pulses: Option<Arc<Pulses>>,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        let norms = plan.stages.iter().map(|_| Norm::default()).collect();
        Self {
            orphans: Orphans::new(dir.root().to_string_lossy().into_owned()),
            dir,
            pulses,
            mailbox,
            begun: Instant::now(),
            charges: HashMap::new(),
            norms,
            lookers: Lookers::default(),
            pressure: super::is_gated(&plan, machine).then(|| Pressure::new(machine.cores)),
            walk_at: Millis(0),
            plan,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            self.mailbox.beat();
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
                        let limit = self.limit(job);
                        let charge = Charge::new(&self.dir, &self.plan, (job, attempt), main, limit, now);
                        self.charges.insert(job, charge);
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

    /// How long a job of this one's stage may be silent.
    fn limit(&self, job: JobId) -> Option<Millis> {
        let stage = self.plan.job(job).stage;
        let hang = self.plan.stage(stage).hang.as_ref()?;
        let after = self.norms[stage.index()].after(hang);
        let least = if self.plan.stage(stage).map.is_some() { IDLE_WORKER } else { Millis(0) };
        Some(after.max(least))
    }

    fn leave(&mut self, job: JobId, well: bool) {
        let charge = self.charges.remove(&job);
        let quiet = charge.as_ref().map_or(Millis(0), |charge| charge.vigil.longest_quiet());
        if let Some(charge) = charge {
            self.orphans.leave(charge.sight.into_tree());
        }
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
        let mut table: Option<(Table, Vec<Orphan>)> = None;
        let due: Vec<JobId> =
            self.charges.iter().filter(|(_, charge)| charge.due <= now).map(|(job, _)| *job).collect();
        for job in due {
            let limit = self.limit(job);
            let beats = self.pulse(job).map_or(0, |pulse| pulse.beats);
            let Some(charge) = self.charges.get_mut(&job) else { continue };
            charge.vigil.set_after(limit);
            if !charge.lives_at_a_glance(now, beats) {
                if self.walk_at > now && table.is_none() {
                    charge.due = self.walk_at;
                    continue;
                }
                let begun = cpu_time();
                let orphans = &mut self.orphans;
                let (table, adopted) = table.get_or_insert_with(|| {
                    let table = Table::read();
                    let adopted = orphans.look(&table);
                    (table, adopted)
                });
                charge.look_closely(now, beats, (table, adopted));
                if let Some(input) = charge.stopped_for_long(job, now) {
                    self.mailbox.tell(input);
                }
                let cost = cpu_time().saturating_sub(begun) * WALK_SHARE;
                let pause = Millis(u64::try_from(cost.as_millis()).unwrap_or(u64::MAX));
                self.walk_at = self.walk_at.max(now.after(pause.min(charge.latest_look(now))));
            }
            if let Some(input) = charge.revived(job) {
                self.mailbox.tell(input);
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
            let load = self.pulses.as_ref().and_then(|pulses| pulses.get(*job)).and_then(|pulse| pulse.load);
            let load = load.map(|load| format!(", GPU {load}%")).unwrap_or_default();
            let title = format!("{}, attempt {}: {what}{load}", self.plan.job_name(*job), charge.attempt);
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
            match (Lookers::answer(look), question) {
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
                    let verdict = match charge.vigil.on_evidence(now, Seen::Unreadable) {
                        Judgement::Suspect => Verdict::Told,
                        Judgement::Overdue => Verdict::Overdue,
                        Judgement::Nothing | Judgement::Frozen | Judgement::Lingers => continue,
                    };
                    self.mailbox.tell(Input::Stuck { job, attempt, quiet, verdict, stuck });
                }
            }
        }
    }

    fn on_evidence(&mut self, job: JobId, now: Millis, evidence: Evidence) {
        let pulse = self.pulse(job);
        let given = self.pulses.is_some() && self.plan.stage_of(job).gpus > 0;
        let in_the_dark = (given || has_gpus(&evidence)) && !pulse.is_some_and(|pulse| pulse.is_telling());
        let Some(charge) = self.charges.get_mut(&job) else { return };
        // A GPU that was at work would have shown as life, and a job whose GPU is lost is ended for that; one that cannot be seen may
        // be at work, also where the job was given none and took one by itself.
        let use_of_gpu = if in_the_dark { GpuUse::Unknown } else { GpuUse::Idle };
        charge.sight.need(&evidence.joined().collect());
        let known = charge.known(use_of_gpu);
        let (mut seen, mut words) = match charge.first.as_ref().filter(|_| charge.vigil.holds_evidence()) {
            Some(first) => looks::compare_in_doubt(first, &evidence, known, charge.sight.unknown()),
            None => (Seen::First, None),
        };
        if in_the_dark && matches!(seen, Seen::Frozen | Seen::Waiting) {
            // No proof, but no wait by the clock either: where its results are there, that is enough.
            (seen, words) = (Seen::Waiting, Some(DARK.to_owned()));
        }
        if seen == Seen::Frozen
            && let Some(doubt) = self.doubt_of_processes(job, &evidence)
        {
            (seen, words) = doubt;
        }
        let Some(charge) = self.charges.get_mut(&job) else { return };
        let quiet = charge.vigil.quiet(now);
        let judgement = charge.vigil.on_evidence(now, seen);
        let gpu = pulse.and_then(|pulse| pulse.load).map(|load| GpuSight { load, ..GpuSight::default() });
        let main = charge.main_id();
        let attempt = charge.attempt;
        let (proof, waits_for) = if seen == Seen::Frozen { (words, None) } else { (None, words) };
        if let (Judgement::Frozen | Judgement::Lingers, Some(proof)) = (judgement, &proof) {
            // A full disk costs this part of the file.
            let _ = looks::keep(&charge.stacks, &format!("==== why it cannot go on ====\n\n{proof}\n"));
        }
        let stuck = || Stuck {
            proof: proof.clone(),
            waits_for: waits_for.clone(),
            ..looks::words(&evidence, &Surroundings { quiet, gpu, main })
        };
        let told = |verdict| Some(Input::Stuck { job, attempt, quiet, verdict, stuck: stuck() });
        let input = match judgement {
            Judgement::Nothing => None,
            Judgement::Suspect => told(Verdict::Told),
            Judgement::Overdue => told(Verdict::Overdue),
            Judgement::Frozen => told(Verdict::Frozen),
            Judgement::Lingers => charge.results.as_ref().map(|results| {
                let (because, doing) = (results.because(), Some(stuck().evidence));
                Input::WorkDone { job, attempt, because, doing, frozen: true }
            }),
        };
        if matches!(seen, Seen::First | Seen::Doubtful) || !charge.vigil.holds_evidence() {
            charge.sight.know_threads(&looks::with_a_rhythm(&evidence, seen));
            charge.first = Some(evidence);
        }
        if let Some(input) = input {
            self.mailbox.tell(input);
        }
    }

    /// Why a proof does not hold: a process of the job was not looked at, or one lives of which nothing tells whose it is.
    fn doubt_of_processes(&mut self, job: JobId, evidence: &Evidence) -> Option<(Seen, Option<String>)> {
        let table = Table::read();
        let orphans = self.orphans.look(&table);
        let looked_at: Vec<u32> = evidence.processes.iter().map(|process| process.pid).collect();
        if self.charges.get_mut(&job)?.sight.has_others(&table, &orphans, &looked_at) {
            return Some((Seen::Moved, None));
        }
        let trees: Vec<&JobTree> = self.charges.values().map(|charge| charge.sight.tree()).collect();
        let started = self.charges.get(&job)?.sight.tree().started(&table);
        let process = self.orphans.of_nobody(started, &orphans, &trees)?;
        let pid = process.pid.as_raw_nonzero().get();
        let name = gpulane_witness::name_of(pid.unsigned_abs()).unwrap_or_else(|| "gone".to_owned());
        let words = format!(
            "process {pid} ({name}), which left its job's session and environment: it may belong to this job"
        );
        Some((Seen::Waiting, Some(words)))
    }

    /// While jobs start up, others may wait for a core.
    fn feel_pressure(&mut self) {
        let now = self.now();
        let Some(pressure) = &mut self.pressure else { return };
        if self.charges.values().any(|charge| now.since(charge.since) < YOUTH)
            && let Some(idle) = pressure.look()
        {
            self.mailbox.tell(Input::Pressure { idle });
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
        let most = if self.pressure.is_some() { pressure::PAUSE } else { ROUND };
        next.map_or(most, |next| next.duration().clamp(SOON, most))
    }
}

/// Whether a process has a GPU open, whoever gave it that.
fn has_gpus(evidence: &Evidence) -> bool {
    evidence.processes.iter().any(|process| process.descriptors.gpus > 0)
}

/// Time this thread has had on a CPU.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
