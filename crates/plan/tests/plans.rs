//! Right plans, and what they mean.

mod support;

use gpulane_model::{Bytes, Cpus, Hang, HangAction, JobId, Memory, Millis, StageId, Standbys, StartGate};
use support::{names, plan, summary};

/// A plan of one stage, with more lines for it.
fn one(lines: &str) -> String {
    format!("[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n{lines}\n")
}

#[test]
fn a_stage_without_points_is_one_job() {
    let plan = plan(&one(""));
    assert_eq!(names(&plan), ["s/main"]);
    assert_eq!(plan.jobs[0].config.text(), "{}");
    assert_eq!(plan.name, "plan");
}

#[test]
fn the_contracts_example_means_what_it_says() {
    let text = r#"
name = "ablation"
[defaults]
retries = 1
[[stage]]
name = "train"
command = ["python", "train.py", "--config", "{config}", "--out", "{out}"]
gpus = 1
memory = "auto"
cpus = "auto"
parallel = 0
timeout = "2h"
hang = { after = "10m", action = "fail" }
result = ["model.pt"]
standbys = "auto"
start_gate = "auto"
mps = false
env = { KEY = "value" }
[stage.matrix]
type = ["edm", "flow"]
lr = [1e-3, 1e-4]
[[stage.job]]
name = "big"
config = { type = "edm", width = 512 }
[[stage]]
name = "evaluate"
after = ["train"]
foreach = "train"
parallel = 1
command = ["python", "eval.py", "{input}", "--out", "{out}"]
"#;
    let plan = plan(text);
    assert_eq!(plan.name, "ablation");
    assert_eq!(
        names(&plan)[..6],
        [
            "train/type=edm,lr=0.001",
            "train/type=edm,lr=0.0001",
            "train/type=flow,lr=0.001",
            "train/type=flow,lr=0.0001",
            "train/big",
            "evaluate/type=edm,lr=0.001",
        ]
    );
    let (train, evaluate) = (&plan.stages[0], &plan.stages[1]);
    assert_eq!((train.retries, evaluate.retries), (1, 1));
    assert_eq!(train.timeout, Some(Millis::seconds(7200)));
    assert_eq!(train.hang.unwrap().action, HangAction::Fail);
    assert_eq!((train.memory, train.cpus), (Memory::Auto, Cpus::Auto));
    assert_eq!(train.env["KEY"], "value");
    assert_eq!((evaluate.after.as_slice(), evaluate.foreach), ([StageId(0)].as_slice(), Some(StageId(0))));
    assert_eq!(plan.jobs[9].source, Some(JobId(4)));
    let kinds: Vec<_> = summary(text).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["note"]);
}

#[test]
fn every_setting_is_read() {
    let plan = plan(&one(
        "gpus = 2\nmemory = \"6GiB\"\ncpus = 4\nparallel = 3\ntimeout = \"90s\"\ngrace = \"0s\"\nretries = 2\n\
         retry_delay = \"1m\"\nmax_failures = 5\nhang = \"off\"\nresult = \"a/*.pt\"\nstandbys = 2\nstart_gate = 3\nmps = true",
    ));
    let stage = &plan.stages[0];
    assert_eq!((stage.gpus, stage.parallel, stage.retries, stage.max_failures), (2, 3, 2, Some(5)));
    assert_eq!((stage.memory, stage.cpus), (Memory::Reserve(Bytes(6 << 30)), Cpus::Count(4)));
    assert_eq!((stage.timeout, stage.grace), (Some(Millis::seconds(90)), Millis(0)));
    assert_eq!((stage.retry_delay, stage.hang), (Millis::seconds(60), None));
    assert_eq!((stage.standbys, stage.start_gate), (Standbys::PerLane(2), StartGate::AtOnce(3)));
    assert_eq!((stage.result.as_slice(), stage.mps), (["a/*.pt".to_owned()].as_slice(), true));
}

#[test]
fn how_jobs_are_watched_works_and_is_not_announced_for_later() {
    let text = one("hang = \"90s\"\nresult = [\"model.pt\", \"**/*.json\"]\nstart_gate = \"off\"");
    assert_eq!(summary(&text), [""; 0]);
    let stage = plan(&text).stages.remove(0);
    let hang = Hang { after: Millis::seconds(90), adaptive: false, ..Hang::default() };
    assert_eq!((stage.hang, stage.start_gate), (Some(hang), StartGate::Off));
    assert_eq!(stage.result, ["model.pt", "**/*.json"]);
    let warn = plan(&one("hang = { action = \"warn\" }")).stages.remove(0);
    let adaptive = Hang { action: HangAction::Warn, ..Hang::default() };
    assert_eq!(warn.hang, Some(adaptive), "nobody said how long: it is found out");
}

#[test]
fn what_is_not_written_has_its_default() {
    let plan = plan(&one(""));
    let mut expected = gpulane_model::Stage::named("s");
    expected.command = vec!["x".to_owned()];
    expected.jobs = 0..1;
    assert_eq!(plan.stages[0], expected);
}

