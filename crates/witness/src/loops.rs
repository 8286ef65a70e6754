//! What a loop that sleeps asks for, read from its source: `while not os.path.exists(path):`. Owns the reading of such files, as text;
//! what stands in them is quoted and never followed. They belong to whoever is watched, so all of it is done after all else, on a thread
//! of its own and within one limit: it is there for words (and to know one who polls at another line of its loop again), which no look may
//! be lost for.

mod python;
mod shell;
mod texts;

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde::Serialize;

use crate::frame::Owner;
use crate::native::PATIENCE;
use crate::proc_files::{folder_of, shortened};
use crate::python::Text;
use crate::{Evidence, Frame, Wait};
use texts::Texts;

/// The loop of Python code around the line at which a thread sleeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// The file.
    pub file: String,
    /// The line at which it begins.
    pub line: u32,
    /// What stands there; where that is no condition (`while True:`), also the one that leaves it.
    pub header: String,
    /// The condition asks for a file.
    pub for_file: bool,
    /// The path it asks for, where that is a plain text in a variable.
    pub path: Option<String>,
}

/// Longest header that is quoted, in characters.
const HEADER: usize = 100;
/// So many callers are looked at: a function that only sleeps may be called in the loop of another.
const CALLERS: usize = 4;

impl Loop {
    /// The loop in words, as they stand behind a place.
    pub(crate) fn words(&self) -> String {
        let Self { header, .. } = self;
        let polls = match (&self.path, self.for_file) {
            (Some(path), _) => format!(": it polls for a file ({path})"),
            (None, true) => ": it polls for a file".to_owned(),
            (None, false) => String::new(),
        };
        format!(", in the loop `{header}`{polls}")
    }
}

/// A thread that may sleep in a loop.
pub(crate) struct Asked {
    pid: u32,
    tid: u32,
    code: Code,
}

/// What it runs.
enum Code {
    /// Its innermost frames that are no part of a library's, each with its place in the stack, and what their variables hold.
    Python(Vec<(usize, Frame)>, Vec<Text>),
    /// Maybe a script of a shell, which sleeps by a child.
    Shell,
}

impl Asked {
    /// By the wait of a thread of a process, and its Python frames.
    pub(crate) fn of(
        pid: u32,
        tid: u32,
        wait: &Wait,
        frames: &[Frame],
        mut texts: Vec<Text>,
    ) -> Option<Self> {
        let code = match wait {
            wait if wait.timed == Some(true) => {
                let own = frames.iter().enumerate().filter(|(_, frame)| frame.owner() == Owner::User);
                let own: Vec<(usize, Frame)> =
                    own.take(CALLERS).map(|(at, frame)| (at, frame.clone())).collect();
                texts.retain(|text| own.iter().any(|(at, _)| text.frame == *at));
                (!own.is_empty()).then_some(Code::Python(own, texts))?
            }
            wait if wait.call == "wait4" => Code::Shell,
            _ => return None,
        };
        Some(Self { pid, tid, code })
    }

    fn answer(&self, texts: &mut Texts) -> Option<Loop> {
        let folder = folder_of(self.pid);
        match &self.code {
            Code::Python(frames, values) => {
                frames.iter().find_map(|frame| around(frame, values, self.pid, &folder, texts))
            }
            Code::Shell => of_shell(self.pid, &folder, texts),
        }
    }
}

/// Loops that are being looked for.
pub(crate) struct Answers {
    found: Receiver<(u32, Loop)>,
    until: Instant,
}

/// Begins to look for the loops of these threads. The thread that does may stay behind where a disk does not answer.
pub(crate) fn look_for(asked: Vec<Asked>) -> Answers {
    // Unbounded: there is one answer for each thread at most.
    let (send, found) = channel();
    let until = Instant::now() + PATIENCE;
    if asked.is_empty() {
        return Answers { found, until };
    }
    let look = move || {
        let over = || Instant::now() >= until;
        let mut texts = Texts::new(&texts::read, &over);
        for one in asked.iter().take_while(|_| !over()) {
            if let Some(found) = one.answer(&mut texts) {
                // Whoever asked may have gone on.
                let _ = send.send((one.tid, found));
            }
        }
    };
    // Where there can be no other thread, there is no answer, and none is waited for.
    let _ = std::thread::Builder::new().name("loops".into()).spawn(look);
    Answers { found, until }
}

impl Answers {
    /// Adds to the threads those that are found in time.
    pub(crate) fn add_to(self, evidence: &mut Evidence) {
        let next = || self.found.recv_timeout(self.until.saturating_duration_since(Instant::now())).ok();
        let mut found: HashMap<u32, Loop> = std::iter::from_fn(next).collect();
        for thread in evidence.processes.iter_mut().flat_map(|process| &mut process.threads) {
            thread.in_loop = found.remove(&thread.tid);
        }
    }
}

/// A loop in a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    /// Counted from 1.
    line: usize,
    header: String,
    /// What it asks; of a shell it is not told apart.
    condition: String,
    for_file: bool,
}

/// The loop that a frame is in.
fn around(
    (at, frame): &(usize, Frame),
    values: &[Text],
    pid: u32,
    folder: &Path,
    texts: &mut Texts,
) -> Option<Loop> {
    let found = texts.find(&frame.file, Some(frame.line), (pid, folder), |text| {
        Found::around(text, usize::try_from(frame.line).ok()?)
    })?;
    let value = |name: &str| values.iter().find(|text| text.frame == *at && text.name == name);
    let path = found.for_file.then(|| python::names(&found.condition).find_map(value)).flatten();
    Some(found.quoted(&frame.file, path.map(|text| cleaned(&text.value))))
}

impl Found {
    fn quoted(&self, file: &str, path: Option<String>) -> Loop {
        let line = u32::try_from(self.line).unwrap_or(u32::MAX);
        let header = shortened(&cleaned(&self.header), HEADER);
        Loop { file: file.to_owned(), line, header, for_file: self.for_file, path }
    }
}

fn cleaned(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The loop of a shell's script in which it sleeps. Which line it is at is not known, so there must be no other.
fn of_shell(pid: u32, folder: &Path, texts: &mut Texts) -> Option<Loop> {
    let words = crate::proc_files::read(&folder.join("cmdline"))?;
    let (shell, rest) = words.split_once('\0')?;
    let script = rest.split('\0').next().filter(|word| !word.is_empty() && !word.starts_with('-'))?;
    if !SHELLS.contains(&shell.rsplit('/').next()?.trim_start_matches('-')) {
        return None;
    }
    let found = texts.find(script, None, (pid, folder), |text| {
        let (line, header) = shell::loop_that_sleeps(text.lines())?;
        let for_file = ["-e ", "-f ", "-s ", "-d ", "-r "].iter().any(|test| header.contains(test));
        Some(Found { line, header: shortened(header, HEADER), condition: String::new(), for_file })
    })?;
    Some(found.quoted(script, None))
}

const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];

#[cfg(test)]
mod tests;
