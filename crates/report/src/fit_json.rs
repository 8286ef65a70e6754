//! `gpulane fit PLAN --json`: the same as one JSON object.

use gpulane_core::Forecast;
use gpulane_model::{GpuKind, Memory};
use serde_json::{Value, json};

use crate::fit_plan::{FitPlan, JobTime};
use crate::gpu_kinds::GpuKindOf;
use crate::packing::places;

/// The answer as one line of JSON. Sizes in bytes, times in seconds; what is not known is `null`.
pub fn fit_plan_json(of: &FitPlan<'_>) -> String {
    let kinds = GpuKindOf::all(&of.machine.gpus);
    let stages: Vec<Value> = (0..of.plan.stages.len()).map(|at| stage(of, at, &kinds)).collect();
    let gpus: Vec<Value> = kinds.iter().map(gpu).collect();
    let forecast = |value: &dyn Fn(&Forecast) -> Value| of.forecast.map(value).unwrap_or_default();
    json!({
        "name": of.plan.name,
        "fits": of.misfits.is_empty(),
        "packing": of.machine.packing,
        "headroom": of.headroom,
        "gpus": gpus,
        "cpu_lanes": (of.machine.kind == GpuKind::None).then_some(of.machine.cpu_lanes),
        "stages": stages,
        "makespan": forecast(&|forecast| json!(forecast.makespan)),
        "most_at_once": forecast(&|forecast| json!(forecast.most_at_once)),
    })
    .to_string()
}

fn gpu(kind: &GpuKindOf) -> Value {
    json!({ "name": kind.name, "gpus": kind.count, "memory": kind.memory, "usable": kind.usable() })
}

fn stage(of: &FitPlan<'_>, at: usize, kinds: &[GpuKindOf]) -> Value {
    let stage = &of.plan.stages[at];
    let memory = match stage.memory {
        Memory::Exclusive => "exclusive",
        Memory::Auto => "auto",
        Memory::Reserve(_) => "reserve",
    };
    let (source, seconds) = match of.time(at) {
        JobTime::Given(seconds) => (Some("given"), Some(seconds)),
        JobTime::Seen(seconds) => (Some("seen"), Some(seconds)),
        JobTime::Unknown => (None, None),
    };
    let alone = if of.machine.packing { 1 } else { of.machine.lanes_per_gpu };
    let per_gpu = |kind: &GpuKindOf| of.reserve(at).map_or(alone, |reserve| places(kind.usable(), reserve));
    let per_gpu: Vec<u32> = if stage.gpus > 0 { kinds.iter().map(per_gpu).collect() } else { Vec::new() };
    json!({
        "stage": stage.name,
        "jobs": stage.jobs.end - stage.jobs.start,
        "gpus": stage.gpus,
        "memory": memory,
        "peak": of.peak(at),
        "reserve": of.reserve(at),
        "per_gpu": per_gpu,
        "at_once": of.misfit(at).is_none().then(|| of.at_once(at)),
        "seconds": seconds,
        "seconds_from": source,
        "never": of.misfit(at).map(ToString::to_string),
    })
}
