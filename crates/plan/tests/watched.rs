//! Mistakes in how jobs are watched: each answered with what to write.

mod support;

use gpulane_model::Millis;
use gpulane_plan::{AdHoc, HANG_OUTSIDE, Override, adhoc};
use support::{checked, line, plan, settings, summary};

/// What is told of a stage with this line, which is the plan's fourth.
fn told(line: &str) -> Vec<String> {
    let text = format!("[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n{line}\n");
    assert_eq!(checked(&text).plan.is_some(), summary(&text).is_empty(), "{text}");
    summary(&text)
}

fn assert_told(table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(told(line), [format!("error {expected}")], "{line}");
    }
}

/// What is told of `gpulane run FLAG VALUE -- true`.
fn told_of_flag(flag: &str, key: &str, value: &str) -> Vec<String> {
    let given = Override { flag: flag.into(), key: key.into(), value: value.into() };
    let input = AdHoc { overrides: vec![given], command: vec!["true".into()], ..AdHoc::default() };
    let (source, outcome) = adhoc(&input, settings());
    outcome.diagnostics.iter().map(|found| line(&source, found)).collect()
}

#[test]
fn whoever_wants_no_watchdog_is_told_how() {
    assert_told(&[
        ("hang = \"of\"", "4:8 `hang` cannot be `of` | write `hang = \"off\"` for no watchdog"),
        ("hang = \"None\"", "4:8 `hang` cannot be `None` | write `hang = \"off\"` for no watchdog"),
        ("hang = false", "4:8 `hang` cannot be `false` | write `hang = \"off\"` for no watchdog"),
        (
            "hang = { after = \"off\" }",
            "4:18 `after` cannot be `off` | write `hang = \"off\"` for no watchdog",
        ),
        (
            "hang = { action = \"off\" }",
            "4:19 `action` says what becomes of a frozen job | write `hang = \"off\"` for no watchdog, or \"warn\" to be told and no more",
        ),
    ]);
    assert_eq!(
        told_of_flag("--hang", "hang", "never"),
        ["error 1:20 `hang` cannot be `never` | write `--hang off` for no watchdog"]
    );
}

#[test]
fn an_action_stands_beside_its_time() {
    for action in ["retry", "fail", "warn"] {
        assert_eq!(
            told(&format!("hang = \"{action}\"")),
            [format!(
                "error 4:8 `hang` cannot be `{action}` | an action stands beside the time: write `hang = {{ after = \"10m\", action = \"{action}\" }}`"
            )]
        );
    }
    assert_told(&[(
        "hang_action = \"fail\"",
        "4:1 unknown key `hang_action` in a stage, did you mean `hang`? | write `hang = \"10m\"`, or `hang = { after = \"10m\", action = \"fail\" }`",
    )]);
    assert_eq!(
        told_of_flag("--hang", "hang", "fail"),
        [
            "error 1:20 `hang` cannot be `fail` | an action stands beside the time in a plan: write `hang = { after = \"10m\", action = \"fail\" }`"
        ]
    );
}

#[test]
fn a_time_must_be_one_that_can_be_judged() {
    let short = |at: &str, key: &str| {
        format!(
            "error {at} `{key}` shorter than 1 s cannot be judged | write `hang = \"1s\"` or more, or `hang = \"off\"` for no watchdog"
        )
    };
    assert_eq!(told("hang = \"0s\""), [short("4:8", "hang")]);
    assert_eq!(told("hang = \"999ms\""), [short("4:8", "hang")]);
    assert_eq!(told("hang = { after = \"1ms\" }"), [short("4:18", "after")]);
    assert_eq!(told("hang = \"1s\""), [""; 0]);
    assert_told(&[
        (
            "hang = \"soon\"",
            "4:8 `hang` cannot be `soon` | write a time such as `hang = \"10m\"`, `hang = \"off\"` for no watchdog, or `hang = { after = \"10m\", action = \"fail\" }`",
        ),
        (
            "hang = true",
            "4:8 `hang` cannot be `true` | write a time such as `hang = \"10m\"`, `hang = \"off\"` for no watchdog, or `hang = { after = \"10m\", action = \"fail\" }`",
        ),
    ]);
}

