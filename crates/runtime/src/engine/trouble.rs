//! From how a job ended and its last words to what that means. Decides nothing: the core does.
//!
//! The rule, since a job may run out of memory, catch that, go on, and fail much later for another reason:
//!
//! - A job that exits with 0 has no sign, whatever it printed.
//! - SIGKILL leaves no time for last words: it is a lack of host memory if the kernel killed for that meanwhile, and
//!   otherwise nothing.
//! - In a Python program's output, the last traceback says why it failed; tracebacks joined by "another exception
//!   occurred" are one. If nothing in it tells, there is no sign, with one exception: tracebacks that only follow from
//!   another one (a parent whose child failed, peers that lost each other, destructors at exit) are passed over.
//! - Without a traceback, the last telling line of the last [`PLAIN_LINES`] counts.
//! - What stands further from the end than [`TRACEBACK_LINES`] is history, traceback or not.
//!
//! Stdout is looked at where stderr says nothing at all.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use gpulane_model::ProcessExit;

mod kills;
mod words;

pub(super) use kills::OomKills;

/// How much of a log's end is read.
const TAIL: u64 = 64 << 10;
/// Last words of a program without tracebacks.
const PLAIN_LINES: usize = 40;
/// A traceback's end may be followed by long tables: XLA lists its largest buffers.
const TRACEBACK_LINES: usize = 200;
/// What a person is shown of a line.
const LONGEST: usize = 200;

/// What a job's end means beyond its exit, with the line that tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Out of GPU memory.
    GpuOom(String),
    /// Out of host memory.
    HostOom(String),
    /// A disk is full.
    DiskFull(String),
    /// Its GPU has failed.
    GpuLost(String),
    /// A fault under MPS, which takes down every process on the GPU; or MPS itself is gone.
    MpsFault(String),
}

/// What a job's end means. `under_mps`: it shared its GPU through our MPS daemon, so that a fault may be another's.
/// `oom_kills`: how often the kernel killed for want of memory while it ran.
pub(super) fn recognise(
    exit: ProcessExit,
    stdout: &Path,
    stderr: &Path,
    under_mps: bool,
    oom_kills: u64,
) -> Option<Sign> {
    if exit.success() {
        return None;
    }
    let killed = matches!(exit, ProcessExit::Signal(libc::SIGKILL));
    // A shell says 137 where a program it ran was killed.
    if oom_kills > 0 && (killed || exit == ProcessExit::Code(137)) {
        return Some(Sign::HostOom("killed by the kernel for want of host memory".to_owned()));
    }
    if killed {
        return None;
    }
    let reader = Reader { under_mps, oom_kills };
    [stderr, stdout].into_iter().find_map(|log| match reader.read(&tail(log).unwrap_or_default()) {
        Finding::Nothing => None,
        Finding::OtherCause => Some(None),
        Finding::Sign(sign) => Some(Some(sign)),
    })?
}

/// What a log's end says.
enum Finding {
    Sign(Sign),
    /// It says why the job failed, and that is nothing we know.
    OtherCause,
    Nothing,
}

struct Reader {
    under_mps: bool,
    oom_kills: u64,
}

impl Reader {
    fn read(&self, text: &str) -> Finding {
        let lines: Vec<String> =
            text.split(['\n', '\r']).map(clean).filter(|line| !line.trim().is_empty()).collect();
        let recent = &lines[lines.len().saturating_sub(TRACEBACK_LINES)..];
        let starts = words::traceback_starts(recent);
        let mut end = recent.len();
        for start in starts.into_iter().rev() {
            let traceback = &recent[start..end];
            let telling =
                |sign: &Sign, line: &str| !matches!(sign, Sign::DiskFull(_)) || !words::is_quoted(line);
            if let Some(sign) = self.last_sign(traceback, telling) {
                return Finding::Sign(sign);
            }
            if !words::is_aftermath(&recent[start.saturating_sub(1)..end]) {
                return Finding::OtherCause;
            }
            end = start;
        }
        let plain = &recent[end.saturating_sub(PLAIN_LINES)..end];
        self.last_sign(plain, |_, _| true).map_or(Finding::Nothing, Finding::Sign)
    }

    fn last_sign(&self, lines: &[String], telling: impl Fn(&Sign, &str) -> bool) -> Option<Sign> {
        lines.iter().rev().find_map(|line| self.sign(line).filter(|sign| telling(sign, line)))
    }

    fn sign(&self, line: &str) -> Option<Sign> {
        let sign = words::meaning(line, self.under_mps, self.oom_kills > 0)?;
        Some(sign(shortened(line)))
    }
}

/// The end of a log. It may be cut in the middle of a line or a character; neither matters.
fn tail(log: &Path) -> io::Result<String> {
    let mut file = gpulane_files::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut bytes = Vec::new();
    // A survivor of the job could still be writing.
    file.take(TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Without colours and other control sequences.
fn clean(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        if char == '\u{1b}' {
            // `ESC [ … letter`; of other sequences only the escape itself goes.
            if chars.clone().next() == Some('[') {
                chars.by_ref().skip(1).find(|char| ('@'..='~').contains(char));
            }
        } else if char == '\t' {
            clean.push(' ');
        } else if !char.is_control() {
            clean.push(char);
        }
    }
    clean
}

fn shortened(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(LONGEST - 1) {
        Some((at, _)) if line[at..].chars().nth(1).is_some() => format!("{}…", &line[..at]),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
