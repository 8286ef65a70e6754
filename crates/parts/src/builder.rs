//! One result column while it waits for its part: values appended to flat buffers, handed to the part without
//! a copy.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, ListArray, PrimitiveArray, StringArray,
};
use arrow_buffer::{
    BooleanBuffer, Buffer, MutableBuffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, DataType, Field};

use crate::block::{Data, Element, elements};
use crate::cell::Cell;
use crate::jsonl;
use crate::kind::Kind;

/// The values of one column that are not committed yet.
#[derive(Debug)]
pub(crate) struct Builder {
    /// What every value is.
    kind: Kind,
    /// Which rows have a value.
    valid: NullBufferBuilder,
    /// Elements of numbers and arrays, or the bytes of texts; aligned for any of them.
    values: MutableBuffer,
    /// Where each text or list ends in `values`, counted in bytes or elements; begins with 0.
    ends: Vec<i32>,
}

impl Builder {
    /// An empty column whose first rows have no value.
    pub(crate) fn new(kind: Kind, rows: usize) -> Self {
        let mut builder =
            Self { kind, valid: NullBufferBuilder::new(1024), values: MutableBuffer::new(0), ends: vec![0] };
        builder.push_nulls(rows);
        builder
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.values.len() + (self.ends.len() - 1) * size_of::<i32>() + self.valid.len() / 8
    }

    /// Rows without a value.
    pub(crate) fn push_nulls(&mut self, rows: usize) {
        self.valid.append_n_nulls(rows);
        self.fill(rows);
    }

    /// What a row without a value takes in the buffers.
    fn fill(&mut self, rows: usize) {
        match &self.kind {
            Kind::Number(element) => self.values.extend_zeros(rows * element.width()),
            Kind::Array { element, shape } => {
                self.values.extend_zeros(rows * elements(shape).unwrap_or(0) * element.width());
            }
            Kind::Numbers | Kind::Text | Kind::Json => {
                let end = self.ends.last().copied().unwrap_or(0);
                self.ends.resize(self.ends.len() + rows, end);
            }
        }
    }

    /// All rows of values that are exactly of this column's kind, in one go; whether they were.
    pub(crate) fn push_all(&mut self, data: &Data, rows: usize) -> bool {
        let Data::Fixed { bytes, .. } = data else { return false };
        if Kind::of(data).as_ref() != Some(&self.kind) {
            return false;
        }
        self.values.extend_from_slice(bytes);
        self.valid.append_n_non_nulls(rows);
        true
    }

    /// Whether so much more still has room: offsets in a part have 31 bits.
    pub(crate) fn has_room(&self, weight: usize) -> bool {
        has_room(self.ends.last().copied().unwrap_or(0), weight)
    }

    /// A value that [`Cell::fits`] and has room.
    pub(crate) fn push(&mut self, cell: &Cell) {
        if matches!(cell, Cell::Null) {
            return self.push_nulls(1);
        }
        self.valid.append_non_null();
        match &self.kind {
            Kind::Number(element) | Kind::Array { element, .. } => {
                let element = *element;
                cell.scalars().for_each(|scalar| push_element(&mut self.values, element, &scalar));
            }
            Kind::Numbers => {
                cell.scalars()
                    .for_each(|scalar| self.values.extend_from_slice(&scalar.as_f64().to_le_bytes()));
                self.close(size_of::<f64>());
            }
            Kind::Text => {
                if let Cell::Text(text) = cell {
                    self.values.extend_from_slice(text.as_bytes());
                }
                self.close(1);
            }
            Kind::Json => {
                let mut text = Vec::new();
                // Non-finite numbers cannot be told of here; they are null as everywhere in JSON.
                jsonl::write_cell(&mut text, cell, &mut 0);
                self.values.extend_from_slice(&text);
                self.close(1);
            }
        }
    }

    /// Notes where the value just written ends.
    fn close(&mut self, width: usize) {
        self.ends.push(i32::try_from(self.values.len() / width).unwrap_or(i32::MAX));
    }

    /// Whole numbers become numbers; for a column no part has yet.
    pub(crate) fn widen(&mut self) {
        let Kind::Number(element @ (Element::I64 | Element::U64)) = self.kind else { return };
        let mut wide = MutableBuffer::new(self.values.len());
        for bytes in self.values.as_slice().chunks_exact(element.width()) {
            wide.extend_from_slice(&Cell::of_element(element, bytes).as_f64().to_le_bytes());
        }
        self.values = wide;
        self.kind = Kind::Number(Element::F64);
    }

