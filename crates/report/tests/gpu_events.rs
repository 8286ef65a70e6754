//! What happens to GPUs and their memory, as a person reads it.

mod scene;

use gpulane_model::{Attempt, Event, FailReason, Failure, LaneId, MOST_PER_GPU, Machine, Memory};
use gpulane_report::{End, Look, Mode, Size, Snapshot, job_detail, job_detail_json, status, status_json};
use scene::vt::Terminal;
use scene::{Scene, at, machine, plan};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A sweep whose jobs share two GPUs by memory.
fn packed() -> Scene {
    let mut plan = plan(&[("train", &["a", "b", "c", "d"])]);
    plan.stages[0].memory = Memory::Auto;
    plan.stages[0].retries = 1;
    let mut scene = Scene::new(plan);
    let machine = Machine { packing: true, lanes_per_gpu: MOST_PER_GPU, ..machine(2) };
    let (name, gpulane) = (scene.plan.name.clone(), "0.1.0".to_owned());
    scene.event(0, Event::RunStarted { format: 1, name, gpulane, jobs: 4, machine, pid: 4242, boot: None });
    scene
}

fn starts(scene: &mut Scene, at: u64, job: &str, attempt: u32, lane: u32) {
    let gpus = vec![format!("GPU-sim-{}", lane / MOST_PER_GPU)];
    let (job, attempt, lane) = (format!("train/{job}"), Attempt(attempt), LaneId(lane));
    scene.event(at, Event::JobStarted { job, attempt, lane, gpus, pid: 5000, warm: false });
}

fn succeeds(scene: &mut Scene, at: u64, job: &str, peak: u64) {
    let (job, peak_vram) = (format!("train/{job}"), Some(peak));
    scene.event(at, Event::JobSucceeded { job, attempt: Attempt(1), seconds: 1.5, peak_vram });
}

fn out_of_memory(shared: bool) -> Failure {
    Failure {
        message: Some("held 5 GiB of 24 GiB; CUDA out of memory".into()),
        seconds: 2.0,
        peak_vram: Some(5 * GIB),
        shared,
        ..Failure::because(FailReason::Oom)
    }
}

fn fails(scene: &mut Scene, at: u64, job: &str, attempt: u32, shared: bool) {
    let failure = out_of_memory(shared);
    scene.event(at, Event::JobFailed { job: format!("train/{job}"), attempt: Attempt(attempt), failure });
}

#[test]
fn memory_is_told_in_sentences() {
    let mut scene = packed();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let (stage, reserve) = ("train".to_owned(), GIB + 300 * MIB);
    let measured = |job: Option<&str>| Event::MemoryMeasured {
        stage: stage.clone(),
        job: job.map(str::to_owned),
        peak: 900 * MIB,
        reserve,
    };
    scene.event(0, measured(None)).event(10, measured(Some("train/a")));
    starts(&mut scene, 20, "a", 1, 0);
    starts(&mut scene, 20, "b", 1, 1);
    scene.event(30, Event::MemoryExceeded { job: "train/b".into(), peak: 5 * GIB, reserved: reserve });
    succeeds(&mut scene, 1500, "a", 900 * MIB);
    fails(&mut scene, 2000, "b", 1, true);
    scene.event(2000, Event::JobRetrying { job: "train/b".into(), attempt: Attempt(2), delay: 0.0 });
    starts(&mut scene, 2000, "b", 2, 0);
    fails(&mut scene, 4000, "b", 2, false);
    live.tick(None, at(4000)).unwrap();
    live.finish(&End::Interrupted, at(4000)).unwrap();
    let expected = "\
ablation: 4 jobs on 2 simulated GPUs, packed by memory, in RUN
train: a job took 900 MiB at most in an earlier run; 1.3 GiB reserved for each
train: a job takes 900 MiB at most; 1.3 GiB reserved for each
! train/b holds 5 GiB of GPU memory; 1.3 GiB were reserved for it
✓ train/a 1.5 s, 900 MiB (1/4)
✗ train/b out of GPU memory: held 5 GiB of 24 GiB; CUDA out of memory, ended after 2.0 s; it shared its GPU: next try alone, not counted
↻ train/b is tried again now
✗ train/b out of GPU memory: held 5 GiB of 24 GiB; CUDA out of memory, ended after 2.0 s, try 1 of 2
";
    let text = scene.masked(&err.text());
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\n  memory:   a job held at most: train 5 GiB\n"), "{text}");
}

