//! Maps: as a stage of a plan, and as a command line.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use gpulane_model::{Bytes, Format, Millis, NanPolicy, Plan, Tolerance};
use gpulane_plan::{MapLine, Override, change_map, map_line};
use support::{checked, line, names, plan, settings, summary};

const MAP: &str = "[[stage]]\nname = \"embed\"\nmap = { model = \"e.py:E\", input = [\"*.jpg\"] }\n";

#[test]
fn a_map_is_a_stage_of_workers() {
    let plan = plan(MAP);
    let stage = &plan.stages[0];
    assert_eq!(names(&plan), ["embed/worker-0"]);
    assert_eq!(stage.command, ["python3", "{run}/.python/gpulane/_start.py", "worker", "e.py:E"]);
    assert_eq!((stage.retries, stage.timeout, stage.max_failures), (3, None, None));
    assert!(!stage.map.as_ref().unwrap().lone);
}

#[test]
fn every_key_of_a_map_is_read() {
    let text = r#"[[stage]]
name = "embed"
map = { model = "e.py:E", input = "photos", decode = "rgb:224x224", batch = "auto", format = "jsonl", threads = 6, workers = 3, max_failures = "2.5%", nan = "fail", ring = "2GiB", item_timeout = "30s", strict = true, python = "/opt/{x}/python" }
retries = 7
"#;
    let plan = plan(text);
    let stage = &plan.stages[0];
    let map = stage.map.clone().unwrap();
    assert_eq!(map.decode.unwrap().to_string(), "rgb:224x224");
    assert_eq!(
        (map.batch, map.threads, map.workers, map.ring),
        (None, Some(6), Some(3), Some(Bytes(2 << 30)))
    );
    assert_eq!(
        (map.format, map.nan, map.max_failures),
        (Format::Jsonl, NanPolicy::Fail, Tolerance::Percent(2.5))
    );
    assert_eq!((map.item_timeout, map.strict), (Some(Millis(30_000)), true));
    assert_eq!((stage.retries, plan.jobs.len()), (7, 3));
    // Braces in a path are no placeholders.
    assert_eq!(stage.command[0], "/opt/{{x}}/python");
}

#[test]
fn what_a_map_cannot_have_is_said() {
    let with = |line: &str| format!("{MAP}{line}\n");
    let table = [
        (with("matrix = { lr = [1, 2] }"), "a stage has either `map` or `matrix`"),
        (with("job = [{ name = \"a\" }]"), "a stage has either `map` or `job`"),
        (with("timeout = \"1h\""), "a map has no `timeout`"),
        (with("max_failures = 3"), "`max_failures` of a stage counts jobs"),
        (with("command = [\"x\"]"), "a stage has either `map` or `command`"),
        (
            with("[[stage]]\nname = \"b\"\ncommand = [\"x\", \"{input}\"]\nforeach = \"embed\""),
            "`foreach` cannot follow a map",
        ),
        (
            with("foreach = \"a\"\n[[stage]]\nname = \"a\"\ncommand = [\"x\"]"),
            "a stage has either `map` or `foreach`",
        ),
        (MAP.replace("e.py:E", "e.py"), "`model` must name a file and what is in it"),
        (MAP.replace("[\"*.jpg\"]", "[]"), "`input` must not be empty"),
        (MAP.replace(" }", ", decode = \"mp4\" }"), "`decode`: "),
        (MAP.replace(" }", ", ring = \"0B\" }"), "`ring` must be more than 0"),
        (
            MAP.replace(" }", ", ring = 10 }"),
            "`ring` needs a unit | write `ring = \"10MiB\"` or `ring = \"10GiB\"`",
        ),
        (MAP.replace(" }", ", max_failures = \"few\" }"), "`max_failures`: `few` is no limit"),
        (MAP.replace(" }", ", strict = 1 }"), "`strict` must be `true` or `false`, not an integer"),
        (MAP.replace(" }", ", item_timeout = \"0s\" }"), "`item_timeout` must be longer than 0"),
        (MAP.replace(" }", ", item_timeout = 30 }"), "`item_timeout` needs a unit"),
        (MAP.replace(" }", ", args = 3 }"), "`args` must be a table, not an integer"),
        (MAP.replace(" }", ", args = { \"a b\" = 1 } }"), "`a b` cannot be an argument's name"),
        (MAP.replace("*.jpg", "{rum}/*.jpg"), "unknown placeholder `{rum}` in `input`, did you mean `run`?"),
        (MAP.replace(" }", ", batches = 3 }"), "unknown key `batches` in `map`, did you mean `batch`?"),
    ];
    for (text, expected) in table {
        let found = summary(&text);
        assert!(found.iter().any(|line| line.contains(expected)), "{text}\n{expected}\n{found:#?}");
    }
}

#[test]
fn a_map_over_what_another_stage_makes_must_wait_for_it() {
    let before = "[[stage]]\nname = \"make\"\ncommand = [\"x\"]\n[[stage]]\nname = \"mid\"\ncommand = [\"x\"]\nafter = [\"make\"]\n";
    let of = |input: &str, after: &str| format!("{before}{}after = {after}\n", MAP.replace("*.jpg", input));
    let expected = "`input` names what stage `make` makes, but does not wait for it";
    for input in
        ["{run}/jobs/make/a/out/*.jpg", "@{run}/jobs/make/a/out/list.txt", "{run}/maps/make/part-0.jsonl:x"]
    {
        let text = of(input, "[]");
        let found = checked(&text).diagnostics;
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].message, expected);
        assert!(text[found[0].span.clone().unwrap()].ends_with("/make"), "{found:#?}");
    }
    for (input, after) in [
        ("{run}/jobs/make/a/out/*.jpg", "[\"make\"]"),
        ("{run}/jobs/make/a/out/*.jpg", "[\"mid\"]"),
        ("{run}/jobs/*/a/out/*.jpg", "[]"),
        ("jobs/make/*.jpg", "[]"),
    ] {
        assert_eq!(summary(&of(input, after)), [""; 0], "{input} {after}");
    }
}

