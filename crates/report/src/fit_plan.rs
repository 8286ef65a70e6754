//! `gpulane fit PLAN`: what a plan takes of this machine, stage by stage, and how long it would run.

use gpulane_core::{Forecast, HEADROOM, MARGIN, Misfit, reserve_for};
use gpulane_model::{Bytes, GpuKind, Known, Machine, Memory, Plan, Stage};

use crate::frame::extent;
use crate::gpu_kinds::GpuKindOf;
use crate::lanes::machine_text;
use crate::look::Look;
use crate::packing::{at_once, places};
use crate::palette::{Palette, Style};
use crate::text::{jobs, number, plural, seconds};

/// Everything the answer is made from. Lists are by stage.
#[derive(Clone, Copy, Debug)]
pub struct FitPlan<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What it would run on.
    pub machine: &'a Machine,
    /// What of each GPU is to be left free; already part of what the machine's GPUs have reserved.
    pub headroom: Bytes,
    /// What earlier runs tell.
    pub known: &'a [Known],
    /// How long a job takes.
    pub times: &'a [JobTime],
    /// What can never run.
    pub misfits: &'a [Misfit],
    /// How it would go; `None` where a time is not known or nothing can run.
    pub forecast: Option<&'a Forecast>,
}

/// How long a job of a stage takes, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobTime {
    /// Said by a person, in seconds.
    Given(f64),
    /// Seen in an earlier run, in seconds.
    Seen(f64),
    /// Nobody knows.
    Unknown,
}

impl JobTime {
    /// In seconds, where it is known.
    pub const fn known(self) -> Option<f64> {
        match self {
            Self::Given(seconds) | Self::Seen(seconds) => Some(seconds),
            Self::Unknown => None,
        }
    }
}

impl FitPlan<'_> {
    /// What a job of this stage reserves on a GPU; `None`: all of it.
    pub(crate) fn reserve(&self, at: usize) -> Option<Bytes> {
        match self.plan.stages[at].memory {
            _ if !self.machine.packing => None,
            Memory::Exclusive => None,
            Memory::Reserve(bytes) => Some(bytes),
            Memory::Auto => {
                let largest = self.machine.gpus.iter().map(gpulane_model::Gpu::usable).max();
                let reserve = reserve_for(self.peak(at)?);
                Some(largest.map_or(reserve, |largest| reserve.min(largest)))
            }
        }
    }

    pub(crate) fn peak(&self, at: usize) -> Option<Bytes> {
        self.known.get(at).and_then(|known| known.peak)
    }

    pub(crate) fn time(&self, at: usize) -> JobTime {
        self.times.get(at).copied().unwrap_or(JobTime::Unknown)
    }

    pub(crate) fn misfit(&self, at: usize) -> Option<&Misfit> {
        self.misfits.iter().find(|misfit| misfit.stage.index() == at)
    }

    /// The most jobs of this stage at once.
    pub(crate) fn at_once(&self, at: usize) -> u32 {
        let stage = &self.plan.stages[at];
        let seen = self.forecast.and_then(|forecast| forecast.per_stage_most.get(at).copied());
        let most = || at_once(stage, self.machine, self.reserve(at)).min(stage.jobs.end - stage.jobs.start);
        seen.unwrap_or_else(most)
    }
}

/// The answer as text.
pub fn fit_plan(of: &FitPlan<'_>, look: Look) -> String {
    let palette = Palette::new(&look);
    let kinds = GpuKindOf::all(&of.machine.gpus);
    let name = palette.paint(Style::Bold, &of.plan.name);
    let mut text = format!("{name}: {} on {}\n", extent(of.plan), machine_text(of.machine));
    for kind in &kinds {
        text.push_str(&kind_line(of, kind, palette));
    }
    for (at, stage) in of.plan.stages.iter().enumerate() {
        text.push('\n');
        text.push_str(&stage_block(of, at, stage, &kinds, palette));
    }
    text.push('\n');
    text.push_str(&verdict(of, palette));
    text
}

/// `  4 × 24 GiB: 22 GiB for jobs (300 MiB kept by the driver, 2 GiB headroom)`
fn kind_line(of: &FitPlan<'_>, kind: &GpuKindOf, palette: Palette) -> String {
    let driver = Bytes(kind.reserved.0.saturating_sub(of.headroom.0));
    let mut parts = Vec::new();
    if driver.0 > 0 {
        parts.push(format!("{driver} kept by the driver"));
    }
    if of.headroom.0 > 0 {
        parts.push(format!("{} headroom", of.headroom));
    }
    let name = if of.machine.kind == GpuKind::Sim { String::new() } else { format!(" {}", kind.name) };
    let rest = if parts.is_empty() {
        String::new()
    } else {
        format!(": {} for jobs ({})", kind.usable(), parts.join(", "))
    };
    format!("  {}{name}{rest}\n", kind.short(palette))
}

