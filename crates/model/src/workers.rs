//! How many workers a map has: a stage whose jobs are alike, so there may be as many as the machine has use for.

use crate::{Config, GpuKind, Job, JobId, Machine, Memory, Plan, Stage, StageId};

/// Workers on a GPU that is shared by memory: more bring nothing, whatever fits.
const MOST_ON_A_GPU: u32 = 8;
/// Workers in all.
const MOST: u32 = 64;

/// A worker's name. Names stay when their number changes, so a journal keeps its meaning.
pub fn worker_name(at: u32) -> String {
    format!("worker-{at}")
}

/// How many workers a stage with a map has on this machine. `lanes`: `--lanes`, where it was given.
pub fn workers_for(stage: &Stage, machine: &Machine, lanes: Option<u32>) -> u32 {
    if let Some(workers) = stage.map.as_ref().and_then(|map| map.workers) {
        return workers.max(1);
    }
    let gpus = u32::try_from(machine.gpus.len()).unwrap_or(u32::MAX);
    let places = match machine.kind {
        // Decoding needs cores, too.
        GpuKind::None => lanes.unwrap_or(machine.cores / 2),
        _ if stage.gpus == 0 => machine.cores / 2,
        _ if !machine.packing => machine.main_lanes(),
        _ if stage.memory == Memory::Exclusive => gpus,
        _ => gpus.saturating_mul(MOST_ON_A_GPU).min(MOST),
    };
    (places / stage.gpus.max(1)).max(1)
}

impl Plan {
    /// Gives every stage with a map as many workers as `count` says; whether that changed anything.
    pub fn set_workers(&mut self, count: impl Fn(&Stage) -> u32) -> bool {
        let now = |stage: &Stage| u32::try_from(stage.job_ids().len()).unwrap_or(u32::MAX);
        let sizes: Vec<u32> = self
            .stages
            .iter()
            .map(|stage| if stage.map.is_some() { count(stage).max(1) } else { now(stage) })
            .collect();
        if self.stages.iter().zip(&sizes).all(|(stage, size)| now(stage) == *size) {
            return false;
        }
        let mut moved: Vec<Option<JobId>> = vec![None; self.jobs.len()];
        let mut jobs = Vec::new();
        for (at, (stage, size)) in self.stages.iter_mut().zip(&sizes).enumerate() {
            let (first, old) = (JobId::at(jobs.len()), stage.jobs.clone());
            for id in old.clone().take(*size as usize) {
                moved[id as usize] = Some(JobId::at(jobs.len()));
                jobs.push(self.jobs[id as usize].clone());
            }
            for place in old.end - old.start..*size {
                let (name, config) = (worker_name(place).into_boxed_str(), Config::default());
                jobs.push(Job { stage: StageId::at(at), name, config, source: None });
            }
            stage.jobs = first.0..JobId::at(jobs.len()).0;
        }
        for job in &mut jobs {
            job.source = job.source.and_then(|source| moved.get(source.index()).copied().flatten());
        }
        self.jobs = jobs;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Gpu, MapStage, PLAN_FORMAT, RunSettings};

    fn machine(kind: GpuKind, gpus: usize, packing: bool) -> Machine {
        let gpu = |at| Gpu {
            uuid: format!("SIM-{at}"),
            name: "sim".into(),
            memory: Bytes(1 << 34),
            reserved: Bytes(0),
        };
        let gpus = (0..gpus).map(gpu).collect();
        Machine { kind, gpus, lanes_per_gpu: if packing { 48 } else { 2 }, packing, cores: 12, cpu_lanes: 12 }
    }

    #[test]
    fn as_many_workers_as_the_machine_has_use_for() {
        let map = |memory, gpus, workers| Stage {
            map: Some(MapStage { workers, ..MapStage::default() }),
            memory,
            gpus,
            ..Stage::named("map")
        };
        let (auto, alone) = (Memory::Auto, Memory::Exclusive);
        let (none, sim) = (GpuKind::None, GpuKind::Sim);
        let table = [
            (map(alone, 1, None), machine(none, 0, false), None, 6),
            (map(alone, 1, None), machine(none, 0, false), Some(3), 3),
            (map(alone, 1, Some(5)), machine(none, 0, false), None, 5),
            (map(alone, 1, None), machine(sim, 4, false), Some(2), 8),
            (map(alone, 2, None), machine(sim, 4, false), Some(2), 4),
            (map(alone, 1, None), machine(sim, 4, true), None, 4),
            (map(auto, 1, None), machine(sim, 4, true), None, 32),
            (map(auto, 1, None), machine(sim, 16, true), None, 64),
            (map(alone, 0, None), machine(sim, 4, false), None, 6),
        ];
        for (stage, machine, lanes, expected) in table {
            assert_eq!(workers_for(&stage, &machine, lanes), expected, "{stage:?} on {machine:?}");
        }
    }

    #[test]
    fn other_jobs_keep_their_sources_when_the_number_changes() {
        let job = |stage, name: &str, source| Job {
            stage: StageId(stage),
            name: name.into(),
            config: Config::default(),
            source,
        };
        let stage = |name, jobs| Stage { jobs, ..Stage::named(name) };
        let map = Stage { map: Some(MapStage::default()), ..stage("map", 0..1) };
        let mut plan = Plan {
            format: PLAN_FORMAT,
            name: "test".into(),
            run: RunSettings::default(),
            stages: vec![map, stage("train", 1..3), stage("eval", 3..5)],
            jobs: vec![
                job(0, "worker-0", None),
                job(1, "a", None),
                job(1, "b", None),
                job(2, "a", Some(JobId(1))),
                job(2, "b", Some(JobId(2))),
            ],
        };
        for (count, total) in [(3, 7), (2, 6), (1, 5)] {
            assert!(plan.set_workers(|_| count));
            assert!(plan.is_consistent());
            assert_eq!((plan.stages[0].jobs.clone(), plan.jobs.len()), (0..count, total));
            let sources = plan.stages[2].job_ids().map(|id| plan.job(id).source.unwrap());
            let names: Vec<String> = sources.map(|source| plan.job_name(source)).collect();
            assert_eq!(names, ["train/a", "train/b"]);
        }
        assert!(!plan.set_workers(|_| 1), "nothing changes");
    }
}
