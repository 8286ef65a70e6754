//! Corners of TOML: whatever the text, there is an answer, and it is the right kind of answer.

mod support;

use std::fmt::Write as _;

use gpulane_plan::{Severity, render};
use support::{assert_sound, checked, names, plan, source};

const STAGE: &str = "[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n";

fn is_refused(text: &str) {
    let outcome = checked(text);
    assert!(outcome.plan.is_none(), "{text}");
    assert!(outcome.diagnostics.iter().any(|found| found.severity == Severity::Error), "{text}");
    assert!(render(&source(text), &outcome.diagnostics, false).contains("error"), "{text}");
}

#[test]
fn every_way_to_write_it_is_the_same_plan() {
    let expected = plan(
        "[[stage]]\nname = \"s\"\ncommand = [\"x\", \"y\"]\nenv = { A = \"1\" }\nmatrix = { lr = [1, 2] }",
    );
    for text in [
        "stage = [{ name = 's', command = ['x', 'y'], env = { A = '1' }, matrix = { lr = [1, 2] } }]",
        "[[stage]]\r\nname = \"s\"\r\ncommand = [\r\n  \"x\", # first\r\n  \"y\",\r\n]\r\nenv.A = \"1\"\r\nmatrix.lr = [1, 2]\r\n",
        "\u{feff}[[stage]]\n\"name\" = \"\"\"\ns\"\"\"\ncommand = ['''x''', \"\\u0079\"]\n[stage.env]\nA = '1'\n[stage.matrix]\nlr = [0x1, 0b10]",
        "[[ stage ]]\n\tname\t=\t's'\n'command' = ['x','y']\n[ stage . env ]\nA='1'\n[stage.matrix]\nlr=[+1,2,]",
        "[[stage]]\nmatrix.lr = [1, 2]\nenv = {\n  A = \"1\",\n}\ncommand = [\"x\", \"y\"]\nname = \"s\"",
    ] {
        assert_eq!(plan(text), expected, "{text}");
    }
}

#[test]
fn odd_but_right_texts_are_accepted() {
    for lines in [
        "env = { \"é\" = \"日本\", \"a b\" = \"\" }",
        "[[stage.job]]\nname = \"日本\"",
        "[[stage.job]]\nname = \"..\"",
        "[stage.matrix]\n\"a.b\" = [1]\na-b = [2]\n_ = [3]",
        "[stage.matrix]\nd = [1979-05-27, 07:32:00, 1979-05-27T07:32:00.999-07:00]",
        "[stage.matrix]\nx = [[], {}, [[]], \"\", 0, -0.0, 1e300, -9223372036854775808]",
        "[[stage.job]]\nconfig.a.b.c = 1\n[[stage.job]]\nconfig.a = { b = 2 }",
        "# only a comment \u{2603}",
    ] {
        let text = format!("{STAGE}{lines}");
        let outcome = checked(&text);
        let report = render(&source(&text), &outcome.diagnostics, false);
        assert_sound(&outcome.plan.unwrap_or_else(|| panic!("{text}\n{report}")));
    }
}

#[test]
fn a_job_named_by_two_dots_stays_in_its_directory() {
    let plan = plan(&format!("{STAGE}[[stage.job]]\nname = \"..\"\n[[stage.job]]\nname = \"../../etc\""));
    for name in names(&plan) {
        assert!(name.starts_with("s/_.") && name.matches('/').count() == 1, "{name}");
    }
}

#[test]
fn wrong_texts_are_refused_with_a_reason() {
    for text in [
        "",
        " ",
        "\n",
        "\0",
        "\u{feff}",
        "=",
        "[",
        "[[",
        "]",
        "{",
        "\"",
        "'''",
        "a",
        "a=",
        "a.b.",
        "[a",
        "[[a]",
        "[[stage]]",
        "[[stage]]\n[[stage]]",
        "[stage]\n[[stage]]",
        "stage = 1",
        "stage = [1, [2]]",
        "stage = {}",
        "name = 1",
        "name = nan",
        "name = 1e400",
        "defaults = []",
        "defaults = [[]]",
        "name = \"\\uD800\"",
        "name = \"\\x\"",
        "name = 'a\nb'",
        "é = 1",
        "a = 1\na = 2",
        "a.b = 1\na = 2",
        "[a]\n[a]",
        "a = 00",
        "a = 1__0",
        "a = 2024-13-45",
        "a = [1,,2]",
        "a = {b = 1,, c = 2}",
        "a = \"\u{1}\"",
        "\u{2028}",
        "[[stage.job]]",
        "[[stage]]\nname=\"s\"\ncommand=[\"x\"]\n[stage.job]\n[[stage.job]]",
        "[[stage]]\nname=\"s\"\ncommand=[\"x\"]\nenv.A=\"1\"\nenv.A.B=\"2\"",
        "\r",
        "a = \"b\r\"",
        "[[stage]]\rname = \"s\"",
        "stage.name = \"s\"",
        "name = \"\u{7f}\"",
    ] {
        is_refused(text);
    }
}

