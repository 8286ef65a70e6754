//! The keys of a stage, each read to its type. The same reading serves `[[stage]]`, `[defaults]` and the flags of
//! the command line; what a stage does not write it takes from the defaults.

use std::collections::BTreeMap;
use std::rc::Rc;

use gpulane_model::{Cpus, Hang, MapStage, Memory, Millis, Stage, Standbys, StartGate};
use toml::de::DeValue;

use crate::command::{self, Command, Text};
use crate::diagnostic::Span;
use crate::entries::{self, Entries};
use crate::entry;
use crate::map;
use crate::matrix::{self, Matrix};
use crate::problems::Problems;
use crate::reader::{Limit, Node, Placed, boolean, count, duration, is_damage, text, texts, wrong_kind};
use crate::watch;
use crate::words::one_of_or;

/// What was written for a stage or as defaults. `None`: not written, or wrong and reported.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// Keys that were written, also those found wrong: what is wrong is not absent.
    pub(crate) written: Vec<Placed<&'static str>>,
    pub(crate) command: Option<Command>,
    pub(crate) entry: Option<Placed<String>>,
    pub(crate) python: Option<String>,
    pub(crate) map: Option<Placed<MapStage>>,
    pub(crate) env: BTreeMap<String, Text>,
    pub(crate) gpus: Option<u32>,
    pub(crate) memory: Option<Memory>,
    pub(crate) cpus: Option<Cpus>,
    pub(crate) parallel: Option<u32>,
    pub(crate) timeout: Option<Limit<Millis>>,
    pub(crate) grace: Option<Millis>,
    pub(crate) retries: Option<u32>,
    pub(crate) retry_delay: Option<Millis>,
    pub(crate) max_failures: Option<Limit<u32>>,
    pub(crate) hang: Option<Limit<Hang>>,
    pub(crate) result: Option<Vec<String>>,
    pub(crate) standbys: Option<Standbys>,
    pub(crate) start_gate: Option<StartGate>,
    pub(crate) mps: Option<bool>,
    pub(crate) after: Vec<Placed<String>>,
    pub(crate) foreach: Option<Placed<String>>,
    /// Shared: a default matrix serves many stages.
    pub(crate) matrix: Option<Rc<Matrix>>,
    /// Shared, as the matrix.
    pub(crate) jobs: Option<Rc<Entries>>,
    /// What came from the defaults and is judged more mildly there.
    pub(crate) inherited: Inherited,
}

/// Which keys came from `[defaults]`. There a stage may name itself, `memory` may stand for stages without a GPU, `timeout` and
/// `max_failures` for those without a map, `python` and `standbys` for those with an entry: all of that then means nothing.
#[allow(clippy::struct_excessive_bools)] // each is a key
#[derive(Clone, Copy, Default)]
pub(crate) struct Inherited {
    pub(crate) after: bool,
    pub(crate) foreach: bool,
    pub(crate) memory: bool,
    pub(crate) timeout: bool,
    pub(crate) max_failures: bool,
    pub(crate) python: bool,
    pub(crate) standbys: bool,
}

/// Keys that say what a stage runs: exactly one.
pub(crate) const WORK: [&str; 3] = ["command", "entry", "map"];

/// Keys that say over which points it runs.
pub(crate) const POINTS: [&str; 3] = ["matrix", "job", "foreach"];

impl Settings {
    pub(crate) fn place_of(&self, key: &str) -> Option<&Span> {
        self.written.iter().find(|written| written.value == key).map(|written| &written.span)
    }

    pub(crate) fn has_any(&self, keys: &[&str]) -> bool {
        self.written.iter().any(|written| keys.contains(&written.value))
    }

    /// Reads one key; false if there is no such key.
    pub(crate) fn read(
        &mut self,
        key: &str,
        span: Span,
        node: &Node<'_>,
        problems: &mut Problems<'_>,
    ) -> bool {
        let Some(known) = crate::keys::STAGE.iter().find(|known| **known == key && key != "name") else {
            return false;
        };
        self.written.push(Placed::new(known, span));
        if is_damage(node) {
            return true;
        }
        if !self.read_limit(key, node, problems) {
            self.read_work(key, node, problems);
        }
        true
    }

