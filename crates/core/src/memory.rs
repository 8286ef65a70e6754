//! From what a job was seen to hold to what is reserved for one like it.

use gpulane_model::Bytes;

/// What is reserved on top of a measured peak, in percent of it: jobs of a stage differ, and an allocator keeps more the
/// longer it runs.
pub const MARGIN: u64 = 10;

/// What is reserved on top of that, whatever the peak: between two looks at the memory a small job can take a library's
/// workspace that was not seen.
pub const HEADROOM: Bytes = Bytes(256 << 20);

const MIB: u64 = 1 << 20;

/// What is reserved for a job of a stage whose jobs held at most `peak`: a tenth more and [`HEADROOM`], in whole MiB.
pub fn reserve_for(peak: Bytes) -> Bytes {
    let margin = (peak.0 / 100).saturating_mul(MARGIN).saturating_add(peak.0 % 100 * MARGIN / 100);
    let bytes = peak.0.saturating_add(margin).saturating_add(HEADROOM.0);
    Bytes(bytes.div_ceil(MIB).saturating_mul(MIB))
}

/// Whether a peak is enough above the one reserved for that others should be given more: 2 %, so that jobs which differ by
/// nothing worth telling do not fill the journal.
pub(crate) fn is_more(peak: Bytes, than: Bytes) -> bool {
    peak.0.saturating_sub(than.0) > than.0 / 50
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_and_the_headroom_in_whole_mib() {
        assert_eq!(reserve_for(Bytes(0)), Bytes(256 << 20));
        assert_eq!(reserve_for(Bytes(1000 << 20)), Bytes(1356 << 20));
        assert_eq!(reserve_for(Bytes((1000 << 20) + 1)), Bytes(1357 << 20));
        assert!(reserve_for(Bytes(u64::MAX)).0 > u64::MAX / 2, "nonsense stays large");
    }
}
