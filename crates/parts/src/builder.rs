//! One result column while it waits for its part: values appended to flat buffers, handed to the part without
//! a copy.

use std::borrow::Cow;
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

use crate::block::{Data, elements};
use crate::cell::Cell;
use crate::element::Element;
use crate::jsonl::{self, Met};
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
            Kind::List(_) | Kind::Empty | Kind::Text | Kind::Json => {
                let end = self.ends.last().copied().unwrap_or(0);
                self.ends.resize(self.ends.len() + rows, end);
            }
        }
    }

    /// All rows of values that are exactly of this column's kind, in one go; whether they were.
    pub(crate) fn push_all(&mut self, data: &Data, rows: usize) -> bool {
        let Data::Fixed { element, shape, bytes, nulls } = data else { return false };
        let same = match &self.kind {
            Kind::Number(mine) => mine == element && shape.is_empty(),
            Kind::Array { element: mine, shape: sides } => mine == element && sides == shape,
            _ => false,
        };
        if !same || !nulls.is_empty() {
            return false;
        }
        self.values.extend_from_slice(bytes);
        self.valid.append_n_non_nulls(rows);
        true
    }

    /// Where the last value ends.
    fn end(&self) -> usize {
        self.ends.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0))
    }

    /// What the values that wait would add up to in the offsets of a column of this kind, at most.
    pub(crate) fn weight_as(&self, kind: &Kind) -> usize {
        let rows = self.valid.len();
        match (kind, &self.kind) {
            _ if *kind == self.kind => self.end(),
            (Kind::Json, Kind::Number(_)) => rows.saturating_mul(jsonl::LONGEST_NUMBER),
            (Kind::Json, Kind::Array { element, shape }) => {
                jsonl::most_of_array(*element, shape.len(), self.values.len())
                    .saturating_add(rows * 2 * shape.len())
            }
            (Kind::Json, Kind::List(element)) => {
                jsonl::most_of_array(*element, 1, self.values.len()).saturating_add(rows * 2)
            }
            (Kind::Json, Kind::Text) => self.values.len().saturating_mul(6).saturating_add(rows * 2),
            (Kind::Json, _) => self.values.len(),
            (Kind::List(_), Kind::Array { element, .. }) => self.values.len() / element.width(),
            (Kind::List(_), Kind::List(_)) => self.end(),
            _ => 0,
        }
    }

    /// A value that a column of this kind holds as it is, and that has room.
    pub(crate) fn push(&mut self, cell: &Cell) {
        if matches!(cell, Cell::Null) {
            return self.push_nulls(1);
        }
        self.valid.append_non_null();
        match &self.kind {
            Kind::Number(element) | Kind::Array { element, .. } => {
                let element = *element;
                push_elements(&mut self.values, element, cell);
            }
            Kind::List(element) => {
                let element = *element;
                push_elements(&mut self.values, element, cell);
                self.close(element.width());
            }
            Kind::Text => {
                if let Cell::Text(text) = cell {
                    self.values.extend_from_slice(text.as_bytes());
                }
                self.close(1);
            }
            Kind::Empty | Kind::Json => {
                let mut text = Vec::new();
                jsonl::write_cell(&mut text, cell, &mut Met::default());
                self.values.extend_from_slice(&text);
                self.close(1);
            }
        }
    }

    /// Notes where the value just written ends.
    fn close(&mut self, width: usize) {
        self.ends.push(i32::try_from(self.values.len() / width).unwrap_or(i32::MAX));
    }

    /// Takes the buffers of a column as a part has them; for a column without rows yet.
    pub(crate) fn take_over(
        &mut self,
        values: &[u8],
        ends: Option<Vec<i32>>,
        rows: usize,
        nulls: Option<&NullBuffer>,
    ) {
        self.values.extend_from_slice(values);
        self.ends = ends.unwrap_or_else(|| vec![0]);
        match nulls {
            Some(nulls) => self.valid.append_buffer(nulls),
            None => self.valid.append_n_non_nulls(rows),
        }
    }

    /// Moves the values into a column of a kind that holds them all.
    pub(crate) fn widened(self, kind: Kind) -> Self {
        if kind == self.kind {
            return self;
        }
        let mut wide = Self::new(kind, 0);
        for row in 0..self.valid.len() {
            wide.push(&self.cell(row));
        }
        wide
    }

    /// The value in this row.
    fn cell(&self, row: usize) -> Cell<'_> {
        if !self.valid.is_valid(row) {
            return Cell::Null;
        }
        let between = |width: usize| {
            let [from, to] = [row, row + 1]
                .map(|at| self.ends.get(at).map_or(0, |end| usize::try_from(*end).unwrap_or(0)));
            &self.values.as_slice()[from * width..to * width]
        };
        let text = |bytes| Cow::Borrowed(std::str::from_utf8(bytes).unwrap_or_default());
        match &self.kind {
            Kind::Number(element) => {
                let width = element.width();
                Cell::of_element(*element, &self.values.as_slice()[row * width..(row + 1) * width])
            }
            Kind::Array { element, shape } => {
                let width = elements(shape).unwrap_or(0) * element.width();
                let bytes = &self.values.as_slice()[row * width..(row + 1) * width];
                Cell::Array { element: *element, shape: shape.into(), bytes: bytes.into() }
            }
            Kind::List(element) => match between(element.width()) {
                [] => Cell::Empty,
                bytes => {
                    let length = u32::try_from(bytes.len() / element.width()).unwrap_or(u32::MAX);
                    Cell::Array { element: *element, shape: vec![length].into(), bytes: bytes.into() }
                }
            },
            Kind::Empty => Cell::Empty,
            Kind::Text => Cell::Text(text(between(1))),
            Kind::Json => Cell::Json(text(between(1))),
        }
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
            Kind::List(element) => {
                let inner = primitive(element, values, None)?;
                let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
                let array = ListArray::try_new(Arc::clone(&item), offsets(ends), inner, nulls)?;
                (field.with_data_type(DataType::List(item)), Arc::new(array))
            }
            Kind::Text | Kind::Empty | Kind::Json => {
                let array = StringArray::try_new(offsets(ends), values, nulls)?;
                let mut json = HashMap::new();
                if kind != Kind::Text {
                    json.insert("json".to_owned(), "true".to_owned());
                }
                (field.with_data_type(DataType::Utf8).with_metadata(json), Arc::new(array))
            }
        })
    }
}

/// What a value adds to the offsets of a column of this kind, at most.
pub(crate) fn weight(kind: &Kind, cell: &Cell) -> usize {
    match (kind, cell) {
        (Kind::Text, Cell::Text(text)) => text.len(),
        (Kind::List(_), Cell::Array { element, bytes, .. }) => bytes.len() / element.width(),
        (Kind::Json | Kind::Empty, cell) => jsonl::most(cell),
        _ => 0,
    }
}

/// Where texts or lists end, which only ever grows.
fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

/// Appends a number, or those of a list, as ones of this type.
fn push_elements(out: &mut MutableBuffer, element: Element, cell: &Cell) {
    match cell {
        Cell::Array { element: same, bytes, .. } if *same == element => out.extend_from_slice(bytes),
        Cell::Array { element: other, bytes, .. } => {
            for bytes in bytes.chunks_exact(other.width()) {
                Cell::of_element(*other, bytes).push_as(element, out);
            }
        }
        Cell::Empty => {}
        scalar => scalar.push_as(element, out),
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
