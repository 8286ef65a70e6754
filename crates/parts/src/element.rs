//! Types of numbers, how large the whole numbers of a column are, and which type holds two of them without changing a value.

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // their names say all
pub enum Element {
    F32,
    F64,
    I64,
    I32,
    U8,
    Bool,
    U16,
    I16,
    U32,
    U64,
    I8,
}

impl Element {
    const NAMED: [(Self, &'static str); 11] = [
        (Self::F32, "f32"),
        (Self::F64, "f64"),
        (Self::I64, "i64"),
        (Self::I32, "i32"),
        (Self::U8, "u8"),
        (Self::Bool, "bool"),
        (Self::U16, "u16"),
        (Self::I16, "i16"),
        (Self::U32, "u32"),
        (Self::U64, "u64"),
        (Self::I8, "i8"),
    ];

    /// The type of this name, as the worker protocol spells it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(_, known)| *known == name).map(|(element, _)| *element)
    }

    /// Its name in the worker protocol.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(element, _)| *element == self).map_or("", |(_, name)| name)
    }

    /// Bytes of one.
    pub const fn width(self) -> usize {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    const fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64)
    }

    /// The type that holds every value of both, whole numbers being within `range`; `None`: no type of numbers does. The order in
    /// which types come makes no difference: a property test says so.
    pub(crate) fn join(self, other: Self, range: Range) -> Option<Self> {
        if self == other {
            return Some(self);
        }
        if self == Self::Bool || other == Self::Bool {
            return None;
        }
        if self.is_float() || other.is_float() {
            return range.is_exact_as_f64().then_some(Self::F64);
        }
        if self.is_signed() == other.is_signed() {
            return Some(if self.width() > other.width() { self } else { other });
        }
        let (signed, unsigned) = if self.is_signed() { (self, other) } else { (other, self) };
        match unsigned.width().max(signed.width() / 2) {
            1 => Some(Self::I16),
            2 => Some(Self::I32),
            4 => Some(Self::I64),
            _ if range.high <= High::I64 => Some(Self::I64),
            _ => (range.low == Low::Zero).then_some(Self::U64),
        }
    }
}

/// How far the whole numbers of a column go, as coarsely as their types need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    low: Low,
    high: High,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Low {
    /// None is negative.
    Zero,
    /// None is below -2^53.
    Exact,
    I64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum High {
    /// None is above 2^53, up to which a double holds every whole number.
    Exact,
    /// None is above 2^63 - 1.
    I64,
    U64,
}

const EXACT: i64 = 1 << 53;

impl Range {
    /// Nothing beyond what every type of numbers can be counted on for.
    pub(crate) const SMALL: Self = Self { low: Low::Zero, high: High::Exact };

    const LOWS: [(Low, &'static str); 3] = [(Low::Zero, "0"), (Low::Exact, "-2^53"), (Low::I64, "-2^63")];
    const HIGHS: [(High, &'static str); 3] =
        [(High::Exact, "2^53"), (High::I64, "2^63"), (High::U64, "2^64")];

    /// All that numbers of this type can be.
    pub(crate) const fn of_type(element: Element) -> Self {
        match element {
            Element::I64 => Self { low: Low::I64, high: High::I64 },
            Element::U64 => Self { low: Low::Zero, high: High::U64 },
            Element::I8 | Element::I16 | Element::I32 => Self { low: Low::Exact, high: High::Exact },
            _ => Self::SMALL,
        }
    }

    /// The range of one number between -2^63 and 2^64 - 1.
    pub(crate) fn of_int(int: i128) -> Self {
        let low = match int {
            0.. => Low::Zero,
            _ if int >= i128::from(-EXACT) => Low::Exact,
            _ => Low::I64,
        };
        let high = match int {
            _ if int <= i128::from(EXACT) => High::Exact,
            _ if int <= i128::from(i64::MAX) => High::I64,
            _ => High::U64,
        };
        Self { low, high }
    }

    /// The range of the numbers in these bytes.
    pub(crate) fn of(element: Element, bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        match element {
            Element::I64 => {
                let ints = words.iter().map(|word| i64::from_le_bytes(*word));
                let (least, most) = ints.fold((0, 0), |(least, most), int| (int.min(least), int.max(most)));
                Self::of_int(least.into()).join(Self::of_int(most.into()))
            }
            Element::U64 => {
                let most = words.iter().map(|word| u64::from_le_bytes(*word)).max().unwrap_or(0);
                Self::of_int(most.into())
            }
            Element::I8 | Element::I16 | Element::I32 => {
                let sign = element.width() - 1;
                if bytes.chunks_exact(element.width()).any(|int| int[sign] >= 0x80) {
                    Self::of_type(element)
                } else {
                    Self::SMALL
                }
            }
            _ => Self::SMALL,
        }
    }

    /// The range of both.
    pub(crate) fn join(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.max(other.high) }
    }

    /// Whether a double holds each of these numbers as it is.
    pub(crate) fn is_exact_as_f64(self) -> bool {
        self.low <= Low::Exact && self.high == High::Exact
    }

    /// `-2^53..2^63`.
    pub(crate) fn write(self) -> String {
        let low = Self::LOWS.iter().find(|(low, _)| *low == self.low).map_or("", |(_, text)| text);
        let high = Self::HIGHS.iter().find(|(high, _)| *high == self.high).map_or("", |(_, text)| text);
        format!("{low}..{high}")
    }

    /// What [`Range::write`] wrote.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (low, high) = text.split_once("..")?;
        let low = Self::LOWS.iter().find(|(_, text)| *text == low)?.0;
        let high = Self::HIGHS.iter().find(|(_, text)| *text == high)?.0;
        Some(Self { low, high })
    }
}
