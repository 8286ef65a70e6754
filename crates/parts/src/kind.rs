//! The type of a result column: the narrowest one that holds every value so far as it is. Which kinds there are, what two of them have
//! in common, and how a type is written down in the ledger (`f32`, `f32[512]`, `i64:0..2^53`, `text`, `f64[]`, `json`).
//!
//! What a column becomes depends on its values alone, not on their order or on the parts they came in: [`ColumnType::join`] is
//! commutative and associative, and everything has JSON text in common.

use crate::element::{Element, Range};

/// What every value of a column is, where it is not null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One number, or bool.
    Number(Element),
    /// An array of a shape all rows share.
    Array { element: Element, shape: Vec<u32> },
    /// A list of numbers, as long as it likes.
    List(Element),
    /// A list of nothing. Of what, other rows will say; until then it is JSON text.
    Empty,
    /// A text.
    Text,
    /// Anything, kept as JSON text.
    Json,
}

/// A column's kind, and how far its whole numbers go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnType {
    pub(crate) kind: Kind,
    pub(crate) range: Range,
}

impl ColumnType {
    pub(crate) const JSON: Self = Self { kind: Kind::Json, range: Range::SMALL };

    /// Of something without whole numbers.
    pub(crate) fn plain(kind: Kind) -> Self {
        Self { kind, range: Range::SMALL }
    }

    /// The type that holds what either holds, as it is.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let range = self.range.join(other.range);
        match self.kind.join(&other.kind, range) {
            Some(kind) => Self { kind, range },
            None => Self::JSON,
        }
    }

    /// As the ledger has it. The range is left out where the kind says as much.
    pub(crate) fn write(&self) -> String {
        let range = match &self.kind {
            Kind::Number(element) | Kind::Array { element, .. } | Kind::List(element)
                if self.range != Range::of_type(*element) =>
            {
                format!(":{}", self.range.write())
            }
            _ => String::new(),
        };
        format!("{}{range}", self.kind.write())
    }

    /// What the ledger has. A type without a range, as they all were once, may hold what its kind can.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (kind, range) = text.split_once(':').map_or((text, None), |(kind, range)| (kind, Some(range)));
        let kind = Kind::read(kind)?;
        let range = match (&kind, range) {
            (_, Some(range)) => Range::read(range)?,
            (Kind::Number(element) | Kind::Array { element, .. } | Kind::List(element), None) => {
                Range::of_type(*element)
            }
            _ => Range::SMALL,
        };
        Some(Self { kind, range })
    }
}

impl Kind {
    /// What holds both, but for JSON, which always does.
    fn join(&self, other: &Self, range: Range) -> Option<Self> {
        let element = |one: &Element, two: &Element| one.join(*two, range);
        match (self, other) {
            _ if self == other => Some(self.clone()),
            (Self::Number(one), Self::Number(two)) => element(one, two).map(Self::Number),
            (Self::Array { element: one, shape }, Self::Array { element: two, shape: same })
                if shape == same =>
            {
                Some(Self::Array { element: element(one, two)?, shape: shape.clone() })
            }
            (Self::Empty, one) | (one, Self::Empty) => Some(Self::List(one.list_element()?)),
            _ => Some(Self::List(element(&self.list_element()?, &other.list_element()?)?)),
        }
    }

    /// What a list or an array of one side holds.
    fn list_element(&self) -> Option<Element> {
        match self {
            Self::List(element) => Some(*element),
            Self::Array { element, shape } if shape.len() == 1 => Some(*element),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Number(element) => element.name().to_owned(),
            Self::Array { element, shape } => {
                let sides: Vec<_> = shape.iter().map(u32::to_string).collect();
                format!("{}[{}]", element.name(), sides.join(","))
            }
            Self::List(element) => format!("{}[]", element.name()),
            Self::Empty => "[]".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Json => "json".to_owned(),
        }
    }

    fn read(text: &str) -> Option<Self> {
        match text {
            "text" => return Some(Self::Text),
            "json" => return Some(Self::Json),
            "[]" => return Some(Self::Empty),
            _ => {}
        }
        let Some((element, shape)) = text.split_once('[') else {
            return Element::parse(text).map(Self::Number);
        };
        let element = Element::parse(element)?;
        let sides = match shape.strip_suffix(']')? {
            "" => return Some(Self::List(element)),
            sides => sides.split(',').map(|side| side.parse().ok()),
        };
        Some(Self::Array { element, shape: sides.collect::<Option<_>>()? })
    }

