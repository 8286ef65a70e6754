//! GPUs of one kind, taken together: `4 × 24 GiB`.

use gpulane_model::{Bytes, Gpu};

use crate::palette::Palette;

/// GPUs that are the same in all that matters for memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKindOf {
    /// The product's name.
    pub name: String,
    /// All memory of one.
    pub memory: Bytes,
    /// What of it no job can have.
    pub reserved: Bytes,
    /// How many there are.
    pub count: u32,
}

impl GpuKindOf {
    /// The kinds there are, in the order of their first GPU.
    pub fn all(gpus: &[Gpu]) -> Vec<Self> {
        let mut kinds: Vec<Self> = Vec::new();
        for gpu in gpus {
            let same = |kind: &&mut Self| {
                (&kind.name, kind.memory, kind.reserved) == (&gpu.name, gpu.memory, gpu.reserved)
            };
            match kinds.iter_mut().find(same) {
                Some(kind) => kind.count += 1,
                None => kinds.push(Self {
                    name: gpu.name.clone(),
                    memory: gpu.memory,
                    reserved: gpu.reserved,
                    count: 1,
                }),
            }
        }
        kinds
    }

    /// What jobs can have of one.
    pub(crate) fn usable(&self) -> Bytes {
        Bytes(self.memory.0.saturating_sub(self.reserved.0))
    }

    /// `4 × 24 GiB`
    pub(crate) fn short(&self, palette: Palette) -> String {
        format!("{} {} {}", self.count, palette.times(), self.memory)
    }
}
