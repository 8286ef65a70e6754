//! From what was written to the plan: references, points, placeholders, then every job in its place.

use std::collections::HashMap;

use gpulane_model::{Job, JobId, PLAN_FORMAT, Plan, RunSettings, StageId, worker_name};

use crate::document::{RawPlan, RawStage};
use crate::entries::{KeyUse, Point};
use crate::entry;
use crate::expand::{Budget, Expansion, expand};
use crate::map;
use crate::placeholders::{self, Fillings};
use crate::problems::Problems;
use crate::references::{self, References};
use crate::settings::WORK;
use crate::sharing;

/// The plan, if nothing is wrong with it. `fallback` is its name if it has none of its own.
pub(crate) fn resolve(
    raw: RawPlan,
    fallback: String,
    run: RunSettings,
    problems: &mut Problems<'_>,
) -> Option<Plan> {
    let RawPlan { name, stages } = raw;
    let references = references::resolve(&stages, problems);
    for stage in &stages {
        check_stage(stage, problems);
        entry::check_stage(stage, problems);
        map::check_stage(stage, problems);
    }
    refuse_followers_of_maps(&stages, &references, problems);
    sharing::check(&stages, problems);
    let expansions = expand_all(&stages, &references, problems);
    let lost: Vec<bool> =
        stages.iter().zip(&references).map(|(stage, found)| found.lost || is_lost(stage)).collect();
    let anywhere = if lost.contains(&true) { keys_anywhere(&stages, &expansions) } else { None };
    for (index, (stage, expansion)) in stages.iter().zip(&expansions).enumerate() {
        let fillings = Fillings {
            keys: match expansion {
                Some(expansion) => Some(&expansion.keys),
                None => anywhere.as_ref().filter(|_| lost[index]),
            },
            points: expansion.as_ref().map_or(&[], |expansion| &expansion.points),
            has_input: references[index].foreach.is_some() || lost[index],
        };
        placeholders::check(stage, &fillings, problems);
    }
    if problems.has_errors() {
        return None;
    }
    Some(lay_out(name.unwrap_or(fallback), run, &stages, references, expansions))
}

/// The keys that some stage's jobs have: a `foreach` that names no stage must have meant one of these stages, so what none
/// of them has is wrong in any case. `None` if the keys of a stage are unknown, or there is none to be meant.
fn keys_anywhere(stages: &[RawStage], expansions: &[Option<Expansion>]) -> Option<KeyUse> {
    let mut keys = KeyUse::default();
    let mut found = false;
    for (stage, expansion) in stages.iter().zip(expansions) {
        match expansion {
            Some(expansion) => {
                found = true;
                for key in expansion.keys.counts.keys() {
                    keys.counts.entry(key.clone()).or_insert(1);
                }
            }
            None if stage.settings.has_any(&["foreach"]) => {}
            None => return None,
        }
    }
    found.then_some(keys)
}

/// What is wrong with a stage by itself.
fn check_stage(stage: &RawStage, problems: &mut Problems<'_>) {
    let settings = &stage.settings;
    let mut work = settings.written.iter().filter(|written| WORK.contains(&written.value));
    match (work.next(), work.next()) {
        (None, _) if !problems.is_damaged() => no_command(stage, problems),
        (Some(first), Some(second)) if first.value != second.value => {
            problems
                .error(&second.span, format!("a stage has either `{}` or `{}`", first.value, second.value))
                .label("only one of them can run")
                .help("split it into two stages, or remove one of the two");
        }
        _ => {}
    }
    if let Some(span) = settings.place_of("foreach") {
        for other in ["matrix", "job"] {
            if settings.place_of(other).is_some() {
                problems
                    .error(span, format!("a stage has either `foreach` or `{other}`"))
                    .label("takes its jobs from the other stage")
                    .help(format!("remove `foreach`, or remove `{other}`"));
            }
        }
    }
}

fn no_command(stage: &RawStage, problems: &mut Problems<'_>) {
    let name = stage.name.as_ref().map(|name| format!(" `{}`", name.value)).unwrap_or_default();
    // Keys below `[stage.matrix]` belong to the matrix, a classic of TOML.
    let strayed = stage
        .settings
        .matrix
        .as_ref()
        .and_then(|matrix| matrix.axes.iter().find(|axis| WORK.contains(&axis.key.as_str())));
    match strayed {
        Some(axis) => problems
            .error(&axis.span, format!("the stage{name} has no `command`; this one belongs to its matrix"))
            .label("everything below `[stage.matrix]` is the matrix's")
            .help(format!("move `{}` above `[stage.matrix]`", axis.key)),
        None => problems
            .error(&stage.span, format!("the stage{name} has no `command`"))
            .label("nothing to run")
            .help("write for example `command = [\"python\", \"train.py\", \"--config\", \"{config}\", \"--out\", \"{out}\"]`"),
    };
}

/// The points of every stage; `None` where they cannot be known. A stage with `foreach` comes after the one it names.
fn expand_all(
    stages: &[RawStage],
    references: &[References],
    problems: &mut Problems<'_>,
) -> Vec<Option<Expansion>> {
    let mut budget = Budget::default();
    let mut expansions: Vec<Option<Expansion>> = Vec::new();
    let mut followers: HashMap<StageId, Vec<usize>> = HashMap::new();
    let mut ready = Vec::new();
    for (index, (stage, references)) in stages.iter().zip(references).enumerate() {
        expansions.push(None);
        match references.foreach {
            Some(source) => followers.entry(source).or_default().push(index),
            None if references.lost => {}
            None => {
                expansions[index] = own_points(stage, &mut budget, problems);
                ready.push(index);
            }
        }
    }
    while let Some(source) = ready.pop() {
        for follower in followers.remove(&StageId::at(source)).unwrap_or_default() {
            let copied = expansions[source]
                .as_ref()
                .and_then(|expansion| copy(expansion, &stages[follower], &mut budget, problems));
            expansions[follower] = copied;
            ready.push(follower);
        }
    }
    expansions
}

