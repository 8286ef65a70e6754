//! Jobs that fail alike: of tracebacks that are the same line for line, a live view shows the first. What a job says is held
//! back only while it could still become such a one, and shown as soon as it is not.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use gpulane_model::{JobId, Millis};

use crate::clean::clean;
use crate::last_words::alike;
use crate::output::{Said, Stream};
use crate::tail::Found;

/// How the lines begin that end many jobs.
const BEGINNINGS: [&[u8]; 2] = [b"Traceback (most recent call last)", b"Fatal Python error: "];
/// Different tracebacks that are remembered.
const KNOWN: usize = 50;
/// Lines of one that are compared; a longer one is not remembered.
const LINES: usize = 2000;
/// A job that goes on is not kept waiting for longer than this.
const PATIENCE: Millis = Millis::seconds(2);

/// What jobs said at their end, and who says it again.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    /// What was shown: by whom, and its lines as they are compared. Without any: it was too long.
    known: Vec<(JobId, Vec<Mark>)>,
    /// Jobs that have begun a traceback.
    speaking: BTreeMap<JobId, Speaking>,
}

/// Stands for a line.
type Mark = u64;

#[derive(Debug)]
enum Speaking {
    /// It is new and shown: the place in `known` where it is kept.
    New(usize),
    /// All of it was said before, so far.
    Again(Held),
}

#[derive(Debug, Default)]
struct Held {
    /// As they are compared.
    lines: Vec<Mark>,
    /// As they would be shown.
    shown: Vec<String>,
    /// When the first look found them held.
    since: Option<Millis>,
}

impl Echoes {
    /// Hears something a job said, and gives back the lines to show now. `render`: how it would be shown.
    pub(crate) fn hear(&mut self, said: &Said<'_>, render: impl FnOnce() -> String) -> Vec<String> {
        let line = match said.found {
            _ if said.stream != Stream::Stderr => return vec![render()],
            Found::Line(line) => line.text,
            // Bytes were jumped over: nobody knows what is the same.
            Found::Jumped(_) => {
                let mut shown = self.release(said.job);
                shown.push(render());
                return shown;
            }
        };
        let begins = || BEGINNINGS.iter().any(|words| line.starts_with(words));
        let mut held = match self.speaking.remove(&said.job) {
            None if !begins() => return vec![render()],
            None => Held::default(),
            Some(Speaking::New(at)) => {
                let lines = &mut self.known[at].1;
                if lines.len() >= LINES {
                    lines.clear();
                } else if !lines.is_empty() {
                    lines.push(mark(line));
                }
                self.speaking.insert(said.job, Speaking::New(at));
                return vec![render()];
            }
            Some(Speaking::Again(held)) => held,
        };
        held.lines.push(mark(line));
        held.shown.push(render());
        if self.known.iter().any(|(_, lines)| lines.starts_with(&held.lines)) {
            self.speaking.insert(said.job, Speaking::Again(held));
            return Vec::new();
        }
        if self.known.len() < KNOWN {
            self.known.push((said.job, held.lines));
            self.speaking.insert(said.job, Speaking::New(self.known.len() - 1));
        }
        held.shown
    }

    /// A job has ended, all it said was heard. Who said the same before it; or else the lines to show now.
    pub(crate) fn end(&mut self, job: JobId, failed: bool) -> Result<JobId, Vec<String>> {
        match self.speaking.remove(&job) {
            Some(Speaking::Again(held)) => {
                let before = self.known.iter().find(|(_, lines)| failed && *lines == held.lines);
                before.map(|(first, _)| *first).ok_or(held.shown)
            }
            _ => Err(Vec::new()),
        }
    }

    /// What was held of a job, to be shown after all.
    pub(crate) fn release(&mut self, job: JobId) -> Vec<String> {
        self.end(job, false).err().unwrap_or_default()
    }

    /// Once a look: what was held for too long.
    pub(crate) fn overdue(&mut self, now: Millis) -> Vec<String> {
        let late = |(job, speaking): (&JobId, &mut Speaking)| match speaking {
            Speaking::Again(held) => {
                // A clock that is set back must not make it wait.
                let since = held.since.map_or(now, |since| since.min(now));
                held.since = Some(since);
                (now.since(since) >= PATIENCE).then_some(*job)
            }
            Speaking::New(_) => None,
        };
        let late: Vec<JobId> = self.speaking.iter_mut().filter_map(late).collect();
        late.into_iter().flat_map(|job| self.release(job)).collect()
    }

    /// Nothing more will come of those that run: all that was held.
    pub(crate) fn release_all(&mut self) -> Vec<String> {
        let all: Vec<JobId> = self.speaking.keys().copied().collect();
        all.into_iter().flat_map(|job| self.release(job)).collect()
    }
}

fn mark(line: &[u8]) -> Mark {
    let mut hasher = DefaultHasher::new();
    alike(&clean(line, false)).hash(&mut hasher);
    hasher.finish()
}
