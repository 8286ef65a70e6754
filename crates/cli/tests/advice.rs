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
