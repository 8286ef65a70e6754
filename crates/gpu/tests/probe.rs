//! The probe against the fake driver. A library path counts only from a process's start on, so each test runs once
//! more as a process of its own, with the fake in its environment.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::process::Command;
use std::time::Duration;

use gpulane_gpu::{GpuError, GpuSpec, NoProbe, Probe, ProbeError, ProcessReading, find, readings};
use gpulane_model::{Bytes, GpuKind};
use gpulane_testkit::{FakeNvml, wait_until};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// Runs `body` in a process that sees fake GPUs of these sizes.
fn inside(test: &str, sizes: &[&str], body: impl FnOnce(&FakeNvml)) {
    inside_with(test, sizes, &[], body);
}

fn inside_with(test: &str, sizes: &[&str], env: &[(&str, &str)], body: impl FnOnce(&FakeNvml)) {
    if let Some(fake) = FakeNvml::inherited() {
        return body(&fake);
    }
    let fake = FakeNvml::new(sizes);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs(fake.env())
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn all() -> GpuSpec {
    GpuSpec::All
}

fn process(pid: u32, memory: Option<u64>, compute: bool) -> ProcessReading {
    ProcessReading { pid, memory: memory.map(Bytes), compute }
}

#[test]
fn gpus_are_found_with_what_no_job_can_have() {
    inside("gpus_are_found_with_what_no_job_can_have", &["24GiB", "80GiB"], |fake| {
        fake.set(|script| script["gpus"][0]["reserved"] = json!("1GiB"));
        let found = find(&all(), None, Bytes(2 * GIB), None).unwrap();
        assert_eq!((found.machine.kind, found.note), (GpuKind::Nvml, None));
        let usable: Vec<u64> = found.machine.gpus.iter().map(|gpu| gpu.usable().0 / GIB).collect();
        assert_eq!(usable, [21, 78]);
        assert_eq!(found.machine.gpus[1].uuid, FakeNvml::uuid(1));
    });
}

#[test]
fn a_reading_has_all_that_the_driver_tells() {
    inside("a_reading_has_all_that_the_driver_tells", &["24GiB"], |fake| {
        fake.set(|script| {
            script["gpus"][0] = json!({
            "uuid": "GPU-1", "name": "Fake 4000", "total": "24GiB", "reserved": "1GiB", "used_extra": "1GiB",
            "load": 37, "power": 210.5, "power_limit": 300, "temperature": 41,
            "compute_mode": "exclusive_process", "ecc": 2, "rows": "pending",
            "processes": [
                {"pid": 11, "used": "2GiB"}, {"pid": 11, "used": "2GiB", "graphics": true},
                {"pid": 12, "graphics": true}, {"pid": 13, "used": "1GiB", "mps": true},
            ]});
        });
        let [reading] = &Probe::open().unwrap().readings()[..] else { panic!("one GPU") };
        assert_eq!((reading.uuid.as_str(), reading.name.as_str(), reading.index), ("GPU-1", "Fake 4000", 0));
        assert_eq!(reading.pci.as_deref(), Some("00000000:10:00.0"));
        let memory = reading.memory;
        let sizes = [memory.total, memory.reserved, memory.used, memory.free].map(|size| size.0 / GIB);
        assert_eq!(sizes, [24, 1, 6, 17]);
        assert_eq!((reading.load, reading.power, reading.power_limit), (Some(37), Some(210.5), Some(300.0)));
        assert_eq!((reading.temperature, reading.ecc_errors), (Some(41), Some(2)));
        assert_eq!(reading.compute_mode.as_deref(), Some("exclusive_process"));
        assert!(reading.trouble.as_ref().unwrap().contains("next reset"));
        let expected =
            [process(11, Some(2 * GIB), true), process(13, Some(GIB), true), process(12, None, false)];
        assert_eq!(reading.processes[..], expected);
    });
}

#[test]
fn what_the_driver_does_not_tell_is_left_open() {
    inside("what_the_driver_does_not_tell_is_left_open", &["24GiB"], |_| {
        let [reading] = &Probe::open().unwrap().readings()[..] else { panic!("one GPU") };
        assert_eq!((reading.load, reading.power, reading.temperature), (None, None, None));
        assert_eq!((reading.ecc_errors, reading.trouble.as_deref()), (None, None));
    });
}

#[test]
fn a_lost_gpu_does_not_take_the_others_with_it() {
    inside("a_lost_gpu_does_not_take_the_others_with_it", &["24GiB", "24GiB", "24GiB", "24GiB"], |fake| {
        let probe = Probe::open().unwrap();
        let (lost, gone, reset) = (FakeNvml::uuid(0), FakeNvml::uuid(1), FakeNvml::uuid(2));
        fake.set(|script| {
            script["gpus"][0]["lost"] = json!(true);
            script["gpus"][1]["lost"] = json!("gone");
            script["gpus"][2]["lost"] = json!("reset");
        });
        let listed = probe.list().unwrap();
        assert_eq!(listed.iter().map(|gpu| &gpu.uuid).collect::<Vec<_>>(), [&FakeNvml::uuid(3)]);
        let troubled: Vec<bool> = probe.readings().iter().map(|reading| reading.trouble.is_some()).collect();
        assert_eq!(troubled, [true, true, true, false]);
        for uuid in [&lost, &gone, &reset] {
            assert!(matches!(probe.glance(uuid), Err(ProbeError::Lost(_))), "{uuid}");
        }
        // Numbers stay: GPU 3 is the fourth, as nvidia-smi has it.
        let third = find(&GpuSpec::These(vec!["3".into()]), None, Bytes(0), None).unwrap();
        assert_eq!(third.machine.gpus[0].uuid, FakeNvml::uuid(3));
        fake.set(|script| drop(script["gpus"].as_array_mut().unwrap().pop()));
        let Err(GpuError::Broken(why)) = find(&all(), None, Bytes(0), None) else { panic!("none is usable") };
        assert!(why.contains("GPU 0 is lost") && why.contains("GPU 2 needs a reset"), "{why}");
    });
}

#[test]
fn a_glance_sees_who_computes() {
    inside("a_glance_sees_who_computes", &["24GiB"], |fake| {
        let probe = Probe::open().unwrap();
        let mut job = Command::new("sleep").arg("600").spawn().unwrap();
        fake.claim(job.id(), &FakeNvml::uuid(0), "3GiB");
        fake.set(|script| {
            script["gpus"][0]["processes"] = json!([{"pid": 5, "used": "1GiB", "graphics": true}]);
            script["gpus"][0]["load"] = json!(80);
        });
        let glance = probe.glance(&FakeNvml::uuid(0)).unwrap();
        assert_eq!((glance.memory.used, glance.load), (Bytes(4 * GIB), Some(80)));
        assert_eq!(glance.processes, [process(job.id(), Some(3 * GIB), true)]);
        job.kill().unwrap();
        job.wait().unwrap();
        let glance = probe.glance(&FakeNvml::uuid(0)).unwrap();
        assert_eq!((glance.memory.used, glance.processes.len()), (Bytes(GIB), 0));
        assert!(matches!(probe.glance("GPU-nobody"), Err(ProbeError::Lost(_))));
    });
}

#[test]
fn memory_can_come_back_late_and_from_nobody() {
    inside("memory_can_come_back_late_and_from_nobody", &["24GiB"], |fake| {
        let probe = Probe::open().unwrap();
        fake.set(|script| script["late_ms"] = json!(600_000));
        let mut job = Command::new("sleep").arg("600").spawn().unwrap();
        fake.claim(job.id(), &FakeNvml::uuid(0), "3GiB");
        job.kill().unwrap();
        job.wait().unwrap();
        let glance = probe.glance(&FakeNvml::uuid(0)).unwrap();
        assert_eq!((glance.memory.used, glance.processes.len()), (Bytes(3 * GIB), 0));
        fake.set(|script| script["late_ms"] = json!(0));
        assert_eq!(probe.glance(&FakeNvml::uuid(0)).unwrap().memory.used, Bytes(0));
    });
}

#[test]
fn in_another_pid_namespace_pids_mean_nothing() {
    inside("in_another_pid_namespace_pids_mean_nothing", &["24GiB"], |fake| {
        fake.claim(std::process::id(), &FakeNvml::uuid(0), "3GiB");
        fake.set(|script| script["hide_processes"] = json!(true));
        let glance = Probe::open().unwrap().glance(&FakeNvml::uuid(0)).unwrap();
        assert_eq!(glance.memory.used, Bytes(3 * GIB));
        let [stranger] = glance.processes[..] else { panic!("one process") };
        assert!(!std::path::Path::new(&format!("/proc/{}", stranger.pid)).exists());
    });
}

fn cut(script: &mut Value) {
    script["gpus"][0]["mig"] = json!([
        {"uuid": "MIG-a", "name": "1g", "total": "10GiB", "processes": [{"pid": 9, "used": "4GiB"}]},
        {"uuid": "MIG-b", "name": "2g", "total": "20GiB"},
    ]);
}

#[test]
fn a_gpu_in_mig_mode_is_its_slices() {
    inside("a_gpu_in_mig_mode_is_its_slices", &["80GiB", "24GiB"], |fake| {
        fake.set(cut);
        let probe = Probe::open().unwrap();
        let listed = probe.list().unwrap();
        let whole = FakeNvml::uuid(1);
        let uuids: Vec<&str> = listed.iter().map(|gpu| gpu.uuid.as_str()).collect();
        assert_eq!(uuids, ["MIG-a", "MIG-b", &whole]);
        assert_eq!(listed[1].memory, Bytes(20 * GIB));
        let readings = probe.readings();
        let places: Vec<(u32, bool)> =
            readings.iter().map(|reading| (reading.index, reading.slice_of.is_some())).collect();
        assert_eq!(places, [(0, false), (0, true), (0, true), (1, false)]);
        assert_eq!(probe.glance("MIG-a").unwrap().memory.free, Bytes(6 * GIB));
        fake.set(|script| script["gpus"][0]["mig"] = json!([]));
        assert_eq!(probe.list().unwrap().len(), 1);
        fake.set(|script| drop(script["gpus"].as_array_mut().unwrap().pop()));
        assert!(probe.list().unwrap_err().contains("no slices"));
    });
}

#[test]
fn xids_are_told_by_the_uuid_that_was_asked_for() {
    inside("xids_are_told_by_the_uuid_that_was_asked_for", &["80GiB", "24GiB", "24GiB"], |fake| {
        fake.set(cut);
        // Refuses to be watched, which must not matter to the rest.
        fake.set(|script| script["gpus"][1]["events"] = json!(false));
        let probe = Probe::open().unwrap();
        let uuids = ["MIG-a".into(), "MIG-b".into(), FakeNvml::uuid(1), FakeNvml::uuid(2)];
        let mut watch = probe.watch_xids(&uuids);
        assert_eq!(watch.next(Duration::ZERO), None);
        fake.set(|script| script["gpus"][2]["xid"] = json!([79]));
        assert_eq!(watch.next(Duration::from_mins(1)), Some((FakeNvml::uuid(2), 79)));
        fake.set(|script| script["gpus"][0]["xid"] = json!([13]));
        assert_eq!(watch.next(Duration::from_mins(1)), Some(("MIG-a".into(), 13)));
        assert_eq!(watch.next(Duration::from_mins(1)), Some(("MIG-b".into(), 13)));
        assert_eq!(watch.next(Duration::ZERO), None);
        assert_eq!(probe.watch_xids(&[FakeNvml::uuid(1)]).next(Duration::ZERO), None);
    });
}

#[test]
fn no_driver_and_a_broken_one_are_told_apart() {
    inside("no_driver_and_a_broken_one_are_told_apart", &["24GiB"], |fake| {
        fake.set(|script| script["init"] = json!("no_driver"));
        assert!(matches!(Probe::open(), Err(NoProbe::Absent(_))));
        let found = find(&all(), Some(2), Bytes(0), None).unwrap();
        assert_eq!(
            found.note.as_deref(),
            Some("the NVIDIA driver is not loaded: 2 CPU lanes stand in for GPUs")
        );
        fake.set(|script| script["init"] = json!("error"));
        assert!(matches!(find(&all(), None, Bytes(0), None), Err(GpuError::Broken(_))));
        fake.set(|script| *script = json!({}));
        assert_eq!(readings(Duration::from_mins(1)), Err(NoProbe::Absent("the driver sees no GPU".into())));
    });
}

#[test]
fn a_hang_at_any_call_ends_in_words() {
    let soon = [("GPULANE_NVML_DEADLINE_MS", "300")];
    inside_with("a_hang_at_any_call_ends_in_words", &["24GiB"], &soon, |fake| {
        let calls = json!(["nvmlInit_v2", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetName"]);
        let calls = calls.as_array().unwrap().iter().map(|call| json!([call])).chain([json!("all")]);
        for hang in calls {
            fake.set(|script| script["hang"] = hang.clone());
            let Err(GpuError::Broken(why)) = find(&all(), None, Bytes(0), None) else { panic!("{hang}") };
            assert_eq!(why, "NVML did not answer within 0.3 s; does nvidia-smi work?", "{hang}");
            assert!(matches!(readings(Duration::from_mins(1)), Err(NoProbe::Broken(_))), "{hang}");
        }
    });
}

#[test]
fn a_driver_that_comes_back_is_heard() {
    inside("a_driver_that_comes_back_is_heard", &["24GiB"], |fake| {
        fake.set(|script| script["hang"] = json!("all"));
        let asking = std::thread::spawn(|| readings(Duration::from_mins(1)));
        fake.set(|script| script["hang"] = json!([]));
        wait_until("the driver's answer", || asking.is_finished());
        assert_eq!(asking.join().unwrap().unwrap().len(), 1);
    });
}
