//! What a look tells: one thing that was seen, and what follows from it.

use serde::Serialize;

/// How much it matters. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something does not work, or will soon not.
    Bad,
    /// Works, but a person should know.
    Warning,
    /// As it should be.
    Fine,
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, in a word or two: `driver`, `/dev/shm`.
    pub topic: &'static str,
    /// What was seen.
    pub seen: String,
    /// Why it matters; empty where that is plain.
    pub why: String,
    /// What to do: commands, or words where there is no command.
    pub next: Vec<String>,
    /// The jobs it is about, `STAGE/NAME`, where it is about jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
}

impl Finding {
    /// Something does not work.
    pub(crate) fn bad(topic: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Bad, topic, seen)
    }

    /// Something a person should know.
    pub(crate) fn warning(topic: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Warning, topic, seen)
    }

    /// All is well.
    pub(crate) fn fine(topic: &'static str, seen: impl Into<String>) -> Self {
        Self::new(Severity::Fine, topic, seen)
    }

    pub(crate) fn new(severity: Severity, topic: &'static str, seen: impl Into<String>) -> Self {
        let (seen, why) = (seen.into(), String::new());
        Self { severity, topic, seen, why, next: Vec::new(), jobs: Vec::new() }
    }

    /// Why it matters.
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// One more thing to do.
    pub(crate) fn then(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// The jobs it is about.
    pub(crate) fn of(mut self, jobs: Vec<String>) -> Self {
        self.jobs = jobs;
        self
    }
}