    /// In words, for a note to a person.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Number(Element::Bool) => "true or false".to_owned(),
            Self::Number(Element::F32 | Element::F64) => "a number".to_owned(),
            Self::Number(_) => "a whole number".to_owned(),
            Self::Array { shape, element } => format!("an array of {} of shape {shape:?}", element.name()),
            Self::List(element) => format!("a list of {}", element.name()),
            Self::Empty => "an empty list".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Json => "nested, or a number beyond 64 bits".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn types_are_read_back() {
        for text in [
            "f32",
            "bool",
            "u64",
            "i64",
            "i64:0..2^53",
            "i64:-2^53..2^53",
            "u64:0..2^63",
            "i16:0..2^53",
            "f32[512]",
            "u8[3,2,1]",
            "i64[2]:0..2^63",
            "f64[]",
            "i64[]:0..2^53",
            "bool[]",
            "[]",
            "text",
            "json",
        ] {
            assert_eq!(ColumnType::read(text).map(|kind| kind.write()).as_deref(), Some(text));
        }
        for wrong in ["", "f33", "f32[", "f32[x]", "[3]", "f32[3", "i64:", "i64:0..1", "i64:0..2^53..2^64"] {
            assert_eq!(ColumnType::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_two_types_have_in_common() {
        for (one, two, both) in [
            ("i8", "u8", "i16"),
            ("u8", "i64", "i64"),
            ("u32", "i8", "i64:-2^53..2^53"),
            ("u64", "i64:0..2^53", "u64"),
            ("u64:0..2^53", "i64", "i64"),
            ("u64", "i64", "json"),
            ("i64:0..2^53", "f64", "f64"),
            ("i64", "f64", "json"),
            ("i32", "f32", "f64:-2^53..2^53"),
            ("f32", "f64", "f64"),
            ("bool", "u8", "json"),
            ("text", "f64", "json"),
            ("f32[2]", "f32[3]", "f32[]"),
            ("f32[2]", "f64[2]", "f64[2]"),
            ("f32[2,2]", "f32[4]", "json"),
            ("[]", "u8[3]", "u8[]"),
            ("[]", "[]", "[]"),
            ("[]", "f32", "json"),
            ("[]", "f32[2,2]", "json"),
            ("f64", "f64[2]", "json"),
        ] {
            let [one_, two_] = [one, two].map(|text| ColumnType::read(text).unwrap());
            assert_eq!(one_.join(&two_).write(), both, "{one} and {two}");
        }
    }

    fn types() -> impl Strategy<Value = ColumnType> {
        let element = prop::sample::select(vec![
            "f32", "f64", "i64", "i32", "u8", "bool", "u16", "i16", "u32", "u64", "i8",
        ]);
        let suffix = prop::sample::select(vec!["", "", "[2]", "[3]", "[2,2]", "[]"]);
        let range = prop::sample::select(vec!["0..2^53", "-2^53..2^53", "0..2^63", "-2^63..2^63", "0..2^64"]);
        let numbers = (element, suffix, range).prop_map(|(element, suffix, range)| {
            let read = ColumnType::read(&format!("{element}{suffix}:{range}")).unwrap();
            // No wider than numbers of that type can be.
            let most = Range::of_type(Element::parse(element).unwrap());
            ColumnType { range: if most.join(read.range) == most { read.range } else { most }, ..read }
        });
        let others = prop::sample::select(vec!["[]", "text", "json"]);
        prop_oneof![6 => numbers, 1 => others.prop_map(|text| ColumnType::read(text).unwrap())]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn the_order_of_types_makes_no_difference(one in types(), two in types(), three in types()) {
            prop_assert_eq!(one.join(&two), two.join(&one));
            prop_assert_eq!(one.join(&two).join(&three), one.join(&two.join(&three)));
            prop_assert_eq!(one.join(&one), one.clone());
            prop_assert_eq!(one.join(&two).join(&one), one.join(&two));
        }
    }
}
