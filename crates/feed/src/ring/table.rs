//! An entry of a slot's table, byte by byte as `docs/map-protocol.md` has it.

use gpulane_decode::Form;

/// Bytes of an entry.
pub const ENTRY: usize = 64;

/// The entry of an item: its number, where its data lies, what that is, and where its name and the members beside it lie.
pub fn entry(number: u64, offset: u64, form: &Form, name: (u32, u32), members: (u32, u32)) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[0..8].copy_from_slice(&number.to_le_bytes());
    entry[8..16].copy_from_slice(&offset.to_le_bytes());
    entry[16..24].copy_from_slice(&form.bytes.to_le_bytes());
    entry[24] = form.kind.code();
    entry[25] = form.element.code();
    entry[26] = form.orientation;
    entry[27] = form.chroma;
    entry[28..32].copy_from_slice(&form.ndim.to_le_bytes());
    for (at, side) in form.dims.iter().enumerate() {
        entry[32 + 4 * at..36 + 4 * at].copy_from_slice(&side.to_le_bytes());
    }
    entry[48..52].copy_from_slice(&name.0.to_le_bytes());
    entry[52..56].copy_from_slice(&name.1.to_le_bytes());
    entry[56..60].copy_from_slice(&members.0.to_le_bytes());
    entry[60..64].copy_from_slice(&members.1.to_le_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use gpulane_decode::{Element, Kind};

    use super::*;

    #[test]
    fn every_field_stands_where_the_protocol_says() {
        let form = Form {
            kind: Kind::Planes,
            element: Element::F32,
            orientation: 6,
            chroma: 2,
            dims: [0x0102_0304, 5, 6, 7],
            ndim: 3,
            bytes: 0x1122_3344_5566,
            damaged: false,
        };
        let bytes = entry(9, 4096, &form, (0xFFFF_0000, 12), (0x8000_0001, 7));
        let mut right = [0; ENTRY];
        right[0] = 9;
        right[9] = 0x10;
        right[16..22].copy_from_slice(&[0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        right[24..29].copy_from_slice(&[2, 6, 6, 2, 3]);
        right[32..37].copy_from_slice(&[4, 3, 2, 1, 5]);
        right[40] = 6;
        right[44] = 7;
        right[48..53].copy_from_slice(&[0, 0, 0xFF, 0xFF, 12]);
        right[56..61].copy_from_slice(&[1, 0, 0, 0x80, 7]);
        assert_eq!(bytes, right);
    }
}
