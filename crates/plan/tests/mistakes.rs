//! Every class of mistake, with its place and the remedy.

mod support;

use support::{checked, summary};

/// A right stage of another name.
fn stage_named(name: &str, lines: &str) -> String {
    stage(lines).replacen("\"s\"", &format!("{name:?}"), 1)
}

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

#[test]
fn unknown_keys_are_named_with_the_right_ones() {
    assert_stage_errors(&[
        (
            "timout = \"1h\"",
            "4:1 unknown key `timout` in a stage, did you mean `timeout`? | write `timeout` instead of `timout`",
        ),
        ("gpu = 1", "4:1 unknown key `gpu` in a stage, did you mean `gpus`? | write `gpus` instead of `gpu`"),
        (
            "needs = \"x\"",
            "4:1 unknown key `needs` in a stage, did you mean `after`? | write `after` instead of `needs`",
        ),
        (
            "depends_on = []",
            "4:1 unknown key `depends_on` in a stage, did you mean `after`? | write `after` instead of `depends_on`",
        ),
        (
            "retry-delay = \"1s\"",
            "4:1 unknown key `retry-delay` in a stage, did you mean `retry_delay`? | write `retry_delay` instead of `retry-delay`",
        ),
        ("zip = [[\"a\", \"b\"]]", "4:1 unknown key `zip` in a stage | `zip` belongs in `[stage.matrix]`"),
        (
            "[[stage.job]]\nnam = \"x\"\nconfig = { a = 1 }",
            "5:1 unknown key `nam` in a job, did you mean `name`? | write `name` instead of `nam`",
        ),
        (
            "[[stage.job]]\nname = \"x\"\ngpus = 1",
            "6:1 `gpus` belongs to the stage, not to one job | move `gpus` above the first `[[stage.job]]`",
        ),
        (
            "hang = { aftr = \"1m\" }",
            "4:10 unknown key `aftr` in `hang`, did you mean `after`? | write `after` instead of `aftr`",
        ),
    ]);
    let values = "`args` belongs to `map` | values for jobs stand below `[stage.matrix]`, or in the `config` of a `[[stage.job]]`";
    assert_errors(&[
        ("[[stage]]\nname = \"s\"\nentry = \"t.py:main\"\nargs = { lr = 1 }", &format!("4:1 {values}")),
        ("[[stage]]\nname = \"s\"\nargs = [\"--lr\"]\nentry = \"t.py:main\"", &format!("3:1 {values}")),
        (&stage("args = { lr = 1 }"), &format!("4:1 {values}")),
        (
            "[[stage]]\nname = \"s\"\nargs = { least = 3 }\nmap = { model = \"m.py:M\", input = \"a/*\" }",
            "3:1 `args` belongs to `map` | move it into `map = { … }`",
        ),
        (
            "[[stage]]\nname = \"s\"\nargs = [\"x\"]",
            "3:1 unknown key `args` in a stage, did you mean `command`? | write `command` instead of `args`",
        ),
        (
            "[[stage]]\nname = \"s\"\ncomand = [\"x\"]",
            "3:1 unknown key `comand` in a stage, did you mean `command`? | write `command` instead of `comand`",
        ),
        (
            &format!("retries = 1\n{}", stage("")),
            "1:1 `retries` belongs to a stage | move it below a `[[stage]]`, or below `[defaults]` if it is for all stages",
        ),
        (
            &format!("[default]\n{}", stage("")),
            "1:2 unknown key `default`, did you mean `defaults`? | write `[defaults]`",
        ),
        (&format!("[defaults]\nname = \"x\"\n{}", stage("")), "2:1 `name` cannot have a default"),
    ]);
}