fn own_points(stage: &RawStage, budget: &mut Budget, problems: &mut Problems<'_>) -> Option<Expansion> {
    let settings = &stage.settings;
    if settings.place_of("map").is_some() {
        return Some(workers(stage));
    }
    let (matrix, jobs) = (settings.matrix.as_deref(), settings.jobs.as_deref());
    if matrix.is_none() && jobs.is_none() {
        // Written but unreadable: its keys are unknown, and a lone job would be a guess.
        let unreadable = settings.has_any(&["matrix", "job"]) || is_lost(stage);
        return (!unreadable).then(|| single(stage));
    }
    let expansion = expand(matrix, jobs, budget, problems);
    report_duplicates(&expansion.points, problems);
    Some(expansion)
}

/// A map has one output, not one for each of its workers.
fn refuse_followers_of_maps(stages: &[RawStage], references: &[References], problems: &mut Problems<'_>) {
    for (stage, references) in stages.iter().zip(references) {
        let source = references.foreach.map(|source| &stages[source.index()]);
        if source.is_some_and(|source| source.settings.place_of("map").is_some()) {
            let span = stage.settings.foreach.as_ref().map_or(&stage.span, |foreach| &foreach.span);
            problems
                .error(span, "`foreach` cannot follow a map: its workers are no jobs of the plan")
                .label("this stage has a map")
                .help("write `after` instead; its parts are below `{run}/maps/STAGE`");
        }
    }
}

/// Whether a `foreach` was written but could not be read.
fn is_lost(stage: &RawStage) -> bool {
    stage.settings.foreach.is_none() && stage.settings.has_any(&["foreach"])
}

/// A stage without points is one job.
fn single(stage: &RawStage) -> Expansion {
    let mut expansion = Expansion::default();
    expansion.keys.points = 1;
    expansion.points.push(Point {
        name: "main".into(),
        config: gpulane_model::Config::default(),
        span: stage.span.clone(),
    });
    expansion
}

/// The workers of a map, as far as the plan tells how many.
fn workers(stage: &RawStage) -> Expansion {
    let count = stage.settings.map.as_ref().and_then(|map| map.value.workers).unwrap_or(1);
    let mut expansion = Expansion::default();
    expansion.keys.points = count as usize;
    expansion.points.extend((0..count).map(|at| Point {
        name: worker_name(at).into_boxed_str(),
        config: gpulane_model::Config::default(),
        span: stage.span.clone(),
    }));
    expansion
}

fn copy(
    source: &Expansion,
    stage: &RawStage,
    budget: &mut Budget,
    problems: &mut Problems<'_>,
) -> Option<Expansion> {
    let text = source.points.iter().map(|point| point.config.text().len()).sum();
    let span = stage.settings.foreach.as_ref().map_or(&stage.span, |foreach| &foreach.span);
    let fits = budget.take(Some(source.points.len()), text, span, problems);
    fits.then(|| Expansion { points: source.points.clone(), keys: source.keys.clone() })
}

fn report_duplicates(points: &[Point], problems: &mut Problems<'_>) {
    let mut seen: HashMap<&str, &Point> = HashMap::with_capacity(points.len());
    for point in points {
        let Some(first) = seen.insert(&point.name, point) else { continue };
        let same = first.config == point.config;
        let line = problems.line_of(first.span.start) + 1;
        problems
            .error(&point.span, format!("two jobs of this stage are named `{}`", point.name))
            .label(format!("the first is on line {line}"))
            .help(if same { "they are the same; remove one" } else { "give one of them another `name`" });
    }
}

fn lay_out(
    name: String,
    run: RunSettings,
    raw: &[RawStage],
    references: Vec<References>,
    expansions: Vec<Option<Expansion>>,
) -> Plan {
    let counts = expansions.iter().map(|expansion| expansion.as_ref().map_or(0, |found| found.points.len()));
    let mut starts: Vec<usize> = Vec::with_capacity(raw.len());
    let mut total = 0;
    for count in counts {
        starts.push(total);
        total += count;
    }
    let mut plan = Plan {
        format: PLAN_FORMAT,
        name,
        run,
        stages: Vec::with_capacity(raw.len()),
        jobs: Vec::with_capacity(total),
    };
    for (index, ((raw, references), expansion)) in raw.iter().zip(references).zip(expansions).enumerate() {
        let name = raw.name.as_ref().map_or("", |name| name.value.as_str());
        let mut stage = raw.settings.stage(name);
        let source_start = references.foreach.map(|source| starts[source.index()]);
        stage.after = references.after;
        stage.foreach = references.foreach;
        let points = expansion.map(|expansion| expansion.points).unwrap_or_default();
        stage.jobs = JobId::at(starts[index]).0..JobId::at(starts[index] + points.len()).0;
        for (at, point) in points.into_iter().enumerate() {
            plan.jobs.push(Job {
                stage: StageId::at(index),
                name: point.name,
                config: point.config,
                source: source_start.map(|start| JobId::at(start + at)),
            });
        }
        plan.stages.push(stage);
    }
    plan
}
