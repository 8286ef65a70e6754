//! Advice that a person gets before or instead of a run.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use gpulane_testkit::Gpulane;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

#[test]
fn a_script_that_chooses_its_gpu_itself_is_a_doubt() {
    let gpulane = gpulane();
    let script = "import os\nos.environ[\"CUDA_VISIBLE_DEVICES\"] = \"0\"\ndef main(): pass\n";
    gpulane.workspace.file("train.py", script);
    let warned = "`train.py` sets CUDA_VISIBLE_DEVICES on line 2";
    for work in ["entry = \"train.py:main\"", "command = [\"sh\", \"train.py\"]"] {
        gpulane.workspace.file("plan.toml", &format!("[[stage]]\nname = \"s\"\n{work}\n"));
        let checked = gpulane.call(&["check", "plan.toml"]);
        assert!(checked.stderr.contains(warned), "{work}: {}", checked.stderr);
        assert!(checked.code == 0 && checked.stderr.contains("ok, 1 job"), "{work}: {}", checked.stderr);
    }
    let on_a_line = gpulane.call(&["run", "--dry-run", "--", "sh", "train.py"]);
    assert!(on_a_line.stderr.contains(warned), "{}", on_a_line.stderr);
    gpulane.workspace.file("train.py", "def main(): pass\n");
    let checked = gpulane.call(&["check", "plan.toml"]);
    assert!(!checked.stderr.contains("CUDA_VISIBLE_DEVICES"), "{}", checked.stderr);
}

#[test]
fn a_plan_changed_after_the_run_began_is_not_its_plan() {
    let gpulane = gpulane();
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"false\"]\n";
    assert_eq!(gpulane.run(plan, "none").code, 3);
    let said = "note: plan.toml was written to after this run began, which goes on with the plan as it was; `gpulane run plan.toml` begins anew\n";
    let unchanged = gpulane.call(&["resume", "r", "--failed"]);
    assert!(unchanged.code == 3 && !unchanged.stderr.contains("written to after"), "{}", unchanged.stderr);
    gpulane.workspace.file("plan.toml", &plan.replace("false", "true"));
    let changed = gpulane.call(&["resume", "r", "--failed"]);
    assert!(changed.code == 3 && changed.stderr.starts_with(said), "{}", changed.stderr);
    std::fs::remove_file(gpulane.workspace.path().join("plan.toml")).unwrap();
    let gone = gpulane.call(&["resume", "r", "--failed"]);
    assert!(gone.code == 3 && !gone.stderr.contains("written to after"), "{}", gone.stderr);
}

#[test]
fn only_a_job_of_a_near_name_is_suggested() {
    let gpulane = gpulane();
    let plan = "[[stage]]\nname = \"t\"\ncommand = [\"true\"]\n[stage.matrix]\nseed = [1, 4]\n";
    assert_eq!(gpulane.run(plan, "none").code, 0);
    let all = "`gpulane status RUN --all` lists them";
    for (name, hint) in [
        ("nosuch", all.to_owned()),
        ("t/sed=4", format!("did you mean `t/seed=4`? {all}")),
        ("sed=1", format!("did you mean `t/seed=1`? {all}")),
    ] {
        let said = gpulane.call(&["logs", "r", name]);
        assert_eq!(
            (said.code, said.stderr),
            (2, format!("error: this run has no job `{name}`\nhint: {hint}\n"))
        );
    }
}
