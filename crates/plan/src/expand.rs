//! From a matrix and explicit jobs to the points of a stage: the first key turns slowest. The size is known before
//! anything is made, so a product of a billion is an error and not the end of the machine's memory.

use std::collections::HashMap;

use gpulane_model::Config;
use serde_json::{Map, Value};

use crate::diagnostic::Span;
use crate::entries::{Entries, KeyUse, Point};
use crate::matrix::{Exclude, Matrix};
use crate::names;
use crate::problems::Problems;

/// Most jobs of a plan.
const MOST_JOBS: usize = 2_000_000;

/// Most text of all configs together, in bytes.
const MOST_TEXT: usize = 1 << 30;

/// What the plan may still hold.
pub(crate) struct Budget {
    jobs: usize,
    text: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { jobs: MOST_JOBS, text: MOST_TEXT }
    }
}

impl Budget {
    /// Takes so many jobs with so much text, or reports that it is too much.
    pub(crate) fn take(
        &mut self,
        jobs: Option<usize>,
        text: usize,
        span: &Span,
        problems: &mut Problems<'_>,
    ) -> bool {
        let complaint = match jobs.and_then(|jobs| self.jobs.checked_sub(jobs)) {
            None => {
                let count =
                    jobs.map_or_else(|| "more than can be counted".to_owned(), |jobs| jobs.to_string());
                Some(format!("too many jobs: {count}"))
            }
            Some(left) => {
                self.jobs = left;
                match self.text.checked_sub(text) {
                    None => Some(format!("too much text: these jobs' configs hold {} MiB", text >> 20)),
                    Some(left) => {
                        self.text = left;
                        None
                    }
                }
            }
        };
        let Some(complaint) = complaint else { return true };
        problems
            .error(span, complaint)
            .label(format!("a plan holds at most {MOST_JOBS} jobs, and 1 GiB of configs"))
            .help("shorten the lists, pair them with `zip`, or split the plan");
        false
    }
}

/// The points of a stage.
#[derive(Default)]
pub(crate) struct Expansion {
    pub(crate) points: Vec<Point>,
    pub(crate) keys: KeyUse,
}

/// All points: the matrix's product, its `include`, then the explicit jobs.
pub(crate) fn expand(
    matrix: Option<&Matrix>,
    jobs: Option<&Entries>,
    budget: &mut Budget,
    problems: &mut Problems<'_>,
) -> Expansion {
    let mut expansion = Expansion::default();
    if let Some(matrix) = matrix {
        product(matrix, &mut expansion, budget, problems);
        add(&matrix.include, &mut expansion, budget, problems);
    }
    if let Some(jobs) = jobs {
        add(jobs, &mut expansion, budget, problems);
    }
    expansion
}

fn add(entries: &Entries, expansion: &mut Expansion, budget: &mut Budget, problems: &mut Problems<'_>) {
    expansion.keys.merge(&entries.keys);
    let Some(first) = entries.points.first() else { return };
    let text = entries.points.iter().map(|point| point.config.text().len()).sum();
    if budget.take(Some(entries.points.len()), text, &first.span, problems) {
        expansion.points.extend_from_slice(&entries.points);
    }
}

fn product(matrix: &Matrix, expansion: &mut Expansion, budget: &mut Budget, problems: &mut Problems<'_>) {
    if matrix.axes.is_empty() {
        return;
    }
    let groups = matrix.groups();
    let lengths: Vec<usize> = groups.iter().map(|group| matrix.axes[group[0]].values.len()).collect();
    let size = lengths.iter().try_fold(1_usize, |size, length| size.checked_mul(*length));
    // What is flawed is not expanded, but its keys may be named in placeholders.
    let sound = !matrix.flawed && budget.take(size, text_size(matrix, size), &matrix.span, problems);
    let points = if sound { turn(matrix, &groups, &lengths, problems) } else { Vec::new() };
    let count = if sound { points.len() } else { 1 };
    for axis in &matrix.axes {
        expansion.keys.add(&axis.key, count);
    }
    expansion.keys.points += count;
    if sound && points.is_empty() && matrix.include.points.is_empty() {
        problems.error(&matrix.span, "`exclude` removes every point of this matrix");
    }
    expansion.points.extend(points);
}

/// Bytes of all configs of the product.
fn text_size(matrix: &Matrix, size: Option<usize>) -> usize {
    let Some(size) = size else { return 0 };
    let mut total = 0_usize;
    for axis in &matrix.axes {
        let values: usize = axis.values.iter().map(|value| text_len(&value.value)).sum();
        let each = values + axis.values.len() * (axis.key.len() + 4);
        total = total.saturating_add(each.saturating_mul(size / axis.values.len().max(1)));
    }
    total
}

fn text_len(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(text_len).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + text_len(value)).sum(),
        _ => 8,
    }
}