    /// Reports a key that does not exist. What was likely meant counts as written, so that nobody reads that it is
    /// missing; a command is read, too, for what else is wrong in it.
    pub(crate) fn read_unknown(
        &mut self,
        key: &str,
        span: Span,
        place: &str,
        node: &Node<'_>,
        problems: &mut Problems<'_>,
    ) -> Option<&'static str> {
        let meant = crate::keys::unknown(key, &span, &crate::keys::STAGE, place, problems)?;
        if meant == "command" && node.get_ref().is_array() && self.place_of(meant).is_none() {
            self.read(meant, span, node, problems);
        } else if meant != "name" {
            self.written.push(Placed::new(meant, span));
        }
        Some(meant)
    }

    fn read_work(&mut self, key: &str, node: &Node<'_>, problems: &mut Problems<'_>) {
        match key {
            "command" => self.command = command::command(node, problems),
            "entry" => self.entry = entry::entry(node, problems),
            "python" => self.python = entry::python(node, problems),
            "map" => self.map = map::read(node, problems),
            "env" => self.env = command::env(node, problems),
            "hang" => self.hang = watch::hang(node, problems),
            "result" => self.result = watch::result(node, problems),
            "standbys" => self.standbys = entry::standbys(node, problems),
            "start_gate" => self.start_gate = watch::start_gate(node, problems),
            "mps" => self.mps = boolean(key, node, problems),
            "after" => self.after = texts(key, node, problems).unwrap_or_default(),
            "foreach" => self.foreach = foreach(node, problems),
            "matrix" => self.matrix = matrix::read(node, problems).map(Rc::new),
            "job" => self.jobs = entries::jobs(node, problems).map(Rc::new),
            _ => {}
        }
    }

    fn read_limit(&mut self, key: &str, node: &Node<'_>, problems: &mut Problems<'_>) -> bool {
        const NUMBER: &str = "a whole number";
        match key {
            "gpus" => self.gpus = count(key, NUMBER, 0..=1024, node, problems),
            "memory" => self.memory = memory(node, problems),
            "cpus" => self.cpus = cpus(node, problems),
            "parallel" => self.parallel = count(key, NUMBER, 0..=u32::MAX, node, problems),
            "timeout" => self.timeout = timeout(node, problems),
            "grace" => self.grace = duration(key, node, problems),
            "retries" => self.retries = count(key, NUMBER, 0..=1_000_000, node, problems),
            "retry_delay" => self.retry_delay = duration(key, node, problems),
            "max_failures" => {
                self.max_failures = if node.get_ref().as_str() == Some("off") {
                    Some(Limit::Off)
                } else {
                    count(key, "a whole number or \"off\"", 1..=u32::MAX, node, problems).map(Limit::At)
                }
            }
            _ => return false,
        }
        true
    }

    /// Takes from the defaults what is not written here. What runs (`command`, `entry`, `map`) and over which points
    /// (`matrix`, `job`, `foreach`) are taken as a whole or not at all; `env` key by key.
    pub(crate) fn fill_from(&mut self, defaults: &Self) {
        let own_work = self.has_any(&WORK);
        // The jobs of a map are its workers.
        let is_map = self.has_any(&["map"]) || !own_work && defaults.has_any(&["map"]);
        let own_points = self.has_any(&POINTS) || is_map;
        if !own_work {
            self.command.clone_from(&defaults.command);
            self.entry.clone_from(&defaults.entry);
            self.map.clone_from(&defaults.map);
        }
        if !own_points {
            self.matrix.clone_from(&defaults.matrix);
            self.jobs.clone_from(&defaults.jobs);
            self.foreach.clone_from(&defaults.foreach);
            self.inherited.foreach = true;
        }
        if !self.has_any(&["after"]) {
            self.after.clone_from(&defaults.after);
            self.inherited.after = true;
        }
        for (name, value) in &defaults.env {
            self.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        self.inherited.memory = !self.has_any(&["memory"]);
        self.inherited.timeout = !self.has_any(&["timeout"]);
        self.inherited.max_failures = !self.has_any(&["max_failures"]);
        self.inherited.python = !self.has_any(&["python"]);
        self.inherited.standbys = !self.has_any(&["standbys"]);
        self.python = self.python.take().or_else(|| defaults.python.clone());
        self.gpus = self.gpus.or(defaults.gpus);
        self.memory = self.memory.or(defaults.memory);
        self.cpus = self.cpus.or(defaults.cpus);
        self.parallel = self.parallel.or(defaults.parallel);
        self.timeout = self.timeout.or(defaults.timeout);
        self.grace = self.grace.or(defaults.grace);
        self.retries = self.retries.or(defaults.retries);
        self.retry_delay = self.retry_delay.or(defaults.retry_delay);
        self.max_failures = self.max_failures.or(defaults.max_failures);
        self.hang = self.hang.or(defaults.hang);
        self.result = self.result.take().or_else(|| defaults.result.clone());
        self.standbys = self.standbys.or(defaults.standbys);
        self.start_gate = self.start_gate.or(defaults.start_gate);
        self.mps = self.mps.or(defaults.mps);
        let taken = |key: &str| {
            !(own_work && WORK.contains(&key) || own_points && POINTS.contains(&key))
                && self.place_of(key).is_none()
        };
        let written: Vec<_> =
            defaults.written.iter().filter(|written| taken(written.value)).cloned().collect();
        self.written.extend(written);
    }

    /// The stage with these settings; references and jobs are filled in later.
    pub(crate) fn stage(&self, name: &str) -> Stage {
        let mut stage = Stage::named(name);
        if let Some(command) = &self.command {
            stage.command = command.args.iter().map(|arg| arg.value.clone()).collect();
        }
        stage.env = self.env.iter().map(|(name, text)| (name.clone(), text.value.clone())).collect();
        stage.gpus = self.gpus.unwrap_or(stage.gpus);
        stage.memory = self.memory.unwrap_or_default();
        stage.cpus = self.cpus.unwrap_or_default();
        stage.parallel = self.parallel.unwrap_or_default();
        stage.timeout = self.timeout.and_then(Limit::at);
        stage.grace = self.grace.unwrap_or(stage.grace);
        stage.retries = self.retries.unwrap_or_default();
        stage.retry_delay = self.retry_delay.unwrap_or_default();
        stage.max_failures = self.max_failures.and_then(Limit::at);
        stage.hang = self.hang.map_or(stage.hang, Limit::at);
        stage.result = self.result.clone().unwrap_or_default();
        stage.entry = self.entry.as_ref().map(|entry| entry.value.clone());
        stage.python = self.python.clone().filter(|_| stage.entry.is_some());
        stage.standbys = self.standbys.unwrap_or_default();
        stage.start_gate = self.start_gate.unwrap_or_default();
        stage.mps = self.mps.unwrap_or_default();
        stage.map = self.map.as_ref().map(|map| map.value.clone());
        entry::settle(&mut stage);
        map::settle(&mut stage, self.retries);
        stage
    }
}

