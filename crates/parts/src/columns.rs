//! Rows that wait for a Parquet part, as columns. A column has the narrowest type that holds all its values as they are; when one comes that
//! it does not hold, what waits is converted, and what parts have by [`crate::Writer::make_alike`]. Rows are refused for their size alone.

use arrow_schema::ArrowError;

use crate::block::{Block, Column, Data};
use crate::builder::{Builder, weight};
use crate::cell::Cell;
use crate::element::Range;
use crate::kind::{ColumnType, Kind};
use crate::parquet;
use crate::pending::{Filling, Named, Refused, Schema};

/// More columns than a table for people or programs has; a dict with a key per item would make one for each.
const MOST_COLUMNS: usize = 4096;

/// Rows as columns.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Names of the items, the first column.
    items: Builder,
    /// The others, in the order of their first appearance.
    known: Vec<Known>,
    /// How many rows wait.
    rows: usize,
    /// How often a part had a column, or a kind of one, that those before it had not.
    entries: u64,
    /// What a person should know about columns, until it is asked for.
    notes: Vec<String>,
}

/// A result column.
#[derive(Debug)]
struct Known {
    name: String,
    /// What the latest part has; absent while none has it.
    committed: Option<ColumnType>,
    /// What it is with the values that wait; absent while there are no values at all.
    now: Option<ColumnType>,
    /// Values that wait; absent while there are none.
    builder: Option<Builder>,
}

