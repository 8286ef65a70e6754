//! Columns of one kind as columns of a wider one: values that wait, and values of parts that are written anew. Every value stays what it is: the
//! wider kind was chosen so by [`crate::kind::ColumnType::join`].

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, Field};

use crate::builder::Builder;
use crate::element::Element;
use crate::kind::Kind;

/// The values of a part's column as one of this kind.
pub(crate) fn convert(field: &Field, array: &ArrayRef, to: &Kind) -> Result<Builder, ArrowError> {
    let from = kind_of(field, to).ok_or_else(|| {
        ArrowError::SchemaError(format!("column `{}` has a type that gpulane never wrote", field.name()))
    })?;
    let mut values = Builder::new(from, 0);
    let (inner, ends) = match array.data_type() {
        DataType::FixedSizeList(..) => (array.as_fixed_size_list().values().clone(), None),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            let inner = list.values().slice(count(first), count(last - first));
            (inner, Some(offsets.iter().map(|end| end - first).collect()))
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            let offsets = texts.value_offsets();
            let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
            let ends = offsets.iter().map(|end| end - first).collect();
            let bytes = &texts.value_data()[count(first)..count(last)];
            values.take_over(bytes, Some(ends), array.len(), array.nulls());
            return Ok(values.widened(to.clone()));
        }
        _ => (array.clone(), None),
    };
    values.take_over(&bytes_of(&inner), ends, array.len(), array.nulls());
    Ok(values.widened(to.clone()))
}

fn count(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// What a part's column holds. Lists of nothing are JSON text there, and JSON text becomes another kind only where it is that.
fn kind_of(field: &Field, to: &Kind) -> Option<Kind> {
    Some(match field.data_type() {
        DataType::Utf8 if !field.metadata().contains_key("json") => Kind::Text,
        DataType::Utf8 if *to == Kind::Json => Kind::Json,
        DataType::Utf8 => Kind::Empty,
        DataType::List(item) => Kind::List(element_of(item.data_type())?),
        DataType::FixedSizeList(item, size) => {
            let shape = field.metadata().get("shape").map(|shape| shape.trim_matches(['[', ']']));
            let sides = shape.map_or(Some(vec![u32::try_from(*size).ok()?]), |shape| {
                shape.split(", ").map(|side| side.parse().ok()).collect()
            });
            Kind::Array { element: element_of(item.data_type())?, shape: sides? }
        }
        other => Kind::Number(element_of(other)?),
    })
}

fn element_of(kind: &DataType) -> Option<Element> {
    Some(match kind {
        DataType::Boolean => Element::Bool,
        DataType::Int8 => Element::I8,
        DataType::Int16 => Element::I16,
        DataType::Int32 => Element::I32,
        DataType::Int64 => Element::I64,
        DataType::UInt8 => Element::U8,
        DataType::UInt16 => Element::U16,
        DataType::UInt32 => Element::U32,
        DataType::UInt64 => Element::U64,
        DataType::Float32 => Element::F32,
        DataType::Float64 => Element::F64,
        _ => return None,
    })
}

/// Numbers, little-endian, back to back.
fn bytes_of(array: &ArrayRef) -> Vec<u8> {
    macro_rules! bytes {
        ($kind:ty) => {
            array.as_primitive::<$kind>().values().iter().flat_map(|value| value.to_le_bytes()).collect()
        };
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().values().iter().map(u8::from).collect(),
        DataType::Int8 => bytes!(Int8Type),
        DataType::Int16 => bytes!(Int16Type),
        DataType::Int32 => bytes!(Int32Type),
        DataType::Int64 => bytes!(Int64Type),
        DataType::UInt8 => bytes!(UInt8Type),
        DataType::UInt16 => bytes!(UInt16Type),
        DataType::UInt32 => bytes!(UInt32Type),
        DataType::UInt64 => bytes!(UInt64Type),
        DataType::Float32 => bytes!(Float32Type),
        DataType::Float64 => bytes!(Float64Type),
        _ => Vec::new(),
    }
}
