//! Each GPU by itself: lost, worn, closed, hot, busy without drawing power.

use gpulane_gpu::GpuReading;

use super::sight::Sight;
use crate::Finding;

const TOPIC: &str = "GPUs";
/// From here on GPUs slow themselves down.
const HOT: u32 = 87;
/// Busy, by its own word.
const BUSY: u32 = 99;
/// Less of its power than this, and it is waiting rather than computing.
const IDLE_POWER: f64 = 0.25;

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    let Ok(driver) = &sight.driver else { return Vec::new() };
    let well: Vec<u32> = sight.gpus().filter(|gpu| is_well(gpu)).map(|gpu| gpu.index).collect();
    let mut found: Vec<Finding> = sight.readings().iter().flat_map(|gpu| about(gpu, &well)).collect();
    found.extend(driver.unusable.iter().filter(|why| why.contains("MIG mode")).map(|why| uncut(why)));
    if found.is_empty() && !driver.readings.is_empty() {
        found.push(Finding::fine(TOPIC, summary(sight)));
    }
    found
}

/// Whether jobs do well on it.
fn is_well(gpu: &GpuReading) -> bool {
    let open = gpu.compute_mode.as_deref() != Some("prohibited");
    open && gpu.trouble.is_none() && gpu.ecc_errors.unwrap_or(0) == 0
}

/// What is wrong with one; `well` are those that can be used instead.
fn about(gpu: &GpuReading, well: &[u32]) -> Vec<Finding> {
    let name = name(gpu);
    let at = gpu.index;
    let mut found = Vec::new();
    if let Some(trouble) = &gpu.trouble {
        found.push(troubled(gpu, &name, trouble, well));
    }
    if let Some(errors) = gpu.ecc_errors.filter(|errors| *errors > 0) {
        found.push(
            Finding::bad(TOPIC, format!("{name} has had {errors} memory errors that could not be corrected"))
                .because("jobs on it die with \"uncorrectable ECC error\", or compute nonsense")
                .then(format!("nvidia-smi -i {at} -q -d ECC,ROW_REMAPPER"))
                .then(format!("sudo nvidia-smi -i {at} -r    # nobody may use it meanwhile"))
                .then(without(at, well)),
        );
    }
    found.extend(mode(gpu, &name));
    if let Some(degrees) = gpu.temperature.filter(|degrees| *degrees >= HOT) {
        found.push(
            Finding::warning(TOPIC, format!("{name} is at {degrees} °C"))
                .because("it slows itself down, and jobs on it take longer than on the others")
                .then(format!("nvidia-smi -i {at} -q -d TEMPERATURE,PERFORMANCE")),
        );
    }
    found.extend(hollow(gpu, &name));
    found
}

fn troubled(gpu: &GpuReading, name: &str, trouble: &str, well: &[u32]) -> Finding {
    let at = gpu.index;
    let worn = trouble.contains("spare rows");
    let finding = if worn {
        Finding::warning(TOPIC, format!("{name} {trouble}"))
    } else {
        Finding::bad(TOPIC, format!("{name} {trouble}"))
    };
    let finding = finding.because(if worn {
        "it works for now; the next bad row may end a job"
    } else {
        "no job can use it, and a process that has it open may never end"
    });
    finding
        .then("sudo dmesg | grep -i xid | tail")
        .then(format!("sudo nvidia-smi -i {at} -r    # if that fails: reboot"))
        .then(without(at, well))
}

fn mode(gpu: &GpuReading, name: &str) -> Option<Finding> {
    let open = format!("sudo nvidia-smi -i {} -c 0", gpu.index);
    match gpu.compute_mode.as_deref()? {
        "prohibited" => Some(
            Finding::bad(TOPIC, format!("{name} is closed to computing (compute mode prohibited)"))
                .because("CUDA programs do not see it; gpulane leaves it out")
                .then(open),
        ),
        "exclusive_process" | "exclusive_thread" => Some(
            Finding::warning(TOPIC, format!("{name} lets only one process compute at a time"))
                .because("jobs cannot share it by memory, unless through MPS (`mps = true`)")
                .then(open),
        ),
        _ => None,
    }
}

