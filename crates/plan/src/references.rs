//! Which stage means which: unique names, `after` and `foreach` turned into ids, and no circle among them.

use std::collections::{HashMap, HashSet};

use gpulane_model::StageId;

use crate::diagnostic::Span;
use crate::document::RawStage;
use crate::keys;
use crate::nearest::did_you_mean;
use crate::problems::Problems;
use crate::reader::Placed;

/// What one stage refers to.
#[derive(Clone, Default)]
pub(crate) struct References {
    pub(crate) after: Vec<StageId>,
    pub(crate) foreach: Option<StageId>,
    /// `foreach` was written but names nothing: its configs are unknown.
    pub(crate) lost: bool,
    /// Where each reference stands, for reports.
    spans: Vec<(StageId, Span)>,
}

/// The references of every stage, in order.
pub(crate) fn resolve(stages: &[RawStage], problems: &mut Problems<'_>) -> Vec<References> {
    let names = Names::of(stages, problems);
    let references: Vec<References> = stages.iter().map(|stage| of_stage(stage, &names, problems)).collect();
    report_cycles(stages, &references, problems);
    for (index, stage) in stages.iter().enumerate() {
        check_inputs(index, stage, &references, &names, problems);
    }
    references
}

/// The stages by name.
struct Names<'r> {
    /// The first stage of each name.
    ids: HashMap<&'r str, usize>,
    /// Names that several stages have: there another one can be meant.
    shared: HashSet<&'r str>,
}

impl<'r> Names<'r> {
    fn of(stages: &'r [RawStage], problems: &mut Problems<'_>) -> Self {
        let mut names = Self { ids: HashMap::with_capacity(stages.len()), shared: HashSet::new() };
        for (index, stage) in stages.iter().enumerate() {
            let Some(name) = &stage.name else { continue };
            if names.ids.contains_key(name.value.as_str()) {
                names.shared.insert(&name.value);
                problems
                    .error(&name.span, format!("two stages are named `{}`", name.value))
                    .label("this name is taken by an earlier stage");
            } else {
                names.ids.insert(&name.value, index);
            }
        }
        names
    }

    /// The names of the stages that the stage of this name can refer to.
    fn others(&self, own: Option<&str>) -> impl Iterator<Item = &'r str> {
        let own = own.filter(|own| !self.shared.contains(own));
        self.ids.keys().copied().filter(move |name| Some(*name) != own)
    }
}

fn of_stage(stage: &RawStage, names: &Names<'_>, problems: &mut Problems<'_>) -> References {
    let mut references = References::default();
    let own = stage.name.as_ref().map(|name| name.value.as_str());
    let settings = &stage.settings;
    for target in &settings.after {
        if settings.inherited.after && own == Some(&target.value) {
            continue;
        }
        let Some(id) = find("after", target, own, names, problems) else { continue };
        if !references.after.contains(&id) {
            references.after.push(id);
            references.spans.push((id, target.span.clone()));
        }
    }
    if let Some(target) = &settings.foreach
        && !(settings.inherited.foreach && own == Some(&target.value))
    {
        references.foreach = find("foreach", target, own, names, problems);
        references.lost = references.foreach.is_none();
        references.spans.extend(references.foreach.map(|id| (id, target.span.clone())));
    }
    references
}

fn find(
    key: &str,
    target: &Placed<String>,
    own: Option<&str>,
    names: &Names<'_>,
    problems: &mut Problems<'_>,
) -> Option<StageId> {
    if own == Some(&target.value) {
        problems
            .error(&target.span, format!("`{key}` names its own stage `{}`", target.value))
            .label("a stage cannot wait for itself");
        return None;
    }
    let found = names.ids.get(target.value.as_str()).map(|index| StageId::at(*index));
    if found.is_none() && problems.surely_unknown(&target.value) {
        let meant = problems.nearest.find(&target.value, names.others(own));
        let help = match meant {
            Some(name) => format!("write \"{name}\""),
            None => other_stages(own, names),
        };
        let shown = keys::shown(&target.value);
        problems
            .error(&target.span, format!("`{key}` names the unknown stage `{shown}`{}", did_you_mean(meant)))
            .label("no stage has this name")
            .help(help);
    }
    found
}

