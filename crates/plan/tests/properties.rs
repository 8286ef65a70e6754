//! Whatever the text: no panic, and a plan comes out exactly if there is no error; then it is sound.

mod support;

use gpulane_plan::{AdHoc, Override, Severity, adhoc, render};
use proptest::prelude::*;
use support::{assert_sound, checked, settings, source};

const WHOLE: &str = r#"name = "ablation"
[defaults]
retries = 1
env = { A = "{out}", B = "x" }
[[stage]]
name = "train"
command = ["python", "train.py", "--lr={lr}", "{config}", "--out", "{out}"]
gpus = 1
memory = "6GiB"
cpus = 2
timeout = "2h 30m"
hang = { after = "10m", action = "retry" }
result = ["model.pt"]
[stage.matrix]
type = ["edm", "flow"]
lr = [1e-3, 1e-4]
wd = [0.1, 0.2]
zip = [["lr", "wd"]]
exclude = [{ type = "edm", lr = 0.0001 }]
include = [{ lr = 3, type = "x" }]
[[stage.job]]
name = "big"
config = { type = "edm", lr = 512, layers = [1, 2, { a = 'b' }] }
[[stage]]
name = "evaluate"
after = ["train"]
foreach = "train"
parallel = 1
command = ["python", "eval.py", "{input}", '''{name}''', """
{job}"""]
"#;

/// The one property.
fn assert_answered(text: &str) {
    let outcome = checked(text);
    let has_error = outcome.diagnostics.iter().any(|found| found.severity == Severity::Error);
    assert_eq!(outcome.plan.is_none(), has_error);
    for found in &outcome.diagnostics {
        assert!(!found.message.is_empty());
        if let Some(span) = &found.span {
            assert!(span.start <= span.end && span.end <= text.len(), "{found:?}");
        }
    }
    let report = render(&source(text), &outcome.diagnostics, true);
    assert_eq!(report.is_empty(), outcome.diagnostics.is_empty());
    if let Some(plan) = outcome.plan {
        assert_sound(&plan);
    }
}

#[derive(Clone, Debug)]
enum Change {
    DeleteByte(usize),
    InsertText(usize, String),
    DuplicateLine(usize),
    DeleteLine(usize),
    SwapLines(usize, usize),
    ReplaceValue(usize, String),
    Cut(usize),
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1".to_owned()),
        Just("-1".to_owned()),
        Just("\"\"".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("true".to_owned()),
        Just("nan".to_owned()),
        Just("1e400".to_owned()),
        Just("2024-01-01".to_owned()),
        Just("[{}, [], \"{lr}\"]".to_owned()),
        Just("[\"train\", \"evaluate\"]".to_owned()),
        Just("\"{input}{lr}{type}{wd}\"".to_owned()),
        Just("{ lr = [1, 2], type = [1] }".to_owned()),
        Just("[{ lr = 1, type = 2 }]".to_owned()),
        "\"[a-z{} .0-9]{0,12}\"",
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>;
    prop_oneof![
        at().prop_map(Change::DeleteByte),
        (at(), "[\\[\\]{}=\",.'#\\\\\\n a-z0-9é\u{0}-]{1,4}")
            .prop_map(|(at, text)| Change::InsertText(at, text)),
        at().prop_map(Change::DuplicateLine),
        at().prop_map(Change::DeleteLine),
        (at(), at()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        (at(), value()).prop_map(|(at, value)| Change::ReplaceValue(at, value)),
        at().prop_map(Change::Cut),
    ]
}

fn changed(text: &str, change: &Change) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let count = lines.len();
    let place = |at: usize| text.floor_char_boundary(at % (text.len() + 1));
    match change {
        Change::DeleteByte(at) => {
            let at = place(*at);
            let rest = text[at..].chars().next().map_or(0, char::len_utf8);
            return format!("{}{}", &text[..at], &text[at + rest..]);
        }
        Change::InsertText(at, inserted) => {
            return format!("{}{inserted}{}", &text[..place(*at)], &text[place(*at)..]);
        }
        Change::Cut(at) => return text[..place(*at)].to_owned(),
        Change::DuplicateLine(at) => lines.insert(at % count, lines[at % count].clone()),
        Change::DeleteLine(at) => _ = lines.remove(at % count),
        Change::SwapLines(a, b) => lines.swap(a % count, b % count),
        Change::ReplaceValue(at, value) => {
            let line = &mut lines[at % count];
            if let Some((key, _)) = line.split_once(" = ") {
                *line = format!("{key} = {value}");
            }
        }
    }
    lines.join("\n")
}

#[test]
fn the_whole_plan_is_right_and_answered_wherever_it_is_cut() {
    assert!(checked(WHOLE).plan.is_some(), "{:?}", checked(WHOLE).diagnostics);
    for at in 0..=WHOLE.len() {
        assert_answered(&WHOLE[..at]);
        assert_answered(&WHOLE[at..]);
    }
}

#[test]
fn any_one_line_may_be_missing_or_doubled() {
    for at in 0..WHOLE.lines().count() {
        assert_answered(&changed(WHOLE, &Change::DeleteLine(at)));
        assert_answered(&changed(WHOLE, &Change::DuplicateLine(at)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_text_is_answered(text in any::<String>()) {
        assert_answered(&text);
    }

    #[test]
    fn random_toml_like_text_is_answered(
        text in "(\\[\\[?(stage|stage\\.job|stage\\.matrix|defaults)\\]\\]?\n|[a-z]{1,8}( = |\\.)|\"|'|\\{|\\}|\\[|\\]|=|,|\n|[0-9.e-]{1,5}|true|name = \"s\"\n|command = \\[\"x\"\\]\n){0,40}"
    ) {
        assert_answered(&text);
    }

    #[test]
    fn a_changed_plan_is_answered(changes in prop::collection::vec(change(), 1..6)) {
        let text = changes.iter().fold(WHOLE.to_owned(), |text, change| changed(&text, change));
        assert_answered(&text);
    }

    #[test]
    fn any_command_line_is_answered(
        sweeps in prop::collection::vec("([a-c]{1,2}=|)([a-z0-9,.\"'()\\[\\]{}\\\\=é -]|range\\(){0,12}", 0..4),
        zips in prop::collection::vec("[a-c,]{0,5}", 0..2),
        command in prop::collection::vec("[a-z{} '\n\u{0}é]{0,8}", 0..4),
        flag in prop::option::of("[a-z0-9.\"-]{0,6}"),
        name in prop::option::of("[a-z /.]{0,4}"),
    ) {
        let overrides = flag.map(|value| Override { flag: "--timeout".to_owned(), key: "timeout".to_owned(), value });
        let input = AdHoc { sweeps, zips, command, name, overrides: overrides.into_iter().collect() };
        let (source, outcome) = adhoc(&input, settings());
        let has_error = outcome.diagnostics.iter().any(|found| found.severity == Severity::Error);
        prop_assert_eq!(outcome.plan.is_none(), has_error);
        render(&source, &outcome.diagnostics, false);
        if let Some(plan) = outcome.plan {
            assert_sound(&plan);
        }
    }
}
