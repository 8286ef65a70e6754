//! What plain output needs beside the lines of events: a sign of life when nothing was printed for a while, and
//! jobs' progress bars now and then.

use std::collections::BTreeMap;

use gpulane_model::{Counts, JobId, Millis};

use crate::frame::{Frame, clock};
use crate::palette::Palette;
use crate::text::{number, plural};

/// A line of progress after this much silence; and as often a line of a job's bar.
const EVERY: Millis = Millis::seconds(10);
/// The same while a map goes on: it has news all the time.
const EVERY_MAP: Millis = Millis::seconds(5);

/// The clock of plain output.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// When something was last printed.
    last: Option<Millis>,
    /// Per running job: when its bar was last shown, and its text then.
    bars: BTreeMap<JobId, (Millis, Vec<u8>)>,
}

impl Plain {
    /// Something was printed.
    pub(crate) fn on_print(&mut self, now: Millis) {
        self.last = Some(now);
    }

    /// Whether it is time for a sign of life.
    pub(crate) fn is_due(&mut self, now: Millis, maps: bool) -> bool {
        now.since(*self.last.get_or_insert(now)) >= if maps { EVERY_MAP } else { EVERY }
    }

    /// A job was started.
    pub(crate) fn on_start(&mut self, job: JobId, now: Millis) {
        self.bars.insert(job, (now, Vec::new()));
    }

    /// A job has ended.
    pub(crate) fn on_end(&mut self, job: JobId) {
        self.bars.remove(&job);
    }

    /// Whether to show this text of a job's bar now.
    pub(crate) fn show_bar(&mut self, job: JobId, text: &[u8], now: Millis) -> bool {
        let (last, shown) = self.bars.entry(job).or_insert_with(|| (now, Vec::new()));
        let show = now.since(*last) >= EVERY && shown != text;
        if show {
            *last = now;
            shown.clear();
            shown.extend_from_slice(text);
        }
        show
    }
}

/// `… 7/13 done · 1 failed · 4 running · 42 s · about 35 s left`
pub(crate) fn beat(frame: &Frame, palette: Palette) -> String {
    let Counts { failed, running, skipped, .. } = frame.counts;
    let lone = frame.maps.iter().any(|map| map.lone);
    let mut parts: Vec<String> = frame.maps.iter().map(|map| map.line(palette)).collect();
    if !lone {
        parts.insert(0, format!("{}/{} done", number(frame.counts.ended()), number(frame.total)));
    }
    let counts =
        if lone { [(0, ""); 3] } else { [(failed, "failed"), (skipped, "skipped"), (running, "running")] };
    for (n, word) in counts {
        if n > 0 {
            parts.push(format!("{} {word}", number(n)));
        }
    }
    parts.push(clock(frame.elapsed));
    parts.extend(frame.left.map(|left| format!("about {} left", clock(left))));
    match frame.troubles.len() {
        0 => {}
        n => parts.push(format!("{} not usable", plural(n, "GPU"))),
    }
    parts.extend(frame.held.as_ref().map(|because| format!("no new starts: {because}")));
    format!("{} {}", palette.dots(), parts.join(palette.dot()))
}
