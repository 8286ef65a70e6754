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

/// What some of these processes are and hold, and how many more there are.
pub(super) fn describe(processes: &[Process]) -> Vec<String> {
    let mut told: Vec<String> = processes.iter().take(MOST).map(one).collect();
    if let more @ 1.. = processes.len().saturating_sub(MOST) {
        told.push(format!("and {more} more"));
    }
    told
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
    let pid = process.pid.as_raw_nonzero().get().unsigned_abs();
    // Reading the command line of one that is stuck in the kernel could wait for what it is stuck in.
    let known = if process.state == b'D' { None } else { gpulane_witness::command_of(pid, LONGEST) };
    known.unwrap_or_else(|| name(pid))
}

fn name(pid: u32) -> String {
    let name = gpulane_witness::name_of(pid).map(|name| format!("[{name}]"));
    name.unwrap_or_else(|| "a process that ended meanwhile".to_owned())
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
    let because = format!("{} (pid {pid}) is {state}{place}", name(pid.get().unsigned_abs()));
    let pids = processes.iter().map(|process| process.pid.as_raw_nonzero().get().unsigned_abs()).collect();
    Some(Remains { pids, because })
}

/// A core of a process with a model in it fills disks. A limit of one byte keeps the kernel from making any; with none at
/// all it would still feed a collector.
pub(super) fn leave_no_core(process: &Process) {
    let _ = prlimit(Some(process.pid), Resource::Core, Rlimit { current: Some(1), maximum: Some(1) });
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::Pid;

    use super::*;
    use crate::process::tree;

    fn look(child: &Child) -> Process {
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        tree::look(pid).unwrap()
    }

    #[test]
    fn those_that_are_not_named_are_counted() {
        let sleep = || Command::new("sleep").arg("60").spawn().unwrap();
        let mut children: Vec<Child> = (0..5).map(|_| sleep()).collect();
        let processes: Vec<Process> = children.iter().map(look).collect();
        let (five, three) = (describe(&processes), describe(&processes[..3]));
        for child in &mut children {
            child.kill().unwrap();
        }
        assert_eq!((five.len(), five[3].as_str(), three.len()), (4, "and 2 more", 3), "{five:?}");
        // Ended and not yet reaped, it has a name but no command.
        for child in &children {
            let _ = rustix::process::waitid(
                rustix::process::WaitId::Pid(Pid::from_child(child)),
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
            );
        }
        let ended = describe(&processes);
        for child in &mut children {
            child.wait().unwrap();
        }
        assert!(ended[0].starts_with("[sleep] (pid "), "{ended:?}");
        assert!(describe(&processes)[0].starts_with("a process that ended meanwhile (pid "));
    }
}