fn memory(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Memory> {
    const EXPECTED: &str = "\"auto\", \"exclusive\" or a size such as \"6GiB\"";
    const WORDS: [(&str, Memory); 2] = [("exclusive", Memory::Exclusive), ("auto", Memory::Auto)];
    let span = node.span();
    let written = match node.get_ref() {
        DeValue::String(written) => written.trim(),
        DeValue::Integer(_) | DeValue::Float(_) => {
            let number = problems.raw(&span).unwrap_or("6").trim_start_matches(['-', '+']);
            let right = problems.assignment("memory", &format!("\"{number}GiB\""));
            problems
                .error(&span, "`memory` needs a unit")
                .label("bytes, MiB or GiB?")
                .help(format!("write {right}"));
            return None;
        }
        _ => {
            wrong_kind("memory", EXPECTED, node, problems);
            return None;
        }
    };
    if !written.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+')) {
        return one_of_or("memory", &WORDS, "a size such as \"6GiB\"", node, problems);
    }
    match written.parse::<gpulane_model::Bytes>() {
        Ok(bytes) if bytes.0 > 0 => Some(Memory::Reserve(bytes)),
        Ok(_) => {
            problems
                .error(&span, "`memory` must be more than 0")
                .help("for a stage without GPUs write `gpus = 0`");
            None
        }
        Err(error) => {
            problems.error(&span, format!("`memory`: {error}")).label(format!("expected {EXPECTED}"));
            None
        }
    }
}

fn cpus(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Cpus> {
    match node.get_ref() {
        DeValue::String(text) if text.trim().parse::<u32>().is_err() => {
            one_of_or("cpus", &[("auto", Cpus::Auto)], "a number such as 4", node, problems)
        }
        _ => count("cpus", "\"auto\" or a number of threads", 1..=65_536, node, problems).map(Cpus::Count),
    }
}

fn timeout(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Limit<Millis>> {
    if node.get_ref().as_str() == Some("off") {
        return Some(Limit::Off);
    }
    let timeout = duration("timeout", node, problems)?;
    if timeout.0 == 0 {
        problems
            .error(&node.span(), "`timeout` must be longer than 0")
            .label("would end every job at once")
            .help("leave it out, or write \"off\", for no limit");
        return None;
    }
    Some(Limit::At(timeout))
}

fn foreach(node: &Node<'_>, problems: &mut Problems<'_>) -> Option<Placed<String>> {
    match node.get_ref() {
        DeValue::Array(items) if items.len() == 1 => {
            let help = items.first().and_then(|item| item.get_ref().as_str());
            let help = help.map(|name| format!("write `foreach = {name:?}`"));
            wrong_kind("foreach", "one stage's name", node, problems).maybe_help(help);
            None
        }
        _ => text("foreach", node, problems),
    }
}
