//! `gpulane fit --model-memory`: how many processes of one size fit on a GPU, the arithmetic line by line.

use gpulane_model::{Bytes, MOST_PER_GPU};
use serde_json::{Value, json};

use crate::gpu_kinds::GpuKindOf;
use crate::look::Look;
use crate::packing::places;
use crate::palette::{Palette, Style};

/// The question.
#[derive(Clone, Debug)]
pub struct FitMemory {
    /// What one worker takes.
    pub model: Bytes,
    /// What is to be left free on each GPU.
    pub headroom: Bytes,
    /// The GPUs; what is reserved of them is the driver's part.
    pub gpus: Vec<GpuKindOf>,
}

impl FitMemory {
    /// What workers can have of a GPU of this kind.
    fn room(&self, kind: &GpuKindOf) -> Bytes {
        Bytes(kind.usable().0.saturating_sub(self.headroom.0))
    }

    fn workers(&self, kind: &GpuKindOf) -> u32 {
        places(self.room(kind), self.model)
    }

    /// Workers on all GPUs together.
    pub fn workers_in_all(&self) -> u32 {
        let each = self.gpus.iter().map(|kind| self.workers(kind).saturating_mul(kind.count));
        each.fold(0, u32::saturating_add)
    }
}

/// The answer as text; its last line says how many.
pub fn fit_memory(of: &FitMemory, look: Look) -> String {
    let palette = Palette::new(&look);
    let blocks: Vec<String> = of.gpus.iter().map(|kind| block(of, kind, palette)).collect();
    let gpus: u32 = of.gpus.iter().map(|kind| kind.count).sum();
    let mut text = blocks.join("\n");
    let each: Vec<u32> = of.gpus.iter().map(|kind| of.workers(kind)).collect();
    let (least, most) = (each.iter().min().copied().unwrap_or(0), each.iter().max().copied().unwrap_or(0));
    if gpus > 1 {
        text.push_str(&format!("{} on all {gpus} GPUs\n", workers(of.workers_in_all())));
    }
    let per_gpu = if least == most { workers(most) } else { format!("{least} to {}", workers(most)) };
    text.push_str(&format!("{} per GPU\n", palette.paint(Style::Bold, &per_gpu)));
    text
}

fn workers(count: u32) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

/// The arithmetic for one kind of GPU.
fn block(of: &FitMemory, kind: &GpuKindOf, palette: Palette) -> String {
    let mut text = String::new();
    if !kind.name.is_empty() {
        let title = format!("{} {} {}", kind.count, palette.times(), kind.name);
        text.push_str(&format!("{}\n", palette.paint(Style::Bold, &title)));
    }
    let mut sum = vec![(" ", kind.memory, "memory of a GPU")];
    let minus = palette.minus();
    if kind.reserved.0 > 0 {
        sum.push((minus, kind.reserved, "kept by the driver"));
    }
    if of.headroom.0 > 0 {
        sum.push((minus, of.headroom, "headroom"));
    }
    let room = of.room(kind);
    if sum.len() > 1 {
        sum.push(("=", room, "for workers"));
    }
    let sizes = sum.iter().map(|(_, size, _)| size.to_string().len()).max().unwrap_or(0);
    for (sign, size, what) in sum {
        text.push_str(&format!("  {sign} {:>sizes$}  {what}\n", size.to_string()));
    }
    text.push_str(&format!("  {}\n", division(of, room, of.workers(kind))));
    text
}

fn division(of: &FitMemory, room: Bytes, count: u32) -> String {
    #[allow(clippy::cast_precision_loss)] // for people
    let quotient = room.0 as f64 / of.model.0.max(1) as f64;
    let left = Bytes(room.0 - u64::from(count) * of.model.0);
    let quotient = format!("{room} / {} for each = {:.1}", of.model, floor_to_tenth(quotient));
    match count {
        0 => format!("{quotient}: not even one fits"),
        MOST_PER_GPU if left >= of.model => format!("{quotient}: {MOST_PER_GPU}, more cannot share a GPU"),
        _ if left.0 == 0 => format!("{quotient}: nothing is left over"),
        _ => format!("{quotient}: {}, {left} left over", workers(count)),
    }
}

/// 3.99 is not 4.0 where a fourth worker does not fit.
fn floor_to_tenth(value: f64) -> f64 {
    (value * 10.0).floor() / 10.0
}

/// The answer as one line of JSON.
pub fn fit_memory_json(of: &FitMemory) -> String {
    let kind = |kind: &GpuKindOf| {
        let (count, room) = (of.workers(kind), of.room(kind));
        json!({
            "name": kind.name,
            "gpus": kind.count,
            "memory": kind.memory,
            "driver": kind.reserved,
            "usable": room,
            "workers_per_gpu": count,
            "left_over": room.0 - u64::from(count) * of.model.0,
        })
    };
    let kinds: Vec<Value> = of.gpus.iter().map(kind).collect();
    json!({
        "model_memory": of.model,
        "headroom": of.headroom,
        "workers": of.workers_in_all(),
        "gpus": kinds,
    })
    .to_string()
}
