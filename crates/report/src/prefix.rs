//! A line a job printed, as it is shown: `train/lr=0.1 │ epoch 3 loss 0.2`. Owns what a job is called and its colour.

use std::collections::HashMap;

use gpulane_model::{Bytes, JobId, LaneId, Plan};

use crate::clean::clean;
use crate::labels::Labels;
use crate::lines::Line;
use crate::output::{Said, Stream};
use crate::palette::{JOB_COLORS, Palette, Style, job_style};
use crate::tail::Found;
use crate::text::{pad, shown, width};

/// Names are padded up to here, and on a terminal shortened to no more.
const WIDEST: usize = 40;
/// On a terminal they are not shortened to less.
const NARROWEST: usize = 16;

/// Puts job names before lines.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    palette: Palette,
    /// Columns of the plan's widest job name.
    widest: usize,
    /// Columns names are padded to, so that the walls stand below each other.
    columns: usize,
    /// On a terminal names are shortened; elsewhere they never are.
    labels: Option<Labels>,
    /// Where running jobs are, and their colours: no two side by side have the same.
    colors: HashMap<JobId, (LaneId, usize)>,
}

impl Prefix {
    /// Whole names, for everything but the view on a terminal.
    pub(crate) fn whole(plan: &Plan, palette: Palette) -> Self {
        let widest = widest_name(plan);
        Self { palette, widest, columns: widest.min(WIDEST), labels: None, colors: HashMap::new() }
    }

    /// Names that fit on a terminal.
    pub(crate) fn on_terminal(plan: &Plan, palette: Palette, columns: usize) -> Self {
        let mut prefix = Self { labels: Some(Labels::new(plan)), ..Self::whole(plan, palette) };
        prefix.fit(plan, columns);
        prefix
    }

    /// The terminal has this many columns now.
    pub(crate) fn fit(&mut self, plan: &Plan, columns: usize) {
        let Some(labels) = &mut self.labels else { return };
        labels.fit(plan, self.widest.min((columns / 3).clamp(NARROWEST, WIDEST)), self.palette);
        self.columns = labels.widest;
    }

    /// Columns names are padded to.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// A job was started: it gets a colour that none of its neighbours has.
    pub(crate) fn on_start(&mut self, job: JobId, lane: LaneId) {
        self.colors.remove(&job);
        let count = JOB_COLORS.len();
        let mut nearest = [u32::MAX; JOB_COLORS.len()];
        for (other, color) in self.colors.values() {
            nearest[*color] = nearest[*color].min(other.0.abs_diff(lane.0));
        }
        // The colour whose nearest bearer is furthest away; if there are several, the lane's own.
        let wish = lane.index() % count;
        let color = (0..count).max_by_key(|color| (nearest[*color], *color == wish)).unwrap_or(wish);
        self.colors.insert(job, (lane, color));
    }

    /// A job has ended and all it printed was shown.
    pub(crate) fn on_end(&mut self, job: JobId) {
        self.colors.remove(&job);
    }

    /// Nothing runs any more.
    pub(crate) fn on_engine(&mut self) {
        self.colors.clear();
    }

    /// What the job is called here.
    pub(crate) fn name(&self, plan: &Plan, job: JobId) -> String {
        match &self.labels {
            Some(labels) => labels.label(plan, job, self.palette),
            None => plan.job_name(job),
        }
    }

    /// The job's colour.
    pub(crate) fn style(&self, job: JobId) -> Style {
        job_style(self.colors.get(&job).map_or(job.index(), |(_, color)| *color))
    }

    /// What the job said, with its name before it.
    pub(crate) fn said(&self, plan: &Plan, said: &Said<'_>) -> String {
        match said.found {
            Found::Line(line) => self.line(plan, said.job, said.stream, line),
            Found::Jumped(bytes) => {
                let text =
                    format!("{} {} not shown, see {}", self.palette.dots(), Bytes(bytes), shown(said.path));
                self.text(plan, said.job, said.stream, &self.palette.paint(Style::Dim, &text))
            }
        }
    }

    /// One line of the job.
    pub(crate) fn line(&self, plan: &Plan, job: JobId, stream: Stream, line: Line<'_>) -> String {
        let text = bare(line, self.palette);
        self.text(plan, job, stream, &text)
    }

    fn text(&self, plan: &Plan, job: JobId, stream: Stream, text: &str) -> String {
        let name = pad(&self.name(plan, job), self.columns);
        let wall = match stream {
            Stream::Stdout => self.palette.paint(Style::Dim, self.palette.wall()),
            Stream::Stderr => self.palette.paint(Style::Warn, self.palette.broken_wall()),
        };
        format!("{} {wall} {text}", self.palette.paint(self.style(job), &name))
    }
}

/// The line alone, made safe.
pub(crate) fn bare(line: Line<'_>, palette: Palette) -> String {
    let mut text = clean(line.text, palette.color).into_owned();
    if line.cut {
        text.push_str(palette.dots());
    }
    text
}

/// Columns of the plan's widest job name.
fn widest_name(plan: &Plan) -> usize {
    let stage =
        |job: &gpulane_model::Job| plan.stages.get(job.stage.index()).map_or(0, |stage| width(&stage.name));
    plan.jobs.iter().map(|job| stage(job) + 1 + width(&job.name)).max().unwrap_or(0)
}
