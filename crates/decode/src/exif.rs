//! The orientation tag of an EXIF block, and nothing else of it, read as Pillow reads it. Reads hostile bytes: every access is checked.

/// The tag's number in the first directory.
const ORIENTATION: u16 = 0x0112;

/// Types of the values a directory can hold.
const RATIONAL: u16 = 5;
const SIGNED_RATIONAL: u16 = 10;
const FLOAT: u16 = 11;
const DOUBLE: u16 = 12;

/// The orientation, 1–8, that `block` gives; 1 where the tag has a senseless value; nothing where there is no such tag. `block`
/// begins with the TIFF header, or with the `Exif` mark that files put before it once or twice.
pub(crate) fn orientation(block: &[u8]) -> Option<u8> {
    let mark = b"Exif\0\0".as_slice();
    let tiff = block.strip_prefix(mark).unwrap_or(block);
    find(tiff.strip_prefix(mark).unwrap_or(tiff))
}

fn find(tiff: &[u8]) -> Option<u8> {
    let order = match tiff.get(..4)? {
        // Some writers turn the two bytes behind the order.
        [b'I', b'I', 42, 0] | [b'I', b'I', 0, 42] => Order::Little,
        [b'M', b'M', 0, 42] | [b'M', b'M', 42, 0] => Order::Big,
        _ => return None,
    };
    let directory = usize::try_from(order.long(tiff, 4)?).ok()?;
    let entries = usize::from(order.short(tiff, directory)?);
    let first = directory.checked_add(2)?;
    (0..entries)
        .map_while(|index| tiff.get(first.checked_add(index * 12)?..)?.first_chunk::<12>())
        .filter(|entry| order.short(entry.as_slice(), 0) == Some(ORIENTATION))
        .find_map(|entry| value(order, tiff, entry))
}

/// The value of an entry: of several the first. Nothing where there is none, or none of a known type: the entry does not count.
fn value(order: Order, tiff: &[u8], entry: &[u8; 12]) -> Option<u8> {
    let kind = order.short(entry, 2)?;
    let unit = match kind {
        1 | 2 | 6 | 7 => 1,
        3 | 8 => 2,
        4 | 9 | 13 | FLOAT => 4,
        RATIONAL | SIGNED_RATIONAL | DOUBLE | 16 => 8,
        _ => return None,
    };
    let size = usize::try_from(order.long(entry, 4)?).ok()?.checked_mul(unit)?;
    let data = if size > 4 {
        let at = usize::try_from(order.long(entry, 8)?).ok()?;
        tiff.get(at..at.checked_add(size)?)?
    } else {
        entry.get(8..8 + size)?
    };
    if data.is_empty() {
        return None;
    }
    let known = match kind {
        6 => data.first().map(|byte| u64::from(*byte)),
        3 | 8 => order.short(data, 0).map(u64::from),
        4 | 9 | 13 => order.long(data, 0).map(u64::from),
        16 => order.long8(data, 0),
        RATIONAL | SIGNED_RATIONAL => {
            let (over, under) = (order.long(data, 0)?, order.long(data, 4)?);
            (under != 0 && over % under == 0).then(|| u64::from(over / under))
        }
        FLOAT => whole(f64::from(f32::from_bits(order.long(data, 0)?))),
        DOUBLE => whole(f64::from_bits(order.long8(data, 0)?)),
        // Bytes and texts are no numbers to Pillow.
        _ => None,
    };
    Some(
        known.and_then(|value| u8::try_from(value).ok()).filter(|value| (1..=8).contains(value)).unwrap_or(1),
    )
}

#[allow(clippy::float_cmp)] // exactly that number
fn whole(value: f64) -> Option<u64> {
    (1..=8_u8).find(|known| f64::from(*known) == value).map(u64::from)
}

