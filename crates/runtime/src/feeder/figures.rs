//! The map in figures: for `live.json`, and in one line at its end.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gpulane_core::batches::Work;
use gpulane_model::{Bytes, MapLive};

use super::flow::Flow;
use super::hub::Hub;
use super::live::Figures;

/// A step that was busy for less of the time limited nothing.
const SATURATED: f64 = 0.5;
/// Below so many seconds nothing is said of limits.
const WORTH_JUDGING: f64 = 1.0;

impl Hub {
    /// Cumulative figures of now.
    fn figures(&self) -> Figures {
        let written = &self.writing.written;
        let workers = self.workers.values();
        let (mut model, mut copying, mut waiting) =
            (self.tally.model, self.tally.copying, self.tally.waiting);
        for worker in workers {
            model += worker.model_seconds;
            copying += worker.copy_seconds;
            waiting += worker.wait_seconds;
        }
        #[allow(clippy::cast_precision_loss)] // seconds
        let writing = written.busy.load(Ordering::Relaxed) as f64 / 1e9;
        let workers = f64::from(self.working());
        let mut work = Work { workers, model, copying, waiting, writing, ..Work::default() };
        if let Some(flow) = &self.flow {
            let rates = flow.loaders.rates();
            work.threads = f64::from(flow.threads);
            work.reading = rates.reading;
            work.decoding = rates.decoding + rates.resizing;
        }
        let items = written.rows.load(Ordering::Relaxed) + written.failed.load(Ordering::Relaxed);
        Figures { items, work }
    }

    /// Items with a result whose picture is damaged.
    pub(super) fn damaged(&self) -> u64 {
        self.tally.damaged_before + self.writing.written.damaged.load(Ordering::Relaxed)
    }

    /// Loading begins now.
    pub(super) fn begin_figures(&mut self) {
        let figures = self.figures();
        self.live.begin(Instant::now(), figures);
    }

    /// Writes `live.json`.
    pub(super) fn show(&mut self, now: Instant) {
        let figures = self.figures();
        if self.flow.is_some() {
            self.live.look(now, figures);
        }
        let written = &self.writing.written;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let flow = self.flow.as_ref();
        let live = MapLive {
            time: u64::try_from(time).unwrap_or(u64::MAX),
            items: self.task.list.len(),
            done: self.tally.rows_before + written.rows.load(Ordering::Relaxed),
            failed: self.tally.failed_before + written.failed.load(Ordering::Relaxed),
            damaged: self.damaged(),
            committed: self.tally.rows_before
                + self.tally.failed_before
                + written.durable.load(Ordering::Relaxed),
            phase: if flow.is_some() { String::new() } else { "waiting for the model".to_owned() },
            held: self.writing.written.obstacle(),
            batch: flow.map_or(0, |flow| flow.size.now()),
            threads: flow.map_or(0, |flow| flow.threads),
            workers: self.working(),
            on_gpu: flow.and_then(Flow::on_device),
            ring: flow.map_or(0, |flow| flow.ring.bytes_got()),
            to_device: self.tally.to_device,
            on_host: self.tally.on_host,
            ..MapLive::default()
        };
        self.live.write(now, live);
    }

    /// The whole run in one line: how fast, what limited it, how close it came to that limit.
    pub(super) fn summary(&self, now: Instant) -> String {
        // Where nothing was loaded there is nothing to sum up.
        let Some((work, limit)) = self.live.whole(now, self.figures()) else {
            return "nothing was left to do".to_owned();
        };
        let on_gpu = self.flow.as_ref().and_then(Flow::on_device).map_or_else(String::new, |share| {
            format!(", {:.0}% of the images decoded on the GPU", share * 100.0)
        });
        let moved = match (self.tally.to_device, self.tally.on_host) {
            (0, 0) => String::new(),
            (0, on_host) => format!(", {} copied on the host", Bytes(on_host)),
            (device, on_host) => {
                format!(", {} copied to the GPU, {} on the host", Bytes(device), Bytes(on_host))
            }
        };
        let deaths = match self.tally.deaths {
            0 => String::new(),
            1 => ", 1 worker died and was replaced".to_owned(),
            many => format!(", workers died and were replaced {many} times"),
        };
        let deaths = format!("{deaths}{}", self.replacements());
        let limited = if limit.busy < SATURATED {
            String::new()
        } else {
            format!(
                "; limited by {}, which was busy {:.0}% of the time (at most {:.0} items/s)",
                limit.step.word(),
                limit.busy * 100.0,
                limit.limit,
            )
        };
        if work.seconds < WORTH_JUDGING {
            return format!("{:.0} items in {:.2} s{moved}{deaths}", work.items, work.seconds);
        }
        format!(
            "{:.0} items/s over {:.1} s{limited}{on_gpu}{moved}{deaths}",
            work.items / work.seconds,
            work.seconds
        )
    }

    /// Workers that were replaced, and why, for the end of a line.
    fn replacements(&self) -> String {
        let all = [
            (self.tally.replaced, "replaced after failures in a row"),
            (self.tally.overdue, "replaced because the model did not come back"),
        ];
        let mut text = String::new();
        for (count, why) in all.into_iter().filter(|(count, _)| *count > 0) {
            let were = if count == 1 { " was" } else { "s were" };
            // A text takes everything.
            let _ = write!(text, ", {count} worker{were} {why}");
        }
        text
    }
}