#[test]
fn arguments_keep_their_types_and_inputs_their_braces() {
    let inputs = r#"["{run}/a-{name}.txt", "s-{a..c}.tar", "*.{jpg,png}"]"#;
    let text = MAP
        .replace("[\"*.jpg\"]", inputs)
        .replace(" }\n", ", args = { size = 3, rate = 0.5, on = true, name = \"x\", list = [1, 2] } }\n");
    let map = plan(&text).stages[0].map.clone().unwrap();
    assert_eq!(map.input, ["{run}/a-{name}.txt", "s-{a..c}.tar", "*.{jpg,png}"]);
    let args = serde_json::Value::Object(map.args).to_string();
    assert_eq!(args, r#"{"size":3,"rate":0.5,"on":true,"name":"x","list":[1,2]}"#);
}

#[test]
fn arguments_on_a_command_line_are_typed_as_in_a_plan() {
    let set = ["size=3", "rate=1e-3", "on=true", "name=a=b", "text=\"3\"", "path=/x,y"];
    let set = set.map(str::to_owned).to_vec();
    let input = MapLine { model: "e.py:E".into(), inputs: vec!["{rum}".into()], set, ..MapLine::default() };
    let (_, outcome) = map_line(&input, settings());
    let map = outcome.plan.unwrap().stages[0].map.clone().unwrap();
    let args = serde_json::Value::Object(map.args).to_string();
    assert_eq!(args, r#"{"size":3,"rate":0.001,"on":true,"name":"a=b","text":"3","path":"/x,y"}"#);
    assert_eq!(map.input, ["{rum}"], "a command line has no placeholders");
    let twice = MapLine { set: vec!["a=1".into(), "a=2".into()], ..input };
    assert!(map_line(&twice, settings()).1.plan.is_none());
}

#[test]
fn settings_are_changed_or_said_to_be_wrong() {
    let map = plan(MAP).stages[0].map.clone().unwrap();
    let flags = [given("--batch", "batch", "32"), given("--ring", "ring", "2GiB")];
    let changed = change_map(&map, &flags).1.unwrap();
    assert_eq!((changed.batch, changed.ring, &changed.model), (Some(32), Some(Bytes(2 << 30)), &map.model));
    let auto = change_map(&changed, &[given("--batch", "batch", "auto")]).1.unwrap();
    assert_eq!(auto.batch, None);
    let (source, found) = change_map(&map, &[given("--batch", "batch", "many")]);
    assert_eq!(source.text, "gpulane resume --batch many");
    let found = found.unwrap_err();
    assert!(
        found[0].message.contains("`--batch`") || found[0].message.contains("`batch`"),
        "{}",
        found[0].message
    );
}

#[test]
fn defaults_for_jobs_do_not_disturb_a_map() {
    let text = format!(
        "[defaults]\ntimeout = \"1h\"\nmax_failures = 2\nmatrix = {{ lr = [1, 2] }}\n{MAP}[[stage]]\nname = \"t\"\ncommand = [\"x\", \"{{lr}}\"]\n"
    );
    let plan = plan(&text);
    assert_eq!(names(&plan), ["embed/worker-0", "t/lr=1", "t/lr=2"]);
    assert_eq!((plan.stages[0].timeout, plan.stages[0].max_failures), (None, None));
}

fn given(flag: &str, key: &str, value: &str) -> Override {
    Override { flag: flag.into(), key: key.into(), value: value.into() }
}

fn lone(model: &str, map: &[Override], stage: &[Override]) -> Result<Plan, Vec<String>> {
    let inputs = vec!["photos/*.jpg".to_owned(), "more".to_owned()];
    let input =
        MapLine { model: model.into(), inputs, map: map.to_vec(), stage: stage.to_vec(), set: vec![] };
    let (source, outcome) = map_line(&input, settings());
    let found = outcome.diagnostics.iter().map(|found| line(&source, found)).collect();
    outcome.plan.ok_or(found)
}

#[test]
fn a_command_line_makes_a_lone_map() {
    let map = [given("--batch", "batch", "32"), given("--max-failures", "max_failures", "5%")];
    let plan = lone("dir/tag.py:Tagger", &map, &[given("--memory", "memory", "6GiB")]).unwrap();
    let map = plan.stages[0].map.clone().unwrap();
    assert_eq!((plan.name.as_str(), names(&plan)), ("tagger", vec!["tagger/worker-0".to_owned()]));
    assert_eq!(map.input, ["photos/*.jpg", "more"]);
    assert_eq!((map.lone, map.batch, map.max_failures), (true, Some(32), Tolerance::Percent(5.0)));
}

#[test]
fn all_mistakes_of_a_command_line_are_told_at_once() {
    let map = [given("--batch", "batch", "many"), given("--nan", "nan", "drop")];
    let found = lone("tag.py", &map, &[given("--memory", "memory", "6")]).unwrap_err();
    for expected in ["`model` must name", "--batch", "`nan` cannot be `drop`", "--memory"] {
        assert!(found.iter().any(|line| line.contains(expected)), "{expected}: {found:#?}");
    }
}
