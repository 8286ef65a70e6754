//! What may be wrong with a GPU as it stands there, and what a person can do about it.

use gpulane_gpu::GpuReading;
use gpulane_model::Bytes;

use crate::clean::safe;
use crate::gpus_seen::SeenGpu;
use crate::palette::Style;

/// Every trouble of this GPU, the worst first, each with the way out.
pub(crate) fn troubles(gpu: &SeenGpu) -> Vec<(Style, String)> {
    let reading = &gpu.reading;
    let at = reading.index;
    let mut found = Vec::new();
    if let Some(trouble) = &reading.trouble {
        let text = format!("gpu {at} {}. {}", safe(trouble), way_out(reading));
        found.push((Style::Bad, text));
    }
    match reading.compute_mode.as_deref() {
        Some("prohibited") => found.push((
            Style::Bad,
            format!("compute mode prohibited: no job can use it. `nvidia-smi -i {at} -c DEFAULT` as root allows it"),
        )),
        Some("exclusive_process") => found.push((
            Style::Warn,
            format!(
                "compute mode exclusive_process: one process at a time, jobs cannot share it. \
                 `nvidia-smi -i {at} -c DEFAULT` as root allows more"
            ),
        )),
        _ => {}
    }
    if let Some(errors @ 1..) = reading.ecc_errors {
        let errors =
            if errors == 1 { "1 memory error".to_owned() } else { format!("{errors} memory errors") };
        found.push((
            Style::Bad,
            format!(
                "{errors} that could not be corrected: results may be wrong. `nvidia-smi -q -i {at} -d \
                 ECC,ROW_REMAPPER` tells more; reset the GPU or have it replaced"
            ),
        ));
    }
    found.extend(gpu.ghost.map(|ghost| (Style::Warn, ghost_text(ghost, at))));
    found
}

fn way_out(reading: &GpuReading) -> String {
    format!(
        "End what uses it, then `nvidia-smi --gpu-reset -i {}` as root, or reboot; `dmesg | grep -i xid` tells what happened",
        reading.index
    )
}

fn ghost_text(ghost: Bytes, at: u32) -> String {
    format!(
        "{ghost} held, but by no process that can be seen: a dead or frozen process, or one in another container. \
         `fuser -v /dev/nvidia*` as root names it; if nothing else uses the GPU, `nvidia-smi --gpu-reset -i {at}` \
         as root frees it"
    )
}