/// Turns through the product, last group fastest.
fn turn(
    matrix: &Matrix,
    groups: &[Vec<usize>],
    lengths: &[usize],
    problems: &mut Problems<'_>,
) -> Vec<Point> {
    let mut excluder = Excluder::new(matrix);
    let labels = labels(matrix);
    let mut config: Map<String, Value> = matrix
        .axes
        .iter()
        .filter_map(|axis| Some((axis.key.clone(), axis.values.first()?.value.clone())))
        .collect();
    let mut at = vec![0; matrix.axes.len()];
    let mut points = Vec::new();
    let mut name = String::new();
    loop {
        if !excluder.excludes(&at) {
            name.clear();
            for (labels, at) in labels.iter().zip(&at) {
                name.push_str(&labels[*at]);
            }
            points.push(Point {
                name: names::for_job(&name[1..]),
                config: Config::from_map(&config),
                span: matrix.span.clone(),
            });
        }
        let mut moved = false;
        for (group, length) in groups.iter().zip(lengths).rev() {
            let next = (at[group[0]] + 1) % length;
            for axis in group {
                at[*axis] = next;
                let axis_values = &matrix.axes[*axis];
                if let Some(slot) = config.get_mut(&axis_values.key) {
                    slot.clone_from(&axis_values.values[next].value);
                }
            }
            if next != 0 {
                moved = true;
                break;
            }
        }
        if !moved {
            break;
        }
    }
    excluder.report_idle(matrix, problems);
    points
}

/// `,key=value` of every value of every axis.
fn labels(matrix: &Matrix) -> Vec<Vec<String>> {
    let label = |key: &str, value: &Value| {
        let mut label = String::from(",");
        names::push_pair(&mut label, key, value);
        label
    };
    matrix
        .axes
        .iter()
        .map(|axis| axis.values.iter().map(|value| label(&axis.key, &value.value)).collect())
        .collect()
}

/// Value positions, one per axis, and the excludes that name them.
type Combinations = HashMap<Vec<usize>, Vec<usize>>;

/// Looks points up among the excluded ones: one lookup per set of keys that excludes speak of, however many excludes
/// there are.
struct Excluder {
    /// Per set of axes: the combinations left out.
    tables: Vec<(Vec<usize>, Combinations)>,
    /// Per axis: the first position of an equal value.
    canonical: Vec<Vec<usize>>,
    used: Vec<bool>,
    key: Vec<usize>,
}

impl Excluder {
    fn new(matrix: &Matrix) -> Self {
        let used = vec![false; matrix.excludes.len()];
        let mut excluder = Self { tables: Vec::new(), canonical: Vec::new(), used, key: Vec::new() };
        if matrix.excludes.is_empty() {
            return excluder;
        }
        let mut positions: Vec<HashMap<String, usize>> = Vec::with_capacity(matrix.axes.len());
        for axis in &matrix.axes {
            let mut first = HashMap::with_capacity(axis.values.len());
            let canonical = axis
                .values
                .iter()
                .enumerate()
                .map(|(index, value)| *first.entry(comparable(&value.value)).or_insert(index));
            excluder.canonical.push(canonical.collect());
            positions.push(first);
        }
        let mut table_of: HashMap<Vec<usize>, usize> = HashMap::new();
        for (index, exclude) in matrix.excludes.iter().enumerate() {
            let mut wanted: Vec<(usize, Option<usize>)> = exclude
                .wanted
                .iter()
                .map(|(axis, value)| (*axis, positions[*axis].get(&comparable(value)).copied()))
                .collect();
            wanted.sort_unstable();
            let Some(key) = wanted.iter().map(|(_, at)| *at).collect::<Option<Vec<_>>>() else { continue };
            let axes: Vec<usize> = wanted.iter().map(|(axis, _)| *axis).collect();
            let table = *table_of.entry(axes.clone()).or_insert_with(|| {
                excluder.tables.push((axes, HashMap::new()));
                excluder.tables.len() - 1
            });
            excluder.tables[table].1.entry(key).or_default().push(index);
        }
        excluder
    }

    fn excludes(&mut self, at: &[usize]) -> bool {
        let mut excluded = false;
        for (axes, combinations) in &self.tables {
            self.key.clear();
            self.key.extend(axes.iter().map(|axis| self.canonical[*axis][at[*axis]]));
            if let Some(by) = combinations.get(&self.key) {
                excluded = true;
                for index in by {
                    self.used[*index] = true;
                }
            }
        }
        excluded
    }

    fn report_idle(&self, matrix: &Matrix, problems: &mut Problems<'_>) {
        for (exclude, used) in matrix.excludes.iter().zip(&self.used) {
            if !used {
                let help = misspelt(exclude, matrix, problems);
                problems
                    .warning(&exclude.span, "this `exclude` removes nothing")
                    .label("no point of the matrix has these values")
                    .maybe_help(help);
            }
        }
    }
}

/// The right word for one that its axis does not have.
fn misspelt(exclude: &Exclude, matrix: &Matrix, problems: &mut Problems<'_>) -> Option<String> {
    exclude.wanted.iter().find_map(|(axis, value)| {
        let values = || matrix.axes[*axis].values.iter().filter_map(|value| value.value.as_str());
        let word = value.as_str().filter(|word| !values().any(|value| value == *word))?;
        problems.nearest.find(word, values()).map(|meant| format!("did you mean {meant:?}?"))
    })
}

/// A value's text, such that 1 and 1.0 are equal.
fn comparable(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 1e15 => {
            format!("{number:.0}")
        }
        _ => value.to_string(),
    }
}
