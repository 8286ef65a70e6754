//! Rows that wait for the next commit, as columns for Parquet or as lines for JSONL; and what the map's
//! columns are, decided by their first values. Rows that contradict that are refused with a reason, one by
//! one.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::block::{Block, Column, Data, Element};
use crate::builder::{Builder, weight};
use crate::cell::Cell;
use crate::kind::Kind;
use crate::{jsonl, parquet};

/// More columns than a table for people or programs has; a dict with a key per item would make one for each.
const MOST_COLUMNS: usize = 4096;

/// Refused rows with their reasons.
pub(crate) type Refused = Vec<(usize, String)>;

/// The rows of a part to be.
#[derive(Debug)]
pub(crate) enum Rows {
    /// For Parquet.
    Columns(Columns),
    /// For JSONL, which has no types to keep: the text itself.
    Lines {
        /// The lines.
        text: Vec<u8>,
        /// Numbers written as null since the writer was opened, for lack of a word for them.
        not_finite: u64,
    },
}

/// Rows as columns.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Names of the items, the first column.
    items: Builder,
    /// The others, in the order of their first appearance.
    known: Vec<Known>,
    /// How many rows wait.
    rows: usize,
}

/// A result column.
#[derive(Debug)]
struct Known {
    name: String,
    /// Once a part has it, it stays.
    committed: Option<Kind>,
    /// Values that wait; absent while there are none.
    builder: Option<Builder>,
}

impl Known {
    fn kind(&self) -> Option<&Kind> {
        self.committed.as_ref().or(self.builder.as_ref().map(Builder::kind))
    }
}

/// A column of a part, as the ledger keeps it: its name and kind.
pub(crate) type Named = (String, Kind);

/// What goes into a part file.
#[derive(Debug)]
pub(crate) enum Filling {
    Batch(RecordBatch),
    Lines(Vec<u8>),
}

impl Rows {
    /// Takes the rows that can be taken; the others come back with why not.
    pub(crate) fn add(&mut self, names: &[&str], block: &Block) -> Refused {
        if block.columns.iter().any(|column| column.name == "item") {
            let why = "`item` is the name of gpulane's own column; give that result another name";
            return (0..block.rows).map(|row| (row, why.to_owned())).collect();
        }
        match self {
            Self::Columns(columns) => columns.add(names, block),
            Self::Lines { text, not_finite } => {
                jsonl::write_rows(text, names, block, not_finite);
                block.refused.clone()
            }
        }
    }

    /// The columns that parts have, in their order; none where lines have no schema.
    pub(crate) fn committed(&self) -> Vec<Named> {
        match self {
            Self::Columns(columns) => columns.committed(),
            Self::Lines { .. } => Vec::new(),
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Columns(columns) => {
                let waiting = columns.known.iter().filter_map(|known| known.builder.as_ref());
                columns.items.bytes() + waiting.map(Builder::bytes).sum::<usize>()
            }
            Self::Lines { text, .. } => text.len(),
        }
    }

    /// Takes the waiting rows out, with the columns that are new in them.
    pub(crate) fn take(&mut self) -> Result<(Filling, Vec<Named>), ArrowError> {
        match self {
            Self::Columns(columns) => columns.take(),
            Self::Lines { text, .. } => Ok((Filling::Lines(std::mem::take(text)), Vec::new())),
        }
    }
}

impl Columns {
    /// What parts have, in their order.
    fn committed(&self) -> Vec<Named> {
        let committed = |known: &Known| Some((known.name.clone(), known.committed.clone()?));
        self.known.iter().filter_map(committed).collect()
    }

    /// No rows yet; the columns that earlier parts have.
    pub(crate) fn new(known: Vec<Named>) -> Self {
        let known =
            known.into_iter().map(|(name, kind)| Known { name, committed: Some(kind), builder: None });
        Self { items: Builder::new(Kind::Text, 0), known: known.collect(), rows: 0 }
    }

