//! `[stage.matrix]`: axes, which of them go in step (`zip`), which combinations are left out (`exclude`) and which are
//! added (`include`). Sweeps of the command line become the same thing.

use std::collections::HashMap;

use serde_json::Value;
use toml::de::{DeArray, DeValue};

use crate::diagnostic::Span;
use crate::entries::{self, Entries};
use crate::keys;
use crate::names;
use crate::nearest::did_you_mean;
use crate::problems::Problems;
use crate::reader::{Node, Placed, is_damage, text, wrong_kind};
use crate::value;

/// One key with the values it takes.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) key: String,
    pub(crate) span: Span,
    pub(crate) values: Vec<Placed<Value>>,
    /// All its values could be read, so their number is the one that was meant.
    pub(crate) whole: bool,
}

/// Points to leave out: those with all these values.
#[derive(Clone, Debug)]
pub(crate) struct Exclude {
    pub(crate) span: Span,
    /// Axis and wanted value.
    pub(crate) wanted: Vec<(usize, Value)>,
}

/// A product of axes, with its exceptions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    pub(crate) span: Span,
    /// In the plan's order.
    pub(crate) axes: Vec<Axis>,
    /// Axes that go in step, as indices; each axis in one of them at most.
    pub(crate) zips: Vec<Vec<usize>>,
    /// For each axis: whether it is in one of `zips`.
    paired: Vec<bool>,
    /// Axes by key.
    index: HashMap<String, usize>,
    pub(crate) excludes: Vec<Exclude>,
    pub(crate) include: Entries,
    /// Something was wrong and reported: it must not be expanded.
    pub(crate) flawed: bool,
}

