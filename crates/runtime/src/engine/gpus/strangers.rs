//! Strangers on a GPU, named so that a person knows whom to ask.

use std::os::unix::fs::MetadataExt;

use gpulane_gpu::GpuReading;
use gpulane_model::Bytes;

use super::ledger::is_haunted;

/// How much of a command is worth a line.
const WORDS: usize = 60;

/// Who computes on a GPU that nobody has leased, and whether they cannot be seen; `None`: nobody.
pub(in crate::engine) fn on(reading: &GpuReading) -> Option<(String, bool)> {
    let pids: Vec<u32> =
        reading.processes.iter().filter(|process| process.compute).map(|process| process.pid).collect();
    let seen: u64 =
        reading.processes.iter().filter_map(|process| process.memory).map(|memory| memory.0).sum();
    let ghost = reading.memory.used.0.saturating_sub(seen);
    let used = !pids.is_empty() || is_haunted(ghost, reading.memory.total.0);
    used.then(|| (name_or_ghost(&pids, Bytes(ghost)), pids.is_empty()))
}

/// The same for what was seen before.
pub(super) fn name_or_ghost(pids: &[u32], bytes: Bytes) -> String {
    if pids.is_empty() { format!("{bytes} held by no process that can be seen") } else { name(pids) }
}

/// `pid 4242 (anna: python train.py)`, several joined by commas.
fn name(pids: &[u32]) -> String {
    let named: Vec<String> = pids.iter().take(4).map(|pid| one(*pid)).collect();
    let more = if pids.len() > 4 { format!(" and {} more", pids.len() - 4) } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn one(pid: u32) -> String {
    let Ok(status) = std::fs::metadata(format!("/proc/{pid}")) else {
        return format!("pid {pid} (not visible from here)");
    };
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let command: String = command.trim().chars().filter(|letter| !letter.is_control()).take(WORDS).collect();
    let user = gpulane_files::user_name(status.uid());
    if command.is_empty() { format!("pid {pid} ({user})") } else { format!("pid {pid} ({user}: {command})") }
}
