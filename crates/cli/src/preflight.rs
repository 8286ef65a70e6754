//! What can be known to fail before anything is started: programs that cannot be found or executed, functions that are not there.

use std::io::ErrorKind;
use std::path::Path;

use gpulane_model::{Plan, env_vars};
use gpulane_plan::{Diagnostic, Source};

use crate::maps;

/// What is wrong with the programs the stages name. One that is not there yet may be made by an earlier stage, so
/// that is only a warning.
pub(crate) fn programs(source: &Source, plan: &Plan) -> Vec<Diagnostic> {
    let inherited = std::env::var("PATH").ok();
    let mut found = Vec::new();
    for stage in &plan.stages {
        let Some(program) = stage.command.first().filter(|word| !word.contains(['{', '}'])) else { continue };
        let path = stage.env.get("PATH").or(inherited.as_ref()).map(String::as_str);
        if !program.contains('/') {
            if gpulane_runtime::find_program(program, path).is_none() {
                let known = names_on(path.unwrap_or_default());
                found.push(gpulane_plan::missing_program(source, plan, &stage.name, program, &known));
            }
        } else if !Path::new(program).exists() {
            found.push(gpulane_plan::not_there_yet(source, plan, &stage.name, program));
        } else if !gpulane_runtime::is_program(Path::new(program)) {
            found.push(gpulane_plan::not_executable(source, plan, &stage.name, program));
        }
    }
    found
}

/// What is wrong with the functions the stages name: a file that cannot be read, a name that stands nowhere in it. One that
/// stages before make is not looked for.
pub(crate) fn entries(source: &Source, plan: &Plan) -> Vec<Diagnostic> {
    let base = Path::new(&plan.run.cwd);
    let entries = plan.stages.iter().filter_map(|stage| Some((stage, stage.entry.as_ref()?)));
    let found = entries.filter_map(|(stage, entry)| {
        let (file, name) = entry.rsplit_once(':')?;
        match std::fs::read(base.join(file)) {
            Err(error) if error.kind() == ErrorKind::NotFound && !stage.after.is_empty() => None,
            Err(error) => Some(gpulane_plan::missing_file(source, &stage.name, entry, &error.to_string())),
            Ok(text) if !maps::defines(&text, name) => {
                Some(gpulane_plan::missing_name(source, &stage.name, entry, &maps::definitions(&text)))
            }
            Ok(_) => None,
        }
    });
    found.collect()
}

/// Scripts that choose a GPU themselves, of entries and in commands like `python train.py`: they would use one that is another's.
pub(crate) fn chosen_gpus(source: &Source, plan: &Plan) -> Vec<Diagnostic> {
    let base = Path::new(&plan.run.cwd);
    let found = plan.stages.iter().filter_map(|stage| {
        let file = match &stage.entry {
            Some(entry) => entry.rsplit_once(':')?.0,
            None => stage.command.get(1)?,
        };
        if Path::new(file).extension()? != "py" {
            return None;
        }
        let path = base.join(file);
        // A pipe of that name would be read for ever.
        std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        let line = line_with_choice(&std::fs::read(path).ok()?)?;
        Some(gpulane_plan::chooses_gpu(source, plan, &stage.name, file, line))
    });
    found.collect()
}

/// The first line, from 1, on which a Python text assigns to `environ["CUDA_VISIBLE_DEVICES"]`; not one that does so only where
/// nobody has set it.
fn line_with_choice(text: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(text);
    let mut asked = false;
    for (at, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        // The line below such a question is as good as part of it.
        let is_asked = code.contains("not in os.environ");
        let behind = code.split_once(env_vars::CUDA_VISIBLE_DEVICES).map_or("", |(_, behind)| behind);
        let value =
            behind.strip_prefix(['"', '\'']).map(str::trim_start).and_then(|rest| rest.strip_prefix(']'));
        let value = value.and_then(|rest| rest.trim_start().strip_prefix('='));
        if !asked && !is_asked && value.is_some_and(|value| !value.starts_with('=')) {
            return Some(at + 1);
        }
        asked = is_asked;
    }
    None
}

/// Every name a program could be called by, for suggestions.
fn names_on(path: &str) -> Vec<String> {
    let directories = path.split(':').filter_map(|directory| std::fs::read_dir(directory).ok());
    let names = directories.flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_told_from_a_look() {
        for (line, chosen) in [
            ("os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"", true),
            ("    os.environ['CUDA_VISIBLE_DEVICES']='1'", true),
            ("# os.environ['CUDA_VISIBLE_DEVICES'] = '1'", false),
            ("if os.environ[\"CUDA_VISIBLE_DEVICES\"] == \"0\":", false),
            ("gpus = os.environ.get(\"CUDA_VISIBLE_DEVICES\")", false),
            ("os.environ.setdefault(\"CUDA_VISIBLE_DEVICES\", \"0\")", false),
            ("Usage: CUDA_VISIBLE_DEVICES=0 python train.py", false),
            ("print(f\"CUDA_VISIBLE_DEVICES={x}\")", false),
            (
                "if \"CUDA_VISIBLE_DEVICES\" not in os.environ: os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"",
                false,
            ),
            (
                "if \"CUDA_VISIBLE_DEVICES\" not in os.environ:\n    os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"",
                false,
            ),
        ] {
            let text = format!("import os\n\n{line}\n");
            assert_eq!(line_with_choice(text.as_bytes()), chosen.then_some(3), "{line}");
        }
    }
}
