//! What stands before the image data of a baseline JPEG: how its components lie, how they are quantised and coded. Reads hostile
//! bytes; whatever is out of the ordinary is left to libjpeg-turbo, which judges it.

use super::huffman::Huffman;
use crate::jpeg::header::{Segment, Segments};

/// A component of the image.
#[derive(Clone, Copy, Default)]
pub(super) struct Component {
    /// Blocks of it in a unit, across and down.
    pub(super) blocks: (usize, usize),
    /// Its quantisation table.
    pub(super) quantisation: usize,
    /// Its tables for the first coefficient of a block and for the others.
    pub(super) codes: (usize, usize),
    /// Its name in the file.
    name: u8,
}

/// Tables of one thread, kept between files: most have the same.
#[derive(Default)]
pub(super) struct Tables {
    /// In the order of the rows of a block.
    pub(super) quantisation: [[[i16; 8]; 8]; 4],
    /// For first coefficients.
    pub(super) first: [Huffman; 4],
    /// For the others.
    pub(super) others: [Huffman; 4],
    /// Which of them the file at hand has set.
    known: [[bool; 4]; 3],
}

/// What is needed to read the image data.
pub(super) struct Frame<'a> {
    /// Luma and both chromas.
    pub(super) components: [Component; 3],
    /// Units between two restarts; 0 if there are none.
    pub(super) restart: usize,
    /// From the first byte of image data to the end of the file.
    pub(super) data: &'a [u8],
}

/// Where the coefficient that comes at a certain place in the file stands in its block, whose rows are 16 apart. Places beyond the last are those of a broken
/// file, or of the end of a block; they go where nobody looks. There is one for the sum of any place and any byte.
pub(super) static PLACES: [u8; 320] = places();

const fn places() -> [u8; 320] {
    let mut places = [128; 320];
    let (mut row, mut column, mut up) = (0u8, 0u8, true);
    let mut at = 0;
    while at < 64 {
        places[at] = row * 16 + column;
        // Along the sides; the corners belong to the far ones.
        match (up, row, column) {
            (true, _, 7) => (row, up) = (row + 1, false),
            (true, 0, _) => (column, up) = (column + 1, false),
            (true, ..) => (row, column) = (row - 1, column + 1),
            (false, 7, _) => (column, up) = (column + 1, true),
            (false, _, 0) => (row, up) = (row + 1, true),
            (false, ..) => (row, column) = (row + 1, column - 1),
        }
        at += 1;
    }
    places
}

impl Tables {
    /// Reads everything up to the image data. `None`: not a plain file.
    pub(super) fn read<'a>(&mut self, encoded: &'a [u8]) -> Option<Frame<'a>> {
        self.known = [[false; 4]; 3];
        let mut segments = Segments::of(encoded);
        let (mut components, mut restart) = (None, 0);
        loop {
            let Segment { marker, body, at } = segments.next().ok()?;
            match marker {
                0xdb => self.quantise(body)?,
                0xc4 => self.code(body)?,
                0xc0 => components = Some(components_of(body)?),
                0xdd => restart = usize::from(u16::from_be_bytes(*body.first_chunk()?)),
                0xda => {
                    let mut components = components?;
                    scan(body, &mut components)?;
                    self.are_known(&components)?;
                    return Some(Frame { components, restart, data: encoded.get(at + body.len()..)? });
                }
                // Frames of other kinds, arithmetic coding, a height that comes later.
                0xc1..=0xcf | 0xdc => return None,
                _ => {}
            }
        }
    }

    fn quantise(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((which, rest)) = body.split_first() {
            // 16 bits do not occur in baseline files.
            let table = self.quantisation.get_mut(usize::from(*which))?;
            let values = rest.first_chunk::<64>()?;
            for (value, place) in values.iter().zip(&PLACES) {
                table[usize::from(place / 16)][usize::from(place % 16)] = i16::from(*value);
            }
            self.known[0][usize::from(*which)] = true;
            body = &rest[64..];
        }
        Some(())
    }

    fn code(&mut self, mut body: &[u8]) -> Option<()> {
        while let Some((which, rest)) = body.split_first() {
            let (kind, which) = (usize::from(which >> 4), usize::from(which & 15));
            let counts = rest.first_chunk::<16>()?;
            let total: usize = counts.iter().map(|count| usize::from(*count)).sum();
            let symbols = rest.get(16..16 + total)?;
            let tables = match kind {
                0 => &mut self.first,
                1 => &mut self.others,
                _ => return None,
            };
            tables.get_mut(which)?.prepare(counts, symbols, kind == 0)?;
            self.known[1 + kind][which] = true;
            body = &rest[16 + total..];
        }
        Some(())
    }

    fn are_known(&self, components: &[Component; 3]) -> Option<()> {
        let [quantised, first, others] = &self.known;
        let known = |component: &Component| {
            quantised[component.quantisation] && first[component.codes.0] && others[component.codes.1]
        };
        components.iter().all(known).then_some(())
    }
}

fn components_of(body: &[u8]) -> Option<[Component; 3]> {
    let &[8, _, _, _, _, 3] = body.first_chunk::<6>()? else { return None };
    let mut components = [Component::default(); 3];
    for (component, described) in components.iter_mut().zip(body.get(6..15)?.as_chunks::<3>().0) {
        let [name, blocks, quantisation] = *described;
        let blocks = (usize::from(blocks >> 4), usize::from(blocks & 15));
        *component = Component { blocks, quantisation: usize::from(quantisation), codes: (0, 0), name };
    }
    let [luma, bluish, reddish] = &components;
    let usual =
        matches!(luma.blocks, (1 | 2, 1) | (2, 2)) && bluish.blocks == (1, 1) && reddish.blocks == (1, 1);
    (usual && components.iter().all(|component| component.quantisation < 4)).then_some(components)
}

/// All components together in one scan, in their order.
fn scan(body: &[u8], components: &mut [Component; 3]) -> Option<()> {
    let &[3, n0, c0, n1, c1, n2, c2, 0, 63, 0] = body.first_chunk::<10>()? else { return None };
    for (component, (name, codes)) in components.iter_mut().zip([(n0, c0), (n1, c1), (n2, c2)]) {
        component.codes = (usize::from(codes >> 4), usize::from(codes & 15));
        if component.name != name || component.codes.0 > 3 || component.codes.1 > 3 {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_come_in_zigzag() {
        assert_eq!(PLACES[..12], [0, 1, 16, 32, 17, 2, 3, 18, 33, 48, 64, 49]);
        assert_eq!(PLACES[56..66], [101, 116, 117, 102, 87, 103, 118, 119, 128, 128]);
    }
}
