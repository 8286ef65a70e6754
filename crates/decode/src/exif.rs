//! The orientation tag of an EXIF block, and nothing else of it. Reads hostile bytes: every access is checked.

/// The tag's number in the first directory.
const ORIENTATION: u16 = 0x0112;
const SHORT: u16 = 3;
const LONG: u16 = 4;

/// The orientation, 1–8, that `block` gives; 1 where it gives none or a senseless one. `block` begins with the TIFF
/// header, or with the `Exif` mark some files put before it.
pub(crate) fn orientation(block: &[u8]) -> u8 {
    let tiff = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    find(tiff).filter(|value| (1..=8).contains(value)).and_then(|value| u8::try_from(value).ok()).unwrap_or(1)
}

fn find(tiff: &[u8]) -> Option<u32> {
    let order = match tiff.get(..4)? {
        [b'I', b'I', 42, 0] => Order::Little,
        [b'M', b'M', 0, 42] => Order::Big,
        _ => return None,
    };
    let directory = usize::try_from(order.long(tiff, 4)?).ok()?;
    let entries = usize::from(order.short(tiff, directory)?);
    let first = directory.checked_add(2)?;
    (0..entries).map_while(|index| tiff.get(first.checked_add(index * 12)?..)?.get(..12)).find_map(|entry| {
        (order.short(entry, 0)? == ORIENTATION).then_some(())?;
        match order.short(entry, 2)? {
            SHORT => order.short(entry, 8).map(u32::from),
            LONG => order.long(entry, 8),
            _ => None,
        }
    })
}

/// Which byte comes first.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn short(self, bytes: &[u8], at: usize) -> Option<u16> {
        let pair = bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(*pair),
            Self::Big => u16::from_be_bytes(*pair),
        })
    }

    fn long(self, bytes: &[u8], at: usize) -> Option<u32> {
        let quad = bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(*quad),
            Self::Big => u32::from_be_bytes(*quad),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(kind: u16, value: u32) -> Vec<u8> {
        let mut block = b"II\x2a\0\x08\0\0\0\x02\0".to_vec();
        block.extend([0x0f, 0x01, 2, 0, 4, 0, 0, 0, b'a', b'b', b'c', 0]);
        block.extend(ORIENTATION.to_le_bytes());
        block.extend(kind.to_le_bytes());
        block.extend([1, 0, 0, 0]);
        block.extend(value.to_le_bytes());
        block
    }

    #[test]
    fn the_tag_is_found_in_either_byte_order_and_behind_its_mark() {
        assert_eq!(orientation(&little(SHORT, 6)), 6);
        assert_eq!(orientation(&little(LONG, 8)), 8);
        assert_eq!(orientation(&[b"Exif\0\0", little(SHORT, 3).as_slice()].concat()), 3);
        let big = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0";
        assert_eq!(orientation(big), 5);
    }

    #[test]
    fn what_makes_no_sense_is_upright() {
        for block in
            [little(SHORT, 0), little(SHORT, 9), little(2, 6), b"II\x2a\0\xff\xff\xff\xff".to_vec(), vec![]]
        {
            assert_eq!(orientation(&block), 1, "{block:?}");
        }
    }

    #[test]
    fn a_block_cut_anywhere_is_upright_or_right() {
        let whole = little(SHORT, 6);
        for length in 0..whole.len() {
            assert!(matches!(orientation(&whole[..length]), 1 | 6), "{length}");
        }
    }
}