fn stage_block(of: &FitPlan<'_>, at: usize, stage: &Stage, kinds: &[GpuKindOf], palette: Palette) -> String {
    let count = jobs(stage.jobs.end - stage.jobs.start);
    let takes = match stage.gpus {
        0 => "no GPU".to_owned(),
        gpus => format!("{} each", plural(gpus as usize, "GPU")),
    };
    let mut text = format!("{}: {count}, {takes}\n", palette.paint(Style::Bold, &stage.name));
    let mut tell = |what: &str, fact: &str| {
        text.push_str(&format!("  {} {fact}\n", palette.paint(Style::Dim, &format!("{what:<8}"))));
    };
    if let Some(misfit) = of.misfit(at) {
        tell("memory:", &memory_text(of, at, stage));
        tell("never:", &palette.paint(Style::Bad, &misfit.to_string()));
        return text;
    }
    if stage.gpus > 0 && of.machine.kind != GpuKind::None {
        tell("memory:", &memory_text(of, at, stage));
        tell("per GPU:", &per_gpu(of, at, kinds, palette));
    }
    let limit = if stage.parallel > 0 { format!(" (parallel = {})", stage.parallel) } else { String::new() };
    tell("at once:", &format!("{}{limit}", number(of.at_once(at))));
    tell("time:", &time_text(of.time(at), &stage.name));
    text
}

fn memory_text(of: &FitPlan<'_>, at: usize, stage: &Stage) -> String {
    match (stage.memory, of.peak(at)) {
        _ if stage.gpus == 0 => "none".to_owned(),
        (Memory::Exclusive, _) => "the whole GPU (exclusive)".to_owned(),
        (Memory::Reserve(bytes), _) => format!("{bytes} reserved for each job"),
        (Memory::Auto, Some(peak)) => {
            let reserve = of.reserve(at).unwrap_or_else(|| reserve_for(peak));
            format!(
                "auto: {peak} at most in an earlier run; {peak} + {MARGIN} % + {HEADROOM} = {reserve} reserved for each"
            )
        }
        (Memory::Auto, None) => {
            "auto: will be measured by the first job; nothing is known of it yet".to_owned()
        }
    }
}

/// `4 on each of 4 × 24 GiB, 13 on each of 4 × 80 GiB`
fn per_gpu(of: &FitPlan<'_>, at: usize, kinds: &[GpuKindOf], palette: Palette) -> String {
    let Some(reserve) = of.reserve(at) else {
        let lanes = if of.machine.packing { 1 } else { of.machine.lanes_per_gpu };
        return if lanes == 1 { "1 job".to_owned() } else { format!("{lanes} jobs (--lanes)") };
    };
    let kind = |kind: &GpuKindOf| match places(kind.usable(), reserve) {
        0 => format!("none on {}: {} is less than {reserve}", kind.short(palette), kind.usable()),
        n => format!("{n} on each of {}", kind.short(palette)),
    };
    kinds.iter().map(kind).collect::<Vec<_>>().join(", ")
}

fn time_text(time: JobTime, stage: &str) -> String {
    match time {
        JobTime::Given(each) => format!("{} a job, as given", seconds(each)),
        JobTime::Seen(each) => format!("{} a job, as in an earlier run", seconds(each)),
        JobTime::Unknown => format!("not known; say it with --job-time {stage}=20m"),
    }
}

fn verdict(of: &FitPlan<'_>, palette: Palette) -> String {
    if !of.misfits.is_empty() {
        let count = plural(of.misfits.len(), "stage");
        return format!("{} It does not fit: {count} can never run here.\n", palette.cross());
    }
    let Some(forecast) = of.forecast else {
        return "It fits. How long it takes cannot be said until the time of a job is known.\n".to_owned();
    };
    let whole = seconds(forecast.makespan);
    let mut text = format!("It fits, and takes about {whole} if every job succeeds at its first try.\n");
    let unmeasured = of.plan.stages.iter().enumerate().any(|(at, stage)| {
        of.machine.packing && stage.gpus > 0 && stage.memory == Memory::Auto && of.peak(at).is_none()
    });
    if unmeasured {
        text.push_str("Less, if what is measured lets jobs share GPUs: that is not counted.\n");
    }
    text
}
