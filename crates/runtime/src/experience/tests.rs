//! A run learns, the next one knows.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use gpulane_model::{Gpu, RunSettings};

use super::*;

const GIB: u64 = 1 << 30;

fn plan(cwd: &str, commands: &[&str]) -> Plan {
    let stage = |command: &&str| Stage {
        command: command.split(' ').map(str::to_owned).collect(),
        ..Stage::named(command)
    };
    let run = RunSettings { cwd: cwd.to_owned(), ..RunSettings::default() };
    let stages = commands.iter().map(stage).collect();
    Plan { format: 1, name: "test".into(), run, stages, jobs: Vec::new() }
}

fn machine(kind: GpuKind, name: &str) -> Machine {
    let gpu = Gpu { uuid: "GPU-0".into(), name: name.into(), memory: Bytes(80 * GIB), reserved: Bytes(0) };
    let gpus = if kind == GpuKind::None { Vec::new() } else { vec![gpu] };
    Machine { kind, gpus, lanes_per_gpu: 1, packing: false, cores: 8, cpu_lanes: 8 }
}

fn h200() -> Machine {
    machine(GpuKind::Nvml, "NVIDIA H200")
}

fn experience(root: &Path, plan: &Plan, machine: &Machine) -> Experience {
    Experience::kept_in(Some(root.join("gpulane/stages")), plan, machine)
}

fn known(seconds: f64, peak: Option<u64>) -> Known {
    Known { peak: peak.map(Bytes), seconds: Some(seconds) }
}

/// A run of `plan` whose first stage had jobs like these.
fn run(root: &Path, plan: &Plan, machine: &Machine, jobs: &[(f64, Option<u64>)]) {
    let mut experience = experience(root, plan, machine);
    for (seconds, peak) in jobs {
        experience.learn(StageId(0), *seconds, peak.map(Bytes));
    }
    experience.keep();
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("gpulane/stages")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn the_next_run_knows_the_mean_time_and_the_highest_peak() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["python train.py {lr}", "python eval.py"]);
    run(root.path(), &plan, &h200(), &[(10.0, Some(5)), (20.0, Some(7)), (30.0, None)]);
    let next = experience(root.path(), &plan, &h200());
    assert_eq!(next.known(), [known(20.0, Some(7)), Known::default()]);
}

#[test]
fn the_last_run_replaces_those_before_but_one_without_peaks_leaves_the_old_one() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["train"]);
    run(root.path(), &plan, &h200(), &[(10.0, Some(7))]);
    run(root.path(), &plan, &h200(), &[(4.0, None)]);
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(4.0, Some(7))]);
    run(root.path(), &plan, &h200(), &[(4.0, Some(3))]);
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(4.0, Some(3))]);
    run(root.path(), &plan, &h200(), &[]);
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(4.0, Some(3))]);
}

#[test]
fn another_command_directory_or_gpu_is_another_matter() {
    let root = tempfile::tempdir().unwrap();
    run(root.path(), &plan("/work", &["train a"]), &h200(), &[(10.0, Some(7))]);
    let a100 = machine(GpuKind::Nvml, "NVIDIA A100");
    for (plan, machine) in [
        (plan("/work", &["train b"]), h200()),
        (plan("/work", &["traina"]), h200()),
        (plan("/elsewhere", &["train a"]), h200()),
        (plan("/work", &["train a"]), a100),
        (plan("/work", &["train a"]), machine(GpuKind::None, "")),
    ] {
        assert_eq!(experience(root.path(), &plan, &machine).known(), [Known::default()]);
    }
}

#[test]
fn memory_is_learned_from_real_gpus_alone() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["train"]);
    for machine in [machine(GpuKind::None, ""), machine(GpuKind::Sim, "simulated")] {
        run(root.path(), &plan, &machine, &[(3.0, Some(7))]);
        assert_eq!(experience(root.path(), &plan, &machine).known(), [known(3.0, None)]);
    }
    assert_eq!(pages(root.path()).len(), 2);
}

