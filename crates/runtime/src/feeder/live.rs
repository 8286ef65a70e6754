//! How the map does just now, for whoever looks: `live.json` beside the parts. A view's file, never a truth: what counts is in the ledger.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpulane_core::batches::{Bottleneck, Work, bottleneck};
use gpulane_model::MapLive;
use rustix::fs::{Mode, OFlags};

/// Between two versions of the file.
const EVERY: Duration = Duration::from_millis(300);
/// So long the file is at least, filled up with spaces: what holds the map up can be written over it when there is no space for more.
const LENGTH: usize = 1024;
/// The stretch of time rates are made of.
const STRETCH: Duration = Duration::from_secs(2);

/// Cumulative figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Items settled by this process.
    pub(crate) items: u64,
    /// Seconds spent by each step, added up over all that do it.
    pub(crate) work: Work,
}

/// Writes the file, and keeps what is needed for rates.
pub(crate) struct Live {
    path: PathBuf,
    draft: PathBuf,
    last: Option<Instant>,
    /// Where the present stretch began, and what stood there.
    from: Option<(Instant, Figures)>,
    rate: f64,
    limit: Option<Bottleneck>,
    /// When the first batch could be loaded, and what stood there: for the summary.
    begun: Option<(Instant, Figures)>,
}

impl Live {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            path: dir.join("live.json"),
            draft: dir.join(".live.json"),
            last: None,
            from: None,
            rate: 0.0,
            limit: None,
            begun: None,
        }
    }

    /// Whether it is time to write again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.duration_since(last) >= EVERY)
    }

    /// Loading begins now.
    pub(crate) fn begin(&mut self, now: Instant, figures: Figures) {
        self.begun.get_or_insert((now, figures));
    }

    /// Takes the figures of this moment into account.
    pub(crate) fn look(&mut self, now: Instant, figures: Figures) {
        self.begin(now, figures);
        let (since, from) = *self.from.get_or_insert((now, figures));
        let stretch = now.duration_since(since);
        if stretch < STRETCH && self.rate > 0.0 {
            return;
        }
        if stretch >= EVERY {
            let work = between(&from, &figures, stretch);
            self.rate = work.items / work.seconds;
            self.limit = bottleneck(&work).or(self.limit);
        }
        if stretch >= STRETCH {
            self.from = Some((now, figures));
        }
    }

    /// Completes `live` with rates and writes it. A disk that is full must not stop the map.
    pub(crate) fn write(&mut self, now: Instant, mut live: MapLive) {
        self.last = Some(now);
        live.rate = self.rate;
        let left = live.items.saturating_sub(live.done + live.failed);
        #[allow(clippy::cast_precision_loss)] // an estimate
        let eta = (self.rate > 0.0).then(|| left as f64 / self.rate);
        live.eta = eta;
        if let Some(limit) = self.limit {
            limit.step.word().clone_into(&mut live.bottleneck);
            live.pressed = limit.busy;
        }
        let Some(text) = text_of(&live, LENGTH) else { return };
        if gpulane_files::write(&self.draft, &text).is_ok() {
            let _ = std::fs::rename(&self.draft, &self.path);
        } else if !live.held.is_empty() {
            let _ = self.overwrite(live);
        }
    }

    /// Writes over what is there, and not a byte more: that needs no space, but on a file system that never writes over anything. Who
    /// reads a part of each finds nothing, and looks again.
    fn overwrite(&self, mut live: MapLive) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(&self.path, flags, Mode::empty())?);
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        while let Some(text) = text_of(&live, length) {
            if text.len() <= length {
                return file.write_all_at(&text, 0);
            }
            // What is longer than what was there before it is cut.
            if live.held.pop().is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The whole run in figures: work since the first look, and what limited it.
    pub(crate) fn whole(&self, now: Instant, figures: Figures) -> Option<(Work, Bottleneck)> {
        let (since, from) = self.begun?;
        let work = between(&from, &figures, now.duration_since(since));
        bottleneck(&work).map(|limit| (work, limit))
    }
}

/// The file's text, filled up with spaces to a length.
fn text_of(live: &MapLive, length: usize) -> Option<Vec<u8>> {
    let mut text = serde_json::to_vec(live).ok()?;
    text.resize(text.len().max(length), b' ');
    Some(text)
}

#[allow(clippy::cast_precision_loss)] // rates
fn between(from: &Figures, to: &Figures, stretch: Duration) -> Work {
    Work {
        seconds: stretch.as_secs_f64().max(1e-6),
        items: (to.items - from.items) as f64,
        threads: to.work.threads,
        workers: to.work.workers,
        reading: to.work.reading - from.work.reading,
        decoding: to.work.decoding - from.work.decoding,
        copying: to.work.copying - from.work.copying,
        model: to.work.model - from.work.model,
        waiting: to.work.waiting - from.work.waiting,
        writing: to.work.writing - from.work.writing,
    }
}
