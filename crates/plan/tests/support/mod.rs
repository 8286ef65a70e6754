//! Shared by the tests: checks a text, and states what must hold of every plan that comes out.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests is a test")]

use std::collections::HashSet;

use gpulane_model::{Plan, RunSettings, template};
use gpulane_plan::{Diagnostic, Outcome, Severity, Source, check, render};

pub(crate) fn source(text: &str) -> Source {
    Source { name: "plan.toml".to_owned(), text: text.to_owned() }
}

pub(crate) fn settings() -> RunSettings {
    RunSettings { cwd: "/work".to_owned(), gpus: "none".to_owned(), lanes: Some(2), ..RunSettings::default() }
}

pub(crate) fn checked(text: &str) -> Outcome {
    check(&source(text), settings())
}

/// The plan of a text without errors.
pub(crate) fn plan(text: &str) -> Plan {
    let source = source(text);
    let outcome = check(&source, settings());
    let report = render(&source, &outcome.diagnostics, false);
    let plan = outcome.plan.unwrap_or_else(|| panic!("{text}\n{report}"));
    assert_sound(&plan);
    plan
}

pub(crate) fn names(plan: &Plan) -> Vec<String> {
    plan.job_ids().map(|id| plan.job_name(id)).collect()
}

/// `severity line:column message | help` of each diagnostic.
pub(crate) fn summary(text: &str) -> Vec<String> {
    let source = source(text);
    check(&source, settings()).diagnostics.iter().map(|found| line(&source, found)).collect()
}

pub(crate) fn line(source: &Source, found: &Diagnostic) -> String {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let place = found.span.as_ref().map_or_else(String::new, |span| {
        let (line, column) = source.position(span.start);
        format!(" {line}:{column}")
    });
    let help = found.help.as_ref().map(|help| format!(" | {help}")).unwrap_or_default();
    format!("{severity}{place} {}{help}", found.message)
}

/// What holds of every plan, however it was written.
pub(crate) fn assert_sound(plan: &Plan) {
    assert!(plan.is_consistent());
    assert!(!plan.stages.is_empty());
    assert_eq!(plan.run, settings());
    let mut stages = HashSet::new();
    for stage in &plan.stages {
        assert!(stages.insert(&stage.name), "stage {}", stage.name);
        assert!(!stage.command.is_empty());
        assert!(!stage.jobs.is_empty(), "stage {} has no job", stage.name);
        let mut names = HashSet::new();
        for id in stage.job_ids() {
            let job = plan.job(id);
            assert!(names.insert(&*job.name), "job {}", job.name);
            assert!(
                job.name.len() <= 120 && !job.name.starts_with(['.', '-']) && !job.name.contains(['/', '\0'])
            );
            assert_eq!(job.source.is_some(), stage.foreach.is_some());
            if let Some(source) = job.source {
                assert_eq!(Some(plan.job(source).stage), stage.foreach);
                assert_eq!(plan.job(source).name, job.name);
                assert_eq!(plan.job(source).config, job.config);
            }
        }
        assert_fillable(plan, stage);
    }
    let text = serde_json::to_string(plan).unwrap();
    assert_eq!(&serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

fn assert_fillable(plan: &Plan, stage: &gpulane_model::Stage) {
    for text in stage.command.iter().chain(stage.env.values()) {
        for piece in template::pieces(text) {
            let template::Piece::Placeholder { name, .. } = piece else { continue };
            let built_in = template::BUILT_IN.contains(&name) && (name != "input" || stage.foreach.is_some());
            let everywhere = || stage.job_ids().all(|id| plan.job(id).config.entries().contains_key(name));
            assert!(built_in || everywhere(), "{{{name}}} in stage {}", stage.name);
        }
    }
}