pub(crate) fn read(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Matrix> {
    let DeValue::Table(table) = node.get_ref() else {
        wrong_kind("matrix", "a table", node, problems)
            .help("write `[stage.matrix]`, then one line per key: `lr = [0.1, 0.01]`");
        return None;
    };
    let mut matrix = Matrix::at(node.span());
    for (key, node) in table {
        if keys::MATRIX.contains(&key.get_ref().as_ref()) {
            continue;
        }
        matrix.read_axis(key.get_ref(), key.span(), node, problems);
    }
    // The exceptions speak of the axes, wherever they stand.
    for (key, node) in table {
        match key.get_ref().as_ref() {
            _ if is_damage(node) => {}
            "zip" => matrix.read_zips(node, problems),
            "exclude" => matrix.read_excludes(node, problems),
            "include" => {
                let count = node.get_ref().as_array().map_or(0, |items| items.len());
                matrix.include = entries::include(node, problems);
                matrix.flawed |= matrix.include.points.len() != count;
            }
            _ => {}
        }
    }
    matrix.check_repeats(problems);
    if matrix.axes.is_empty() && matrix.include.keys.points == 0 && !problems.is_damaged() && !matrix.flawed {
        problems
            .error(&matrix.span, "the matrix is empty")
            .help("write one line per key, for example `lr = [0.1, 0.01]`, or leave the matrix out");
        matrix.flawed = true;
    }
    Some(matrix)
}

impl Matrix {
    /// One without axes.
    pub(crate) fn at(span: Span) -> Self {
        Self { span, ..Self::default() }
    }

    fn read_axis(&mut self, key: &str, span: Span, node: &Node<'_>, problems: &mut Problems<'_>) {
        let mut axis = Axis { key: key.to_owned(), span, values: Vec::new(), whole: true };
        let mut sound = entries::check_key(key, &axis.span, problems);
        match node.get_ref() {
            _ if is_damage(node) => sound = false,
            DeValue::Array(items) if items.is_empty() => {
                problems
                    .error(&node.span(), format!("`{key}` has no values"))
                    .label("the product with an empty list is empty");
                sound = false;
            }
            DeValue::Array(items) => {
                axis.values.reserve(items.len());
                for item in items {
                    match value::json(item, problems) {
                        Some(value) => axis.values.push(Placed::new(value, item.span())),
                        None => sound = false,
                    }
                }
            }
            _ => {
                not_a_list(key, node, problems);
                sound = false;
            }
        }
        self.flawed |= !sound;
        axis.whole = sound;
        exception_misspelt(&axis, problems);
        self.push(axis);
    }

    /// Adds an axis; false if its key is taken.
    pub(crate) fn push(&mut self, axis: Axis) -> bool {
        if self.index.contains_key(&axis.key) {
            return false;
        }
        self.index.insert(axis.key.clone(), self.axes.len());
        self.axes.push(axis);
        self.paired.push(false);
        true
    }

    fn read_zips(&mut self, node: &Node<'_>, problems: &mut Problems<'_>) {
        const HELP: &str = "write `zip = [[\"lr\", \"wd\"]]`: a list of lists of keys";
        let DeValue::Array(groups) = node.get_ref() else {
            wrong_kind("zip", "a list of lists of keys", node, problems).help(HELP);
            self.flawed = true;
            return;
        };
        if let Some(keys) = bare_keys(groups) {
            problems
                .error(&node.span(), "`zip` must be a list of lists of keys, not a list of keys")
                .label("each inner list goes in step")
                .help(format!("write `zip = [{keys}]`"));
            self.flawed = true;
            return;
        }
        for group in groups {
            let DeValue::Array(items) = group.get_ref() else {
                wrong_kind("zip", "a list of lists of keys", group, problems).help(HELP);
                self.flawed = true;
                continue;
            };
            let names: Vec<_> = items.iter().map(|item| text("zip", item, problems)).collect();
            match names.into_iter().collect::<Option<Vec<_>>>() {
                Some(names) => self.pair(&names, &group.span(), problems),
                None => self.flawed = true,
            }
        }
    }

    /// Makes these axes go in step.
    pub(crate) fn pair(&mut self, names: &[Placed<String>], span: &Span, problems: &mut Problems<'_>) {
        let mut group: Vec<usize> = Vec::new();
        // Also one that belongs to another group: what differs from it is wrong all the same.
        let mut first = None;
        for name in names {
            let Some(axis) = self.known_axis(&name.value, &name.span, "zip", problems) else { continue };
            let first = &self.axes[*first.get_or_insert(axis)];
            self.flawed |= lengths_differ(first, &self.axes[axis], &name.span, problems);
            if std::mem::replace(&mut self.paired[axis], true) {
                problems
                    .error(&name.span, format!("`{}` is paired twice", name.value))
                    .help("a key goes in step with one group only");
                self.flawed = true;
                continue;
            }
            group.push(axis);
        }
        if names.len() < 2 {
            problems.error(span, "a pair needs two keys or more");
            self.flawed = true;
        }
        self.zips.push(group);
    }

    fn known_axis(
        &mut self,
        name: &str,
        span: &Span,
        place: &str,
        problems: &mut Problems<'_>,
    ) -> Option<usize> {
        let axis = self.index.get(name).copied();
        if axis.is_none() {
            self.flawed = true;
            if problems.surely_unknown(name) {
                let meant = problems.nearest.find(name, self.axes.iter().map(|axis| axis.key.as_str()));
                let message = format!(
                    "`{place}` names `{}`, which is no key of this matrix{}",
                    keys::shown(name),
                    did_you_mean(meant)
                );
                problems.error(span, message).label("unknown key");
            }
        }
        axis
    }

    fn read_excludes(&mut self, node: &Node<'_>, problems: &mut Problems<'_>) {
        const HELP: &str = "write for example `exclude = [{ type = \"edm\", lr = 0.1 }]`";
        let DeValue::Array(items) = node.get_ref() else {
            wrong_kind("exclude", "a list of tables", node, problems).help(HELP);
            self.flawed = true;
            return;
        };
        for item in items {
            let DeValue::Table(table) = item.get_ref() else {
                wrong_kind("exclude", "a list of tables", item, problems).help(HELP);
                self.flawed = true;
                continue;
            };
            if table.is_empty() {
                problems.error(&item.span(), "an empty `exclude` would remove every point").help(HELP);
                self.flawed = true;
            }
            let mut wanted = Vec::with_capacity(table.len());
            for (key, node) in table {
                let axis = self.known_axis(key.get_ref(), &key.span(), "exclude", problems);
                let value = value::json(node, problems);
                self.flawed |= value.is_none();
                wanted.extend(axis.zip(value));
            }
            self.excludes.push(Exclude { span: item.span(), wanted });
        }
    }

    /// Reports a value that stands twice on one axis, or a pair that stands twice in step: both would give two jobs
    /// of one name.
    pub(crate) fn check_repeats(&mut self, problems: &mut Problems<'_>) {
        for group in self.groups() {
            let len = group.iter().map(|axis| self.axes[*axis].values.len()).min().unwrap_or(0);
            let mut seen: HashMap<String, usize> = HashMap::with_capacity(len);
            for index in 0..len {
                let mut name = String::new();
                for axis in &group {
                    let axis = &self.axes[*axis];
                    names::push_pair(&mut name, &axis.key, &axis.values[index].value);
                    name.push(',');
                }
                name.pop();
                if let Some(first) = seen.get(&name) {
                    let again = &self.axes[group[0]].values[index];
                    let differ = group.iter().any(|axis| {
                        self.axes[*axis].values[index].value != self.axes[*axis].values[*first].value
                    });
                    let message = format!("`{}` stands twice in the matrix", keys::shown(&name));
                    problems
                        .error(&again.span, message)
                        .label(format!("the same as value {} of this list", first + 1))
                        .maybe_help(differ.then(|| {
                            "a string and a number that look alike would give two jobs of one name".to_owned()
                        }));
                    self.flawed = true;
                } else {
                    seen.insert(name, index);
                }
            }
        }
    }

    /// The axes as they turn: paired ones together, at the place of the first of them. Never holds an empty group.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let mut group_of: Vec<Option<usize>> = vec![None; self.axes.len()];
        for (index, zip) in self.zips.iter().enumerate() {
            for axis in zip {
                group_of[*axis] = Some(index);
            }
        }
        let mut done = vec![false; self.zips.len()];
        let mut groups = Vec::with_capacity(self.axes.len());
        for (axis, zip) in group_of.into_iter().enumerate() {
            match zip {
                None => groups.push(vec![axis]),
                Some(zip) if !done[zip] => {
                    done[zip] = true;
                    groups.push(self.zips[zip].clone());
                }
                Some(_) => {}
            }
        }
        // A pair of which no key exists.
        groups.retain(|group| !group.is_empty());
        groups
    }
}

