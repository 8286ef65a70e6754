//! Evidence in full, for a person: one section of `stacks.txt`.

use std::fmt::{self, Write};

use crate::{Evidence, Frame, ProcessEvidence, Python, ThreadEvidence, Wait};

/// One section: process by process, thread by thread, Python frames with the innermost last as Python prints them, and below
/// them what the thread waits for in the kernel.
pub fn in_full(evidence: &Evidence, title: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, evidence, title);
    text
}

fn write_all(text: &mut String, evidence: &Evidence, title: &str) -> fmt::Result {
    writeln!(text, "==== {title} ====")?;
    if evidence.processes.is_empty() {
        writeln!(text, "\nNo process is left.")?;
    }
    evidence.processes.iter().try_for_each(|process| write_process(text, process))
}

fn write_process(text: &mut String, process: &ProcessEvidence) -> fmt::Result {
    let ProcessEvidence { pid, parent, command, state, .. } = process;
    writeln!(text, "\nProcess {pid} (parent {parent}, {}): {command}", state_in_words(*state))?;
    match &process.python {
        Python::NotPython => {}
        Python::Version(version) => writeln!(text, "  Python {version}")?,
        Python::Unreadable(why) => writeln!(text, "  Python, but {why}")?,
    }
    write_descriptors(text, process)?;
    if let Some(why) = &process.signals {
        writeln!(text, "  {why}")?;
    }
    process.threads.iter().try_for_each(|thread| write_thread(text, thread))
}

fn write_descriptors(text: &mut String, process: &ProcessEvidence) -> fmt::Result {
    let open = &process.descriptors;
    if open.open == 0 {
        return Ok(());
    }
    write!(text, "  {} descriptors", open.open)?;
    if let Some(limit) = open.limit {
        write!(text, " of {limit}")?;
    }
    write!(text, ": {} pipes, {} sockets, {} of GPUs", open.pipes.len(), open.sockets.len(), open.gpus)?;
    for (name, file) in ["stdin", "stdout", "stderr"].iter().zip(&open.standard) {
        write!(text, "; {name} {}", file.as_deref().unwrap_or("closed"))?;
    }
    writeln!(text)
}

fn write_thread(text: &mut String, thread: &ThreadEvidence) -> fmt::Result {
    let ThreadEvidence { tid, name, state, switches, .. } = thread;
    let gil = if thread.gil { ", holds the GIL" } else { "" };
    writeln!(text, "\n  Thread {tid} \"{name}\" ({}{gil}, {switches} switches)", state_in_words(*state))?;
    for Frame { function, file, line } in thread.frames.iter().rev() {
        writeln!(text, "    File \"{file}\", line {line}, in {function}")?;
    }
    if let Some(wait) = &thread.wait {
        writeln!(text, "    waits in {}", wait_in_words(wait))?;
    }
    match &thread.wchan {
        Some(function) => writeln!(text, "    in the kernel: {function}"),
        None => Ok(()),
    }
}

fn wait_in_words(wait: &Wait) -> String {
    let on = match (wait.fd, &wait.on) {
        (Some(fd), Some(on)) => format!(" on descriptor {fd} ({on})"),
        (Some(fd), None) => format!(" on descriptor {fd}"),
        (None, Some(on)) => format!(" on {on}"),
        (None, None) => String::new(),
    };
    let limit = match wait.timed {
        Some(true) => ", with a time limit",
        Some(false) => ", without a time limit",
        None => "",
    };
    let holder = wait.holder.as_ref().map_or_else(String::new, |holder| format!(", held by {holder}"));
    let sources: Vec<String> = wait.sources.iter().map(ToString::to_string).collect();
    let sources =
        if sources.is_empty() { String::new() } else { format!("; for {}", sources.join(", or for ")) };
    let at = wait.at.map_or_else(String::new, |at| format!(" for {}", at.words()));
    format!("{}{at}{on}{limit}{holder}{sources}", wait.call)
}

fn state_in_words(state: char) -> String {
    let words = match state {
        'R' => "running",
        'S' => "sleeping",
        'D' => "in uninterruptible sleep",
        'T' | 't' => "stopped",
        'Z' | 'X' => "ended",
        'I' => "idle",
        _ => "in an unknown state",
    };
    format!("{words} ({state})")
}
