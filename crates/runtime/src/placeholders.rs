//! What placeholders stand for in a job's argv and environment. Used for real starts and for `--dry-run`, so that
//! what is shown is what will run.

use std::path::{Path, PathBuf};

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Config, JobId, LaneId, MapStage, PACKAGE_DIR, Plan, Stage, template};

/// The inputs of a map with `{run}` and `{name}`, its stage's, filled in. On a command line there are no placeholders.
pub(crate) fn map_inputs(run: &Path, stage: &Stage, map: &MapStage) -> Vec<String> {
    if map.lone {
        return map.input.clone();
    }
    let fill = |input: &String| {
        template::render_input(input, |name| match name {
            // The run's path is a path, whatever characters it has; the file of a list is not looked for by a pattern.
            "run" if !input.starts_with('@') => Some(as_pattern(&run.to_string_lossy())),
            "run" => Some(run.to_string_lossy().into_owned()),
            "name" => Some(stage.name.clone()),
            _ => None,
        })
    };
    map.input.iter().map(fill).collect()
}

/// A text as a pattern that matches nothing else.
fn as_pattern(text: &str) -> String {
    let plain = |c: char| if "*?[".contains(c) { format!("[{c}]") } else { c.to_string() };
    text.chars().map(plain).collect()
}

/// A word of a command that names a file of gpulane's Python package, if it does: the package need not be in the run directory.
pub(crate) fn in_package(dir: &RunDir, word: &str) -> Option<String> {
    let below = word.strip_prefix(PACKAGE_DIR)?.strip_prefix('/')?;
    Some(dir.python_dir().join(below).to_string_lossy().into_owned())
}

/// One attempt at one job.
#[derive(Clone, Copy, Debug)]
pub struct Placeholders<'a> {
    /// The run.
    pub dir: &'a RunDir,
    /// Its plan.
    pub plan: &'a Plan,
    /// The job.
    pub job: JobId,
    /// Which try.
    pub attempt: Attempt,
    /// Where it runs, once that is decided.
    pub lane: Option<LaneId>,
}

impl Placeholders<'_> {
    /// argv with every placeholder filled in.
    pub fn argv(&self) -> Vec<String> {
        self.plan.stage_of(self.job).command.iter().map(|part| self.fill(part)).collect()
    }

    /// A template with every placeholder filled in; one that is not known yet stays.
    pub fn fill(&self, part: &str) -> String {
        if !part.contains(['{', '}']) {
            return part.to_owned();
        }
        in_package(self.dir, part).unwrap_or_else(|| template::render(part, |name| self.value(name)))
    }

    /// The attempt's private output directory.
    pub fn out(&self) -> PathBuf {
        self.dir.attempt_out(self.plan, self.job, self.attempt)
    }

    /// With `foreach`: the published output of the job this one follows.
    pub fn input(&self) -> Option<PathBuf> {
        self.plan.job(self.job).source.map(|source| self.dir.out_dir(self.plan, source))
    }

    fn value(&self, name: &str) -> Option<String> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let job = self.plan.job(self.job);
        Some(match name {
            "config" => job.config.text().to_owned(),
            "config_file" => path(self.dir.config_file(self.plan, self.job)),
            "out" => path(self.out()),
            "name" => job.name.to_string(),
            "job" => self.plan.job_name(self.job),
            "input" => path(self.input()?),
            "gpus" => self.plan.stage_of(self.job).gpus.to_string(),
            "lane" => self.lane?.to_string(),
            "run" => path(self.dir.root().to_owned()),
            key => Config::value_text(job.config.entries().get(key)?),
        })
    }
}