#[test]
fn stages_that_run_the_same_share_what_they_learn() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["train", "train"]);
    let mut experience_now = experience(root.path(), &plan, &h200());
    experience_now.learn(StageId(0), 10.0, Some(Bytes(1)));
    experience_now.learn(StageId(1), 20.0, Some(Bytes(2)));
    experience_now.learn(StageId(9), 99.0, None);
    experience_now.keep();
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(15.0, Some(2)); 2]);
}

#[test]
fn damaged_and_foreign_files_are_ignored_and_replaced() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["train"]);
    run(root.path(), &plan, &h200(), &[(10.0, Some(7))]);
    let page = pages(root.path()).remove(0);
    let good = fs::read_to_string(&page).unwrap();
    for bad in [
        String::new(),
        "{".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"format\":1", "\"format\":2"),
        good.replace("/work", "/elsewhere"),
        good.replace("10.0", "-10.0"),
        good.replace("10.0", "\"soon\""),
    ] {
        assert_ne!(bad, good);
        fs::write(&page, &bad).unwrap();
        assert_eq!(experience(root.path(), &plan, &h200()).known(), [Known::default()], "{bad}");
    }
    run(root.path(), &plan, &h200(), &[(10.0, Some(7))]);
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(10.0, Some(7))]);
}

#[test]
fn only_the_user_reads_it_and_nothing_else_is_left() {
    let root = tempfile::tempdir().unwrap();
    run(root.path(), &plan("/work", &["train"]), &h200(), &[(10.0, Some(7))]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&root.path().join("gpulane/stages")), 0o700);
    let pages = pages(root.path());
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert_eq!(mode(&pages[0]), 0o600);
}

#[test]
fn nowhere_to_keep_it_is_no_error() {
    let plan = plan("/work", &["train"]);
    let mut experience = Experience::kept_in(None, &plan, &h200());
    experience.learn(StageId(0), 1.0, None);
    experience.keep();
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("gpulane"), "in the way").unwrap();
    run(root.path(), &plan, &h200(), &[(10.0, Some(7))]);
    assert_eq!(fs::read_to_string(root.path().join("gpulane")).unwrap(), "in the way");
}

#[test]
fn the_cache_is_where_the_user_wants_it() {
    let place = |cache: &str, home: &str| {
        crate::cache::folder_by(|name| {
            let value = if name == "HOME" { home } else { cache };
            (!value.is_empty()).then(|| PathBuf::from(value))
        })
    };
    assert_eq!(place("/c", "/h"), Some("/c/gpulane".into()));
    assert_eq!(place("relative", "/h"), Some("/h/.cache/gpulane".into()));
    assert_eq!(place("", "/h"), Some("/h/.cache/gpulane".into()));
    assert_eq!(place("", ""), None);
}

#[test]
fn links_are_not_followed_and_folders_of_others_not_used() {
    let root = tempfile::tempdir().unwrap();
    let plan = plan("/work", &["python train.py"]);
    run(root.path(), &plan, &h200(), &[(10.0, Some(5))]);
    let page = pages(root.path()).remove(0);
    // A link in the place of what is read.
    let moved = root.path().join("moved.json");
    fs::rename(&page, &moved).unwrap();
    symlink(&moved, &page).unwrap();
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [Known::default()]);
    // Links in the place of what is written: replaced, and nothing behind them is touched.
    let aside = page.with_extension(format!("json.{}.tmp", std::process::id()));
    let precious = root.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    symlink(&precious, &aside).unwrap();
    run(root.path(), &plan, &h200(), &[(20.0, Some(6))]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
    assert!(fs::symlink_metadata(&page).unwrap().is_file());
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [known(20.0, Some(6))]);
    // A folder that others may fill.
    let folder = root.path().join("gpulane/stages");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(experience(root.path(), &plan, &h200()).known(), [Known::default()]);
}