#[test]
fn wrong_types_in_every_place_are_refused() {
    let values = [
        "1",
        "-1",
        "1.5",
        "true",
        "\"\"",
        "\"x\"",
        "[]",
        "[[]]",
        "[1]",
        "{}",
        "{ a = 1 }",
        "2024-01-01",
        "nan",
    ];
    for key in [
        "command",
        "entry",
        "python",
        "map",
        "env",
        "gpus",
        "memory",
        "cpus",
        "parallel",
        "timeout",
        "grace",
        "retries",
        "retry_delay",
        "max_failures",
        "hang",
        "result",
        "standbys",
        "start_gate",
        "mps",
        "after",
        "foreach",
        "matrix",
        "job",
        "name",
    ] {
        for value in values {
            for text in [
                format!("[[stage]]\nname = \"s\"\n{key} = {value}\ncommand = [\"x\"]").replacen(
                    if key == "command" { "\ncommand = [\"x\"]" } else { "\0" },
                    "",
                    1,
                ),
                format!("[defaults]\n{key} = {value}\n{STAGE}"),
                format!("{STAGE}matrix.{key} = {value}"),
                format!("{STAGE}job = [{{ {key} = {value} }}]"),
                format!("{STAGE}hang = {{ {key} = {value} }}"),
                format!("[[stage]]\nname = \"s\"\nmap = {{ {key} = {value} }}"),
            ] {
                let outcome = checked(&text);
                let has_error = outcome.diagnostics.iter().any(|found| found.severity == Severity::Error);
                assert_eq!(outcome.plan.is_none(), has_error, "{text}");
                render(&source(&text), &outcome.diagnostics, false);
                if let Some(plan) = outcome.plan {
                    assert_sound(&plan);
                }
            }
        }
    }
}

#[test]
fn nesting_does_not_end_the_stack() {
    let dotted = vec!["a"; 79].join(".");
    let mut tables = String::from("a = ");
    for _ in 0..79 {
        _ = write!(tables, "{{ {dotted} = ");
    }
    tables.push('1');
    tables.push_str(&"}".repeat(79));
    let mut headers = String::new();
    for depth in 1..70 {
        _ = writeln!(headers, "[{}]", vec!["b"; depth].join("."));
    }
    for text in [
        format!("a = {}", "[".repeat(10_000)),
        format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("a = {}", "{a=".repeat(10_000)),
        vec!["a"; 10_000].join(".") + " = 1",
        format!("[{}]", vec!["a"; 10_000].join(".")),
        "[[a.b]]\n".repeat(10_000),
        tables.clone(),
        format!("{headers}[{dotted}]\n{dotted}.{tables}"),
        format!("{STAGE}[stage.matrix]\nx = [{}1{}]", "[".repeat(70), "]".repeat(70)),
        format!("{STAGE}[[stage.job]]\nconfig.{tables}"),
    ] {
        is_refused(&text);
    }
}

/// The parser counts depth wrongly while it recovers from errors; we count first.
#[test]
fn malformed_nesting_does_not_end_the_stack() {
    for unit in [
        "config = { lr = 1\n[[stage.job]]\n",
        "a={ {} ",
        "a={ {} ] ",
        "a=[ } {a={ [] ",
        "[[]{a=",
        "a = { a.a = [ {} ",
        "{[",
        "[a\n",
    ] {
        is_refused(&format!("x = {}", unit.repeat(20_000)));
        is_refused(&unit.repeat(20_000));
    }
    let found = support::summary(&format!("{STAGE}env = {}", "{ a = ".repeat(100)));
    assert_eq!(found, ["error 4:7 not TOML: brackets are open 81 deep"]);
}
