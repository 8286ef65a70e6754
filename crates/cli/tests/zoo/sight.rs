//! What can be seen of a finished run of the zoo: its journal and what it wrote about each job.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gpulane_testkit::Gpulane;
use serde_json::Value;

use crate::animal::Animal;

/// A finished run.
pub(crate) struct Sight {
    dir: PathBuf,
    events: Vec<Value>,
}

impl Sight {
    /// Of the run in this workspace.
    pub(crate) fn of(gpulane: &Gpulane) -> Self {
        Self { dir: gpulane.dir(), events: gpulane.events() }
    }

    /// The animal's first event of this kind.
    pub(crate) fn event(&self, kind: &str, animal: &Animal) -> Option<&Value> {
        let job = format!("{}/main", animal.name);
        self.events.iter().find(|event| event["event"] == kind && event["job"] == job.as_str())
    }

    /// All events about the animal, for who must find out why it went wrong.
    pub(crate) fn story(&self, animal: &Animal) -> String {
        let job = format!("{}/main", animal.name);
        let told = self.events.iter().filter(|event| event["job"] == job.as_str());
        told.fold(String::new(), |story, event| format!("{story}\n    {event}"))
    }

    /// The event that says the animal is frozen.
    pub(crate) fn verdict(&self, animal: &Animal) -> Option<&Value> {
        let job = format!("{}/main", animal.name);
        let is_it = |event: &&Value| {
            event["event"] == "hang_suspected" && event["job"] == job.as_str() && event["frozen"] == true
        };
        self.events.iter().find(is_it)
    }

    /// A file of its first attempt; empty if it is not there.
    pub(crate) fn file(&self, animal: &Animal, name: &str) -> String {
        let bytes = std::fs::read(self.attempt(animal).join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether this file is in its published output.
    pub(crate) fn published(&self, animal: &Animal, name: &str) -> bool {
        self.dir.join("jobs").join(&animal.name).join("main/out").join(name).exists()
    }

    /// From its last words (it prints just before it freezes) to the verdict.
    pub(crate) fn freeze_to_verdict(&self, animal: &Animal) -> Option<Duration> {
        let frozen = std::fs::metadata(self.attempt(animal).join("stdout.log")).ok()?.modified().ok()?;
        time(self.verdict(animal)?)?.duration_since(frozen).ok()
    }

    /// From the verdict to the start of the next job on its lane.
    pub(crate) fn verdict_to_next(&self, animal: &Animal) -> Option<Duration> {
        let verdict = self.verdict(animal)?;
        let lane = &self.event("job_started", animal)?["lane"];
        let later = self.events.iter().skip_while(|event| event["seq"] != verdict["seq"]);
        let next =
            later.into_iter().find(|event| event["event"] == "job_started" && event["lane"] == *lane)?;
        time(next)?.duration_since(time(verdict)?).ok()
    }

    fn attempt(&self, animal: &Animal) -> PathBuf {
        self.dir.join("jobs").join(&animal.name).join("main/attempt-1")
    }
}

fn time(event: &Value) -> Option<SystemTime> {
    humantime::parse_rfc3339(event["time"].as_str()?).ok()
}
