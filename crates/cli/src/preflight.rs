//! What can be known to fail before anything is started: programs that cannot be found or executed, functions that are not there.

use std::io::ErrorKind;
use std::path::Path;

use gpulane_model::Plan;
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

/// Every name a program could be called by, for suggestions.
fn names_on(path: &str) -> Vec<String> {
    let directories = path.split(':').filter_map(|directory| std::fs::read_dir(directory).ok());
    let names = directories.flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.collect()
}