/// Busy by its own word, yet drawing hardly any power: it spins, waiting for somebody.
fn hollow(gpu: &GpuReading, name: &str) -> Option<Finding> {
    let (load, power, limit) = (gpu.load?, gpu.power?, gpu.power_limit?);
    (load >= BUSY && limit > 0.0 && power < limit * IDLE_POWER).then(|| {
        let pid = gpu
            .processes
            .iter()
            .find(|process| process.compute)
            .map_or_else(|| "PID".to_owned(), |at| at.pid.to_string());
        Finding::warning(
            TOPIC,
            format!("{name} says it is {load}% busy but draws {power:.0} of {limit:.0} W"),
        )
        .because("if that lasts, its process waits in a collective (NCCL) for another that is gone or stuck")
        .then(format!("gpulane doctor {pid} --for 30s"))
    })
}

fn uncut(why: &str) -> Finding {
    Finding::bad(TOPIC, why.to_owned())
        .because("CUDA cannot use a GPU in MIG mode before it is cut into slices")
        .then("sudo nvidia-smi mig -cgi 19,19,19 -C    # cut it, here into small slices")
        .then("sudo nvidia-smi -mig 0    # or use it whole")
}

/// How to use the others meanwhile.
fn without(index: u32, well: &[u32]) -> String {
    let others: Vec<String> = well.iter().filter(|other| **other != index).map(u32::to_string).collect();
    if others.is_empty() {
        return "gpulane run --gpus none plan.toml    # meanwhile, on the CPU".to_owned();
    }
    format!("gpulane run --gpus {} plan.toml    # meanwhile, without it", others.join(","))
}

fn name(gpu: &GpuReading) -> String {
    match (&gpu.slice_of, gpu.name.is_empty()) {
        (Some(_), _) => format!("slice {} of GPU {}", gpu.uuid, gpu.index),
        (None, true) => format!("GPU {}", gpu.index),
        (None, false) => format!("GPU {} ({})", gpu.index, gpu.name),
    }
}

fn summary(sight: &Sight) -> String {
    let parts = sight.gpus().map(|gpu| format!("{} {}, {} free", gpu.index, gpu.name, gpu.memory.free));
    let parts: Vec<String> = parts.collect();
    if parts.len() <= 2 { parts.join("; ") } else { format!("{}; … {} in all", parts[0], parts.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    fn gpu() -> GpuReading {
        GpuReading { name: "H200".into(), power_limit: Some(700.0), ..GpuReading::default() }
    }

    #[test]
    fn a_healthy_gpu_is_not_talked_about() {
        let busy = GpuReading { load: Some(100), power: Some(650.0), temperature: Some(80), ..gpu() };
        assert_eq!(about(&busy, &[0]), []);
    }

    #[test]
    fn each_trouble_is_told_with_its_weight() {
        let lost = GpuReading { trouble: Some("is lost".into()), ..gpu() };
        let worn = GpuReading { trouble: Some("is replaced by spare rows".into()), ..gpu() };
        let closed = GpuReading { compute_mode: Some("prohibited".into()), ..gpu() };
        let alone = GpuReading { compute_mode: Some("exclusive_process".into()), ..gpu() };
        let errors = GpuReading { ecc_errors: Some(3), ..gpu() };
        let hollow = GpuReading { load: Some(100), power: Some(90.0), ..gpu() };
        for (reading, severity) in [
            (lost, Severity::Bad),
            (worn, Severity::Warning),
            (closed, Severity::Bad),
            (alone, Severity::Warning),
            (errors, Severity::Bad),
            (hollow, Severity::Warning),
        ] {
            let found = about(&reading, &[0, 1]);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].severity, severity, "{found:?}");
            assert!(!found[0].next.is_empty() && !found[0].why.is_empty(), "{found:?}");
        }
    }
}