#[test]
fn stages_must_be_a_list() {
    let help = "each stage begins with a line `[[stage]]`, then `name = \"…\"` and `command = […]`";
    assert_errors(&[
        ("", &format!("1:1 the plan has no stage | {help}")),
        ("name = \"x\"\n", &format!("1:1 the plan has no stage | {help}")),
        ("stage = []", &format!("1:9 the plan has no stage | {help}")),
        ("[[stages]]\nname = \"x\"", &format!("1:3 unknown key `stages`, did you mean `stage`? | {help}")),
        (
            "[stage]\nname = \"s\"",
            "1:1 stages are a list: each begins with `[[stage]]` | write `[[stage]]` with double brackets",
        ),
        (
            "[stage.train]\ncommand = [\"x\"]",
            "1:2 stages are a list: each begins with `[[stage]]` | write `[[stage]]`, then `name = \"train\"` below it",
        ),
        ("[[stage]]\ncommand = [\"x\"]", "1:1 this stage has no name | write for example `name = \"train\"`"),
    ]);
}

#[test]
fn names_must_be_fit_for_directories() {
    assert_errors(&[
        (
            "name = \"a b\"\n[[stage]]\nname = \"s\"\ncommand = [\"x\"]",
            "1:8 a plan's name must not contain a space | letters, digits and `._+-` may stand in it; for example \"a_b\"",
        ),
        (
            "[[stage]]\nname = \"../x\"\ncommand = [\"x\"]",
            "2:8 a stage's name must not contain `/` | letters, digits and `._+-` may stand in it; for example \"___x\"",
        ),
        (
            "[[stage]]\nname = \"..\"\ncommand = [\"x\"]",
            "2:8 a stage's name must not begin with `.` | letters, digits and `._+-` may stand in it; for example \"__\"",
        ),
        (&stage("[[stage]]\nname = \"s\"\ncommand = [\"y\"]"), "5:8 two stages are named `s`"),
    ]);
}

#[test]
fn commands_are_lists() {
    let with = |command: &str| format!("[[stage]]\nname = \"s\"\ncommand = {command}");
    assert_errors(&[
        (
            &with("\"python train.py --lr 1\""),
            "3:11 `command` must be a list of arguments, not one string | write `command = [\"python\", \"train.py\", \"--lr\", \"1\"]`",
        ),
        (
            &with("\"cd x && make\""),
            "3:11 `command` must be a list of arguments, not one string | write `command = [\"bash\", \"-c\", \"cd x && make\"]`",
        ),
        (&with("[]"), "3:11 `command` is empty | write for example `command = [\"python\", \"train.py\"]`"),
        (&with("[\"\"]"), "3:12 the program's name is empty"),
        (&with("[\"x\", 3]"), "3:17 `command` must be a list of strings, not an integer | write \"3\""),
        (&with("[\"x\", \"a\\u0000b\"]"), "3:17 this text contains a NUL character"),
    ]);
    assert_eq!(
        summary(&with("[\"python train.py\"]")),
        [
            "warning 3:12 this looks like a whole command line in one argument | write [\"python\", \"train.py\"]"
        ]
    );
    let missing = summary("[[stage]]\nname = \"s\"\n");
    assert!(missing[0].starts_with("error 1:1 the stage `s` has no `command`"), "{missing:?}");
    let strayed = summary("[[stage]]\nname = \"s\"\n[stage.matrix]\nlr = [1]\ncommand = [\"x\", \"{lr}\"]");
    assert_eq!(
        strayed,
        [
            "error 5:1 the stage `s` has no `command`; this one belongs to its matrix | move `command` above `[stage.matrix]`"
        ]
    );
}

