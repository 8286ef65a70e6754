//! Strangers on a GPU, named so that a person knows whom to ask.

use std::os::unix::fs::MetadataExt;

/// How much of a command is worth a line.
const WORDS: usize = 60;

/// `pid 4242 (anna: python train.py)`, several joined by commas.
pub(in crate::engine) fn name(pids: &[u32]) -> String {
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
    let user = gpulane_gpu::user_name(status.uid());
    if command.is_empty() { format!("pid {pid} ({user})") } else { format!("pid {pid} ({user}: {command})") }
}
