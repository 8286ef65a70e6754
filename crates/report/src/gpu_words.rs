//! What happens to GPUs and their memory, in sentences: the same for lines, frames and `status`.

use gpulane_model::{Bytes, Event, GpuKind, Machine, RunState};

use crate::clean::safe;
use crate::palette::{Palette, Style};

/// `gpu 2 (GPU-1b2c3d4e)`: a run counts only its own GPUs, so the number alone would mislead whoever goes to look at it.
fn gpu_label(machine: Option<&Machine>, uuid: &str) -> String {
    let found =
        machine.and_then(|machine| Some((machine, machine.gpus.iter().position(|gpu| gpu.uuid == uuid)?)));
    match found {
        Some((machine, at)) if machine.kind == GpuKind::Nvml => format!("gpu {at} ({})", beginning(uuid)),
        Some((_, at)) => format!("gpu {at}"),
        None => safe(uuid).into_owned(),
    }
}

/// `GPU-1b2c3d4e`: enough of a UUID to tell the GPUs of a machine apart, and to name one to `--gpus`.
fn beginning(uuid: &str) -> &str {
    let end = uuid.match_indices('-').nth(1).map_or(uuid.len(), |(at, _)| at);
    &uuid[..end]
}

/// The line that tells an event of a GPU; `None` for all other events.
pub(crate) fn gpu_line(event: &Event, machine: Option<&Machine>, palette: Palette) -> Option<String> {
    let label = |uuid: &String| gpu_label(machine, uuid);
    Some(match event {
        Event::MemoryMeasured { stage, job, peak, reserve } => {
            measured(stage, job.is_none(), Bytes(*peak), Bytes(*reserve))
        }
        Event::MemoryGuessed { stage, reserve } => guessed(stage, Bytes(*reserve), machine),
        Event::MemoryExceeded { job, peak, reserved } => {
            let (peak, reserved) = (Bytes(*peak), Bytes(*reserved));
            format!("{} {job} holds {peak} of GPU memory; {reserved} were reserved for it", palette.alert())
        }
        Event::GpuQuarantined { gpu, why } => format!("{} {}", palette.cross(), unused(&label(gpu), why)),
        Event::VramHeld { gpu, because, .. } => {
            format!("{} {}", palette.alert(), waits(&label(gpu), because))
        }
        Event::VramBack { gpu } => format!("{} is used again: its memory is back", label(gpu)),
        Event::MpsFault { gpu, job, because } => format!(
            "{} {}: a fault under MPS, noticed at {job} ({}); the jobs on it are started again",
            palette.alert(),
            label(gpu),
            safe(because)
        ),
        _ => return None,
    })
}

fn guessed(stage: &str, reserve: Bytes, machine: Option<&Machine>) -> String {
    let first = format!("{stage}: its first job is on its GPU");
    let two_fit = |machine: &Machine| machine.gpus.iter().any(|gpu| gpu.usable().0 / 2 >= reserve.0);
    if machine.is_some_and(two_fit) {
        format!("{first}; others start beside it, {reserve} guessed for each until it is measured")
    } else {
        format!("{first} and large; no other joins it until it is measured")
    }
}

fn measured(stage: &str, earlier: bool, peak: Bytes, reserve: Bytes) -> String {
    let peak = if earlier {
        format!("a job took {peak} at most in an earlier run")
    } else {
        format!("a job takes {peak} at most")
    };
    format!("{stage}: {peak}; {reserve} reserved for each")
}

fn unused(label: &str, why: &str) -> String {
    // Some reasons are told as they follow a GPU's name.
    let it = if ["is ", "needs ", "cannot ", "reported "].iter().any(|verb| why.starts_with(verb)) {
        "it "
    } else {
        ""
    };
    format!("{label} is not used any more: {it}{}", safe(why))
}

fn waits(label: &str, because: &str) -> String {
    format!("{label} is put aside: {}", safe(because))
}

/// GPUs that cannot be used, each in a sentence. `live`: an engine works on the run; otherwise none waits for anything.
pub(crate) fn gpu_troubles(state: &RunState, live: bool) -> Vec<(Style, String)> {
    let machine = state.machine.as_ref();
    let label = |uuid: &str| gpu_label(machine, uuid);
    let lost = state.quarantined.iter().map(|(uuid, why)| (Style::Bad, unused(&label(uuid), why)));
    let held = state
        .vram_held
        .iter()
        .filter(|_| live)
        .map(|(uuid, because)| (Style::Warn, waits(&label(uuid), because)));
    lost.chain(held).collect()
}

#[cfg(test)]
mod tests {
    use gpulane_model::Gpu;

    use super::*;

    #[test]
    fn a_real_gpu_is_named_so_that_it_can_be_found() {
        let uuid = "GPU-1b2c3d4e-0000-4000-8000-000000000000";
        let gpu = Gpu { uuid: uuid.into(), name: "H200".into(), memory: Bytes(1), reserved: Bytes(0) };
        let machine = |kind| Machine {
            kind,
            gpus: vec![gpu.clone()],
            lanes_per_gpu: 1,
            packing: false,
            cores: 1,
            cpu_lanes: 0,
        };
        assert_eq!(gpu_label(Some(&machine(GpuKind::Nvml)), uuid), "gpu 0 (GPU-1b2c3d4e)");
        assert_eq!(gpu_label(Some(&machine(GpuKind::Sim)), uuid), "gpu 0");
        assert_eq!(gpu_label(Some(&machine(GpuKind::Nvml)), "GPU-other"), "GPU-other");
    }
}