#[test]
fn numbers_and_units_are_checked() {
    assert_stage_errors(&[
        ("gpus = -1", "4:8 `gpus` must be 0 or more"),
        ("gpus = \"2\"", "4:8 `gpus` must be a whole number, not a string | write `gpus = 2`"),
        ("gpus = 2.0", "4:8 `gpus` must be a whole number, not a float | write `gpus = 2`"),
        ("gpus = 99999999999999999999999", "4:8 `gpus` must be at most 1024"),
        ("gpus = true", "4:8 `gpus` must be a whole number, not a boolean | write for example `gpus = 2`"),
        ("gpus = \"two\"", "4:8 `gpus` must be a whole number, not a string | write for example `gpus = 2`"),
        ("gpus = 1.5", "4:8 `gpus` must be a whole number, not a float | write for example `gpus = 2`"),
        ("parallel = -1", "4:12 `parallel` must be 0 or more"),
        ("cpus = 0", "4:8 `cpus` must be 1 or more"),
        (
            "cpus = \"atuo\"",
            "4:8 `cpus` cannot be `atuo`, did you mean `auto`? | one of \"auto\", or a number such as 4",
        ),
        ("max_failures = 0", "4:16 `max_failures` must be 1 or more"),
        ("timeout = 3600", "4:11 `timeout` needs a unit | if seconds are meant, write `timeout = \"1h\"`"),
        ("timeout = 1.5", "4:11 `timeout` needs a unit | write for example `timeout = \"2h 30m\"`"),
        (
            "timeout = \"0s\"",
            "4:11 `timeout` must be longer than 0 | leave it out, or write \"off\", for no limit",
        ),
        (
            "grace = \"soon\"",
            "4:9 `grace`: `soon` is not a duration; write for example \"30s\", \"10m\" or \"2h 30m\"",
        ),
        (
            "retry_delay = \"90\"",
            "4:15 `retry_delay`: `90` is not a duration; write for example \"30s\", \"10m\" or \"2h 30m\" | write `retry_delay = \"1m 30s\"`",
        ),
        ("memory = 6", "4:10 `memory` needs a unit | write `memory = \"6GiB\"`"),
        ("memory = \"6\"", "4:10 `memory`: `6` needs a unit: \"6GiB\", \"6MiB\", \"6GB\""),
        ("memory = \"6 parsecs\"", "4:10 `memory`: `6 parsecs` needs a unit: \"6GiB\", \"6MiB\", \"6GB\""),
        (
            "memory = \"0GiB\"",
            "4:10 `memory` must be more than 0 | for a stage without GPUs write `gpus = 0`",
        ),
        (
            "memory = \"exclusiv\"",
            "4:10 `memory` cannot be `exclusiv`, did you mean `exclusive`? | one of \"exclusive\", \"auto\", or a size such as \"6GiB\"",
        ),
        (
            "memory = \"lots\"",
            "4:10 `memory` cannot be `lots` | one of \"exclusive\", \"auto\", or a size such as \"6GiB\"",
        ),
        ("mps = \"yes\"", "4:7 `mps` must be `true` or `false`, not a string"),
        (
            "standbys = \"on\"",
            "4:12 `standbys` cannot be `on` | one of \"auto\", \"off\", or a number per lane",
        ),
        ("start_gate = 0", "4:14 `start_gate` must be 1 or more"),
    ]);
}

