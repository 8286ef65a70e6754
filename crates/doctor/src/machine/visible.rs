//! Which GPUs this shell shows to CUDA, and by which numbers.

use gpulane_gpu::GpuReading;
use gpulane_model::env_vars;

use super::sight::Sight;
use crate::Finding;

const TOPIC: &str = "GPU order";

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    if sight.readings().is_empty() {
        return Vec::new();
    }
    let set = |name: &str| std::env::var(name).ok();
    let mut found: Vec<Finding> = set(env_vars::CUDA_VISIBLE_DEVICES)
        .and_then(|value| shown(&value, sight.readings()))
        .into_iter()
        .collect();
    found.extend(order(set(env_vars::CUDA_DEVICE_ORDER).as_deref(), sight.gpus()));
    if found.is_empty() {
        found.push(Finding::fine(TOPIC, "numbers mean the same to CUDA, nvidia-smi and gpulane"));
    }
    found
}

/// What is wrong with `CUDA_VISIBLE_DEVICES`.
fn shown(value: &str, gpus: &[GpuReading]) -> Option<Finding> {
    let first_wrong = value.split(',').map(str::trim).find(|name| !exists(name, gpus))?;
    let name = env_vars::CUDA_VISIBLE_DEVICES;
    let seen = format!(
        "{name}={value}: {}",
        match first_wrong {
            "" | "-1" if value.split(',').count() == 1 => "hides every GPU".to_owned(),
            wrong => format!("there is no GPU `{wrong}` here, and CUDA ignores whatever stands behind it"),
        }
    );
    Some(
        Finding::bad(TOPIC, seen)
            .because("programs started from this shell see fewer GPUs than there are, or none, and fall back to the CPU")
            .then(format!("unset {name}"))
            .then("gpulane gpus"),
    )
}

fn exists(name: &str, gpus: &[GpuReading]) -> bool {
    match name.parse::<u32>() {
        Ok(index) => gpus.iter().any(|gpu| gpu.slice_of.is_none() && gpu.index == index),
        Err(_) => !name.is_empty() && gpus.iter().any(|gpu| gpu.uuid.starts_with(name)),
    }
}

/// CUDA counts the fastest first unless told; that differs from everybody else's count only where GPUs differ.
fn order<'a>(order: Option<&str>, mut gpus: impl Iterator<Item = &'a GpuReading>) -> Option<Finding> {
    let first = gpus.next()?;
    let mixed = gpus.any(|gpu| gpu.name != first.name);
    let name = env_vars::CUDA_DEVICE_ORDER;
    (mixed && order != Some("PCI_BUS_ID")).then(|| {
        Finding::warning(TOPIC, format!("GPUs of several kinds, and {name} is not PCI_BUS_ID"))
            .because("CUDA counts the fastest first, nvidia-smi by slot: `cuda:0` may not be GPU 0 (jobs of gpulane are given UUIDs and are not affected)")
            .then(format!("export {name}=PCI_BUS_ID"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(names: &[&str]) -> Vec<GpuReading> {
        let reading = |(index, name): (u32, &&str)| GpuReading {
            uuid: format!("GPU-{index}abc"),
            index,
            name: (*name).to_owned(),
            ..GpuReading::default()
        };
        (0..).zip(names).map(reading).collect()
    }

    #[test]
    fn what_is_shown_must_exist() {
        let gpus = gpus(&["A", "A"]);
        for well in ["0", "1,0", "GPU-1a", " 0 , 1"] {
            assert_eq!(shown(well, &gpus), None, "{well}");
        }
        for (wrong, words) in
            [("", "hides every"), ("-1", "hides every"), ("0,7", "`7`"), ("GPU-9", "`GPU-9`")]
        {
            let found = shown(wrong, &gpus).unwrap();
            assert!(found.seen.contains(words), "{found:?}");
        }
    }

    #[test]
    fn order_matters_only_among_different_gpus() {
        assert_eq!(order(None, gpus(&["A", "A"]).iter()), None);
        assert!(order(None, gpus(&["A", "B"]).iter()).is_some());
        assert_eq!(order(Some("PCI_BUS_ID"), gpus(&["A", "B"]).iter()), None);
    }
}
