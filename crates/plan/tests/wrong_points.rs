//! Mistakes in the points of a stage and in what stages and texts refer to, with place and remedy.

mod support;

use support::{checked, summary};

/// A plan of one right stage, to which lines are added. They begin on line 4.
fn stage(lines: &str) -> String {
    format!("[[stage]]\nname = \"s\"\ncommand = [\"x\"]\n{lines}\n")
}

/// Each text has exactly this error.
fn assert_errors(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(summary(text), [format!("error {expected}")], "{text}");
        assert!(checked(text).plan.is_none());
    }
}

/// Each line added to a right stage gives exactly this error.
fn assert_stage_errors(table: &[(&str, &str)]) {
    for (lines, expected) in table {
        assert_errors(&[(&stage(lines), expected)]);
    }
}

/// The same, with these lines in its matrix. They begin on line 5.
fn matrix(lines: &str) -> String {
    stage(&format!("[stage.matrix]\n{lines}"))
}

#[test]
fn a_matrix_is_made_of_lists() {
    let table = [
        ("lr = 0.1", "5:6 `lr` must be a list of values, not a float | write `lr = [0.1]`"),
        ("lr = []", "5:6 `lr` has no values"),
        (
            "seed = \"range(5)\"",
            "5:8 `seed` must be a list of values, not a string | `range()` is for `-s` on the command line; in a plan write the numbers out: [0, 1, 2]",
        ),
        (
            "retries = 3",
            "5:11 `retries` must be a list of values, not an integer | if `retries` is meant for the stage, move it above `[stage.matrix]`",
        ),
        (
            "",
            "4:1 the matrix is empty | write one line per key, for example `lr = [0.1, 0.01]`, or leave the matrix out",
        ),
        ("lr = [1, 2, 1.0, 1]", "5:18 `lr=1` stands twice in the matrix"),
        (
            "lr = [1, \"1\"]",
            "5:10 `lr=1` stands twice in the matrix | a string and a number that look alike would give two jobs of one name",
        ),
        ("lr = [nan]", "5:7 JSON has no `nan` | write it as a string: \"nan\""),
        ("lr = [1e400]", "5:7 `1e400` is too large for a float | write it as a string: \"1e400\""),
        (
            "lr = [99999999999999999999]",
            "5:7 this integer does not fit into 64 bits | write it as a string: \"99999999999999999999\"",
        ),
        (
            "\"é\" = [1]",
            "5:1 `é` cannot be a config key | a key begins with a letter or `_`; letters, digits and `_-.` follow",
        ),
        (
            "gpus = [1, 2]",
            "5:1 the config key `gpus` would hide the placeholder `{gpus}` | rename it, for example to `gpu_count`",
        ),
        (
            "a = [1, 2]\nb = [1, 2, 3]\nzip = [[\"a\", \"b\"]]",
            "7:14 cannot pair `a` with `b`: 2 and 3 values",
        ),
        (
            "lr = [1]\nzip = [[\"lr\", \"lrr\"]]",
            "6:15 `zip` names `lrr`, which is no key of this matrix, did you mean `lr`?",
        ),
        (
            "a = [1]\nb = [1]\nzip = [\"a\", \"b\"]",
            "7:7 `zip` must be a list of lists of keys, not a list of keys | write `zip = [[\"a\", \"b\"]]`",
        ),
        (
            "a = [1]\nb = [1]\nzip = [[\"a\", \"b\"], [\"a\", \"b\"]]",
            "7:21 `a` is paired twice | a key goes in step with one group only",
        ),
        ("a = [1]\nzip = [[\"a\"]]", "6:8 a pair needs two keys or more"),
        (
            "lr = [1]\nexclude = [{ lrr = 1 }]",
            "6:14 `exclude` names `lrr`, which is no key of this matrix, did you mean `lr`?",
        ),
        (
            "lr = [1]\nexclude = [{}]",
            "6:12 an empty `exclude` would remove every point | write for example `exclude = [{ type = \"edm\", lr = 0.1 }]`",
        ),
        ("lr = [1]\nexclude = [{ lr = 1 }]", "4:1 `exclude` removes every point of this matrix"),
        (
            "lr = [1]\ninclude = [{ lr = 1 }]",
            "6:12 two jobs of this stage are named `lr=1` | they are the same; remove one",
        ),
        (
            "lr = [1]\ninclude = { lr = 1 }",
            "6:11 `include` must be a list of tables, not a table | write for example `include = [{ lr = 0.1, seed = 7 }]`",
        ),
    ];
    for (lines, expected) in table {
        let found: Vec<_> = summary(&matrix(lines));
        assert_eq!(found[0], format!("error {expected}"), "{lines}");
    }
    assert_eq!(
        summary(&matrix("lr = [1, 2]\nexclude = [{ lr = 3 }]")),
        ["warning 6:12 this `exclude` removes nothing"]
    );
}

