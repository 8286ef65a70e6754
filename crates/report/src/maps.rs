//! Maps as they go: how far, how fast, what limits them. From `live.json` while a feeder writes it, otherwise from the journal.

use gpulane_journal::RunDir;
use gpulane_model::{Bytes, MapLive, MapState, Millis, Plan, RunState, Stage};

use crate::frame::{clock, rate_text};
use crate::map_words::damaged_text;
use crate::palette::{Palette, Style};
use crate::text::{Drawn, Row, number, seconds, shorten, width};

/// Older than this, nobody writes it any more.
const FRESH: Millis = Millis::seconds(10);
/// The longest and the shortest bar of a map.
const LONGEST_BAR: usize = 40;
const SHORTEST_BAR: usize = 8;

/// One map of a run, now.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// The stage's name, or the run's where the map is all of it.
    pub(crate) name: String,
    /// The map is all there is in the run.
    pub(crate) lone: bool,
    /// How it does, if a feeder says so.
    live: Option<MapLive>,
    /// Items in all; `None`: not listed yet.
    items: Option<u64>,
    done: u64,
    failed: u64,
    damaged: u64,
    /// It is complete.
    finished: bool,
}

/// The maps of a run that have begun.
pub(crate) fn maps(dir: &RunDir, plan: &Plan, state: &RunState, now: Millis) -> Vec<Progress> {
    let stages = plan.stages.iter().zip(&state.maps);
    stages.filter_map(|(stage, map)| progress(dir, plan, stage, map.as_ref()?, now)).collect()
}

fn progress(dir: &RunDir, plan: &Plan, stage: &Stage, map: &MapState, now: Millis) -> Option<Progress> {
    let lone = stage.map.as_ref().is_some_and(|map| map.lone);
    let open = map.finished.is_none() && map.stopped.is_none();
    let live = open.then(|| read(dir, stage, now)).flatten();
    if live.is_none() && map.items.is_none() && !lone {
        return None;
    }
    let name = if lone { plan.name.clone() } else { stage.name.clone() };
    let (done, failed) = live.as_ref().map_or((map.rows, map.failed), |live| (live.done, live.failed));
    let items = map.items.or(live.as_ref().map(|live| live.items));
    let damaged = live.as_ref().map_or(map.damaged, |live| live.damaged);
    Some(Progress { name, lone, live, items, done, failed, damaged, finished: map.finished.is_some() })
}

fn read(dir: &RunDir, stage: &Stage, now: Millis) -> Option<MapLive> {
    let text = gpulane_files::read(&dir.map_dir(stage).join("live.json")).ok()?;
    let live: MapLive = serde_json::from_slice(&text).ok()?;
    (now.since(Millis(live.time)) < FRESH).then_some(live)
}

impl Progress {
    /// What is to be said, most important first: how far; then what may be left out where there is no room.
    fn parts(&self) -> Vec<(u8, Style, String)> {
        let Some(items) = self.items else {
            return vec![(0, Style::Dim, "listing items".to_owned())];
        };
        let mut parts = vec![(
            0,
            Style::Bold,
            format!("{}/{}", number(self.done.saturating_add(self.failed)), number(items)),
        )];
        if self.failed > 0 {
            parts.push((2, Style::Bad, format!("{} failed", number(self.failed))));
        }
        if let Some(damaged) = damaged_text(self.damaged) {
            parts.push((3, Style::Bad, damaged));
        }
        let Some(live) = self.live.as_ref().filter(|_| !self.finished) else { return parts };
        if !live.phase.is_empty() {
            parts.push((1, Style::Dim, live.phase.clone()));
            return parts;
        }
        if !live.held.is_empty() {
            parts.push((1, Style::Bad, "results cannot be written".to_owned()));
            return parts;
        }
        if live.rate > 0.0 {
            parts.push((1, Style::Plain, rate_text(live.rate)));
        }
        if let Some(eta) = live.eta.filter(|_| live.rate > 0.0) {
            parts.push((1, Style::Plain, format!("about {} left", clock(seconds(eta)))));
        }
        if !live.bottleneck.is_empty() {
            let text = format!("{} limits ({:.0}% busy)", live.bottleneck, live.pressed * 100.0);
            parts.push((3, Style::Dim, text));
        }
        if let Some(share) = live.on_gpu.filter(|share| *share > 0.0) {
            parts.push((4, Style::Dim, format!("{:.0}% decoded on the GPU", share * 100.0)));
        }
        if live.to_device > 0 {
            let (device, host) = (Bytes(live.to_device), Bytes(live.on_host));
            parts.push((6, Style::Dim, format!("{device} copied to the GPU, {host} on the host")));
        } else if live.on_host > 0 {
            parts.push((6, Style::Dim, format!("{} copied on the host", Bytes(live.on_host))));
        }
        if live.batch > 0 {
            parts.push((5, Style::Dim, format!("batch {}", number(live.batch))));
        }
        parts
    }

    /// Why its results cannot be written now, if so.
    pub(crate) fn held(&self) -> Option<&str> {
        self.live.as_ref().filter(|_| !self.finished).map(|live| &*live.held).filter(|held| !held.is_empty())
    }

    /// One line without a bar: `tag 1,200/40,000 · 2,310/s · about 12 s left · decoding limits (96% busy)`.
    pub(crate) fn line(&self, palette: Palette) -> String {
        let texts: Vec<String> = self.parts().into_iter().map(|(_, _, text)| text).collect();
        format!("{} {}", self.name, texts.join(palette.dot()))
    }

    /// One line with a bar, for a terminal this wide.
    pub(crate) fn row(&self, palette: Palette, columns: usize) -> Drawn {
        let mut parts = self.parts();
        let dot = palette.dot();
        let needed = |parts: &[(u8, Style, String)]| -> usize {
            parts.iter().map(|(_, _, text)| width(text) + width(dot)).sum()
        };
        let name = shorten(&self.name, columns / 4, palette.dots());
        while width(&name) + 1 + SHORTEST_BAR + 2 + needed(&parts) > columns && parts.len() > 1 {
            let least = parts.iter().map(|(rank, ..)| *rank).max().unwrap_or(0);
            let Some(at) = parts.iter().rposition(|(rank, ..)| *rank == least) else { break };
            parts.remove(at);
        }
        let mut row = Row::new(palette, columns);
        row.put(Style::Bold, &name).put(Style::Plain, " ");
        let cells = (row.room() + width(dot)).saturating_sub(needed(&parts) + 2).min(LONGEST_BAR);
        self.put_bar(&mut row, palette, cells);
        row.put(Style::Plain, "  ");
        for (at, (_, style, text)) in parts.iter().enumerate() {
            if at > 0 {
                row.put(Style::Dim, dot);
            }
            row.put(*style, text);
        }
        row.done()
    }

    fn put_bar(&self, row: &mut Row, palette: Palette, cells: usize) {
        let items = self.items.unwrap_or(0).max(1);
        let share =
            |n: u64| usize::try_from(u128::from(n) * cells as u128 / u128::from(items)).unwrap_or(cells);
        // One failure in ten million must still be seen.
        let failed = share(self.failed).max(usize::from(self.failed > 0)).min(cells);
        let settled = share(self.done.saturating_add(self.failed)).clamp(failed, cells);
        row.put(Style::Good, &palette.full().repeat(settled - failed))
            .put(Style::Bad, &palette.full_bad().repeat(failed))
            .put(Style::Dim, &palette.empty().repeat(cells - settled));
    }
}