/// The values of a column of a block, read once.
enum Values<'a> {
    Typed(&'a Data),
    Read(Vec<Cell<'a>>),
}

impl<'a> Values<'a> {
    fn of(data: &'a Data) -> Self {
        match data {
            Data::Json(texts) => Self::Read((0..texts.len()).map(|row| data.cell(row)).collect()),
            _ => Self::Typed(data),
        }
    }

    fn with<T>(&self, row: usize, look: impl FnOnce(&Cell) -> T) -> T {
        match self {
            Self::Typed(data) => look(&data.cell(row)),
            Self::Read(cells) => look(cells.get(row).unwrap_or(&Cell::Null)),
        }
    }

    /// The types of the rows that are kept, one or more of each; rows that share one are not asked each.
    fn types(&self, refused: &[Option<String>]) -> Vec<(usize, ColumnType)> {
        if let Self::Typed(Data::Fixed { element, shape, bytes, nulls }) = self {
            let kind = match shape.as_slice() {
                [] => Kind::Number(*element),
                shape => Kind::Array { element: *element, shape: shape.to_vec() },
            };
            let whole = |row: &usize| refused[*row].is_none() && nulls.binary_search(row).is_err();
            let Some(first) = (0..refused.len()).find(whole) else { return Vec::new() };
            let range = if refused.iter().all(Option::is_none) {
                Range::of(*element, bytes)
            } else {
                let rows = bytes.chunks_exact((bytes.len() / refused.len()).max(1)).enumerate();
                let kept = rows.filter(|(row, _)| refused[*row].is_none());
                kept.fold(Range::SMALL, |range, (_, bytes)| range.join(Range::of(*element, bytes)))
            };
            return vec![(first, ColumnType { kind, range })];
        }
        let kept = refused.iter().enumerate().filter(|(_, why)| why.is_none());
        let mut types: Vec<(usize, ColumnType)> = Vec::new();
        for (row, _) in kept {
            let mut found = None;
            self.with(row, |cell| found = cell.column_type());
            if let Some(found) = found
                && types.iter().rev().take(4).all(|(_, known)| *known != found)
            {
                types.push((row, found));
            }
        }
        types
    }
}

impl Columns {
    /// No rows yet; the columns that earlier parts have.
    pub(crate) fn new(schema: Schema) -> Self {
        let known = schema.columns.into_iter().map(|(name, kind)| {
            let (committed, now) = (Some(kind.clone()), Some(kind));
            Known { name, committed, now, builder: None }
        });
        let (items, known) = (Builder::new(Kind::Text, 0), known.collect());
        Self { items, known, rows: 0, entries: schema.entries, notes: Vec::new() }
    }

    /// What parts have, in their order.
    pub(crate) fn committed(&self) -> Schema {
        let committed = |known: &Known| Some((known.name.clone(), known.committed.clone()?));
        Schema { columns: self.known.iter().filter_map(committed).collect(), entries: self.entries }
    }

    pub(crate) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn bytes(&self) -> usize {
        let waiting = self.known.iter().filter_map(|known| known.builder.as_ref());
        self.items.bytes() + waiting.map(Builder::bytes).sum::<usize>()
    }

    /// Takes the rows that can be taken; the others come back with why not.
    pub(crate) fn add(&mut self, names: &[&str], block: &Block) -> Refused {
        let places = match self.places(block) {
            Ok(places) => places,
            Err(why) => return (0..block.rows).map(|row| (row, why.clone())).collect(),
        };
        let mut refused: Vec<Option<String>> = vec![None; block.rows];
        for (row, why) in &block.refused {
            refused[*row] = Some(why.clone());
        }
        let values: Vec<Values> = block.columns.iter().map(|column| Values::of(&column.data)).collect();
        let mut types = Vec::with_capacity(values.len());
        for ((column, values), place) in block.columns.iter().zip(&values).zip(&places) {
            let (now, mixed) = self.type_with(*place, &values.types(&refused));
            if let Some(now) = &now {
                self.refuse_too_large(column, values, *place, &now.kind, &mut refused);
            }
            types.push((now, mixed));
        }
        let kept = refused.iter().filter(|why| why.is_none()).count();
        if kept > 0 {
            let new = block.columns.iter().zip(values).zip(types).zip(places);
            let mut taken = vec![false; self.known.len() + block.columns.len()];
            for (((column, values), (now, mixed)), place) in new {
                if let Some((was, row)) = mixed {
                    let is = values.with(row, |cell| cell.column_type().map(|is| is.kind.in_words()));
                    self.note_json(&column.name, &was, &is.unwrap_or_default(), names[row]);
                }
                let at = self.place_of(&column.name, place);
                taken[at] = true;
                self.append(at, now, column, &values, &refused, kept);
            }
            self.append_rest(&taken, names, &refused, kept);
        }
        refused.into_iter().enumerate().filter_map(|(row, why)| Some((row, why?))).collect()
    }

    /// Which known column each of the block's is; `None` for new ones.
    fn places(&self, block: &Block) -> Result<Vec<Option<usize>>, String> {
        let place = |column: &Column| self.known.iter().position(|known| known.name == column.name);
        let places: Vec<_> = block.columns.iter().map(place).collect();
        if self.known.len() + places.iter().filter(|place| place.is_none()).count() > MOST_COLUMNS {
            return Err(format!(
                "more than {MOST_COLUMNS} different result columns; return the same keys for all items"
            ));
        }
        Ok(places)
    }

    /// The column's type with these values; `None`: it has none yet, and none here. And where types that have only JSON in common
    /// first met: what was there, and the row that met it.
    fn type_with(
        &self,
        place: Option<usize>,
        types: &[(usize, ColumnType)],
    ) -> (Option<ColumnType>, Option<(String, usize)>) {
        let mut now = place.and_then(|place| self.known[place].now.clone());
        let mut mixed = None;
        for (row, found) in types {
            now = Some(match now {
                None => found.clone(),
                Some(now) => {
                    let both = now.join(found);
                    if both.kind == Kind::Json && now.kind != Kind::Json {
                        mixed = Some((now.kind.in_words(), *row));
                    }
                    both
                }
            });
        }
        (now, mixed)
    }

    /// Refuses the rows with which a part would hold more of the column than it can.
    fn refuse_too_large(
        &self,
        column: &Column,
        values: &Values,
        place: Option<usize>,
        kind: &Kind,
        refused: &mut [Option<String>],
    ) {
        if matches!(kind, Kind::Number(_) | Kind::Array { .. }) {
            return;
        }
        let builder = place.and_then(|place| self.known[place].builder.as_ref());
        let mut total = builder.map_or(0, |builder| builder.weight_as(kind));
        for (row, why) in refused.iter_mut().enumerate().filter(|(_, why)| why.is_none()) {
            let more = total.saturating_add(values.with(row, |cell| weight(kind, cell)));
            if i32::try_from(more).is_ok() {
                total = more;
            } else {
                *why = Some(format!(
                    "result column `{}` is too large here: a part holds 2 GiB of it at most",
                    column.name
                ));
            }
        }
    }

    fn note_json(&mut self, column: &str, was: &str, is: &str, item: &str) {
        self.notes.push(format!(
            "result column `{column}` is JSON text, because no other type holds all of it as it is: {was} in other items, {is} in {item}"
        ));
    }

    fn place_of(&mut self, name: &str, place: Option<usize>) -> usize {
        place.unwrap_or_else(|| {
            self.known.push(Known { name: name.to_owned(), committed: None, now: None, builder: None });
            self.known.len() - 1
        })
    }

    /// Appends the rows that were not refused to a column.
    fn append(
        &mut self,
        at: usize,
        now: Option<ColumnType>,
        column: &Column,
        values: &Values,
        refused: &[Option<String>],
        kept: usize,
    ) {
        let Some(now) = now else { return };
        let known = &mut self.known[at];
        let builder = match known.builder.take() {
            Some(builder) => builder.widened(now.kind.clone()),
            None => Builder::new(now.kind.clone(), self.rows),
        };
        let builder = known.builder.insert(builder);
        known.now = Some(now);
        if kept == refused.len() && builder.push_all(&column.data, kept) {
            return;
        }
        for (row, _) in refused.iter().enumerate().filter(|(_, why)| why.is_none()) {
            values.with(row, |cell| builder.push(cell));
        }
    }

    /// Appends nothing to the columns the block does not have, and the names of its items.
    fn append_rest(&mut self, taken: &[bool], names: &[&str], refused: &[Option<String>], kept: usize) {
        for (known, _) in self.known.iter_mut().zip(taken).filter(|(_, taken)| !**taken) {
            if let Some(builder) = &mut known.builder {
                builder.push_nulls(kept);
            }
        }
        for (name, _) in names.iter().zip(refused).filter(|(_, why)| why.is_none()) {
            self.items.push(&Cell::Text((*name).into()));
        }
        self.rows += kept;
    }

    /// The waiting rows as a table. Columns that never had a value have no type yet and are left out; known
    /// ones without a value here stand in it all the same, so that every part has at least the columns before
    /// it.
    pub(crate) fn take(&mut self) -> Result<(Filling, Vec<Named>), ArrowError> {
        let items = std::mem::replace(&mut self.items, Builder::new(Kind::Text, 0));
        let rows = std::mem::take(&mut self.rows);
        let mut new = Vec::new();
        let mut columns =
            vec![items.finish("item").map(|(field, array)| (field.with_nullable(false), array))?];
        // New ones after those that earlier parts have, in every part: what a part lacks of later ones is their end.
        self.known.sort_by_key(|known| known.committed.is_none());
        let mut schema = self.committed();
        for known in &mut self.known {
            let Some(now) = &known.now else { continue };
            let builder = known.builder.take().unwrap_or_else(|| Builder::new(now.kind.clone(), rows));
            if known.committed.as_ref() != Some(now) {
                new.push((known.name.clone(), now.clone()));
                schema.apply(&known.name, now.clone());
                known.committed = Some(now.clone());
            }
            columns.push(builder.finish(&known.name)?);
        }
        self.entries = schema.entries;
        Ok((Filling::Batch(parquet::table(columns)?), new))
    }
}