#[test]
fn one_wrong_pair_does_not_hide_another() {
    let found = summary(&matrix("lr = [1, 2]\nw = [1]\nzip = [[\"foo\", \"lr\"], [\"lr\", \"w\"]]"));
    let has = |what: &str| found.iter().any(|line| line.contains(what));
    assert!(has("`zip` names `foo`") && has("`lr` is paired twice"), "{found:#?}");
    assert!(has("cannot pair `lr` with `w`: 2 and 1 values"), "{found:#?}");
    let found = summary(&matrix("lr = [1, 2]\nw = [1]\nbad = 3\nzip = [[\"w\", \"lr\"], [\"foo\", \"lr\"]]"));
    assert!(
        found.iter().any(|line| line.contains("cannot pair `w` with `lr`: 1 and 2 values")),
        "{found:#?}"
    );
    let unread = summary(&matrix("lr = [1, nan]\nw = [1]\nzip = [[\"w\", \"lr\"]]"));
    assert_eq!(unread.len(), 1, "{unread:#?}");
}

#[test]
fn misspelt_exceptions_get_the_right_word() {
    assert_eq!(
        summary(&matrix("lr = [1, 2]\nexlude = [{ lr = 1 }]")),
        [
            "warning 6:1 `exlude` becomes a key of the configs, did you mean `exclude`? | write `exclude` instead of `exlude`"
        ]
    );
    assert_eq!(
        summary(&matrix("data = [\"moons\", \"rings\"]\nexclude = [{ data = \"moon\" }]")),
        ["warning 6:12 this `exclude` removes nothing | did you mean \"moons\"?"]
    );
}

#[test]
fn stages_of_one_name_can_still_be_meant() {
    let text = "[[stage]]\nname = \"train\"\ncommand = [\"x\"]\n[[stage]]\nname = \"train\"\ncommand = [\"x\"]\nafter = [\"trian\"]\n";
    let found = summary(text);
    assert!(
        found[1]
            .ends_with("`after` names the unknown stage `trian`, did you mean `train`? | write \"train\""),
        "{found:#?}"
    );
}

#[test]
fn jobs_are_named_once() {
    assert_stage_errors(&[
        (
            "[[stage.job]]\nname = \"a\"\n[[stage.job]]\nname = \"a\"\nconfig = { x = 1 }",
            "7:8 two jobs of this stage are named `a` | give one of them another `name`",
        ),
        (
            "[[stage.job]]\nconfig = { x = 1 }\n[[stage.job]]\nconfig = { x = 1 }",
            "6:1 two jobs of this stage are named `x=1` | they are the same; remove one",
        ),
        (
            "[[stage.job]]",
            "4:1 this job has neither name nor config | give it `name = \"…\"`, or a config to be named after",
        ),
        (
            "[[stage.job]]\nname = \"\"",
            "5:8 a job's name must not be empty | give it `name = \"…\"`, or a config to be named after",
        ),
        (
            "[[stage.job]]\nconfig = 3",
            "5:10 `config` must be a table, not an integer | write for example `config = { lr = 0.001 }`",
        ),
        (
            "[stage.job]\nname = \"x\"",
            "4:1 `job` must be a list of tables, not a table | write `[[stage.job]]` with double brackets, then `name = \"…\"` and `config = { … }`",
        ),
    ]);
}

