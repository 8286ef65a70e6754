//! A plan that is one map: `gpulane map embed.py:Embed photos/ --out tags`. The command line is the source, as for a run without
//! a plan file.

use gpulane_model::{MapStage, RunSettings};
use toml::Spanned;
use toml::de::DeValue;

use crate::adhoc::{Line, Override, read_override};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::document::{RawPlan, RawStage};
use crate::map;
use crate::parse;
use crate::problems::Problems;
use crate::reader::Placed;
use crate::resolve::resolve;
use crate::settings::Settings;
use crate::source::Source;

/// What `gpulane map` was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapLine {
    /// `FILE.py:Class`.
    pub model: String,
    /// Every INPUT.
    pub inputs: Vec<String>,
    /// Flags that stand for keys of `map`.
    pub map: Vec<Override>,
    /// Each `--set`: `KEY=VALUE`.
    pub set: Vec<String>,
    /// Flags that stand for keys of the stage.
    pub stage: Vec<Override>,
}

/// How such a line begins.
const START: &str = "gpulane map";

/// Checks a map given on the command line. The source is that line, for [`render`](crate::render()).
pub fn map_line(input: &MapLine, settings: RunSettings) -> (Source, Outcome) {
    let mut line = Line::starting(START);
    let model = line.push(&input.model);
    let inputs: Vec<usize> = input.inputs.iter().map(|input| line.push(input)).collect();
    let mut flags = |given: &[Override]| -> Vec<usize> {
        given.iter().map(|given| line.flag(&given.flag, &given.value)).collect()
    };
    let (of_map, of_stage) = (flags(&input.map), flags(&input.stage));
    let set: Vec<usize> = input.set.iter().map(|given| line.flag("--set", given)).collect();
    let source = Source { name: "command line".to_owned(), text: line.text.clone() };
    let mut problems = Problems::new(&source.text);
    let mut stage = Settings::default();
    stage.written.push(Placed::new("map", line.whole()));

    let mut map = MapStage { lone: true, ..MapStage::default() };
    let mut sound = read_text(&mut map, "model", &input.model, model, &mut problems);
    sound &= !input.inputs.iter().zip(&inputs).any(|(input, at)| {
        let mut one = MapStage { lone: true, ..MapStage::default() };
        let good = read_text(&mut one, "input", input, *at, &mut problems);
        map.input.append(&mut one.input);
        !good
    });
    for (flag, at) in input.map.iter().zip(&of_map) {
        sound &= read_flag(&mut map, flag, *at, &mut problems);
    }
    for (given, at) in input.set.iter().zip(&set) {
        sound &= map::read_argument(&mut map, given, *at, &mut problems).is_some();
    }
    for (flag, at) in input.stage.iter().zip(&of_stage) {
        read_override(flag, *at, &mut stage, &mut problems);
    }
    stage.map = sound.then(|| Placed::new(map, line.whole()));
    let name = name_of(&input.model);
    let raw =
        RawStage { name: Some(Placed::new(name.clone(), line.whole())), span: line.whole(), settings: stage };
    let plan = resolve(RawPlan { name: None, stages: vec![raw] }, name, settings, &mut problems);
    let outcome = crate::finish(plan, problems);
    (source, outcome)
}

/// A map with other settings, given by flags of `gpulane resume`. Without a map: what is wrong with them, in the line that is the source.
pub fn change_map(map: &MapStage, flags: &[Override]) -> (Source, Result<MapStage, Vec<Diagnostic>>) {
    let mut line = Line::starting("gpulane resume");
    let places: Vec<usize> = flags.iter().map(|given| line.flag(&given.flag, &given.value)).collect();
    let source = Source { name: "command line".to_owned(), text: line.text.clone() };
    let mut problems = Problems::new(&source.text);
    let mut changed = map.clone();
    let read: Vec<bool> = flags
        .iter()
        .zip(&places)
        .map(|(flag, at)| read_flag(&mut changed, flag, *at, &mut problems))
        .collect();
    let found = problems.finish();
    let sound = read.into_iter().all(|good| good);
    (source, if sound { Ok(changed) } else { Err(found) })
}

fn read_text(map: &mut MapStage, key: &str, text: &str, at: usize, problems: &mut Problems<'_>) -> bool {
    let span = at..at + text.len();
    let value = Spanned::new(span.clone(), DeValue::String(text.into()));
    map::read_key(map, key, &span, &value, problems).is_some()
}

fn read_flag(map: &mut MapStage, given: &Override, at: usize, problems: &mut Problems<'_>) -> bool {
    let span = at..at + given.value.len();
    let typed = parse::value(given.value.trim()).map(Spanned::into_inner);
    let value = match typed {
        // An extension may be a number.
        Some(value @ DeValue::Integer(_)) if given.key != "members" => value,
        _ => DeValue::String(given.value.as_str().into()),
    };
    problems.flag = Some(given.flag.clone());
    let good = map::read_key(map, &given.key, &span, &Spanned::new(span.clone(), value), problems).is_some();
    problems.flag = None;
    good
}

/// The stage and the plan are named after the class.
fn name_of(model: &str) -> String {
    let object = model.rsplit_once(':').map_or("", |(_, object)| object);
    let object = object.rsplit('.').next().unwrap_or_default();
    let plain = !object.is_empty() && object.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { object.to_ascii_lowercase() } else { "map".to_owned() }
}
