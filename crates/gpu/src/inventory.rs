//! From what was asked for to the machine a run uses.

use std::num::NonZero;

use gpulane_model::{Bytes, Gpu, GpuKind, Machine};

use crate::nvml::{self, Answer};
use crate::spec::GpuSpec;

/// The machine, and what a person should know about how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the run may use.
    pub machine: Machine,
    /// Said once, if anything: "no GPU here, …".
    pub note: Option<String>,
}

/// The GPUs asked for are not here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// NVML is there but fails; going on without GPUs would be a surprise.
    #[error("the GPUs cannot be read: {0}; see `nvidia-smi`, or use --gpus none")]
    Broken(String),
    /// Named GPUs that are not here.
    #[error("GPU {asked} is not here; this machine has {}", list(.there))]
    NotHere {
        /// As named.
        asked: String,
        /// What there is.
        there: Vec<String>,
    },
    /// A prefix of several UUIDs.
    #[error("GPU {asked} means several: {}", list(.candidates))]
    Ambiguous {
        /// As named.
        asked: String,
        /// What it could mean.
        candidates: Vec<String>,
    },
    /// Named GPUs on a machine without any.
    #[error("GPU {asked} is not here: {why}; use --gpus none or --gpus sim:8x24GiB")]
    NoGpus {
        /// As named.
        asked: String,
        /// Why there are none.
        why: String,
    },
    /// `--lanes 0` or a number no machine has.
    #[error("--lanes {0}: write a number from 1 to 1024")]
    Lanes(u32),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Finds the GPUs of `spec`. `visible` is gpulane's own `CUDA_VISIBLE_DEVICES`, which limits what it may use
/// (Slurm and containers set it); `lanes` is `--lanes`.
pub fn find(spec: &GpuSpec, lanes: Option<u32>, visible: Option<&str>) -> Result<Found, GpuError> {
    if let Some(lanes) = lanes.filter(|lanes| !(1..=1024).contains(lanes)) {
        return Err(GpuError::Lanes(lanes));
    }
    match spec {
        GpuSpec::None => Ok(Found { machine: machine(GpuKind::None, Vec::new(), lanes), note: None }),
        GpuSpec::Sim(sizes) => {
            Ok(Found { machine: machine(GpuKind::Sim, simulated(sizes), lanes), note: None })
        }
        GpuSpec::All | GpuSpec::These(_) => real(spec, lanes, visible, nvml::ask()),
    }
}

fn real(
    spec: &GpuSpec,
    lanes: Option<u32>,
    visible: Option<&str>,
    answer: Answer,
) -> Result<Found, GpuError> {
    let gpus = match answer {
        Answer::Gpus(gpus) => within(gpus, visible),
        Answer::Broken(why) => return Err(GpuError::Broken(why)),
        Answer::Absent(why) => Err(why),
    };
    match (spec, gpus) {
        (GpuSpec::These(names), Ok(gpus)) => {
            let mut chosen: Vec<Gpu> = Vec::new();
            for name in names {
                let gpu = pick(name, &gpus)?;
                // One GPU named by number and by UUID is still one GPU.
                if !chosen.contains(&gpu) {
                    chosen.push(gpu);
                }
            }
            Ok(Found { machine: machine(GpuKind::Nvml, chosen, lanes), note: None })
        }
        (GpuSpec::These(names), Err(why)) => Err(GpuError::NoGpus { asked: names.join(","), why }),
        (_, Ok(gpus)) => Ok(Found { machine: machine(GpuKind::Nvml, gpus, lanes), note: None }),
        (_, Err(why)) => {
            let machine = machine(GpuKind::None, Vec::new(), lanes);
            let note = format!("{why}: {} CPU lanes stand in for GPUs", machine.cpu_lanes);
            Ok(Found { machine, note: Some(note) })
        }
    }
}

/// The GPUs that `CUDA_VISIBLE_DEVICES` leaves us. As in CUDA, the list ends at the first entry that names nothing.
fn within(gpus: Vec<Gpu>, visible: Option<&str>) -> Result<Vec<Gpu>, String> {
    let Some(visible) = visible else { return Ok(gpus) };
    let left: Vec<Gpu> = visible.split(',').map_while(|name| pick(name.trim(), &gpus).ok()).collect();
    if left.is_empty() {
        return Err(format!("CUDA_VISIBLE_DEVICES={visible} leaves no GPU"));
    }
    Ok(left)
}