#[test]
fn a_wait_that_is_only_suspected_may_have_an_end() {
    let outside = |line: &str| {
        let text = format!("[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n{line}\n");
        plan(&text).stages[0].hang.unwrap().outside
    };
    assert_eq!(outside("hang = \"10m\""), None);
    assert_eq!(outside("hang = { after = \"10m\", outside = \"1h\" }"), Some(Millis::seconds(3600)));
    assert_eq!(outside("hang = { after = \"10m\", outside = \"off\" }"), None);
    assert_eq!(outside("hang = { outside = \"1m\" }"), Some(Millis::seconds(60)), "`after` is found out");
    assert_told(&[
        (
            "hang = { after = \"10m\", outside = \"5m\" }",
            "4:35 `outside` (5m 00s) is shorter than `after` (10m 00s) | a job is suspected after `after`: write a longer time, or leave `outside` out for no end",
        ),
        (
            "hang = { outsid = \"1h\" }",
            "4:10 unknown key `outsid` in `hang`, did you mean `outside`? | write `outside` instead of `outsid`",
        ),
    ]);
}

#[test]
fn a_gate_may_be_a_number() {
    assert_told(&[
        (
            "start_gate = \"2\"",
            "4:14 `start_gate` must be \"auto\", \"off\" or a number of starts at once, not a string | write `start_gate = 2`",
        ),
        (
            "start_gate = \"x\"",
            "4:14 `start_gate` cannot be `x` | one of \"auto\", \"off\", or a number of starts at once, such as 2",
        ),
    ]);
    assert_eq!(
        told_of_flag("--start-gate", "start_gate", "x"),
        [
            "error 1:26 `start_gate` cannot be `x` | one of \"auto\", \"off\", or a number of starts at once, such as 2"
        ]
    );
}

#[test]
fn results_hold_no_placeholders() {
    let out = "paths in `result` are already under `{out}`";
    assert_told(&[
        ("result = [\"{out}/model.pt\"]", &format!("4:11 {out} | write \"model.pt\"")),
        ("result = \"{out}\"", &format!("4:10 {out} | write the path below it, for example \"model.pt\"")),
        ("result = \"model-{seed}.pt\"", "4:10 `{seed}` is not replaced in `result` | write \"model-*.pt\""),
    ]);
    assert_eq!(told("result = [\"model-[0-9].pt\", \"a{b.pt\"]"), [""; 0]);
}

#[test]
fn a_flag_says_how_long_a_wait_may_last_that_is_only_told() {
    let given = |flag: &str, key: &str, value: &str| Override {
        flag: flag.into(),
        key: key.into(),
        value: value.into(),
    };
    let outside = |value: &str| given("--hang-outside", HANG_OUTSIDE, value);
    let read = |overrides: Vec<Override>| {
        let input = AdHoc { overrides, command: vec!["true".into()], ..AdHoc::default() };
        let (source, outcome) = adhoc(&input, settings());
        let told: Vec<String> = outcome.diagnostics.iter().map(|found| line(&source, found)).collect();
        (outcome.plan.and_then(|plan| plan.stages[0].hang), told)
    };
    let (hang, told) = read(vec![given("--hang", "hang", "5m"), outside("1h")]);
    assert_eq!((hang.map(|hang| (hang.after, hang.outside)), told), {
        (Some((Millis::seconds(300), Some(Millis::seconds(3600)))), vec![])
    });
    assert_eq!(read(vec![outside("1h")]).0.map(|hang| hang.adaptive), Some(true), "`after` stays learnt");
    assert_eq!(read(vec![outside("off")]).0.map(|hang| hang.outside), Some(None));
    for (flags, expected) in [
        (vec![given("--hang", "hang", "5m"), outside("1m")], "`outside` (1m 00s) is shorter than `after`"),
        (vec![given("--hang", "hang", "off"), outside("1m")], "there is no watchdog"),
        (vec![outside("soon")], "`outside`"),
    ] {
        let (hang, told) = read(flags);
        assert_eq!(hang, None);
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
    }
}