#[test]
fn the_first_key_turns_slowest_in_the_documents_order() {
    let plan = plan(&one("[stage.matrix]\nz = [1, 2]\na = [\"x\", \"y\"]"));
    assert_eq!(names(&plan), ["s/z=1,a=x", "s/z=1,a=y", "s/z=2,a=x", "s/z=2,a=y"]);
    assert_eq!(plan.jobs[1].config.text(), r#"{"z":1,"a":"y"}"#);
}

#[test]
fn paired_keys_turn_at_the_place_of_the_first() {
    let plan =
        plan(&one("[stage.matrix]\nzip = [[\"lr\", \"wd\"]]\nlr = [1, 2]\nseed = [7, 8]\nwd = [3, 4]"));
    assert_eq!(
        names(&plan),
        ["s/lr=1,seed=7,wd=3", "s/lr=1,seed=8,wd=3", "s/lr=2,seed=7,wd=4", "s/lr=2,seed=8,wd=4"]
    );
}

#[test]
fn exclude_removes_and_include_adds() {
    let plan = plan(&one(
        "[stage.matrix]\na = [1, 2]\nb = [1.0, 2.5]\nexclude = [{ a = 1, b = 1 }, { b = 2.5, a = 2 }]\n\
         include = [{ a = 9, c = true }]\n[[stage.job]]\nconfig = { a = 3 }",
    ));
    assert_eq!(names(&plan), ["s/a=1,b=2.5", "s/a=2,b=1.0", "s/a=9,c=true", "s/a=3"]);
}

#[test]
fn values_of_every_kind_become_json() {
    let plan = plan(&one(
        "[[stage.job]]\nname = \"j\"\nconfig = { s = 'x', i = 0x10, big = 18446744073709551615, f = 1e-5, b = true, \
         d = 2024-01-02, t = 2024-01-02T03:04:05Z, l = [1, [2]], o.p.q = 1, e = {} }",
    ));
    assert_eq!(
        plan.jobs[0].config.text(),
        r#"{"s":"x","i":16,"big":18446744073709551615,"f":0.00001,"b":true,"d":"2024-01-02","t":"2024-01-02T03:04:05Z","l":[1,[2]],"o":{"p":{"q":1}},"e":{}}"#
    );
}

#[test]
fn names_that_no_file_could_have_are_changed_and_stay_distinct() {
    let plan = plan(&one("[stage.matrix]\np = [\"a b\", \"a/b\", \"a\\nb\", \"ä\", [1, 2], { x = 1 }]"));
    let names = names(&plan);
    assert!(names[0].starts_with("s/p=a_b-") && names[1].starts_with("s/p=a_b-"), "{names:?}");
    assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), 6);
}

#[test]
fn defaults_fill_what_a_stage_leaves_out() {
    let plan = plan(
        "[defaults]\ncommand = [\"d\", \"{lr}\"]\nenv = { A = \"1\", B = \"2\" }\ntimeout = \"1h\"\nafter = [\"prepare\"]\n\
         matrix = { lr = [1, 2] }\n\
         [[stage]]\nname = \"prepare\"\ncommand = [\"p\"]\ntimeout = \"off\"\n\
         [[stage]]\nname = \"train\"\nenv = { B = \"3\" }\n\
         [[stage]]\nname = \"eval\"\nforeach = \"train\"\nafter = []",
    );
    let [prepare, train, eval] = plan.stages.as_slice() else { panic!() };
    assert_eq!(prepare.command, ["p"]);
    assert_eq!(prepare.timeout, None);
    assert!(prepare.after.is_empty());
    assert_eq!(train.command, ["d", "{lr}"]);
    assert_eq!((train.env["A"].as_str(), train.env["B"].as_str()), ("1", "3"));
    assert_eq!(train.after, [StageId(0)]);
    assert_eq!(eval.foreach, Some(StageId(1)));
    assert_eq!(
        names(&plan),
        ["prepare/lr=1", "prepare/lr=2", "train/lr=1", "train/lr=2", "eval/lr=1", "eval/lr=2"]
    );
}

#[test]
fn stages_may_refer_to_later_ones_and_foreach_chains() {
    let plan = plan(
        "[[stage]]\nname = \"c\"\nforeach = \"b\"\ncommand = [\"c\", \"{input}\", \"{k}\"]\n\
         [[stage]]\nname = \"b\"\nforeach = \"a\"\ncommand = [\"b\"]\n\
         [[stage]]\nname = \"a\"\ncommand = [\"a\"]\nmatrix = { k = [1, 2] }",
    );
    assert_eq!(names(&plan), ["c/k=1", "c/k=2", "b/k=1", "b/k=2", "a/k=1", "a/k=2"]);
    assert_eq!(plan.jobs[1].source, Some(JobId(3)));
    assert_eq!(plan.jobs[3].source, Some(JobId(5)));
}

#[test]
fn braces_that_enclose_no_name_need_no_care() {
    let plan = plan(
        "[[stage]]\nname = \"s\"\ncommand = [\"awk\", \"{print $1}\", \"{}\", \"{{lr}}\", '{\"a\": 1}', \"{out}\"]",
    );
    assert_eq!(plan.stages[0].command.len(), 6);
}
