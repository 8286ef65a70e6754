//! The driver: is it there, does it answer, how fast.

use std::path::Path;
use std::time::Duration;

use gpulane_gpu::NoProbe;

use super::sight::{Driver, Sight};
use crate::Finding;
use crate::number::counted;

const TOPIC: &str = "driver";
/// Slower answers mean that the driver starts anew for every process.
const SLOW: Duration = Duration::from_secs(3);
/// NVIDIA, as PCI numbers vendors.
const NVIDIA: &str = "0x10de";

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    vec![match &sight.driver {
        Ok(driver) if driver.readings.is_empty() => Finding::bad(TOPIC, "the driver sees no GPU")
            .because("it is loaded, but every GPU is gone, or none was given to this container")
            .then("nvidia-smi -L")
            .then("in a container: start it again with --gpus all"),
        Ok(driver) if driver.took > SLOW => Finding::warning(TOPIC, slow(driver))
            .because("without persistence mode the driver starts anew for each process that asks it")
            .then("sudo nvidia-smi -pm 1"),
        Ok(driver) => Finding::fine(TOPIC, versions(driver)),
        Err(NoProbe::Broken(why)) => Finding::bad(TOPIC, format!("the driver does not work: {why}"))
            .because(
                "no GPU can be used; in a container, a reload of the container service takes the GPUs away (Unknown Error)",
            )
            .then("nvidia-smi")
            .then("sudo dmesg | grep -i -e nvrm -e xid | tail")
            .then("in a container: recreate it; else reboot"),
        Err(NoProbe::Absent(why)) => absent(why, hardware(), Path::new("/proc/driver/nvidia/version").exists()),
    }]
}

/// No driver to talk to: an ordinary machine, or one that lacks something.
fn absent(why: &str, hardware: usize, module: bool) -> Finding {
    if module {
        return Finding::bad(TOPIC, format!("{why}, though its kernel module is loaded"))
            .because(
                "its library libnvidia-ml.so.1 is not found: the container was not given the driver's files",
            )
            .then("start the container with --gpus all (NVIDIA Container Toolkit)")
            .then("ldconfig -p | grep nvidia-ml");
    }
    if hardware > 0 {
        return Finding::bad(
            TOPIC,
            format!("{why}, but this machine has {}", counted(hardware, "NVIDIA device", "NVIDIA devices")),
        )
        .because("the kernel module is not loaded: after a kernel update it must be built again")
        .then("sudo modprobe nvidia && nvidia-smi")
        .then("sudo dmesg | grep -i nvidia | tail");
    }
    Finding::fine(TOPIC, format!("{why}; jobs run on the CPU, or on simulated GPUs (--gpus sim:8x24GiB)"))
}

/// NVIDIA display and compute devices on the PCI bus.
fn hardware() -> usize {
    let read = |path: &Path, name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let is_gpu =
        |path: &Path| read(path, "vendor").trim() == NVIDIA && read(path, "class").starts_with("0x03");
    devices.filter(|device| is_gpu(&device.path())).count()
}

fn versions(driver: &Driver) -> String {
    let gpus = driver.readings.iter().filter(|reading| reading.slice_of.is_none()).count();
    let known = driver.versions.driver.as_deref().unwrap_or("of unknown version");
    let cuda = driver
        .versions
        .cuda
        .map_or_else(String::new, |(major, minor)| format!(", CUDA up to {major}.{minor}"));
    format!("driver {known}{cuda}, {gpus} GPU{}", if gpus == 1 { "" } else { "s" })
}

fn slow(driver: &Driver) -> String {
    format!("{}, but it took {:.1} s to answer", versions(driver), driver.took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    #[test]
    fn a_machine_without_gpus_is_fine_and_one_whose_driver_is_missing_is_not() {
        assert_eq!(absent("no driver", 0, false).severity, Severity::Fine);
        assert_eq!(absent("no driver", 2, false).severity, Severity::Bad);
        assert_eq!(absent("no driver", 0, true).severity, Severity::Bad);
    }
}
