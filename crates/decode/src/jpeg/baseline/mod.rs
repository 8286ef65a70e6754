//! Plain JPEGs: baseline, three components, one scan. Decoded by ourselves, because reading the code takes most of the time and can be
//! read in half of what libjpeg-turbo takes; to the same planes, bit by bit. Whatever is not plain, or not right, is `None`: then
//! libjpeg-turbo decodes it, and its judgement counts.
#![allow(clippy::inline_always)] // what is called does not stay in registers: a third of the speed

mod bits;
mod huffman;
#[cfg(target_arch = "x86_64")]
mod idct;
#[cfg(target_arch = "x86_64")]
mod scan;
mod tables;

use crate::planes::Layout;
use bits::Stretches;
use tables::Tables;

/// What one thread keeps between files.
#[derive(Default)]
pub(crate) struct Baseline {
    tables: Tables,
    stretches: Stretches,
}

impl Baseline {
    /// Decodes to planes in whole units, with room for them in `target`. `None`: it is for libjpeg-turbo.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    pub(crate) fn planes(&mut self, encoded: &[u8], layout: Layout, target: &mut [u8]) -> Option<()> {
        if !Self::is_able() {
            return None;
        }
        let frame = self.tables.read(encoded)?;
        self.stretches.read(frame.data)?;
        // SAFETY: this processor has what it needs, asked right above.
        unsafe { scan::decode(&frame, &self.tables, &self.stretches, layout, target) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn planes(&mut self, _encoded: &[u8], _layout: Layout, _target: &mut [u8]) -> Option<()> {
        None
    }

    /// Whether this processor has what it needs.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn is_able() -> bool {
        use std::arch::is_x86_feature_detected as has;
        has!("avx2") && has!("bmi1") && has!("bmi2")
    }

    #[cfg(all(test, not(target_arch = "x86_64")))]
    pub(crate) fn is_able() -> bool {
        false
    }

    /// Bytes of the buffers that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.stretches.kept()
    }

    /// Gives the buffers back; tables stay.
    pub(crate) fn give_back(&mut self) {
        self.stretches = Stretches::default();
    }
}
