//! What a person sees: everything at once, nothing that only follows from something else, shown in its place.

mod support;

use gpulane_plan::{Severity, render};
use support::{checked, source, summary};

/// A plan of one right stage, to which lines are added. They begin on line 4.
fn stage(lines: &str) -> String {
    format!("[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n{lines}\n")
}

#[test]
fn all_mistakes_come_at_once_errors_first() {
    let text = "nmae = \"x\"\n[[stage]]\nname = \"s\"\ncommand = [\"x y\"]\ngpu = 1\nstandbys = 1\ntimeout = 5\nafter = \"t\"\n";
    let found = summary(text);
    let kinds: Vec<&str> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["error", "error", "error", "error", "warning", "note"], "{found:#?}");
}

#[test]
fn a_lost_foreach_hides_no_placeholder_that_is_wrong_in_any_case() {
    let text = "[[stage]]\nname = \"train\"\ncommand = [\"x\"]\nmatrix = { lr = [1] }\n[[stage]]\nname = \"e\"\nforeach = \"trian\"\n\
                command = [\"y\", \"{inptu}\", \"{LR}\", \"{lr}\", \"{input}\"]\nenv = { B = \"{nope}\" }\n";
    let found = summary(text);
    let wrong: Vec<&str> = found.iter().map(|line| line.split('`').nth(1).unwrap()).collect();
    assert_eq!(wrong, ["foreach", "{inptu}", "{LR}", "{nope}"], "{found:#?}");
    let alone = summary("[[stage]]\nname = \"e\"\nforeach = \"trian\"\ncommand = [\"y\", \"{lr}\"]\n");
    assert_eq!(alone.len(), 1, "{alone:#?}");
}

#[test]
fn what_follows_from_a_syntax_error_is_not_told() {
    let text = "[[stage]]\nname = \"s\"\ncommand = [\"x\", \"{lr}\", \"{nowhere}\"]\ngpuss = 1\n[stage.matrix]\nlr = [1, 2\n";
    let found = summary(text);
    assert!(found.iter().any(|line| line.contains("gpuss")), "{found:#?}");
    assert!(found.iter().any(|line| line.contains("{nowhere}")), "{found:#?}");
    assert!(!found.iter().any(|line| line.contains("{lr}")), "{found:#?}");
    let missing = summary("[[stage]]\nname = \"s\"\ncommand = \ngpus = 1\n");
    assert_eq!(missing.len(), 1, "{missing:#?}");
    assert_eq!(
        summary("[[stage]]\nname = train\ncommand = [\"x\"]"),
        ["error 2:8 not TOML: `train` is no value | write text in quotes: \"train\""]
    );
    assert_eq!(
        summary("[[stage]]\nname = \"s\"\nname = \"t\"\ncommand = [\"x\"]"),
        ["error 3:1 not TOML: duplicate key `name` | each key stands once in a table"]
    );
}

#[test]
fn a_report_shows_the_line_the_mark_and_the_remedy() {
    let text = "[[stage]]\r\nname = \"s\"\r\ncomand = [\"x\", \"{lrr}\"]\r\nmatrix = { lr = [1] }\r\n";
    let source = source(text);
    let outcome = checked(text);
    let expected = "\
error: unknown key `comand` in a stage, did you mean `command`?
 --> plan.toml:3:1
  |
3 | comand = [\"x\", \"{lrr}\"]
  | ^^^^^^ unknown key
  |
  = help: write `command` instead of `comand`

error: unknown placeholder `{lrr}`, did you mean `lr`?
 --> plan.toml:3:17
  |
3 | comand = [\"x\", \"{lrr}\"]
  |                 ^^^^^ no such config key or placeholder
  |
  = help: write `{lr}`; write `{{lrr}}` for the text itself

2 mistakes
";
    assert_eq!(render(&source, &outcome.diagnostics, false), expected);
    assert!(render(&source, &outcome.diagnostics, true).contains("\u{1b}["));
}

#[test]
fn a_report_shows_fifty_and_counts_the_rest() {
    let lines: Vec<String> = (0..70).map(|key| format!("wrong{key} = 1")).collect();
    let text = stage(&lines.join("\n"));
    let outcome = checked(&text);
    let report = render(&source(&text), &outcome.diagnostics, false);
    assert_eq!(outcome.diagnostics.len(), 70);
    assert_eq!(report.matches("error:").count(), 50);
    assert!(report.ends_with("… and 20 more\n\n70 mistakes\n"));
}

#[test]
fn a_report_survives_odd_places() {
    let text = "\u{feff}name = \"é\"\n";
    let source = source(text);
    for span in
        [None, Some(0..0), Some(3..4), Some(12..13), Some(5..usize::MAX), Some(usize::MAX..usize::MAX)]
    {
        let mut found = checked(text).diagnostics;
        found[0].span = span;
        assert!(render(&source, &found, false).contains("plan.toml"));
    }
    assert_eq!(checked(text).diagnostics[0].severity, Severity::Error);
    let report = render(&source, &checked(text).diagnostics, false);
    assert!(report.contains("plan.toml:1:8"), "{report}");
}
