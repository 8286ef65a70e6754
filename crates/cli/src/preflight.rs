//! What can be known to fail before anything is started: programs that are nowhere on the PATH.

use gpulane_model::Plan;

/// Programs named without a slash that cannot be found, each with the stage that names it. One with a slash may be
/// made by an earlier stage, so only its start tells.
pub(crate) fn missing_programs(plan: &Plan) -> Vec<(String, String)> {
    let inherited = std::env::var("PATH").ok();
    plan.stages
        .iter()
        .filter_map(|stage| {
            let program = stage.command.first()?;
            let path = stage.env.get("PATH").or(inherited.as_ref());
            let known = program.contains(['/', '{', '}'])
                || gpulane_runtime::find_program(program, path.map(String::as_str)).is_some();
            (!known).then(|| (stage.name.clone(), program.clone()))
        })
        .collect()
}