/// Which byte comes first.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn short(self, bytes: &[u8], at: usize) -> Option<u16> {
        let pair = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(pair),
            Self::Big => u16::from_be_bytes(pair),
        })
    }

    fn long(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(four),
            Self::Big => u32::from_be_bytes(four),
        })
    }

    fn long8(self, bytes: &[u8], at: usize) -> Option<u64> {
        let eight = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(eight),
            Self::Big => u64::from_be_bytes(eight),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: u16 = 3;

    fn little(kind: u16, count: u32, value: [u8; 4]) -> Vec<u8> {
        let mut block = b"II\x2a\0\x08\0\0\0\x02\0".to_vec();
        block.extend([0x0f, 0x01, 2, 0, 4, 0, 0, 0, b'a', b'b', b'c', 0]);
        block.extend(ORIENTATION.to_le_bytes());
        block.extend(kind.to_le_bytes());
        block.extend(count.to_le_bytes());
        block.extend(value);
        block
    }

    #[test]
    fn the_tag_is_found_in_either_byte_order_and_behind_its_mark() {
        let six = little(SHORT, 1, [6, 0, 0, 0]);
        assert_eq!(orientation(&six), Some(6));
        for marks in [b"Exif\0\0".as_slice(), b"Exif\0\0Exif\0\0"] {
            assert_eq!(orientation(&[marks, &six].concat()), Some(6));
        }
        let big = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0";
        assert_eq!(orientation(big), Some(5));
    }

    /// What Pillow 13 makes of the tag as every type. Files with each: tests/stills.
    #[test]
    fn every_type_that_is_a_number_counts() {
        for (kind, value, is) in [
            (1, [6, 0, 0, 0], Some(1)),
            (2, *b"6\0\0\0", Some(1)),
            (SHORT, [6, 0, 0, 0], Some(6)),
            (4, [6, 0, 0, 0], Some(6)),
            (6, [6, 0, 0, 0], Some(6)),
            (7, [6, 0, 0, 0], Some(1)),
            (8, [6, 0, 0, 0], Some(6)),
            (9, [6, 0, 0, 0], Some(6)),
            (FLOAT, 6.0_f32.to_le_bytes(), Some(6)),
            (FLOAT, 6.5_f32.to_le_bytes(), Some(1)),
            (13, [6, 0, 0, 0], Some(6)),
            (99, [6, 0, 0, 0], None),
        ] {
            assert_eq!(orientation(&little(kind, 1, value)), is, "type {kind}");
        }
        assert_eq!(orientation(&little(SHORT, 2, [8, 0, 1, 0])), Some(8), "the first of several");
        for (kind, data, is) in [
            (RATIONAL, [[6, 0, 0, 0], [1, 0, 0, 0]].concat(), Some(6)),
            (RATIONAL, [[6, 0, 0, 0], [0, 0, 0, 0]].concat(), Some(1)),
            (SIGNED_RATIONAL, [[12, 0, 0, 0], [2, 0, 0, 0]].concat(), Some(6)),
            (DOUBLE, 3.0_f64.to_le_bytes().to_vec(), Some(3)),
            (16, 7_u64.to_le_bytes().to_vec(), Some(7)),
            (16, vec![7; 5], None),
        ] {
            let block = little(kind, 1, [34, 0, 0, 0]);
            assert_eq!(orientation(&[block, data].concat()), is, "type {kind}");
        }
    }

    #[test]
    fn a_tag_without_sense_is_upright_and_one_that_is_not_there_is_nothing() {
        assert_eq!(orientation(&little(SHORT, 1, [0; 4])), Some(1));
        assert_eq!(orientation(&little(SHORT, 1, [9, 0, 0, 0])), Some(1));
        assert_eq!(orientation(&little(SHORT, 0, [6, 0, 0, 0])), None);
        assert_eq!(orientation(b"II\x2a\0\xff\xff\xff\xff"), None);
        assert_eq!(orientation(b""), None);
    }

    #[test]
    fn a_block_cut_anywhere_is_upright_or_right() {
        let whole = little(SHORT, 1, [6, 0, 0, 0]);
        for length in 0..whole.len() {
            assert!(matches!(orientation(&whole[..length]), None | Some(6)), "{length}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let _ = orientation(&[b"II\x2a\0\x08\0\0\0".as_slice(), &bytes].concat());
        }
    }
}