fn other_stages(own: Option<&str>, names: &Names<'_>) -> String {
    const SHOWN: usize = 20;
    let mut known: Vec<&str> = names.others(own).collect();
    if known.is_empty() {
        return "there is no other stage".to_owned();
    }
    if known.len() > SHOWN {
        return "write the `name` of another stage".to_owned();
    }
    known.sort_unstable();
    format!("stages: {}", known.join(", "))
}

/// A map over what another stage makes must come after that stage: otherwise both start at once, and it finds nothing, or a part of it.
fn check_inputs(
    index: usize,
    stage: &RawStage,
    references: &[References],
    names: &Names<'_>,
    problems: &mut Problems<'_>,
) {
    let Some(map) = &stage.settings.map else { return };
    let mut told = HashSet::new();
    for input in &map.value.input {
        let Some((folder, maker)) = maker(input) else { continue };
        let Some(&made_by) = names.ids.get(maker) else { continue };
        if made_by == index || comes_after(index, made_by, references) || !told.insert(maker) {
            continue;
        }
        // Inputs keep no places of their own; a text that is written with escapes is shown by the whole map.
        let written = format!("{folder}{maker}");
        let at = problems.raw(&map.span).and_then(|text| text.find(&written)).map(|at| map.span.start + at);
        let span = at.map_or_else(|| map.span.clone(), |at| at..at + written.len());
        problems
            .error(&span, format!("`input` names what stage `{maker}` makes, but does not wait for it"))
            .label("not there yet when the map starts")
            .help(format!("write `after = [\"{maker}\"]` in this stage, beside `map`"));
    }
}

/// The stage in `{run}/jobs/STAGE/…` or `{run}/maps/STAGE/…`, and what stands before it.
fn maker(input: &str) -> Option<(&'static str, &str)> {
    ["{run}/jobs/", "{run}/maps/"].into_iter().find_map(|folder| {
        let (_, rest) = input.split_once(folder)?;
        Some((folder, rest.split('/').next()?))
    })
}

/// Whether a stage waits for another, be it by way of others.
fn comes_after(stage: usize, other: usize, references: &[References]) -> bool {
    let (mut seen, mut open) = (HashSet::from([stage]), vec![stage]);
    while let Some(at) = open.pop() {
        for (target, _) in &references[at].spans {
            if target.index() == other {
                return true;
            }
            if seen.insert(target.index()) {
                open.push(target.index());
            }
        }
    }
    false
}

/// Most circles that are reported: in a large tangle each edge closes another one.
const MOST_CYCLES: usize = 20;

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// Walks depth first without recursion: a chain of a hundred thousand stages must not end the stack.
fn report_cycles(stages: &[RawStage], references: &[References], problems: &mut Problems<'_>) {
    let mut marks = vec![Mark::New; stages.len()];
    let mut reported = 0;
    for root in 0..stages.len() {
        let mut path: Vec<(usize, usize)> = Vec::new();
        if marks[root] == Mark::New {
            marks[root] = Mark::OnPath;
            path.push((root, 0));
        }
        while let Some((stage, edge)) = path.last_mut() {
            let Some((target, span)) = references[*stage].spans.get(*edge) else {
                marks[*stage] = Mark::Done;
                path.pop();
                continue;
            };
            *edge += 1;
            let target = target.index();
            match marks[target] {
                Mark::New => {
                    marks[target] = Mark::OnPath;
                    path.push((target, 0));
                }
                Mark::OnPath if reported < MOST_CYCLES => {
                    reported += 1;
                    let start = path.iter().position(|(stage, _)| *stage == target).unwrap_or(0);
                    report_cycle(stages, &path[start..], span, problems);
                }
                Mark::OnPath | Mark::Done => {}
            }
        }
    }
}

fn report_cycle(stages: &[RawStage], cycle: &[(usize, usize)], span: &Span, problems: &mut Problems<'_>) {
    const SHOWN: usize = 12;
    let name = |index: usize| stages[index].name.as_ref().map_or("?", |name| name.value.as_str());
    let mut names: Vec<&str> = cycle.iter().take(SHOWN).map(|(stage, _)| name(*stage)).collect();
    if cycle.len() > SHOWN {
        names.push("…");
    }
    names.push(name(cycle[0].0));
    problems
        .error(span, format!("stages wait for each other in a circle: {}", names.join(" → ")))
        .label("this closes the circle")
        .help("remove one of these `after` or `foreach`");
}