#[test]
fn keys_with_a_table_or_files_are_checked_in_full() {
    let note = |line: &str| summary(&stage(line)).into_iter().find(|line| line.starts_with("error")).unwrap();
    for (line, expected) in [
        (
            "hang = { after = 5 }",
            "error 4:18 `after` needs a unit | if seconds are meant, write `after = \"5s\"`",
        ),
        (
            "hang = { action = \"explode\" }",
            "error 4:19 `action` cannot be `explode` | one of \"retry\", \"fail\", \"warn\"",
        ),
        (
            "result = [\"/etc/passwd\"]",
            "error 4:11 this file of `result` is not relative | write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"",
        ),
        (
            "result = \"a/../../b\"",
            "error 4:10 this file of `result` leaves the output directory | write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"",
        ),
        (
            "result = \"a**\"",
            "error 4:10 this file of `result` is no pattern: recursive wildcards must form a single path component | write its path below `{out}`, for example \"model.pt\" or \"checkpoints/*.pt\"",
        ),
        ("hang = 600", "error 4:8 `hang` needs a unit | if seconds are meant, write `hang = \"10m\"`"),
    ] {
        assert_eq!(note(line), expected);
    }
    let only = |line: &str| format!("[[stage]]\nname = \"s\"\n{line}\n");
    assert_errors(&[
        (
            &only("entry = \"train.py\""),
            "3:9 `entry` must name a file and what is in it | write for example `entry = \"train.py:main\"`",
        ),
        (
            &only("entry = \"train.py:main\"\ncommand = [\"x\"]"),
            "4:1 a stage has either `entry` or `command` | split it into two stages, or remove one of the two",
        ),
        (
            &only("command = [\"x\"]\npython = \"python3\""),
            "4:1 `python` goes with `entry` | a command names its program itself: write it first in `command`",
        ),
        (&only("map = { input = \"*.jpg\" }"), "3:7 `map` needs `model`"),
    ]);
    let twice = "[defaults]\nstandbys = 1\n[[stage]]\nname = \"a\"\ncommand = [\"x\"]\nstandbys = 2\n";
    assert_eq!(
        summary(twice),
        [
            "note 6:1 `standbys` has no effect without `entry` | a stage with `entry = \"train.py:main\"` instead of `command` has them"
        ]
    );
}

#[test]
fn gpu_memory_needs_a_gpu_unless_it_is_only_a_default() {
    let mistake = "`memory` is GPU memory, and this stage has `gpus = 0` | remove `memory`, or give the stage a GPU with `gpus = 1`";
    for (lines, at) in [("gpus = 0\nmemory = \"6GiB\"", "5:1"), ("memory = \"auto\"\ngpus = 0", "4:1")] {
        assert_eq!(summary(&stage(lines)), [format!("error {at} {mistake}")]);
    }
    assert_eq!(summary(&stage("gpus = 0\nmemory = \"exclusive\"")), [""; 0]);
    let defaults = format!("[defaults]\nmemory = \"auto\"\n{}", stage("gpus = 0"));
    assert_eq!(summary(&defaults), [""; 0]);
}

#[test]
fn mps_needs_jobs_that_share() {
    let idle = |at: &str| {
        format!(
            "warning {at} `mps` has no effect unless jobs share a GPU | let them share: `memory = \"auto\"`, or a size such as `memory = \"6GiB\"`"
        )
    };
    assert_eq!(summary(&stage("mps = true")), [idle("4:1")]);
    assert_eq!(summary(&stage("mps = true\nmemory = \"exclusive\"")), [idle("4:1")]);
    assert_eq!(summary(&stage("mps = true\nmemory = \"6GiB\"")), [""; 0]);
    assert_eq!(summary(&stage("mps = false")), [""; 0]);
    let two = |memory: &str| format!("[defaults]\nmps = true\n{}{}", stage(""), stage_named("t", memory));
    assert_eq!(summary(&two("memory = \"auto\"")), [""; 0], "one stage has use for it");
    assert_eq!(summary(&two("")), [idle("2:1")], "none has");
}

#[test]
fn the_environment_has_its_rules() {
    assert_stage_errors(&[
        (
            "env = [\"A=1\"]",
            "4:7 `env` must be a table, not a list | write for example `env = { KEY = \"value\" }`",
        ),
        ("env = { A = 1 }", "4:13 `A` must be a string, not an integer | write \"1\""),
        ("env = { \"\" = \"1\" }", "4:9 this is no name for an environment variable"),
        ("env = { \"A=B\" = \"1\" }", "4:9 this is no name for an environment variable"),
        ("env = { GPULANE_OUT = \"1\" }", "4:9 `GPULANE_OUT` is set by gpulane itself | choose another name"),
        (
            "env = { CUDA_VISIBLE_DEVICES = \"0\" }",
            "4:9 `CUDA_VISIBLE_DEVICES` is set by gpulane itself | choose GPUs for the whole run with `--gpus 0,2`, and how many a job takes with `gpus`",
        ),
    ]);
}