fn pick(name: &str, gpus: &[Gpu]) -> Result<Gpu, GpuError> {
    let by_index = name.parse::<usize>().ok().and_then(|index| gpus.get(index));
    let mut by_uuid = gpus.iter().filter(|gpu| name.len() > 4 && gpu.uuid.starts_with(name));
    match (by_index.or_else(|| by_uuid.next()), by_uuid.next()) {
        (Some(gpu), None) => Ok(gpu.clone()),
        (Some(first), Some(second)) => Err(GpuError::Ambiguous {
            asked: name.to_owned(),
            candidates: vec![first.uuid.clone(), second.uuid.clone()],
        }),
        (None, _) => Err(GpuError::NotHere {
            asked: name.to_owned(),
            there: gpus.iter().enumerate().map(|(index, gpu)| format!("{index} ({})", gpu.uuid)).collect(),
        }),
    }
}

fn simulated(sizes: &[Bytes]) -> Vec<Gpu> {
    sizes
        .iter()
        .enumerate()
        .map(|(index, memory)| Gpu {
            uuid: format!("GPU-51300000-0000-4000-8000-{index:012}"),
            name: "simulated".to_owned(),
            memory: *memory,
            reserved: Bytes(0),
        })
        .collect()
}

fn machine(kind: GpuKind, gpus: Vec<Gpu>, lanes: Option<u32>) -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    Machine {
        kind,
        gpus,
        lanes_per_gpu: lanes.unwrap_or(1),
        packing: false,
        cores,
        cpu_lanes: lanes.unwrap_or(cores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Gpu> {
        ["GPU-aaaa1", "GPU-aaaa2"]
            .map(|uuid| Gpu {
                uuid: uuid.into(),
                name: "x".into(),
                memory: Bytes(1 << 30),
                reserved: Bytes(0),
            })
            .to_vec()
    }

    fn uuids(found: &Found) -> Vec<&str> {
        found.machine.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect()
    }

    #[test]
    fn all_means_all_that_are_visible() {
        let found = real(&GpuSpec::All, None, None, Answer::Gpus(two())).unwrap();
        assert_eq!(uuids(&found), ["GPU-aaaa1", "GPU-aaaa2"]);
        let found = real(&GpuSpec::All, None, Some("1"), Answer::Gpus(two())).unwrap();
        assert_eq!(uuids(&found), ["GPU-aaaa2"]);
    }

    #[test]
    fn no_gpu_means_cpu_lanes_and_says_so() {
        let found = real(&GpuSpec::All, Some(3), None, Answer::Absent("no driver".into())).unwrap();
        assert_eq!((found.machine.kind, found.machine.cpu_lanes), (GpuKind::None, 3));
        assert!(found.note.unwrap().contains("3 CPU lanes"));
    }

    #[test]
    fn named_gpus_must_be_here_and_unambiguous() {
        let these = |name: &str| GpuSpec::These(vec![name.to_owned()]);
        let ask = |name| real(&these(name), None, None, Answer::Gpus(two()));
        assert_eq!(uuids(&ask("GPU-aaaa2").unwrap()), ["GPU-aaaa2"]);
        let twice = GpuSpec::These(vec!["1".to_owned(), "GPU-aaaa2".to_owned()]);
        let twice = real(&twice, None, None, Answer::Gpus(two())).unwrap();
        assert_eq!(uuids(&twice), ["GPU-aaaa2"]);
        assert!(matches!(ask("GPU-aaaa"), Err(GpuError::Ambiguous { .. })));
        assert!(matches!(ask("7"), Err(GpuError::NotHere { .. })));
        assert!(matches!(
            real(&these("0"), None, None, Answer::Absent("none".into())),
            Err(GpuError::NoGpus { .. })
        ));
    }

    #[test]
    fn a_broken_driver_is_an_error_not_a_silent_fallback() {
        assert!(matches!(
            real(&GpuSpec::All, None, None, Answer::Broken("lost".into())),
            Err(GpuError::Broken(_))
        ));
    }

    #[test]
    fn simulated_uuids_are_distinct() {
        let found = find(&"sim:2x24GiB".parse().unwrap(), None, None).unwrap();
        assert_ne!(found.machine.gpus[0].uuid, found.machine.gpus[1].uuid);
        assert_eq!(found.machine.main_lanes(), 2);
    }
}