    /// The column as a part has it.
    pub(crate) fn finish(self, name: &str) -> Result<(Field, ArrayRef), ArrowError> {
        let Self { kind, mut valid, values, ends } = self;
        let nulls = valid.finish();
        let values: Buffer = values.into();
        let field = Field::new(name, DataType::Null, true);
        Ok(match kind {
            Kind::Number(element) => {
                let array = primitive(element, values, nulls)?;
                (field.with_data_type(array.data_type().clone()), array)
            }
            Kind::Array { element, shape } => {
                let inner = primitive(element, values, None)?;
                let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
                let size = elements(&shape).and_then(|size| i32::try_from(size).ok()).unwrap_or(i32::MAX);
                let array = FixedSizeListArray::try_new(Arc::clone(&item), size, inner, nulls)?;
                let shape = HashMap::from([("shape".to_owned(), format!("{shape:?}"))]);
                let kind = DataType::FixedSizeList(item, size);
                (field.with_data_type(kind).with_metadata(shape), Arc::new(array))
            }
            Kind::Numbers => {
                let inner = primitive(Element::F64, values, None)?;
                let item = Arc::new(Field::new("item", DataType::Float64, true));
                let array = ListArray::try_new(Arc::clone(&item), offsets(ends), inner, nulls)?;
                (field.with_data_type(DataType::List(item)), Arc::new(array))
            }
            Kind::Text | Kind::Json => {
                let array = StringArray::try_new(offsets(ends), values, nulls)?;
                let mut json = HashMap::new();
                if kind == Kind::Json {
                    json.insert("json".to_owned(), "true".to_owned());
                }
                (field.with_data_type(DataType::Utf8).with_metadata(json), Arc::new(array))
            }
        })
    }
}

fn has_room(end: i32, weight: usize) -> bool {
    i32::try_from(weight).is_ok_and(|weight| end.checked_add(weight).is_some())
}

/// What a value adds to the offsets of a column of this kind, at most.
pub(crate) fn weight(kind: &Kind, cell: &Cell) -> usize {
    match (kind, cell) {
        (Kind::Text, Cell::Text(text)) => text.len(),
        (Kind::Numbers, cell) => cell.scalars().count(),
        // No number is written in more than 32 bytes.
        (Kind::Json, Cell::Array { bytes, .. }) => bytes.len() * 32,
        (Kind::Json, cell) => jsonl::length(cell),
        _ => 0,
    }
}

/// Where texts or lists end, which only ever grows.
fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn push_element(out: &mut MutableBuffer, element: Element, cell: &Cell) {
    #[allow(clippy::cast_possible_truncation)]
    // a column of f32 holds f32; whole numbers fit, that was asked before
    match (element, *cell) {
        (Element::F32, cell) => out.extend_from_slice(&(cell.as_f64() as f32).to_le_bytes()),
        (Element::F64, cell) => out.extend_from_slice(&cell.as_f64().to_le_bytes()),
        (Element::Bool, Cell::Bool(value)) => out.extend_from_slice(&[u8::from(value)]),
        (_, Cell::Int(int)) => out.extend_from_slice(&int.to_le_bytes()[..element.width()]),
        _ => out.extend_zeros(element.width()),
    }
}

fn primitive(element: Element, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    fn of<T: ArrowPrimitiveType>(values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let values = ScalarBuffer::<T::Native>::from(values);
        Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?))
    }
    match element {
        Element::F32 => of::<Float32Type>(values, nulls),
        Element::F64 => of::<Float64Type>(values, nulls),
        Element::I64 => of::<Int64Type>(values, nulls),
        Element::I32 => of::<Int32Type>(values, nulls),
        Element::I16 => of::<Int16Type>(values, nulls),
        Element::I8 => of::<Int8Type>(values, nulls),
        Element::U64 => of::<UInt64Type>(values, nulls),
        Element::U32 => of::<UInt32Type>(values, nulls),
        Element::U16 => of::<UInt16Type>(values, nulls),
        Element::U8 => of::<UInt8Type>(values, nulls),
        Element::Bool => {
            let bits = BooleanBuffer::collect_bool(values.len(), |at| values[at] != 0);
            Ok(Arc::new(BooleanArray::new(bits, nulls)))
        }
    }
}
