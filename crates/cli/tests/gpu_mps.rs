//! MPS with a stand-in for its control daemon: started when it is of use, gone with the run however that ends, and a
//! fault under it is not held against those it took down.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use gpulane_testkit::{FakeNvml, Gpulane, Live, processes, wait_until};
use rustix::process::Signal;

fn on_one_gpu() -> (FakeNvml, Gpulane) {
    let (nvml, gpulane) = Gpulane::on(env!("CARGO_BIN_EXE_gpulane"), &["24GiB"]);
    (nvml, gpulane.with_mps())
}

fn plan(script: &str, jobs: u32) -> String {
    let seeds: Vec<String> = (0..jobs).map(|seed| seed.to_string()).collect();
    format!(
        "[[stage]]\nname = \"s\"\nmemory = \"4GiB\"\nmps = true\nstart_gate = \"off\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n\
         [stage.matrix]\nseed = [{}]\n",
        seeds.join(", ")
    )
}

/// Daemons and servers of this run.
fn daemons(gpulane: &Gpulane) -> usize {
    let bin = gpulane.workspace.path().join("bin").display().to_string();
    processes()
        .iter()
        .filter(|seen| {
            seen.mentions(&bin) && (seen.command.contains("mps-control") || seen.command == "sleep 5903")
        })
        .count()
}

fn holding(gpulane: &Gpulane) -> Live {
    let live = gpulane.start(&plan("sleep 600", 2), "all");
    gpulane.wait_for_events("job_started", 2);
    wait_until("daemon and server", || daemons(gpulane) == 2);
    live
}

#[test]
fn jobs_that_share_a_gpu_meet_in_a_private_daemon() {
    let (_nvml, gpulane) = on_one_gpu();
    let script =
        "stat -c %a $CUDA_MPS_PIPE_DIRECTORY > mode-{seed}; echo $CUDA_MPS_PIPE_DIRECTORY > pipe-{seed}";
    let finished = gpulane.run(&plan(script, 3), "all");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let read = |name: &str| std::fs::read_to_string(gpulane.workspace.path().join(name)).unwrap();
    assert_eq!(read("mode-0"), "700\n");
    assert_eq!(read("pipe-0"), read("pipe-2"));
    assert!(!std::path::Path::new(read("pipe-0").trim()).exists(), "it is gone with the run");
    assert_eq!(daemons(&gpulane), 0);
}

#[test]
fn alone_on_a_gpu_nobody_needs_it() {
    let (_nvml, gpulane) = on_one_gpu();
    let finished = gpulane.run(&plan("[ -z \"$CUDA_MPS_PIPE_DIRECTORY\" ]", 1), "all");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn without_the_program_jobs_share_all_the_same_and_that_is_said() {
    let (_nvml, gpulane) = on_one_gpu();
    std::fs::write(gpulane.workspace.path().join("bin/nvidia-cuda-mps-control"), "#!/bin/sh\nexit 1\n")
        .unwrap();
    let finished = gpulane.run(&plan("true", 2), "all");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("without MPS"), "{}", finished.stderr);
}

#[test]
fn no_daemon_outlives_the_run() {
    for kill_engine in [false, true] {
        let (_nvml, gpulane) = on_one_gpu();
        let live = holding(&gpulane);
        if kill_engine {
            let engine = gpulane.events_of("run_started")[0]["pid"].as_i64().unwrap();
            let engine = rustix::process::Pid::from_raw(i32::try_from(engine).unwrap()).unwrap();
            rustix::process::kill_process(engine, Signal::KILL).unwrap();
        } else {
            live.signal(Signal::INT);
        }
        live.wait();
        wait_until("no daemon", || daemons(&gpulane) == 0);
        let meeting = gpulane.workspace.path().join("runtime");
        wait_until("no meeting place", || std::fs::read_dir(&meeting).unwrap().count() == 0);
        gpulane.assert_nothing_left();
    }
}

#[test]
fn a_fault_takes_all_down_and_only_the_culprit_fails() {
    let (_nvml, gpulane) = on_one_gpu();
    // Seed 0 faults in every try. Seed 1 is taken down with it; seed 2 would run for ever and is started again.
    let script = r#"
fault() { echo "RuntimeError: CUDA error: an illegal memory access was encountered" >&2; exit 1; }
sleep 0.4
case {seed} in
  0) fault ;;
  1) [ $GPULANE_ATTEMPT = 1 ] && { sleep 0.1; fault; } ;;
  2) [ $GPULANE_ATTEMPT = 1 ] && sleep 600 ;;
esac
exit 0"#;
    let finished = gpulane.run(&plan(script, 3), "all");
    assert_eq!(finished.code, 3, "{}", finished.stderr);
    let mut succeeded = gpulane.jobs_in("job_succeeded");
    succeeded.sort();
    assert_eq!(succeeded, ["s/seed=1", "s/seed=2"]);
    assert!(!gpulane.events_of("mps_fault").is_empty());
    assert!(finished.stderr.contains("MPS"), "{}", finished.stderr);
}
