//! The image data without what only keeps it apart from markers, and its bits one after the other.

use memchr::memchr;

/// What follows the last stretch, so that eight bytes can be read from its end.
const AFTER: [u8; 8] = [0; 8];

/// Stretches of image data, each to be read on its own, without stuffing. Kept between files.
#[derive(Default)]
pub(super) struct Stretches {
    data: Vec<u8>,
    ends: Vec<usize>,
}

/// Bits of one stretch. Copied rather than lent where it counts: what is lent does not stay in registers.
#[derive(Clone, Copy)]
pub(super) struct Bits<'a> {
    /// From its first byte on; what follows it may follow here, too.
    data: &'a [u8],
    /// The next byte that is not in `next`.
    at: usize,
    /// The next ones, from the top.
    next: u64,
    /// How many of `next` are there.
    count: u32,
    /// Where it ends.
    end: usize,
    /// Before this, eight bytes can be read at once. From here on, there is nothing but zeros.
    easy: usize,
}

impl Stretches {
    /// Takes the image data apart. `None` unless it ends as it should, at the mark for the end of the file.
    pub(super) fn read(&mut self, mut encoded: &[u8]) -> Option<()> {
        self.data.clear();
        self.ends.clear();
        self.data.reserve_exact(encoded.len() + AFTER.len());
        loop {
            let found = memchr(0xff, encoded)?;
            let (before, rest) = encoded.split_at_checked(found + 1)?;
            let (mark, rest) = rest.split_first()?;
            encoded = rest;
            match mark {
                0 => self.data.extend_from_slice(before),
                0xd0..=0xd7 if usize::from(mark & 7) == self.ends.len() % 8 => {
                    self.data.extend_from_slice(&before[..found]);
                    self.ends.push(self.data.len());
                }
                0xd9 => {
                    self.data.extend_from_slice(&before[..found]);
                    self.ends.push(self.data.len());
                    self.data.extend(AFTER);
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Bytes of the buffers.
    pub(super) fn kept(&self) -> usize {
        self.data.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// One after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = Bits<'_>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| {
            let data = &self.data[start..];
            Bits { data, at: 0, next: 0, count: 0, end: end - start, easy: data.len().saturating_sub(7) }
        })
    }
}

impl Bits<'_> {
    /// Sees to it that at least 56 are there. Beyond the end they are those of the next stretch, or zeros.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(super) fn refill(&mut self) {
        let next = if self.at < self.easy {
            // SAFETY: `easy` is seven less than there are, so that eight may be read from each place before it.
            unsafe { self.data.as_ptr().add(self.at).cast::<[u8; 8]>().read_unaligned() }
        } else {
            [0; 8]
        };
        self.next |= u64::from_be_bytes(next) >> self.count;
        self.at += (63 - self.count as usize) >> 3;
        self.count |= 0b11_1000; // 56 and what was over
    }

    /// The next ones, from the top. How many are there depends on what was skipped since the last refill.
    #[inline(always)]
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Goes on by so many.
    #[inline(always)]
    pub(super) fn skip(&mut self, count: u32) {
        self.next <<= count;
        self.count -= count;
    }

    /// Whether all of the stretch was read, and nothing beyond it.
    pub(super) fn is_used_up(&self) -> bool {
        let read = self.at * 8 - self.count as usize;
        read <= self.end * 8 && read + 8 > self.end * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(encoded: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut stretches = Stretches::default();
        stretches.read(encoded)?;
        Some(stretches.iter().map(|bits| bits.data[..bits.end].to_vec()).collect())
    }

    #[test]
    fn stuffing_goes_and_restarts_part() {
        let encoded = [1, 0xff, 0, 2, 0xff, 0xd0, 3, 0xff, 0xd1, 0xff, 0, 0xff, 0xd9, 9, 9];
        assert_eq!(stretches(&encoded).unwrap(), [vec![1, 0xff, 2], vec![3], vec![0xff]]);
    }

    #[test]
    fn what_does_not_end_as_it_should_is_left_to_others() {
        for encoded in
            [&[1, 2][..], &[1, 0xff], &[1, 0xff, 0xd1, 0xff, 0xd9], &[1, 0xff, 0xff, 0xd9], &[1, 0xff, 0xda]]
        {
            assert_eq!(stretches(encoded), None, "{encoded:?}");
        }
    }

    #[test]
    fn bits_come_from_the_top_and_zeros_after_the_last() {
        let mut stretches = Stretches::default();
        stretches.read(&[0b1010_0101, 0x0f, 0xff, 0xd9]).unwrap();
        let mut bits = stretches.iter().next().unwrap();
        let mut seen = Vec::new();
        for count in [3, 5, 1, 6] {
            bits.refill();
            seen.push(bits.next() >> (64 - count));
            bits.skip(count);
        }
        assert_eq!(seen, [0b101, 0b00101, 0, 0b000_111]);
        assert!(bits.is_used_up(), "a bit is left, as where bytes are filled up");
        bits.skip(2);
        assert!(!bits.is_used_up());
    }
}
