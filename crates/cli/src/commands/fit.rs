//! `gpulane fit`: how many processes fit on a GPU, or what a plan takes of this machine. Starts nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use gpulane_gpu::{Found, GpuError, GpuSpec};
use gpulane_model::{Bytes, ExitCode, GpuKind, JobId, Known, Machine, Millis, Plan, RunSettings};
use gpulane_report::{FitMemory, FitPlan, GpuKindOf, JobTime, Look};
use gpulane_runtime::Experience;

use super::check::{cwd, read_plan};
use crate::args::Fit;
use crate::say;

pub(crate) fn fit(args: &Fit) -> ExitCode {
    if args.plan.is_some() && args.gpu_memory.is_some() {
        say::error("--gpu-memory goes with --model-memory; for a plan, say which GPUs");
        say::hint("gpulane fit plan.toml --gpus sim:2x24GiB");
        return ExitCode::BadInput;
    }
    let answered = match (&args.plan, args.model_memory) {
        (Some(plan), _) => fit_plan(plan, args),
        (None, Some(model)) => fit_memory(model, args),
        (None, None) => {
            say::error("nothing to fit: give a plan, or --model-memory");
            say::hint("gpulane fit plan.toml, gpulane fit --model-memory 5GiB --gpu-memory 24GiB");
            Err(ExitCode::BadInput)
        }
    };
    answered.unwrap_or_else(|code| code)
}

/// The GPUs asked for. What is wrong has been said.
fn find(args: &Fit, headroom: Bytes) -> Result<Found, ExitCode> {
    let spec: GpuSpec = args.gpus.parse().map_err(|error| {
        say::error(error);
        ExitCode::BadInput
    })?;
    let visible = std::env::var(gpulane_model::env_vars::CUDA_VISIBLE_DEVICES).ok();
    gpulane_gpu::find(&spec, args.lanes, headroom, visible.as_deref()).map_err(|error| {
        say::error(&error);
        if matches!(error, GpuError::Lanes(_)) { ExitCode::BadInput } else { ExitCode::NoResources }
    })
}

fn fit_memory(model: Bytes, args: &Fit) -> Result<ExitCode, ExitCode> {
    if model.0 == 0 {
        say::error("--model-memory must be more than 0");
        return Err(ExitCode::BadInput);
    }
    let gpus = match args.gpu_memory {
        Some(memory) => {
            vec![GpuKindOf { name: String::new(), memory, reserved: Bytes(0), count: 1 }]
        }
        None => GpuKindOf::all(&find(args, Bytes(0))?.machine.gpus),
    };
    if gpus.is_empty() {
        say::error("there is no GPU here to fit it on");
        say::hint("say how large one is: --gpu-memory 24GiB");
        return Err(ExitCode::NoResources);
    }
    let question = FitMemory { model, headroom: args.headroom, gpus };
    if args.json {
        say::json(gpulane_report::fit_memory_json(&question));
    } else {
        say::data(gpulane_report::fit_memory(&question, Look::detect(&io::stdout())));
    }
    Ok(if question.workers_in_all() == 0 { ExitCode::NoResources } else { ExitCode::Success })
}

fn fit_plan(path: &Path, args: &Fit) -> Result<ExitCode, ExitCode> {
    let settings = RunSettings {
        cwd: cwd(),
        gpus: args.gpus.clone(),
        lanes: args.lanes,
        headroom: args.headroom,
        ..RunSettings::default()
    };
    let plan = Arc::new(read_plan(path, settings)?);
    let found = find(args, args.headroom)?;
    if let Some(note) = &found.note {
        say::note(note);
    }
    // As a run would have it: a number of lanes that was given stands.
    let machine = if args.lanes.is_some() { found.machine } else { found.machine.packed_for(&plan) };
    let known = Experience::of(&plan, &machine).known();
    let times = times(&plan, &known, &args.job_time)?;
    let misfits = gpulane_core::misfits(&plan, &machine);
    let forecast = if misfits.is_empty() { forecast(&plan, &machine, &known, &times) } else { None };
    let answer = FitPlan {
        plan: &plan,
        machine: &machine,
        headroom: if machine.kind == GpuKind::None { Bytes(0) } else { args.headroom },
        known: &known,
        times: &times,
        misfits: &misfits,
        forecast: forecast.as_ref(),
    };
    if args.json {
        say::json(gpulane_report::fit_plan_json(&answer));
    } else {
        say::data(gpulane_report::fit_plan(&answer, Look::detect(&io::stdout())));
    }
    Ok(if misfits.is_empty() { ExitCode::Success } else { ExitCode::NoResources })
}

/// How the plan would go, if the time of every job is known.
fn forecast(
    plan: &Arc<Plan>,
    machine: &Machine,
    known: &[Known],
    times: &[JobTime],
) -> Option<gpulane_core::Forecast> {
    let with_jobs = plan.stages.iter().zip(times).filter(|(stage, _)| !stage.jobs.is_empty());
    if with_jobs.map(|(_, time)| time.known()).any(|time| time.is_none()) {
        return None;
    }
    let mut seconds = |job: JobId| times[plan.job(job).stage.index()].known().unwrap_or_default();
    Some(gpulane_core::forecast(plan, machine, known, &mut seconds))
}

/// How long a job of each stage takes: as said for the stage, as said for all, as seen earlier.
fn times(plan: &Plan, known: &[Known], given: &[String]) -> Result<Vec<JobTime>, ExitCode> {
    let seen = |at: usize| known.get(at).and_then(|known| known.seconds);
    let mut times: Vec<JobTime> =
        (0..plan.stages.len()).map(|at| seen(at).map_or(JobTime::Unknown, JobTime::Seen)).collect();
    let (named, general): (Vec<&String>, Vec<&String>) = given.iter().partition(|text| text.contains('='));
    for text in general {
        times.fill(JobTime::Given(duration(text, text)?));
    }
    for text in named {
        let (stage, time) = text.split_once('=').unwrap_or_default();
        let Some(at) = plan.stages.iter().position(|known| known.name == stage) else {
            say::error(format!("--job-time {text}: the plan has no stage `{stage}`"));
            let names: Vec<&str> = plan.stages.iter().map(|stage| stage.name.as_str()).collect();
            say::hint(format!("its stages are {}", names.join(", ")));
            return Err(ExitCode::BadInput);
        };
        times[at] = JobTime::Given(duration(time, text)?);
    }
    Ok(times)
}

fn duration(time: &str, whole: &str) -> Result<f64, ExitCode> {
    time.parse::<Millis>().map(Millis::as_seconds).map_err(|error| {
        say::error(format!("--job-time {whole}: {error}"));
        ExitCode::BadInput
    })
}