    fn add(&mut self, names: &[&str], block: &Block) -> Refused {
        let places = match self.places(block) {
            Ok(places) => places,
            Err(why) => return (0..block.rows).map(|row| (row, why.clone())).collect(),
        };
        let mut refused: Vec<Option<String>> = vec![None; block.rows];
        for (row, why) in &block.refused {
            refused[*row] = Some(why.clone());
        }
        for (column, place) in block.columns.iter().zip(&places) {
            if let Some(kind) = self.kind_for(column, *place) {
                self.examine(column, *place, &kind, &mut refused);
            }
        }
        let kept = refused.iter().filter(|why| why.is_none()).count();
        if kept > 0 {
            self.append(names, block, places, &refused, kept);
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

    /// What the column's values have to be; `None`: there is none yet, and none here.
    fn kind_for(&self, column: &Column, place: Option<usize>) -> Option<Kind> {
        let known = place.map(|place| &self.known[place]);
        match known.and_then(Known::kind) {
            None => Kind::of(&column.data),
            Some(kind)
                if known.is_some_and(|known| known.committed.is_none()) && widens(kind, &column.data) =>
            {
                Some(Kind::Number(Element::F64))
            }
            Some(kind) => Some(kind.clone()),
        }
    }

    /// Refuses the rows whose value is not of this kind.
    fn examine(&self, column: &Column, place: Option<usize>, kind: &Kind, refused: &mut [Option<String>]) {
        if matches!(column.data, Data::Fixed { .. }) && Kind::of(&column.data).as_ref() == Some(kind) {
            return;
        }
        let builder = place.and_then(|place| self.known[place].builder.as_ref());
        let mut total = 0_usize;
        for (row, why) in refused.iter_mut().enumerate().filter(|(_, why)| why.is_none()) {
            let cell = Cell::of(&column.data, row);
            let name = &column.name;
            if !cell.fits(kind) {
                let (was, is) = (kind.in_words(), cell.in_words());
                let short = kind.write();
                *why = Some(format!(
                    "result column `{name}` was {was} ({short}) in earlier items and is {is} here; \
                     return one type"
                ));
                continue;
            }
            let more = total.saturating_add(weight(kind, &cell));
            if builder.map_or(i32::try_from(more).is_ok(), |builder| builder.has_room(more)) {
                total = more;
            } else {
                *why = Some(format!(
                    "result column `{name}` is too large here: a part holds 2 GiB of it at most"
                ));
            }
        }
    }

    /// Appends the rows that were not refused.
    fn append(
        &mut self,
        names: &[&str],
        block: &Block,
        mut places: Vec<Option<usize>>,
        refused: &[Option<String>],
        kept: usize,
    ) {
        for (column, place) in block.columns.iter().zip(&mut places) {
            let kind = self.kind_for(column, *place);
            let at = place.unwrap_or_else(|| {
                self.known.push(Known { name: column.name.clone(), committed: None, builder: None });
                self.known.len() - 1
            });
            *place = Some(at);
            let Some(kind) = kind else { continue };
            let builder = self.known[at].builder.get_or_insert_with(|| Builder::new(kind.clone(), self.rows));
            if *builder.kind() != kind {
                builder.widen();
            }
            if kept == block.rows && builder.push_all(&column.data, block.rows) {
                continue;
            }
            for (row, _) in refused.iter().enumerate().filter(|(_, why)| why.is_none()) {
                builder.push(&Cell::of(&column.data, row));
            }
        }
        for (_, known) in self.known.iter_mut().enumerate().filter(|(at, _)| !places.contains(&Some(*at))) {
            if let Some(builder) = &mut known.builder {
                builder.push_nulls(kept);
            }
        }
        for (name, _) in names.iter().zip(refused).filter(|(_, why)| why.is_none()) {
            self.items.push(&Cell::Text(name));
        }
        self.rows += kept;
    }

    /// The waiting rows as a table. Columns that never had a value have no type yet and are left out; known
    /// ones without a value here stand in it all the same, so that every part has at least the columns before
    /// it.
    fn take(&mut self) -> Result<(Filling, Vec<Named>), ArrowError> {
        let items = std::mem::replace(&mut self.items, Builder::new(Kind::Text, 0));
        let rows = std::mem::take(&mut self.rows);
        let mut new = Vec::new();
        let mut columns =
            vec![items.finish("item").map(|(field, array)| (field.with_nullable(false), array))?];
        // New ones after those that earlier parts have, in every part: what a part lacks of later ones is their end.
        self.known.sort_by_key(|known| known.committed.is_none());
        for known in &mut self.known {
            let builder = match (known.builder.take(), &known.committed) {
                (Some(builder), _) => builder,
                (None, Some(kind)) => Builder::new(kind.clone(), rows),
                (None, None) => continue,
            };
            if known.committed.is_none() {
                new.push((known.name.clone(), builder.kind().clone()));
                known.committed = Some(builder.kind().clone());
            }
            columns.push(builder.finish(&known.name)?);
        }
        Ok((Filling::Batch(parquet::table(columns)?), new))
    }
}

/// Whether these values make numbers of a column of whole numbers.
fn widens(kind: &Kind, data: &Data) -> bool {
    let floats = match data {
        Data::Json(values) => values.iter().any(serde_json::Value::is_f64),
        Data::Fixed { element, shape, .. } => {
            shape.is_empty() && matches!(element, Element::F32 | Element::F64)
        }
    };
    floats && matches!(kind, Kind::Number(Element::I64 | Element::U64))
}
