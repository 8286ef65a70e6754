//! `gpulane gpus`: what a person and a script see of a machine's GPUs.

mod scene;

use std::path::PathBuf;

use gpulane_gpu::{GpuReading, Holder, MemoryReading, ProcessReading, Survey, Ticket};
use gpulane_model::Bytes;
use gpulane_report::{GpusScreen, Look, SeenGpus, SeenHolder, Size, Whose, gpus_json, gpus_table};
use scene::vt::Terminal;
use scene::{Seen, at};

const MIB: u64 = 1 << 20;

fn gpu(index: u32, used: u64, processes: &[(u32, u64)]) -> GpuReading {
    let total = 143_771;
    GpuReading {
        uuid: format!("GPU-{index}"),
        index,
        name: "NVIDIA H200".into(),
        memory: MemoryReading {
            total: Bytes(total * MIB),
            reserved: Bytes(600 * MIB),
            used: Bytes(used * MIB),
            free: Bytes((total - used) * MIB),
        },
        load: Some(52),
        power: Some(312.4),
        power_limit: Some(700.0),
        temperature: Some(41),
        compute_mode: Some("default".into()),
        ecc_errors: Some(0),
        processes: processes
            .iter()
            .map(|(pid, mib)| ProcessReading { pid: *pid, memory: Some(Bytes(mib * MIB)), compute: true })
            .collect(),
        ..GpuReading::default()
    }
}

/// Process 1 is a job of a run, 2 somebody's, others are elsewhere.
fn who(process: &ProcessReading) -> SeenHolder {
    let (user, command, whose) = match process.pid {
        1 => {
            let whose = Whose::Run { run: "/data/runs/ablation-1".into(), job: Some("train/lr=0.1".into()) };
            (Some("ada"), Some("python train.py --config config.json --out out"), whose)
        }
        2 => (Some("bob"), Some("python"), Whose::Foreign),
        _ => (None, None, Whose::Unknown),
    };
    SeenHolder { process: *process, user: user.map(Into::into), command: command.map(Into::into), whose }
}

fn busy() -> SeenGpus {
    let run = |name: &str| PathBuf::from(format!("/data/runs/{name}"));
    let holder = Holder { pid: 4242, user: "ada".into(), run: run("ablation-1"), since: at(0) };
    let ticket = Ticket {
        pid: 99,
        user: "eve".into(),
        run: run("later"),
        gpus: vec!["GPU-0".into(), "GPU-1".into()],
        since: at(30_000),
    };
    let survey = Survey { leases: vec![("GPU-0".into(), holder)], waiting: vec![ticket] };
    let lost = GpuReading {
        uuid: "GPU-2".into(),
        index: 2,
        name: "NVIDIA H200".into(),
        trouble: Some("is lost: it has fallen off the bus".into()),
        ..GpuReading::default()
    };
    let readings = vec![gpu(0, 72_000, &[(2, 1024), (1, 69_900)]), gpu(1, 1030, &[(777, 6)]), lost];
    SeenGpus::new(readings, survey, who)
}

fn look(columns: usize) -> Look {
    Look { size: Size::Fixed(columns, 40), ..Look::PLAIN }
}

#[test]
fn a_table_a_person_likes() {
    let expected = "\
gpu  name                           memory              load      power   temp
  0  H200  ███████▌░░░░░░░  70.3/140.4 GiB  █████▎░░░░  52 %  312/700 W  41 °C
     1  ada  68.3 GiB  python t…out out  ours: run ablation-1, job train/lr=0.1
     2  bob     1 GiB  python            foreign
     leased to run ablation-1 (pid 4242, ada) for 1m 00s
  1  H200  ▏░░░░░░░░░░░░░░   1.0/140.4 GiB  █████▎░░░░  52 %  312/700 W  41 °C
     777  ?  6 MiB  unknown (another PID namespace)
     ! 1 GiB held, but by no process that can be seen: a dead or frozen
       process, or one in another container. `fuser -v /dev/nvidia*` as root
       names it; if nothing else uses the GPU, `nvidia-smi --gpu-reset -i 1` as
       root frees it
  2  H200  ?
     ! gpu 2 is lost: it has fallen off the bus. End what uses it, then
       `nvidia-smi --gpu-reset -i 2` as root, or reboot; `dmesg | grep -i xid`
       tells what happened

Waiting for a GPU, the first in line first
  run later (pid 99, eve), begun 30 s ago, for any of gpu 0, 1
";
    assert_eq!(gpus_table(&busy(), look(80), at(60_000)), expected);
}

