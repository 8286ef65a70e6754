//! From what was asked for to the machine a run uses.

use std::num::NonZero;

use gpulane_model::{Bytes, Gpu, GpuKind, Machine};

use crate::deadline::{DEADLINE, no_gpu, with_deadline};
use crate::probe::{Census, NoProbe, Numbered, Probe};
use crate::spec::GpuSpec;

/// The machine, and what a person should know about how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the run may use.
    pub machine: Machine,
    /// Said once, if anything: "no GPU here, …".
    pub note: Option<String>,
    /// A GPU of it lets only one process compute at a time (compute mode exclusive process).
    pub exclusive: bool,
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

impl GpuError {
    /// One that was named may be here after all, only of no use.
    fn because_of(self, missing: &[String]) -> Self {
        match self {
            Self::NotHere { asked, .. }
                if missing.iter().any(|gpu| gpu.starts_with(&format!("GPU {asked} "))) =>
            {
                Self::Broken(missing.join("; "))
            }
            other => other,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Finds the GPUs of `spec`. `visible` is gpulane's own `CUDA_VISIBLE_DEVICES`, which limits what it may use
/// (Slurm and containers set it); `lanes` is `--lanes`; `headroom` is left free on each GPU.
pub fn find(
    spec: &GpuSpec,
    lanes: Option<u32>,
    headroom: Bytes,
    visible: Option<&str>,
) -> Result<Found, GpuError> {
    if let Some(lanes) = lanes.filter(|lanes| !(1..=1024).contains(lanes)) {
        return Err(GpuError::Lanes(lanes));
    }
    let mut found = match spec {
        GpuSpec::None => {
            Found { machine: machine(GpuKind::None, Vec::new(), lanes), note: None, exclusive: false }
        }
        GpuSpec::Sim(sizes) => {
            Found { machine: machine(GpuKind::Sim, simulated(sizes), lanes), note: None, exclusive: false }
        }
        GpuSpec::All | GpuSpec::These(_) => real(spec, lanes, visible, ask())?,
    };
    for gpu in &mut found.machine.gpus {
        gpu.reserved = Bytes(gpu.reserved.0.saturating_add(headroom.0));
    }
    Ok(found)
}

fn ask() -> Result<Census, NoProbe> {
    let census = with_deadline(DEADLINE, Probe::numbered)?.map_err(NoProbe::Broken)?;
    if census.there.is_empty() { Err(no_gpu()) } else { Ok(census) }
}

fn real(
    spec: &GpuSpec,
    lanes: Option<u32>,
    visible: Option<&str>,
    answer: Result<Census, NoProbe>,
) -> Result<Found, GpuError> {
    let (mut missing, mut exclusive) = (Vec::new(), false);
    let gpus = match answer {
        Ok(census) => {
            missing = census.missing;
            exclusive = census.exclusive;
            within(census.there, visible)
        }
        Err(NoProbe::Broken(why)) => return Err(GpuError::Broken(why)),
        Err(NoProbe::Absent(why)) => Err(why),
    };
    match (spec, gpus) {
        (GpuSpec::These(names), Ok(gpus)) => {
            let mut chosen: Vec<Gpu> = Vec::new();
            for name in names {
                let gpu = pick(name, &gpus).map_err(|error| error.because_of(&missing))?;
                // One GPU named by number and by UUID is still one GPU.
                if !chosen.contains(&gpu) {
                    chosen.push(gpu);
                }
            }
            Ok(Found { machine: machine(GpuKind::Nvml, chosen, lanes), note: None, exclusive })
        }
        (GpuSpec::These(names), Err(why)) => Err(GpuError::NoGpus { asked: names.join(","), why }),
        (_, Ok(gpus)) => {
            let gpus = gpus.into_iter().map(|numbered| numbered.gpu).collect();
            let note = (!missing.is_empty()).then(|| format!("{}; not used", missing.join("; ")));
            Ok(Found { machine: machine(GpuKind::Nvml, gpus, lanes), note, exclusive })
        }
        (_, Err(why)) => {
            let machine = machine(GpuKind::None, Vec::new(), lanes);
            let note = format!("{why}: {} CPU lanes stand in for GPUs", machine.cpu_lanes);
            Ok(Found { machine, note: Some(note), exclusive: false })
        }
    }
}

/// The GPUs that `CUDA_VISIBLE_DEVICES` leaves us, numbered anew as in CUDA, where too the list ends at the first
/// entry that names nothing.
fn within(gpus: Vec<Numbered>, visible: Option<&str>) -> Result<Vec<Numbered>, String> {
    let Some(visible) = visible else { return Ok(gpus) };
    let mut left: Vec<Numbered> = Vec::new();
    for gpu in visible.split(',').map_while(|name| pick(name.trim(), &gpus).ok()) {
        if !left.iter().any(|known| known.gpu == gpu) {
            left.push(Numbered { index: u32::try_from(left.len()).unwrap_or(u32::MAX), gpu });
        }
    }
    if left.is_empty() {
        return Err(format!("CUDA_VISIBLE_DEVICES={visible} leaves no GPU"));
    }
    Ok(left)
}

fn pick(name: &str, gpus: &[Numbered]) -> Result<Gpu, GpuError> {
    let number: Option<u32> = name.parse().ok();
    let meant: Vec<&Numbered> = gpus
        .iter()
        .filter(|known| match number {
            Some(number) => known.index == number,
            None => name.len() > 4 && known.gpu.uuid.starts_with(name),
        })
        .collect();
    match meant[..] {
        [one] => Ok(one.gpu.clone()),
        [] => Err(GpuError::NotHere {
            asked: name.to_owned(),
            there: gpus.iter().map(|known| format!("{} ({})", known.index, known.gpu.uuid)).collect(),
        }),
        _ => Err(GpuError::Ambiguous {
            asked: name.to_owned(),
            candidates: meant.iter().map(|known| known.gpu.uuid.clone()).collect(),
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

    fn gpu(index: u32, uuid: &str) -> Numbered {
        let gpu =
            Gpu { uuid: uuid.into(), name: "x".into(), memory: Bytes(1 << 30), reserved: Bytes(1 << 20) };
        Numbered { index, gpu }
    }

    fn census(there: Vec<Numbered>) -> Census {
        Census { there, missing: Vec::new(), exclusive: false }
    }

    fn two() -> Vec<Numbered> {
        vec![gpu(0, "GPU-aaaa1"), gpu(1, "GPU-aaaa2")]
    }

    fn uuids(found: &Found) -> Vec<&str> {
        found.machine.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect()
    }

    #[test]
    fn all_means_all_that_are_visible() {
        let found = real(&GpuSpec::All, None, None, Ok(census(two()))).unwrap();
        assert_eq!(uuids(&found), ["GPU-aaaa1", "GPU-aaaa2"]);
        let found = real(&GpuSpec::All, None, Some("1"), Ok(census(two()))).unwrap();
        assert_eq!(uuids(&found), ["GPU-aaaa2"]);
    }

    #[test]
    fn one_that_cannot_be_used_is_left_out_and_that_is_said() {
        let lame =
            || Ok(Census { there: two(), missing: vec!["GPU 2 is lost: gone".into()], exclusive: false });
        let found = real(&GpuSpec::All, None, None, lame()).unwrap();
        assert!(found.note.unwrap().contains("GPU 2 is lost"));
        let asked = real(&GpuSpec::These(vec!["2".into()]), None, None, lame());
        assert!(asked.unwrap_err().to_string().contains("is lost"));
    }

    #[test]
    fn no_gpu_means_cpu_lanes_and_says_so() {
        let found = real(&GpuSpec::All, Some(3), None, Err(NoProbe::Absent("no driver".into()))).unwrap();
        assert_eq!((found.machine.kind, found.machine.cpu_lanes), (GpuKind::None, 3));
        assert!(found.note.unwrap().contains("3 CPU lanes"));
    }

    #[test]
    fn named_gpus_must_be_here_and_unambiguous() {
        let these = |name: &str| GpuSpec::These(vec![name.to_owned()]);
        let ask = |name| real(&these(name), None, None, Ok(census(two())));
        assert_eq!(uuids(&ask("GPU-aaaa2").unwrap()), ["GPU-aaaa2"]);
        let twice = GpuSpec::These(vec!["1".to_owned(), "GPU-aaaa2".to_owned()]);
        let twice = real(&twice, None, None, Ok(census(two()))).unwrap();
        assert_eq!(uuids(&twice), ["GPU-aaaa2"]);
        assert!(matches!(ask("GPU-aaaa"), Err(GpuError::Ambiguous { .. })));
        assert!(matches!(ask("7"), Err(GpuError::NotHere { .. })));
        assert!(matches!(
            real(&these("0"), None, None, Err(NoProbe::Absent("none".into()))),
            Err(GpuError::NoGpus { .. })
        ));
    }

    #[test]
    fn a_broken_driver_is_an_error_not_a_silent_fallback() {
        assert!(matches!(
            real(&GpuSpec::All, None, None, Err(NoProbe::Broken("lost".into()))),
            Err(GpuError::Broken(_))
        ));
    }

    #[test]
    fn simulated_uuids_are_distinct() {
        let found = find(&"sim:2x24GiB".parse().unwrap(), None, Bytes(0), None).unwrap();
        assert_ne!(found.machine.gpus[0].uuid, found.machine.gpus[1].uuid);
        assert_eq!(found.machine.main_lanes(), 2);
    }

    #[test]
    fn headroom_is_no_jobs_to_have() {
        let found = find(&"sim:4x24GiB,4x80GiB".parse().unwrap(), None, Bytes(2 << 30), None).unwrap();
        let usable: Vec<u64> = found.machine.gpus.iter().map(|gpu| gpu.usable().0 >> 30).collect();
        assert_eq!(usable, [22, 22, 22, 22, 78, 78, 78, 78]);
    }

    #[test]
    fn a_gpu_that_is_left_out_does_not_change_the_numbers_of_the_others() {
        let without_the_first = vec![gpu(1, "GPU-aaaa2"), gpu(2, "GPU-aaaa3")];
        let ask = |name: &str| {
            real(&GpuSpec::These(vec![name.to_owned()]), None, None, Ok(census(without_the_first.clone())))
        };
        assert_eq!(uuids(&ask("1").unwrap()), ["GPU-aaaa2"]);
        assert!(matches!(ask("0"), Err(GpuError::NotHere { .. })));
    }

    #[test]
    fn slices_are_named_by_uuid_unless_there_is_but_one() {
        let cut = vec![gpu(0, "MIG-1"), gpu(0, "MIG-2"), gpu(1, "MIG-3")];
        let ask =
            |name: &str| real(&GpuSpec::These(vec![name.to_owned()]), None, None, Ok(census(cut.clone())));
        assert!(matches!(ask("0"), Err(GpuError::Ambiguous { candidates, .. }) if candidates.len() == 2));
        assert_eq!(uuids(&ask("1").unwrap()), ["MIG-3"]);
        assert_eq!(uuids(&ask("MIG-2").unwrap()), ["MIG-2"]);
    }

    #[test]
    fn what_is_visible_is_numbered_anew_and_each_gpu_counts_once() {
        let ask = |name: &str| {
            real(&GpuSpec::These(vec![name.to_owned()]), None, Some("GPU-aaaa2,1,0"), Ok(census(two())))
        };
        assert_eq!(uuids(&ask("0").unwrap()), ["GPU-aaaa2"]);
        assert_eq!(uuids(&ask("1").unwrap()), ["GPU-aaaa1"]);
    }
}
