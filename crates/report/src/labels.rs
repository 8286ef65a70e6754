//! Short names for narrow terminals. What all jobs of a stage share goes first, then the middle; two different jobs
//! never get the same label.

use std::collections::{HashMap, HashSet};

use gpulane_model::{JobId, Plan, Stage};

use crate::palette::Palette;
use crate::text::{shorten, width};

/// What jobs are called where there is little room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    /// Per stage: the parts of a name (`k=v`) that every one of its jobs has.
    shared: Vec<HashSet<Box<str>>>,
    /// Columns of a label.
    columns: usize,
    /// Columns of the widest label there is.
    pub(crate) widest: usize,
    /// Jobs whose label would be another's too: they carry their number.
    ambiguous: HashSet<JobId>,
}

impl Labels {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { shared: plan.stages.iter().map(|stage| shared(plan, stage)).collect(), ..Self::default() }
    }

    /// Makes labels of at most this many columns. Costs a walk over all jobs where the number is new.
    pub(crate) fn fit(&mut self, plan: &Plan, columns: usize, palette: Palette) {
        if columns == self.columns {
            return;
        }
        self.columns = columns;
        let mut first: HashMap<String, JobId> = HashMap::new();
        let mut ambiguous = HashSet::new();
        self.widest = 0;
        for job in plan.job_ids() {
            let label = self.short(plan, job, columns, palette);
            self.widest = self.widest.max(width(&label));
            if let Some(other) = first.get(&label) {
                ambiguous.extend([*other, job]);
            } else {
                first.insert(label, job);
            }
        }
        if !ambiguous.is_empty() {
            self.widest = columns;
        }
        self.ambiguous = ambiguous;
    }

    /// What the job is called.
    pub(crate) fn label(&self, plan: &Plan, job: JobId, palette: Palette) -> String {
        if !self.ambiguous.contains(&job) {
            return self.short(plan, job, self.columns, palette);
        }
        let number = format!("#{}", u64::from(job.0) + 1);
        let room = self.columns.saturating_sub(width(&number));
        format!("{}{number}", self.short(plan, job, room, palette))
    }

    fn short(&self, plan: &Plan, job: JobId, columns: usize, palette: Palette) -> String {
        let name = plan.job_name(job);
        if width(&name) <= columns {
            return name;
        }
        let own = self.own(plan, job, palette).unwrap_or(name);
        shorten(&own, columns, palette.dots())
    }

    /// The name without what its whole stage shares: `train/lr=0.1,…`.
    fn own(&self, plan: &Plan, job: JobId, palette: Palette) -> Option<String> {
        let shared = self.shared.get(plan.job(job).stage.index()).filter(|shared| !shared.is_empty())?;
        let parts: Vec<&str> = plan.job(job).name.split(',').filter(|part| !shared.contains(*part)).collect();
        if parts.is_empty() {
            return None;
        }
        Some(format!("{}/{},{}", plan.stage_of(job).name, parts.join(","), palette.dots()))
    }
}

fn shared(plan: &Plan, stage: &Stage) -> HashSet<Box<str>> {
    let mut jobs = stage.job_ids().map(|job| &plan.job(job).name);
    let Some(first) = jobs.next().filter(|_| stage.job_ids().len() > 1) else { return HashSet::new() };
    let mut shared: Vec<&str> = first.split(',').filter(|part| part.contains('=')).collect();
    for name in jobs {
        shared.retain(|part| name.split(',').any(|other| other == *part));
        if shared.is_empty() {
            break;
        }
    }
    shared.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use gpulane_model::{Config, Job, RunSettings, StageId};

    use super::*;
    use crate::look::Look;

    fn labels(names: &[&str], columns: usize) -> Vec<String> {
        let jobs = names.iter().map(|name| Job {
            stage: StageId(0),
            name: (*name).into(),
            config: Config::default(),
            source: None,
        });
        let stage = Stage { jobs: 0..u32::try_from(names.len()).unwrap(), ..Stage::named("run") };
        let plan = Plan {
            format: 1,
            name: "p".into(),
            run: RunSettings::default(),
            stages: vec![stage],
            jobs: jobs.collect(),
        };
        let palette = Palette::new(&Look::PLAIN);
        let mut labels = Labels::new(&plan);
        labels.fit(&plan, columns, palette);
        plan.job_ids().map(|job| labels.label(&plan, job, palette)).collect()
    }

    #[test]
    fn what_all_share_goes_first() {
        let names = [
            "learning_rate=0.1,model=resnet50_pretrained_imagenet",
            "learning_rate=0.2,model=resnet50_pretrained_imagenet",
        ];
        assert_eq!(labels(&names, 26), ["run/learning_rate=0.1,…", "run/learning_rate=0.2,…"]);
        assert_eq!(labels(&names, 80)[0], format!("run/{}", names[0]), "what fits is left whole");
    }

    #[test]
    fn two_jobs_never_look_the_same() {
        let names = ["data=moons,width=4,lr=0.02,end", "data=rings,width=4,lr=0.02,end", "x=1,y"];
        let short = labels(&names, 12);
        assert_eq!(short[0], "run/d…,end#1");
        assert_eq!(short[1], "run/d…,end#2");
        assert_eq!(short[2], "run/x=1,y");
    }
}
