//! Random job sets: a few stages, each with a size, a length and many jobs, on GPUs of one kind or of two.

use std::sync::Arc;

use gpulane_model::{
    Bytes, Config, Gpu, GpuKind, Job, JobId, Known, MOST_PER_GPU, Machine, Memory, Millis, Plan, RunSettings,
    Stage, StageId,
};

/// Sizes are whole multiples of this, so that bounds can be worked out exactly.
pub(crate) const UNIT: u64 = 256 << 20;

/// Numbers that look random and are the same on every machine (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `least` to `most`, both possible.
    pub(crate) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// From 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.next() % choices.len() as u64).unwrap()]
    }
}

/// What a job of a stage takes of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    Units(u64),
    Whole,
}

/// What there is to do, and on what.
#[derive(Debug)]
pub(crate) struct JobSet {
    /// GPUs, in units.
    pub(crate) gpus: Vec<u64>,
    /// By stage.
    pub(crate) sizes: Vec<Size>,
    /// By stage: how long its jobs take on average, in seconds.
    pub(crate) known: Vec<f64>,
    /// By job, in the plan's order: its stage and how long it takes, in milliseconds.
    pub(crate) jobs: Vec<(usize, u64)>,
}

impl JobSet {
    /// The set of this number. `mixed`: GPUs of two sizes. `whole`: some stages take whole GPUs. `jitter`: by how much of
    /// the average a job may be longer or shorter.
    pub(crate) fn random(seed: u64, mixed: bool, whole: bool, jitter: f64) -> Self {
        let random = &mut Random(seed);
        let gpus = if mixed {
            let small = vec![24 * 4; usize::try_from(random.within(1, 4)).unwrap()];
            let large = vec![80 * 4; usize::try_from(random.within(1, 4)).unwrap()];
            [small, large].concat()
        } else {
            vec![random.of(&[24, 48, 80]) * 4; usize::try_from(random.within(1, 8)).unwrap()]
        };
        let largest = *gpus.iter().max().unwrap();
        let stages = random.within(2, 6);
        let sizes: Vec<Size> = (0..stages)
            .map(|_| match random.within(0, 9) {
                0 | 1 if whole => Size::Whole,
                _ => Size::Units(random.within(largest / 40 + 1, largest)),
            })
            .collect();
        let known: Vec<f64> = sizes.iter().map(|_| 10.0 * 30_f64.powf(random.fraction())).collect();
        let total = random.within(100, 1000);
        let weights: Vec<u64> = sizes.iter().map(|_| random.within(1, 10)).collect();
        let mut jobs = Vec::new();
        for (stage, weight) in weights.iter().enumerate() {
            let count = (total * weight / weights.iter().sum::<u64>()).max(2);
            for _ in 0..count {
                let seconds = known[stage] * (1.0 + jitter * (2.0 * random.fraction() - 1.0));
                jobs.push((stage, millis(seconds)));
            }
        }
        Self { gpus, sizes, known, jobs }
    }

    pub(crate) fn plan(&self) -> Arc<Plan> {
        let mut next = 0;
        let stages = self.sizes.iter().enumerate().map(|(at, size)| {
            let count = u32::try_from(self.jobs.iter().filter(|(stage, _)| *stage == at).count()).unwrap();
            let memory = match size {
                Size::Units(units) => Memory::Reserve(Bytes(units * UNIT)),
                Size::Whole => Memory::Exclusive,
            };
            next += count;
            Stage { jobs: next - count..next, memory, ..Stage::named(&format!("s{at}")) }
        });
        let stages: Vec<Stage> = stages.collect();
        let job = |(at, (stage, _)): (usize, &(usize, u64))| Job {
            stage: StageId::at(*stage),
            name: at.to_string().into_boxed_str(),
            config: Config::default(),
            source: None,
        };
        let jobs = self.jobs.iter().enumerate().map(job).collect();
        Arc::new(Plan { format: 1, name: "set".into(), run: RunSettings::default(), stages, jobs })
    }

    pub(crate) fn machine(&self) -> Machine {
        let gpu = |(at, units): (usize, &u64)| Gpu {
            uuid: format!("GPU-{at}"),
            name: "simulated".into(),
            memory: Bytes(units * UNIT),
            reserved: Bytes(0),
        };
        Machine {
            kind: GpuKind::Sim,
            gpus: self.gpus.iter().enumerate().map(gpu).collect(),
            lanes_per_gpu: MOST_PER_GPU,
            packing: true,
            cores: 64,
            cpu_lanes: 0,
        }
    }

    pub(crate) fn known(&self) -> Vec<Known> {
        self.known.iter().map(|seconds| Known { peak: None, seconds: Some(*seconds) }).collect()
    }

    pub(crate) fn length(&self, job: JobId) -> Millis {
        Millis(self.jobs[job.index()].1)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn millis(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}
