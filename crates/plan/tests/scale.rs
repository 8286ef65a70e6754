//! Large plans: right, quick, and without anything that grows faster than the plan.

mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use support::{checked, line, plan, source};

const STAGE: &str = "[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n";

/// Generous: these tests run unoptimised and beside others. What is quadratic takes minutes.
const LIMIT: Duration = Duration::from_secs(20);

fn timed(text: &str) -> gpulane_plan::Outcome {
    let start = Instant::now();
    let outcome = checked(text);
    let took = start.elapsed();
    assert!(took < LIMIT, "{took:?}");
    outcome
}

fn jobs(count: usize) -> String {
    let mut text = String::from(STAGE);
    for index in 0..count {
        _ = write!(
            text,
            "[[stage.job]]\nname = \"job{index}\"\nconfig = {{ lr = 0.5, seed = {index}, type = \"edm\" }}\n"
        );
    }
    text
}

#[test]
fn a_hundred_thousand_points_of_a_matrix() {
    let list = |count: usize| format!("{:?}", (0..count).collect::<Vec<_>>());
    let text = format!("{STAGE}[stage.matrix]\na = {}\nb = {}\nc = {}\n", list(10), list(100), list(100));
    let plan = timed(&text).plan.unwrap();
    assert_eq!(plan.jobs.len(), 100_000);
    assert_eq!(&*plan.jobs[99_999].name, "a=9,b=99,c=99");
    assert!(plan.is_consistent());
}

#[test]
fn a_hundred_thousand_explicit_jobs() {
    let text = jobs(100_000)
        + "[[stage]]\nname = \"after\"\nforeach = \"s\"\ncommand = [\"x\", \"{input}\", \"{seed}\"]\n";
    let plan = timed(&text).plan.unwrap();
    assert_eq!(plan.jobs.len(), 200_000);
    assert_eq!(plan.jobs[77_777].config.text(), r#"{"lr":0.5,"seed":77777,"type":"edm"}"#);
    assert!(plan.is_consistent());
}

/// A long plan is read in pieces; cut in two places and kept whole by a multi-line string, it is the same plan.
#[test]
fn pieces_and_the_whole_give_the_same_plan() {
    let tail = "[[stage]]\nname = \"t\"\ncommand = [\"y\"]\n[[stage.job]]\nname = \"a\"\n[stage.job.config]\nk = 1\n\
                [stage.env]\nA = \"1\"\n[[stage.job]]\nconfig = { k = 2 }\n[defaults]\nretries = 2\n";
    let pieces = jobs(15_000) + tail;
    assert!(pieces.len() > 1 << 20);
    let whole = format!("{pieces}env = {{ B = '''b''' }}\n");
    let pieces = format!("{pieces}env = {{ B = 'b' }}\n");
    assert_eq!(plan(&pieces), plan(&whole));
}

#[test]
fn mistakes_in_pieces_have_their_true_places() {
    let wrong = "[[stage.job]]\nnmae = \"x\"\nconfig = { k = 1 }\n[[stage.job]]\nname = \"job7\"\n[[stage.job]]\nname = 5\n";
    let pieces = jobs(15_000) + wrong;
    let whole = format!("{pieces}# '''");
    let told = |text: &str| {
        let source = source(text);
        timed(text).diagnostics.iter().map(|found| line(&source, found)).collect::<Vec<_>>()
    };
    let found = told(&pieces);
    assert_eq!(found, told(&whole));
    assert_eq!(
        found,
        [
            "error 45005:1 unknown key `nmae` in a job, did you mean `name`? | write `name` instead of `nmae`",
            "error 45008:8 two jobs of this stage are named `job7` | give one of them another `name`",
            "error 45010:8 `name` must be a string, not an integer | write \"5\"",
        ]
    );
}

#[test]
fn what_cannot_be_cut_is_read_as_a_whole() {
    let many = jobs(15_000);
    for (tail, expected) in [
        ("[[stage.job]]\nconfig = { k = [\n[1, 2],\n] }\n", None),
        ("[[stage.job]]\nname = \"a\nconfig = {}\n", Some("not TOML")),
        ("[stage.matrix]\nlr = [1]\n[[ stage . job ]]\nname = \"z\"\n", None),
        ("name = \"job1\"\n", Some("duplicate key")),
        ("[stage.job]\n", Some("duplicate key")),
    ] {
        let outcome = timed(&format!("{many}{tail}"));
        match expected {
            None => assert!(outcome.plan.is_some(), "{tail}: {:?}", outcome.diagnostics),
            Some(message) => {
                assert!(outcome.plan.is_none());
                assert!(outcome.diagnostics[0].message.contains(message), "{:?}", outcome.diagnostics[0]);
            }
        }
    }
    let inline = format!("stage = [{{ name = \"s\", command = [\"x\"] }}]\n{}", &many[STAGE.len()..]);
    assert!(timed(&inline).plan.is_none());
}

#[test]
fn nothing_grows_faster_than_the_plan() {
    let mut chain = String::new();
    let mut strangers = String::new();
    let mut excludes = String::new();
    let mut zips = String::new();
    for index in 0..5_000 {
        _ = write!(
            chain,
            "[[stage]]\nname = \"s{index}\"\ncommand = [\"x\"]\nafter = \"s{}\"\n",
            (index + 1) % 5_000
        );
        _ = write!(
            strangers,
            "[[stage]]\nname = \"s{index}\"\ncommand = [\"{{k{index}}}\"]\nafter = \"t{index}\"\nwrong{index} = 1\n"
        );
        _ = write!(excludes, "{{ a = {index}, b = 1 }}, ");
        _ = writeln!(zips, "k{index} = [1]");
    }
    let list = format!("{:?}", (0..5_000).collect::<Vec<_>>());
    assert_eq!(timed(&chain).diagnostics.len(), 1);
    assert_eq!(timed(&strangers).diagnostics.len(), 15_000);
    let excluded = timed(&format!("{STAGE}[stage.matrix]\na = {list}\nb = [1, 2]\nexclude = [{excludes}]\n"));
    assert_eq!(excluded.plan.unwrap().jobs.len(), 5_000);
    assert_eq!(timed(&format!("{STAGE}[stage.matrix]\n{zips}")).plan.unwrap().jobs.len(), 1);
}

#[test]
fn a_report_on_a_large_plan_is_quick() {
    let text = jobs(15_000).replace("lr = 0.5", "lr = nan");
    let outcome = timed(&text);
    assert_eq!(outcome.diagnostics.len(), 15_000);
    let start = Instant::now();
    let report = gpulane_plan::render(&source(&text), &outcome.diagnostics, false);
    assert!(start.elapsed() < LIMIT);
    assert!(report.ends_with("… and 14950 more\n\n15000 mistakes\n"));
}
