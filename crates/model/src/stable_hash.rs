//! A hash that is the same in every version and on every machine, for names of files that outlive both. Not for anything secret.

/// FNV-1a.
pub fn stable_hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_have_their_known_hashes() {
        assert_eq!(stable_hash(*b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(stable_hash(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
