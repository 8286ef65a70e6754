//! A set of item numbers, one bit each, and its form as text: `0-255,300,512-767`.

use std::fmt::Write as _;

/// Beyond any list of items; a number above it in a ledger is damage, not a reason to take all memory.
const MOST: u64 = 1 << 36;

/// A set of item numbers. Grows on demand; ten million take 1.25 MB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// 64 numbers each.
    words: Vec<u64>,
    /// How many are in, so that nobody has to count.
    len: u64,
}

impl Bits {
    /// Whether the number is in.
    pub fn contains(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|at| self.words.get(at));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Puts a number in; whether it was new. A number no list can have is not taken.
    pub fn insert(&mut self, number: u64) -> bool {
        let Ok(at) = usize::try_from(number / 64) else { return false };
        if number >= MOST {
            return false;
        }
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let bit = 1 << (number % 64);
        let new = self.words[at] & bit == 0;
        self.words[at] |= bit;
        self.len += u64::from(new);
        new
    }

    /// Takes a number out; whether it was in.
    pub fn remove(&mut self, number: u64) -> bool {
        if !self.contains(number) {
            return false;
        }
        if let Some(word) = usize::try_from(number / 64).ok().and_then(|at| self.words.get_mut(at)) {
            *word &= !(1 << (number % 64));
        }
        self.len -= 1;
        true
    }

    /// How many are in.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The numbers, rising.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0_u64..).zip(&self.words).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        })
    }
}

/// Rising numbers as ranges.
pub(crate) fn write_ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut text = String::new();
    let mut open: Option<(u64, u64)> = None;
    let mut close = |range: Option<(u64, u64)>| {
        let Some((first, last)) = range else { return };
        let comma = if text.is_empty() { "" } else { "," };
        // A string takes everything.
        let _ = if first == last {
            write!(text, "{comma}{first}")
        } else {
            write!(text, "{comma}{first}-{last}")
        };
    };
    for number in numbers {
        match &mut open {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => close(open.replace((number, number))),
        }
    }
    close(open);
    text
}

/// The ranges in a text, each first and last; `None` if it is no such text.
pub(crate) fn read_ranges(text: &str) -> Option<Vec<(u64, u64)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < MOST);
    text.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some((first, last))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_bits_is_a_set(steps in prop::collection::vec((any::<bool>(), 0..300_u64), 0..200)) {
            let (mut bits, mut set) = (Bits::default(), BTreeSet::new());
            for (put, number) in steps {
                if put {
                    prop_assert_eq!(bits.insert(number), set.insert(number));
                } else {
                    prop_assert_eq!(bits.remove(number), set.remove(&number));
                }
                prop_assert_eq!(bits.len(), set.len() as u64);
            }
            prop_assert!(bits.iter().eq(set.iter().copied()));
        }

        #[test]
        fn ranges_are_read_back(set in prop::collection::btree_set(0..400_u64, 0..100)) {
            let ranges = read_ranges(&write_ranges(set.iter().copied())).unwrap();
            prop_assert!(ranges.into_iter().flat_map(|(first, last)| first..=last).eq(set));
        }

        #[test]
        fn no_text_is_too_strange_for_ranges(text in "[0-9,x-]{0,40}") {
            let _ = read_ranges(&text);
        }
    }

    #[test]
    fn ranges_look_like_this() {
        assert_eq!(write_ranges((0..256).chain([300]).chain(512..768)), "0-255,300,512-767");
        for wrong in [",", "3-1", "-", "x", "1-2-3", "99999999999999"] {
            assert_eq!(read_ranges(wrong), None, "{wrong}");
        }
    }
}
