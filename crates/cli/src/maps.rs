//! What a plan with maps needs that only the machine can tell: how many workers, which Python, whether model and inputs are there.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use gpulane_gpu::GpuSpec;
use gpulane_items::Wanted;
use gpulane_model::{GpuKind, Machine, MapStage, Plan, Stage, env_vars, template, workers_for};

/// Input that stands for a list on our standard input.
pub(crate) const STDIN: &str = "@-";

/// Names of a file that are shown where another was expected.
const SHOWN: usize = 8;

/// Whether the plan has any.
pub(crate) fn any(plan: &Plan) -> bool {
    plan.stages.iter().any(|stage| stage.map.is_some())
}

/// Gives every map as many workers as this machine has use for; whether that changed anything. Where the GPUs cannot be found, the
/// engine says so.
pub(crate) fn set_workers(plan: &mut Plan, gpus: Option<&str>, lanes: Option<u32>) -> bool {
    if !any(plan) {
        return false;
    }
    let Some(machine) = machine(plan, gpus, lanes) else { return false };
    let lanes = lanes.or(plan.run.lanes);
    plan.set_workers(|stage| workers_for(stage, &machine, lanes))
}

/// What the plan would run on, if that can be found.
fn machine(plan: &Plan, gpus: Option<&str>, lanes: Option<u32>) -> Option<Machine> {
    let spec = gpus.unwrap_or(&plan.run.gpus).parse::<GpuSpec>().ok()?;
    let lanes = lanes.or(plan.run.lanes);
    let visible = std::env::var(env_vars::CUDA_VISIBLE_DEVICES).ok();
    let found = gpulane_gpu::find(&spec, lanes, plan.run.headroom, visible.as_deref()).ok()?;
    Some(if lanes.is_some() { found.machine } else { found.machine.packed_for(plan) })
}

/// The lanes the plan would have, and what they are; for `--dry-run`.
pub(crate) fn lanes(plan: &Plan) -> Option<(u32, String)> {
    let machine = machine(plan, None, None)?;
    let (lanes, gpus) = (machine.main_lanes(), machine.gpus.len());
    Some((
        lanes,
        match machine.kind {
            GpuKind::None => format!("{lanes} on CPU cores"),
            _ if machine.packing => format!("as many as memory allows on {gpus} GPUs"),
            _ => format!("{lanes} on {gpus} GPUs"),
        },
    ))
}

/// Inputs that can be looked for before the run begins: not those that it makes itself.
fn at_hand(stage: &Stage, map: &MapStage) -> Vec<String> {
    let filled =
        |input: &String| template::render_input(input, |name| (name == "name").then(|| stage.name.clone()));
    let own = |input: &String| template::names_in_input(input).any(|(name, _)| name == "run");
    if map.lone {
        return map.input.clone();
    }
    map.input.iter().filter(|input| !own(input)).map(filled).collect()
}

/// Names the Python of the active environment where the plan names none.
pub(crate) fn set_python(plan: &mut Plan) {
    let python = active_python(|name| std::env::var_os(name));
    for stage in &mut plan.stages {
        let unset = match &stage.map {
            Some(map) => map.python.is_none(),
            None => stage.entry.is_some() && stage.python.is_none(),
        };
        if let (true, Some(python), Some(first)) = (unset, &python, stage.command.first_mut()) {
            *first = python.replace('{', "{{").replace('}', "}}");
        }
    }
}

fn active_python(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<String> {
    let homes = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable);
    let mut pythons = homes.map(|home| PathBuf::from(home).join("bin/python"));
    pythons.find(|python| gpulane_runtime::is_program(python)).map(|python| python.display().to_string())
}

/// What is wrong with models and inputs, for a person: all of it.
pub(crate) fn problems(plan: &Plan) -> Vec<String> {
    let base = Path::new(&plan.run.cwd);
    let maps = plan.stages.iter().filter_map(|stage| Some((stage, stage.map.as_ref()?)));
    // Inputs of a later stage may be made by an earlier one.
    maps.flat_map(|(stage, map)| {
        let map = MapStage { input: at_hand(stage, map), ..map.clone() };
        problems_of(&map, base, stage.after.is_empty())
    })
    .collect()
}

/// The same of one map.
pub(crate) fn problems_of(map: &MapStage, base: &Path, inputs_too: bool) -> Vec<String> {
    let mut found: Vec<String> = model_problem(map, base).into_iter().collect();
    let inputs: Vec<String> = map.input.iter().filter(|input| *input != STDIN).cloned().collect();
    if inputs_too && !inputs.is_empty() {
        let wanted = Wanted { inputs: &inputs, base, decode: map.decode };
        found.extend(gpulane_items::check(&wanted).iter().map(ToString::to_string));
        if map.strict && found.is_empty() {
            let lacking = gpulane_items::lacking(&wanted);
            found.extend((!lacking.is_empty()).then(|| gpulane_runtime::not_whole(&lacking)));
        }
    }
    found
}

fn model_problem(map: &MapStage, base: &Path) -> Option<String> {
    let (file, object) = map.model.rsplit_once(':')?;
    let path = base.join(file);
    match std::fs::read(&path) {
        Err(error) => Some(format!("cannot read the model {}: {error}", path.display())),
        Ok(text) if !defines(&text, object) => {
            let there: Vec<String> =
                definitions(&text).iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
            let there = if there.is_empty() { "no class or function".to_owned() } else { there.join(", ") };
            Some(format!("{} has no `{object}`; it has {there}", path.display()))
        }
        Ok(_) => None,
    }
}

/// Whether the name stands in the file as a word: it may be imported or assigned, so this is all that can be asked without Python.
pub(crate) fn defines(text: &[u8], object: &str) -> bool {
    let first = object.split('.').next().unwrap_or(object).as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let starred = text.windows(8).any(|part| part == b"import *");
    starred || text.split(|byte| !is_word(byte)).any(|word| word == first)
}

/// Classes and functions at the top of the file.
pub(crate) fn definitions(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let names = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("class ").or_else(|| line.strip_prefix("def "))?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    });
    names.collect()
}

/// A directory of our own for as long as it is looked into.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> std::io::Result<Self> {
        // The time makes it new even where a process of the same number left one behind.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        let path = std::env::temp_dir().join(format!("gpulane-{}-{now}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left over it hurts nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_for_as_a_word() {
        let text = b"from x import Tagger as T\nclass Embed(Model):\n    pass\ndef plain(batch):\n    pass\n";
        for (object, there) in
            [("Embed", true), ("Tagger", true), ("Emb", false), ("plain", true), ("T.x", true)]
        {
            assert_eq!(defines(text, object), there, "{object}");
        }
        assert_eq!(definitions(text), ["Embed", "plain"]);
        assert!(defines(b"from models import *\n", "Anything"));
    }
}
