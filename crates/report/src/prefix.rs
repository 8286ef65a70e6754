//! A line a job printed, as it is shown: `train/lr=0.1 │ epoch 3 loss 0.2`.

use gpulane_model::{Bytes, JobId, Plan};

use crate::clean::clean;
use crate::lines::Line;
use crate::output::{Said, Stream};
use crate::palette::{Palette, Style, job_style};
use crate::tail::Found;
use crate::text::{pad, shorten, shown, width};

/// Names take at most this much room.
const WIDEST: usize = 28;

/// Puts job names before lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefix {
    palette: Palette,
    /// Columns of the name, so that the walls stand below each other.
    columns: usize,
}

impl Prefix {
    pub(crate) fn new(plan: &Plan, palette: Palette) -> Self {
        Self { palette, columns: widest_name(plan).min(WIDEST) }
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
        let name = plan.job_name(job);
        let short = pad(&shorten(&name, self.columns, self.palette.dots()), self.columns);
        let wall = match stream {
            Stream::Stdout => self.palette.paint(Style::Dim, self.palette.wall()),
            Stream::Stderr => self.palette.paint(Style::Warn, self.palette.broken_wall()),
        };
        format!("{} {wall} {text}", self.palette.paint(job_style(&name), &short))
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
pub(crate) fn widest_name(plan: &Plan) -> usize {
    let stage =
        |job: &gpulane_model::Job| plan.stages.get(job.stage.index()).map_or(0, |stage| width(&stage.name));
    plan.jobs.iter().map(|job| stage(job) + 1 + width(&job.name)).max().unwrap_or(0)
}