#[test]
fn references_must_lead_somewhere() {
    let two = |lines: &str| stage(&format!("[[stage]]\nname = \"train\"\ncommand = [\"x\"]\n{lines}"));
    assert_errors(&[
        (
            &stage("after = [\"trian\"]\n[[stage]]\nname = \"train\"\ncommand = [\"x\"]"),
            "4:10 `after` names the unknown stage `trian`, did you mean `train`? | write \"train\"",
        ),
        (
            &stage("foreach = \"zzz\""),
            "4:11 `foreach` names the unknown stage `zzz` | there is no other stage",
        ),
        (&stage("after = \"s\""), "4:9 `after` names its own stage `s`"),
        (
            &stage("foreach = [\"s\"]"),
            "4:11 `foreach` must be one stage's name, not a list | write `foreach = \"s\"`",
        ),
        (
            &two("foreach = \"s\"\nmatrix = { a = [1] }"),
            "7:1 a stage has either `foreach` or `matrix` | remove `foreach`, or remove `matrix`",
        ),
        (
            "[[stage]]\nname = \"a\"\ncommand = [\"x\"]\nafter = \"b\"\n[[stage]]\nname = \"b\"\ncommand = [\"x\"]\nforeach = \"c\"\n[[stage]]\nname = \"c\"\ncommand = [\"x\"]\nafter = \"a\"",
            "12:9 stages wait for each other in a circle: a → b → c → a | remove one of these `after` or `foreach`",
        ),
    ]);
}

#[test]
fn placeholders_must_be_known_to_every_job() {
    let with =
        |command: &str, lines: &str| format!("[[stage]]\nname = \"s\"\ncommand = {command}\n{lines}\n");
    assert_errors(&[
        (
            &with("[\"x\", \"--out={outt}\"]", ""),
            "3:24 unknown placeholder `{outt}`, did you mean `out`? | write `{out}`; write `{{outt}}` for the text itself",
        ),
        (
            &with("[\"x\", \"--out={output}\"]", ""),
            "3:24 unknown placeholder `{output}`, did you mean `out`? | write `{out}`; write `{{output}}` for the text itself",
        ),
        (
            &with("[\"x\", '''{sed}''']", "matrix = { seed = [1] }"),
            "3:20 unknown placeholder `{sed}`, did you mean `seed`? | write `{seed}`; write `{{sed}}` for the text itself",
        ),
        (
            &with("[\"x\", \"\\t{zzzzzz}\"]", ""),
            "3:17 unknown placeholder `{zzzzzz}` | known here: config, config_file, out, name, job, gpus, lane, run; write `{{zzzzzz}}` for the text itself",
        ),
        (
            &with("[\"bash\", \"-c\", \"echo ${HOME}\"]", ""),
            "3:33 unknown placeholder `{HOME}` | known here: config, config_file, out, name, job, gpus, lane, run; write `$HOME` or `${{HOME}}` for a variable of the shell",
        ),
        (
            &with("[\"x\", \"{input}\"]", ""),
            "3:18 `{input}` needs `foreach` | add `foreach = \"STAGE\"`, or write `{{input}}` for the text itself",
        ),
        (
            &with("[\"x\"]", "env = { A = \"{lr}\" }"),
            "4:14 unknown placeholder `{lr}` | known here: config, config_file, out, name, job, gpus, lane, run; write `{{lr}}` for the text itself",
        ),
        (
            &with("[\"x\", \"{lr}\"]", "matrix = { lr = [1] }\n[[stage.job]]\nname = \"big\""),
            "3:18 `{lr}` is not in every job's config | give every job of this stage a `lr`, or pass `{config}` instead",
        ),
    ]);
}

#[test]
fn too_many_jobs_are_refused_before_they_are_made() {
    let list: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let list = format!("[{}]", list.join(","));
    let cube = stage(&format!("[stage.matrix]\na = {list}\nb = {list}\nc = {list}"));
    assert!(summary(&cube)[0].starts_with("error 4:1 too many jobs: 1000000000 |"), "{:?}", summary(&cube));
    let keys: Vec<String> = (0..30).map(|key| format!("k{key} = {list}")).collect();
    let endless = stage(&format!("[stage.matrix]\n{}", keys.join("\n")));
    assert!(summary(&endless)[0].starts_with("error 4:1 too many jobs: more than can be counted"));
    let novel = "x".repeat(1 << 20);
    let text = stage(&format!("[stage.matrix]\na = {list}\nb = {list}\nc = [\"{novel}\"]"));
    assert!(summary(&text)[0].starts_with("error 4:1 too much text"), "{}", &summary(&text)[0]);
}