#[test]
fn gpus_in_trouble_are_named_while_it_lasts() {
    let mut scene = packed();
    let (mut live, _, err) = scene.live(Mode::Plain, Look::PLAIN);
    let (first, second) = ("GPU-sim-0".to_owned(), "GPU-sim-1".to_owned());
    scene.event(10, Event::GpuQuarantined { gpu: first.clone(), why: "Xid 79; reboot".into() });
    let because = "pid 77 holds 2 GiB; end it".to_owned();
    scene.event(10, Event::VramHeld { gpu: second.clone(), pids: vec![77], bytes: 2 * GIB, because });
    let fault = "unspecified launch failure".to_owned();
    scene.event(10, Event::MpsFault { gpu: second.clone(), job: "train/a".into(), because: fault });
    live.tick(None, at(10)).unwrap();
    let expected = "\
✗ gpu 0 is not used any more: Xid 79; reboot
! gpu 1 is put aside: pid 77 holds 2 GiB; end it
! gpu 1: a fault under MPS, noticed at train/a (unspecified launch failure); the jobs on it are started again
";
    assert!(err.take().ends_with(expected));
    live.tick(None, at(12_000)).unwrap();
    assert!(err.take().contains(" · 2 GPUs not usable\n"));

    let state = scene.state();
    let snapshot = scene.snapshot(&state, at(20));
    let text = scene.masked(&status(&snapshot, Look::PLAIN, false));
    let head = "RUN\n! gpu 0 is not used any more: Xid 79; reboot\n! gpu 1 is put aside: pid 77";
    assert!(text.contains(head), "{text}");
    let ended = scene.masked(&status(&Snapshot { live: false, ..snapshot }, Look::PLAIN, false));
    assert!(ended.contains("! gpu 0 is not used any more"), "{ended}");
    assert!(!ended.contains("gpu 1 waits"), "nobody waits for it any more: {ended}");
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    assert_eq!(value["quarantined"][0]["gpu"], "GPU-sim-0");
    assert_eq!(value["vram_held"][0]["because"], "pid 77 holds 2 GiB; end it");

    scene.event(15, Event::VramBack { gpu: second });
    live.tick(None, at(12_100)).unwrap();
    assert_eq!(err.take(), "gpu 1 is used again: its memory is back\n");
    assert!(scene.state().vram_held.is_empty());
}

#[test]
fn places_of_shared_gpus_come_and_go() {
    let mut scene = packed();
    let look = Look { color: false, unicode: true, size: Size::Fixed(80, 24) };
    let (mut live, _, err) = scene.live(Mode::Tty, look);
    let mut terminal = Terminal::new(80);
    let mut frame = |live: &mut gpulane_report::Live, now: u64| {
        live.tick(None, at(now)).unwrap();
        terminal.feed(&err.take());
        let screen = terminal.text();
        let from = screen.lines().position(|line| line.starts_with("ablation ")).unwrap();
        screen.lines().skip(from + 1).map(str::to_owned).collect::<Vec<_>>()
    };
    starts(&mut scene, 0, "a", 1, 0);
    starts(&mut scene, 0, "b", 1, 1);
    starts(&mut scene, 0, "c", 1, MOST_PER_GPU);
    assert_eq!(
        frame(&mut live, 1000),
        ["gpu 0.0  train/a      1 s", "gpu 0.1  train/b      1 s", "gpu 1.0  train/c      1 s"]
    );
    succeeds(&mut scene, 1500, "a", GIB);
    succeeds(&mut scene, 1500, "c", GIB);
    assert_eq!(frame(&mut live, 2000), ["gpu 0.0  idle", "gpu 0.1  train/b      2 s", "gpu 1.0  idle"]);
    assert_eq!(frame(&mut live, 4000), ["gpu 0.1  train/b      4 s", "gpu 1    idle"]);
    scene.event(4100, Event::GpuQuarantined { gpu: "GPU-sim-1".into(), why: "is lost".into() });
    assert_eq!(frame(&mut live, 4200)[0], "! gpu 1 is not used any more: it is lost");
}

#[test]
fn the_memory_of_jobs_stands_in_every_list() {
    let mut scene = packed();
    starts(&mut scene, 0, "a", 1, 0);
    starts(&mut scene, 0, "b", 1, 1);
    let (stage, job) = ("train".to_owned(), Some("train/a".to_owned()));
    scene.event(900, Event::MemoryMeasured { stage, job, peak: 900 * MIB, reserve: 2 * GIB });
    succeeds(&mut scene, 1500, "a", 900 * MIB);
    fails(&mut scene, 2000, "b", 1, true);
    fails(&mut scene, 3000, "c", 1, false);
    let state = scene.state();
    let snapshot = Snapshot { live: false, ..scene.snapshot(&state, at(5000)) };
    let text = status(&snapshot, Look::PLAIN, true);
    assert!(
        text.contains("GPU memory of a job\n  train  900 MiB at most  2 GiB reserved for each\n"),
        "{text}"
    );
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["job", "state", "took", "tries", "memory", "why"]), "{text}");
    assert!(words.contains(&vec!["train/a", "succeeded", "1.5", "s", "1", "900", "MiB"]), "{text}");
    let detail = |job: &str| job_detail(&snapshot, scene.id(job), Look::PLAIN);
    assert!(detail("train/a").contains("\n  memory:   900 MiB of a GPU at most\n"), "{}", detail("train/a"));
    assert!(detail("train/b").contains("\n  next try: alone on its GPU\n"), "{}", detail("train/b"));
    assert!(detail("train/c").contains("\n  memory:   5 GiB of a GPU at most\n"), "{}", detail("train/c"));
    let value: serde_json::Value = serde_json::from_str(&status_json(&snapshot)).unwrap();
    assert_eq!(value["jobs"][0]["peak_vram"], 900 * MIB);
    assert_eq!(value["jobs"][2]["peak_vram"], 5 * GIB);
    assert_eq!(value["stages"][0]["memory"]["reserve"], 2 * GIB);
    let one: serde_json::Value =
        serde_json::from_str(&job_detail_json(&snapshot, scene.id("train/a"))).unwrap();
    assert_eq!(one["peak_vram"], 900 * MIB);
}