#[test]
fn narrow_and_ascii_terminals_get_all_of_it() {
    let narrow = Look { unicode: false, ..look(60) };
    let text = gpus_table(&busy(), narrow, at(60_000));
    let expected = "\
gpu  name                  memory        load  power  temp
  0  H200  ###---  70.3/140.4 GiB  ##--  52 %  312 W  41 C
     1  ada  68.3 GiB  python train.py -...g.json --out out
        ours: run ablation-1, job train/lr=0.1
     2  bob     1 GiB  python
        foreign
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.is_ascii(), "{text}");
    assert!(text.lines().all(|line| line.len() < 60), "{text}");
}

#[test]
fn what_stands_in_the_way_of_sharing_is_named() {
    let mode = |mode: &str| GpuReading { compute_mode: Some(mode.into()), ..gpu(0, 0, &[]) };
    let worn = GpuReading { ecc_errors: Some(3), ..gpu(1, 0, &[]) };
    let slice = GpuReading {
        uuid: "MIG-5".into(),
        name: "NVIDIA H200 MIG 1g.18gb".into(),
        slice_of: Some("GPU-1".into()),
        ..gpu(1, 0, &[])
    };
    let readings = vec![mode("exclusive_process"), mode("prohibited"), worn, slice];
    let text = gpus_table(&SeenGpus::new(readings, Survey::default(), who), look(200), at(0));
    for expected in [
        "! compute mode exclusive_process: one process at a time, jobs cannot share it.",
        "! compute mode prohibited: no job can use it. `nvidia-smi -i 0 -c DEFAULT` as root allows it",
        "! 3 memory errors that could not be corrected: results may be wrong.",
        "\n  └  MIG 1g.18gb ",
        "\n     MIG-5\n",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_gpu_cut_into_slices_has_no_ghost_of_its_own() {
    let whole = gpu(0, 5000, &[]);
    let slice =
        GpuReading { uuid: "MIG-5".into(), slice_of: Some("GPU-0".into()), ..gpu(0, 5000, &[(2, 4990)]) };
    let seen = SeenGpus::new(vec![whole, slice], Survey::default(), who);
    assert_eq!(seen.gpus.iter().filter_map(|gpu| gpu.ghost).count(), 0);
}

#[test]
fn a_script_gets_one_array() {
    let value: serde_json::Value = serde_json::from_str(&gpus_json(&busy())).unwrap();
    let first = &value[0];
    assert_eq!((&first["uuid"], &first["memory"]["used"]), (&"GPU-0".into(), &(72_000 * MIB).into()));
    assert_eq!(first["holders"][0]["job"], "train/lr=0.1");
    assert_eq!(first["holders"][1]["whose"], "foreign");
    assert_eq!(first["lease"]["run"], "/data/runs/ablation-1");
    assert_eq!(first["waiting"][0]["pid"], 99);
    assert_eq!(first["ghost"], serde_json::Value::Null);
    assert_eq!((&value[1]["ghost"], &value[1]["lease"]), (&(1024 * MIB).into(), &serde_json::Value::Null));
    assert_eq!(value[2]["trouble"], "is lost: it has fallen off the bus");
    assert_eq!(gpus_json(&SeenGpus::default()), "[]");
}

#[test]
fn watching_draws_over_the_last_look() {
    let out = Seen::default();
    let look = Look { size: Size::Fixed(80, 12), ..Look::PLAIN };
    let mut screen = GpusScreen::new(look, true, Box::new(out.clone()));
    let mut terminal = Terminal::new(80);
    for second in 0..3 {
        screen.show(&busy(), at(60_000 + second * 1000)).unwrap();
        terminal.feed(&out.take());
    }
    let text = terminal.text();
    assert_eq!(text.matches("  H200  ").count(), 2, "{text}");
    assert!(text.contains("for 1m 02s"), "{text}");
    assert!(text.ends_with("+ 8 more lines; `gpulane gpus` shows all"), "{text}");
    assert_eq!(text.lines().count(), 11, "no more than the terminal has");
    screen.close().unwrap();
    terminal.feed(&out.take());
    assert!(terminal.text().contains("  H200  "), "the last look stays");

    let mut printed = GpusScreen::new(look, false, Box::new(out.clone()));
    printed.show(&busy(), at(0)).unwrap();
    printed.show(&busy(), at(2000)).unwrap();
    let text = out.take();
    assert!(text.starts_with("2023-11-14T22:13:20.000Z\ngpu  name"), "{text}");
    assert_eq!(text.matches("gpu  name").count(), 2);
}
