//! Programs that cannot be started are shown where the plan names them.

mod support;

use gpulane_plan::{
    AdHoc, Diagnostic, Severity, Source, adhoc, chooses_gpu, missing_program, not_executable, not_there_yet,
    render,
};
use support::{line, plan, settings, source};

fn known() -> Vec<String> {
    ["bash", "git", "python3", "python3.12", "pydoc3"].map(str::to_owned).to_vec()
}

fn marked<'s>(source: &'s Source, found: &Diagnostic) -> &'s str {
    found.span.clone().map_or("", |span| &source.text[span])
}

#[test]
fn the_program_of_the_right_stage_is_marked() {
    let text = "[defaults]\ncommand = [\"pythn\"]\n[[stage]]\nname = \"pyhton\"\ncommand = [\"bash\", \"pyhton\"]\n\
                [[stage]]\nname = \"b\"\ncommand = ['pyhton', \"x.py\"]\n[[stage]]\nname = \"c\"\n";
    let (source, plan) = (source(text), plan(text));
    let found = missing_program(&source, &plan, "b", "pyhton", &known());
    assert_eq!(line(&source, &found), "error 8:13 `pyhton` is not on the PATH | did you mean `python3`?");
    assert_eq!(marked(&source, &found), "pyhton");
    let found = missing_program(&source, &plan, "c", "pythn", &known());
    assert_eq!(line(&source, &found), "error 2:13 `pythn` is not on the PATH | did you mean `python3`?");
    let report = render(&source, &[found], false);
    assert!(report.contains("^^^^^ not on the PATH"), "{report}");
}

#[test]
fn a_program_nobody_has_gets_general_advice() {
    let text = "[[stage]]\nname = \"s\"\ncommand = [\"my-trainer\"]\n";
    let found = missing_program(&source(text), &plan(text), "s", "my-trainer", &known());
    assert_eq!(
        found.help.as_deref(),
        Some("install it, activate its environment, or write the program's path")
    );
    assert_eq!(missing_program(&source(""), &plan(text), "s", "my-trainer", &[]).span, None);
}

#[test]
fn on_the_command_line_the_argument_is_marked() {
    for (command, quoted) in
        [(vec!["pyhton", "--", "pyhton"], "pyhton -- pyhton"), (vec!["my tool", "a"], "my tool' a")]
    {
        let input = AdHoc {
            sweeps: vec!["pyhton=1,2".to_owned(), "x=' -- '".to_owned()],
            command: command.iter().map(|&arg| arg.to_owned()).collect(),
            ..AdHoc::default()
        };
        let (source, outcome) = adhoc(&input, settings());
        let found = missing_program(&source, &outcome.plan.unwrap(), "run", command[0], &known());
        let span = found.span.unwrap();
        assert_eq!(&source.text[span.clone()], command[0]);
        assert_eq!(&source.text[span.start..], quoted);
    }
}

#[test]
fn paths_are_told_apart_by_what_is_there() {
    let text = "[[stage]]\nname = \"s\"\ncommand = [\"./train.py\"]\n";
    let (source, plan) = (source(text), plan(text));
    assert_eq!(
        line(&source, &not_executable(&source, &plan, "s", "./train.py")),
        "error 3:13 `./train.py` is not executable | write its interpreter before it: `python3`; or make it executable"
    );
    let absent = not_there_yet(&source, &plan, "s", "./train.py");
    assert_eq!(absent.severity, Severity::Warning);
    assert_eq!(absent.message, "`./train.py` does not exist yet");
    assert_eq!(marked(&source, &absent), "./train.py");
}

#[test]
fn a_script_that_chooses_its_gpu_is_marked() {
    let text = "[[stage]]\nname = \"e\"\nentry = \"train.py:main\"\n[[stage]]\nname = \"c\"\ncommand = [\"python3\", \"eval.py\", \"x\"]\n";
    let (source, plan) = (source(text), plan(text));
    let help = "remove that line: gpulane sets it for every job";
    for (stage, file, at) in [("e", "train.py", "3:10"), ("c", "eval.py", "6:24")] {
        let found = chooses_gpu(&source, &plan, stage, file, 7);
        let expected = format!("warning {at} `{file}` sets CUDA_VISIBLE_DEVICES on line 7 | {help}");
        assert_eq!((line(&source, &found), marked(&source, &found)), (expected, file));
    }
    let command = ["python3", "my train.py"].map(str::to_owned).to_vec();
    let (source, outcome) = adhoc(&AdHoc { command, ..AdHoc::default() }, settings());
    let found = chooses_gpu(&source, &outcome.plan.unwrap(), "run", "my train.py", 7);
    assert_eq!(marked(&source, &found), "my train.py");
}
