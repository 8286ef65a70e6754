//! Plans given on the command line.

mod support;

use gpulane_model::StartGate;
use gpulane_plan::{AdHoc, Outcome, Override, Source, adhoc, render};
use support::{assert_sound, line, names, settings};

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn given(sweeps: &[&str], zips: &[&str], command: &[&str]) -> AdHoc {
    AdHoc { sweeps: strings(sweeps), zips: strings(zips), command: strings(command), ..AdHoc::default() }
}

fn run(input: &AdHoc) -> (Source, Outcome) {
    adhoc(input, settings())
}

/// What is told about it.
fn told(input: &AdHoc) -> Vec<String> {
    let (source, outcome) = run(input);
    assert_eq!(
        outcome.plan.is_none(),
        outcome.diagnostics.iter().any(|d| d.severity == gpulane_plan::Severity::Error)
    );
    outcome.diagnostics.iter().map(|found| line(&source, found)).collect()
}

#[test]
fn sweeps_make_the_product() {
    let (_, outcome) = run(&given(
        &["lr=1e-3,1e-4", "seed=range(2)"],
        &[],
        &["/usr/bin/python3", "train.py", "--lr={lr}", "{seed}"],
    ));
    let plan = outcome.plan.unwrap();
    assert_sound(&plan);
    assert_eq!(plan.name, "python3");
    assert_eq!(
        names(&plan),
        ["run/lr=0.001,seed=0", "run/lr=0.001,seed=1", "run/lr=0.0001,seed=0", "run/lr=0.0001,seed=1"]
    );
    assert_eq!(plan.jobs[3].config.text(), r#"{"lr":0.0001,"seed":1}"#);
    assert_eq!(plan.stages[0].command[2], "--lr={lr}");
}

#[test]
fn without_sweeps_it_is_one_job() {
    let (_, outcome) = run(&AdHoc { name: Some("mine".to_owned()), ..given(&[], &[], &["true"]) });
    let plan = outcome.plan.unwrap();
    assert_eq!((plan.name.as_str(), names(&plan)), ("mine", vec!["run/main".to_owned()]));
}

#[test]
fn lists_can_go_in_step() {
    let (_, outcome) = run(&given(&["a=1,2", "b=x,y"], &["a,b"], &["true"]));
    assert_eq!(names(&outcome.plan.unwrap()), ["run/a=1,b=x", "run/a=2,b=y"]);
}

#[test]
fn flags_set_the_stages_keys() {
    let flags = [
        ("--timeout", "timeout", "2h"),
        ("--gpus-per-job", "gpus", "2"),
        ("--memory", "memory", "6GiB"),
        ("--hang", "hang", "off"),
        ("--result", "result", "model.pt"),
        ("--start-gate", "start_gate", "2"),
    ];
    let overrides = flags.map(|(flag, key, value)| Override {
        flag: flag.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    });
    let (_, outcome) = run(&AdHoc { overrides: overrides.into(), ..given(&[], &[], &["true"]) });
    let plan = outcome.plan.unwrap();
    assert_eq!(plan.stages[0].gpus, 2);
    assert_eq!(plan.stages[0].timeout.unwrap().0, 7_200_000);
    assert_eq!((plan.stages[0].hang, plan.stages[0].start_gate), (None, StartGate::AtOnce(2)));
    assert_eq!(plan.stages[0].result, ["model.pt"]);
}

#[test]
fn wrong_flags_are_answered_with_flags() {
    let with = |flag: &str, key: &str, value: &str| {
        let given_flag = Override { flag: flag.to_owned(), key: key.to_owned(), value: value.to_owned() };
        told(&AdHoc { overrides: vec![given_flag], ..given(&[], &[], &["true"]) })
    };
    assert_eq!(
        with("--timeout", "timeout", "3600"),
        ["error 1:23 `timeout` needs a unit | if seconds are meant, write `--timeout 1h`"]
    );
    assert_eq!(with("--cpus", "cpus", "0"), ["error 1:20 `cpus` must be 1 or more"]);
    assert_eq!(with("--memory", "memory", "6"), ["error 1:22 `memory` needs a unit | write `--memory 6GiB`"]);
}

#[test]
fn mistakes_are_shown_in_the_command_line() {
    for (input, expected) in [
        (
            given(&["lr"], &[], &["x"]),
            "error 1:16 `-s` needs a key and its values | write for example `-s lr=1e-3,1e-4` or `-s 'seed=range(5)'`",
        ),
        (
            given(&["a=1", "a=2"], &[], &["x"]),
            "error 1:23 `-s` gives `a` twice | write all values in one: `-s a=V1,V2`",
        ),
        (given(&["a=1,1"], &[], &["x"]), "error 1:20 `a=1` stands twice in the matrix"),
        (given(&["a=1,2", "b=1"], &["a,b"], &["x"]), "error 1:37 cannot pair `a` with `b`: 2 and 1 values"),
        (
            given(&["aa=1,2"], &["aa,ab"], &["x"]),
            "error 1:32 `zip` names `ab`, which is no key of this matrix",
        ),
        (
            given(&["lr=1"], &[], &["x", "{lrr}"]),
            "error 1:26 unknown placeholder `{lrr}`, did you mean `lr`? | write `{lr}`; write `{{lrr}}` for the text itself",
        ),
        (
            given(&["lr=1"], &[], &[]),
            "error 1:1 there is no command | write it after `--`: `gpulane run -s lr=1e-3,1e-4 -- python train.py --lr {lr}`",
        ),
        (given(&[], &[], &[""]), "error 1:17 the program's name is empty"),
        (given(&[], &[], &["x", "a\0b"]), "error 1:19 this argument contains a NUL character"),
        (
            AdHoc { name: Some("a b".to_owned()), ..given(&[], &[], &["x"]) },
            "error 1:21 a plan's name must not contain a space | letters, digits and `._+-` may stand in it; for example \"a_b\"",
        ),
    ] {
        assert_eq!(told(&input)[0], expected);
    }
}

#[test]
fn a_report_points_into_the_argument() {
    let (source, outcome) = run(&given(&["lr=1"], &[], &["sh", "-c", "echo it's\n{lrr}"]));
    let expected = "\
error: unknown placeholder `{lrr}`, did you mean `lr`?
 --> command line:1:42
  |
1 | gpulane run -s lr=1 -- sh -c \"echo it's {lrr}\"
  |                                         ^^^^^ no such config key or placeholder
  |
  = help: write `{lr}`; write `{{lrr}}` for the text itself
";
    assert_eq!(render(&source, &outcome.diagnostics, false), expected.replace("1:42", "1:41"));
}

#[test]
fn malformed_values_do_not_end_the_stack() {
    for unit in ["{a={ {} ", "[", "[{", "{ {} ]"] {
        let text = unit.repeat(20_000);
        let closed = format!("a={text}{}", "]}".repeat(20_000));
        let input = given(&[&format!("a={text}"), &closed], &[], &["x"]);
        let flag = Override { flag: "--timeout".to_owned(), key: "timeout".to_owned(), value: text };
        assert!(run(&AdHoc { overrides: vec![flag], ..input }).1.plan.is_none());
    }
}
