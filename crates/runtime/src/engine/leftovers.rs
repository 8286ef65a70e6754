//! What a job left behind, in words: which processes, and what they hold on to.

use std::fs::read_link;
use std::path::Path;

use gpulane_core::Remains;
use rustix::process::{Resource, Rlimit, prlimit};

use crate::process::tree::Process;

/// How many are described; the rest is counted.
const MOST: usize = 3;
/// What a person is shown of a command.
const LONGEST: usize = 60;

/// What some of these processes are and hold.
pub(super) fn describe(processes: &[Process]) -> Vec<String> {
    processes.iter().take(MOST).map(one).collect()
}

fn one(process: &Process) -> String {
    let pid = process.pid.as_raw_nonzero();
    let held = holdings(Path::new(&format!("/proc/{pid}/fd")));
    let held = if held.is_empty() { String::new() } else { format!(" held {}", held.join(" and ")) };
    format!("{} (pid {pid}){held}", command(process))
}

/// What of its job a process kept open: the logs, the GPU.
fn holdings(descriptors: &Path) -> Vec<&'static str> {
    let is_log = |number: u32, name: &str| {
        read_link(descriptors.join(number.to_string())).is_ok_and(|target| target.ends_with(name))
    };
    let entries = std::fs::read_dir(descriptors).into_iter().flatten().flatten();
    let gpu = entries
        .filter_map(|entry| read_link(entry.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("/dev/nvidia"));
    let held = [(is_log(1, "stdout.log"), "stdout"), (is_log(2, "stderr.log"), "stderr"), (gpu, "the GPU")];
    held.into_iter().filter(|(holds, _)| *holds).map(|(_, what)| what).collect()
}

fn command(process: &Process) -> String {
    let pid = process.pid.as_raw_nonzero();
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&text).replace('\0', " ");
    let words: String = words.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    let words = words.trim();
    match words.char_indices().nth(LONGEST) {
        _ if words.is_empty() => "a process".to_owned(),
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words.to_owned(),
    }
}

/// Those that outlived KILL, with what they are in.
pub(super) fn stuck(processes: &[Process]) -> Option<Remains> {
    let first = processes.first()?;
    let pid = first.pid.as_raw_nonzero();
    let place = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    let place = Some(place.trim()).filter(|place| !place.is_empty() && *place != "0");
    let state = match first.state {
        b'D' => "in uninterruptible sleep (D)".to_owned(),
        b't' | b'T' => "stopped by a tracer".to_owned(),
        other => format!("in state {}", char::from(other)),
    };
    let place = place.map(|place| format!(" in {place}")).unwrap_or_default();
    let because = format!("{} (pid {pid}) is {state}{place}", command(first));
    let pids = processes.iter().map(|process| process.pid.as_raw_nonzero().get().unsigned_abs()).collect();
    Some(Remains { pids, because })
}

/// A core of a process with a model in it fills disks. A limit of one byte keeps the kernel from making any; with none at
/// all it would still feed a collector.
pub(super) fn leave_no_core(process: &Process) {
    let _ = prlimit(Some(process.pid), Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
}