/// Reports two keys that cannot go in step.
fn lengths_differ(first: &Axis, other: &Axis, span: &Span, problems: &mut Problems<'_>) -> bool {
    let (want, have) = (first.values.len(), other.values.len());
    if have == want || !first.whole || !other.whole {
        return false;
    }
    problems
        .error(span, format!("cannot pair `{}` with `{}`: {want} and {have} values", first.key, other.key))
        .label("paired lists must be equally long");
    true
}

/// `["lr", "seed"]` as it would stand inside the list it lacks, if the items of a `zip` are plain keys.
fn bare_keys(items: &DeArray<'_>) -> Option<String> {
    let keys: Option<Vec<String>> = items
        .iter()
        .map(|item| item.get_ref().as_str().map(|key| format!("{:?}", keys::shown(key))))
        .collect();
    keys.filter(|keys| !keys.is_empty()).map(|keys| format!("[{}]", keys.join(", ")))
}

/// A key that looks like `exclude` and holds what `exclude` holds. It may be meant as it stands, so this is a doubt.
fn exception_misspelt(axis: &Axis, problems: &mut Problems<'_>) {
    let all =
        |is: fn(&Value) -> bool| !axis.values.is_empty() && axis.values.iter().all(|value| is(&value.value));
    let candidates: &[&'static str] = if all(Value::is_object) {
        &["exclude", "include"]
    } else if all(Value::is_array) {
        &["zip"]
    } else {
        return;
    };
    if let Some(meant) = problems.nearest.find(&axis.key, candidates.iter().copied()) {
        let shown = keys::shown(&axis.key);
        problems
            .warning(
                &axis.span,
                format!("`{shown}` becomes a key of the configs{}", did_you_mean(Some(meant))),
            )
            .label("taken as one more list of values")
            .help(format!("write `{meant}` instead of `{shown}`"));
    }
}

fn not_a_list(key: &str, node: &Node<'_>, problems: &mut Problems<'_>) {
    let raw = problems.raw(&node.span()).filter(|raw| raw.len() <= 60 && !raw.contains('\n'));
    let help = match node.get_ref() {
        DeValue::String(text) if text.starts_with("range(") => {
            "`range()` is for `-s` on the command line; in a plan write the numbers out: [0, 1, 2]".to_owned()
        }
        _ if keys::STAGE.contains(&key) => {
            format!("if `{key}` is meant for the stage, move it above `[stage.matrix]`")
        }
        DeValue::Table(_) | DeValue::Array(_) => format!("write `{key} = [ … ]`"),
        _ => raw.map_or_else(|| format!("write `{key} = [ … ]`"), |raw| format!("write `{key} = [{raw}]`")),
    };
    wrong_kind(key, "a list of values", node, problems).help(help);
}
