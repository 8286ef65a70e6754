//! Indices of a BMP that are packed in runs.

/// Unpacks to one index a pixel, and says whether data was missing. What is left out has the first colour.
pub(super) fn unpack(data: &[u8], (width, height): (usize, usize), of_four_bits: bool) -> (Vec<u8>, bool) {
    let mut indices = vec![0; width * height];
    let mut rest = data;
    // Where the next pixel goes, and its column, which may be beyond the row where a run was too long.
    let (mut at, mut x) = (0, 0);
    while at < indices.len() {
        let [count, value, behind @ ..] = rest else { return (indices, true) };
        rest = behind;
        match (*count, *value) {
            (0, 0) => {
                // A row that was filled to its end is over; one without a pixel is left out.
                at = if x > 0 && at.is_multiple_of(width) { at } else { (at / width + 1) * width };
                x = 0;
            }
            // The end comes before the last pixel.
            (0, 1) => return (indices, true),
            (0, 2) => {
                let [right, up, behind @ ..] = rest else { return (indices, true) };
                rest = behind;
                at = (at + usize::from(*right) + usize::from(*up) * width).min(indices.len());
                x = at % width;
            }
            (0, plain) => {
                let count = usize::from(plain).min(indices.len() - at);
                let stored = if of_four_bits { count.div_ceil(2) } else { count };
                let missing = rest.len() < stored;
                let run = &rest[..stored.min(rest.len())];
                let room = &mut indices[at..at + count];
                if of_four_bits {
                    room.iter_mut()
                        .zip(run.iter().flat_map(|byte| [byte >> 4, byte & 15]))
                        .for_each(|(to, index)| *to = index);
                } else {
                    room.iter_mut().zip(run).for_each(|(to, index)| *to = *index);
                }
                if missing {
                    return (indices, true);
                }
                at += count;
                x += usize::from(plain);
                // Runs begin at even places.
                rest = rest.get(stored + stored % 2..).unwrap_or_default();
            }
            (count, value) => {
                // What does not fit into the row is left out.
                let count = usize::from(count).min(width.saturating_sub(x)).min(indices.len() - at);
                let pair = if of_four_bits { [value >> 4, value & 15] } else { [value, value] };
                for (to, index) in indices[at..at + count].iter_mut().zip(pair.iter().cycle()) {
                    *to = *index;
                }
                at += count;
                x += count;
            }
        }
    }
    (indices, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_before_the_last_pixel_is_told() {
        let whole = [2, 7, 0, 0, 2, 8, 0, 1];
        assert_eq!(unpack(&whole, (2, 2), false), (vec![7, 7, 8, 8], false));
        assert_eq!(unpack(&[2, 7, 0, 0, 0, 1], (2, 2), false), (vec![7, 7, 0, 0], true));
        // Rows without their end: what does not fit into the first one is left out, and the others have nothing.
        assert_eq!(unpack(&[2, 7, 2, 8, 0, 1], (2, 2), false), (vec![7, 7, 0, 0], true));
        assert_eq!(unpack(&[2, 7, 0, 0], (2, 2), false), (vec![7, 7, 0, 0], true));
    }
}
