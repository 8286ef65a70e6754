//! `gpulane status` without a run: the list of runs.

use gpulane_model::{Counts, Millis, RunState};
use serde_json::{Value, json};

use crate::look::Look;
use crate::palette::{Palette, Style};
use crate::phase::{Phase, counts_now, took};
use crate::status_json::time;
use crate::table::{Cell, Table};
use crate::text::{ago, number, plausible};

/// One run of a list.
#[derive(Clone, Debug)]
pub struct RunRow {
    /// What a person calls it: its directory's name.
    pub name: String,
    /// What is known of it, or why nothing is.
    pub known: Result<RunFacts, String>,
}

/// What a list tells of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts {
    /// Where it stands.
    pub phase: Phase,
    /// How many jobs stand where.
    pub counts: Counts,
    /// When it began.
    pub started: Option<Millis>,
    /// Its newest event.
    pub last: Option<Millis>,
}

impl RunFacts {
    /// What a list tells of this run.
    pub fn of(state: &RunState, live: bool) -> Self {
        let counts = counts_now(state.counts, live);
        Self { phase: Phase::of(state, live), counts, started: state.started, last: state.last }
    }

    fn took(&self, now: Millis) -> Option<Millis> {
        took(self.phase, self.started, self.last, now).and_then(plausible)
    }
}

/// The list as text.
pub fn runs_table(runs: &[RunRow], look: Look, now: Millis) -> String {
    let palette = Palette::new(&look);
    if runs.is_empty() {
        return "No runs here yet. Start one: gpulane run PLAN.toml\n".to_owned();
    }
    let titles = ["run", "state", "done", "failed", "took", "started"];
    let rows = runs.iter().map(|run| match &run.known {
        Ok(facts) => {
            let counts = &facts.counts;
            let total = counts.ended() + counts.running + counts.pending;
            let failed = if counts.failed > 0 { Style::Bad } else { Style::Dim };
            let span = |span: Option<Millis>| span.map(|span| span.to_string()).unwrap_or_default();
            let started = facts.started.map(|at| ago(at, now)).unwrap_or_default();
            vec![
                Cell::text(run.name.as_str()),
                Cell::styled(facts.phase.style(), facts.phase.word()),
                Cell::number(Style::Plain, format!("{}/{}", number(counts.ended()), number(total))),
                Cell::number(failed, number(counts.failed)),
                Cell::number(Style::Plain, span(facts.took(now))),
                Cell::number(Style::Plain, started),
            ]
        }
        Err(why) => {
            vec![Cell::text(run.name.as_str()), Cell::styled(Style::Warn, format!("unreadable: {why}"))]
        }
    });
    let table = Table { titles: titles.map(str::to_owned).to_vec(), rows: rows.collect(), indent: 0 };
    format!("{}\n{}\n", table.render(palette), palette.paint(Style::Dim, "More of one: gpulane status RUN"))
}

/// The list as JSON, one run a line.
pub fn runs_json(runs: &[RunRow]) -> String {
    let row = |run: &RunRow| -> Value {
        match &run.known {
            Ok(facts) => json!({
                "name": run.name,
                "state": facts.phase.word(),
                "succeeded": facts.counts.succeeded,
                "failed": facts.counts.failed,
                "skipped": facts.counts.skipped,
                "running": facts.counts.running,
                "waiting": facts.counts.pending,
                "started": facts.started.map(time),
                "last_event": facts.last.map(time),
            }),
            Err(why) => json!({ "name": run.name, "state": "unreadable", "message": why }),
        }
    };
    let lines: Vec<String> = runs.iter().map(|run| format!("{}\n", row(run))).collect();
    lines.concat()
}
