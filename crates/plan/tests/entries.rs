//! Stages that run a Python function, and the standbys they may have.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use gpulane_model::Standbys;
use gpulane_plan::{Severity, missing_file, missing_name};
use support::{line, plan, source, summary};

fn stage(lines: &str) -> String {
    format!(
        "[[stage]]\nname = \"s\"\nentry = \"a/{{x}}.py:Net.main\"\n{lines}\n[stage.matrix]\nlr = [1, 2]\n"
    )
}

#[test]
fn an_entry_is_run_by_the_runner_in_the_run_directory() {
    let plan = plan(&stage(""));
    let stage = &plan.stages[0];
    assert_eq!(stage.command, ["python3", "{run}/.python/gpulane/_entry.py", "a/{{x}}.py:Net.main"]);
    assert_eq!((stage.entry.as_deref(), stage.python.as_deref()), (Some("a/{x}.py:Net.main"), None));
    assert_eq!((stage.standbys, plan.jobs.len()), (Standbys::Auto, 2));
}

#[test]
fn its_python_may_be_named_there_or_in_the_defaults() {
    assert_eq!(plan(&stage("python = \"/opt/{x}/python\"")).stages[0].command[0], "/opt/{{x}}/python");
    let text = format!(
        "[defaults]\npython = \"python3.12\"\n[[stage]]\nname = \"c\"\ncommand = [\"x\"]\n{}",
        stage("")
    );
    let plan = plan(&text);
    assert_eq!((plan.stages[0].command[0].as_str(), plan.stages[1].command[0].as_str()), ("x", "python3.12"));
    assert_eq!(summary(&text), [""; 0], "for a command it means nothing, in the defaults");
}

#[test]
fn an_environment_of_each_jobs_own_leaves_no_room_for_standbys() {
    let text = stage("env = { SHARED = \"{run}/{gpus}\", OWN = \"lr is {lr}\" }");
    assert_eq!(plan(&text).stages[0].standbys, Standbys::Off);
    assert_eq!(
        summary(&text),
        [
            "note 4:47 no standbys for this stage: `OWN` differs from job to job | take `lr` from the config, or write `standbys = \"off\"`"
        ]
    );
    for quiet in ["env = { SHARED = \"{run}\" }", "standbys = \"off\"\nenv = { OWN = \"{lr}\" }"] {
        assert_eq!(summary(&stage(quiet)), [""; 0], "{quiet}");
    }
    assert_eq!(plan(&stage("env = { SHARED = \"{run}\" }")).stages[0].standbys, Standbys::Auto);
}

#[test]
fn a_gang_has_none_and_hears_of_it_if_it_asked() {
    let asked = summary(&stage("gpus = 2\nstandbys = 1"));
    assert_eq!(asked, ["note 5:1 `standbys` has no effect: only jobs on one GPU, or none, have standbys"]);
    assert_eq!(summary(&stage("gpus = 2")), [""; 0]);
}

#[test]
fn what_is_not_there_is_marked() {
    let text = "[defaults]\nentry = \"train.py:mian\"\n[[stage]]\nname = \"s\"\n";
    let source = source(text);
    let found = missing_file(&source, "s", "train.py:mian", "no such file");
    assert_eq!(
        line(&source, &found),
        "error 2:10 cannot read `train.py`: no such file | paths start where gpulane was called"
    );
    let known = ["main".to_owned(), "Net".to_owned()];
    let found = missing_name(&source, "s", "train.py:mian", &known);
    assert_eq!(line(&source, &found), "error 2:19 `train.py` has no `mian` | did you mean `train.py:main`?");
    assert_eq!((found.severity, &text[found.span.unwrap()]), (Severity::Error, "mian"));
    let none = missing_name(&source, "s", "train.py:mian", &[]);
    assert!(none.help.unwrap().contains("def main(config, out):"));
}

#[test]
fn a_module_or_two_colons_are_written_as_they_should_be() {
    for (entry, help) in [
        ("src.train:main", "an entry is a file, one colon and a function: write `src/train.py:main`"),
        ("exc:main", "an entry is a file, one colon and a function: write `exc.py:main`"),
        ("my-code/train:main", "an entry is a file, one colon and a function: write `my-code/train.py:main`"),
        ("src/train.py::main", "an entry is a file, one colon and a function: write `src/train.py:main`"),
        ("src.train::main", "an entry is a file, one colon and a function: write `src/train.py:main`"),
        ("src/train.py:main", "paths start where gpulane was called"),
        ("../train:main", "paths start where gpulane was called"),
    ] {
        let source = source(&format!("[[stage]]\nname = \"s\"\nentry = \"{entry}\"\n"));
        let found = missing_file(&source, "s", entry, "no such file");
        assert_eq!(found.help.as_deref(), Some(help), "{entry}");
    }
}
