//! Goes through one input and hands every item of it to a taker, in order, holding one at a time.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use gpulane_model::Decode;

use crate::input::{Paths, Source};
use crate::lines::Lines;
use crate::list::DataTable;
use crate::packed::Packing;
use crate::problem::Stop;
use crate::record::Found;
use crate::shard::Member;
use crate::stamp::Stamp;
use crate::table::{DataColumns, Kind};
use crate::walk::Walked;
use crate::{Wanted, shard};

/// Who wants the items.
pub(crate) trait Taker {
    /// Takes one; an error ends the gathering.
    fn item(&mut self, found: Found<'_>) -> io::Result<()>;
    /// A shard comes next; whether its members are wanted.
    fn shard(&mut self, shard: Stamp) -> io::Result<bool>;
    /// A list or table is read next.
    fn reading(&mut self, _file: Stamp) {}
    /// Its rows hold the data of items.
    fn table(&mut self, _table: DataTable) {}
}

/// Hands over every item of the source. A taker that answers [`io::ErrorKind::Interrupted`] has had enough.
pub(crate) fn gather(source: &Source, wanted: &Wanted, taker: &mut dyn Taker) -> Result<(), Stop> {
    let done = match source {
        Source::Paths(paths) => each_path(paths, wanted, &mut |walked| match walked {
            Walked::File(name) => file(name, wanted, taker),
            Walked::Unlisted { name, reason } => unlisted(name, reason, taker),
        }),
        Source::List(list) => lines(list, wanted, taker),
        Source::Tables(tables, column) => {
            let several = source.is_several();
            each_path(tables, wanted, &mut |walked| match walked {
                Walked::File(name) => rows(name, column, several, wanted, taker),
                Walked::Unlisted { name, reason } => unlisted(name, reason, taker),
            })
        }
    };
    match done {
        Err(Stop::Taker(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        done => done,
    }
}

pub(crate) fn each_path(
    paths: &[Paths],
    wanted: &Wanted,
    each: &mut dyn FnMut(Walked<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    for path in paths {
        match path {
            Paths::File(name) => each(Walked::File(name.as_bytes()))?,
            Paths::Matching(glob) => glob.walk(wanted.base, each)?,
        }
    }
    Ok(())
}

/// A directory that cannot be listed is one item, which fails.
fn unlisted(name: &[u8], reason: &str, taker: &mut dyn Taker) -> Result<(), Stop> {
    taker.item(Found::Unlisted { name, reason }).map_err(Stop::Taker)
}

/// A file by its name: an item, or a shard of them.
fn file(name: &[u8], wanted: &Wanted, taker: &mut dyn Taker) -> Result<(), Stop> {
    if !name.to_ascii_lowercase().ends_with(b".tar") && Packing::of(name).is_none() {
        return taker.item(Found::File(name)).map_err(Stop::Taker);
    }
    let path = wanted.base.join(OsString::from_vec(name.to_vec()));
    let stamp = match Stamp::of(name, &path) {
        Ok(stamp) => stamp,
        // A link to nowhere fails as one of any other name does.
        Err(error) => {
            let (name, reason) = (crate::escape::shown(name), format!("cannot be opened: {error}"));
            return taker.item(Found::Bad { name: &name, reason: &reason }).map_err(Stop::Taker);
        }
    };
    if !taker.shard(stamp).map_err(Stop::Taker)? {
        return Ok(());
    }
    members(name, &path, wanted.decode, taker)
}

/// The items of a shard.
pub(crate) fn members(
    name: &[u8],
    path: &Path,
    decode: Option<Decode>,
    taker: &mut dyn Taker,
) -> Result<(), Stop> {
    let mut full = [name, b"/"].concat();
    let prefix = full.len();
    shard::read(path, decode, &mut |member| {
        full.truncate(prefix);
        if let Member::Data { name, .. } | Member::Bad { name, .. } = member {
            full.extend_from_slice(name);
        }
        let found = match member {
            Member::Data { offset, bytes, before, .. } => {
                Found::Member { name: &full, offset, bytes, before }
            }
            Member::Bad { reason, .. } => Found::BadMember { name: &full, reason },
            Member::Broken(reason) => Found::BrokenShard { name, reason },
        };
        taker.item(found).map_err(Stop::Taker)
    })
}

/// The items of a list file.
fn lines(list: &str, wanted: &Wanted, taker: &mut dyn Taker) -> Result<(), Stop> {
    let path = wanted.base.join(list);
    taker.reading(Stamp::of(list.as_bytes(), &path).map_err(Stop::io("look at", &path))?);
    let mut lines = Lines::new(File::open(&path).map_err(Stop::io("open", &path))?);
    while let Some((number, line)) = lines.next().map_err(Stop::io("read", &path))? {
        if !line.is_empty() {
            text(line, wanted, taker, || format!("{list}, line {number}")).map_err(Stop::Taker)?;
        }
    }
    Ok(())
}

/// The items of a table. One of several that cannot be opened is an item that fails.
fn rows(
    name: &[u8],
    column: &str,
    several: bool,
    wanted: &Wanted,
    taker: &mut dyn Taker,
) -> Result<(), Stop> {
    let path = wanted.base.join(OsString::from_vec(name.to_vec()));
    let shown = crate::escape::shown(name);
    let Some(kind) = Kind::of(&shown) else {
        return Err(Stop::input(
            format!("{shown} is no table"),
            "name .csv, .tsv, .jsonl, .ndjson or .parquet files",
        ));
    };
    taker.reading(Stamp::of(name, &path).map_err(Stop::io("look at", &path))?);
    if several && let Err(Stop::Input(reason, _)) = kind.open(&path) {
        return taker.item(Found::Bad { name: &shown, reason: &reason }).map_err(Stop::Taker);
    }
    if wanted.decode != Some(Decode::Value)
        && let Some(columns) = kind.data_columns(&path, column, wanted.base)?
    {
        return data_rows(name, column, &path, &columns, taker);
    }
    kind.read(&path, column, &mut |number, cell| {
        let named = || format!("{shown}:{column}, row {number}");
        match cell {
            Ok(value) => text(value, wanted, taker, named),
            Err(reason) => taker.item(Found::Bad { name: &named(), reason: &reason }),
        }
        .map_err(Stop::Taker)
    })
}

/// The items of a table that holds their data: `TABLE:COLUMN/ROW`, and the path in the row where there is one.
fn data_rows(
    name: &[u8],
    column: &str,
    path: &Path,
    columns: &DataColumns,
    taker: &mut dyn Taker,
) -> Result<(), Stop> {
    let DataColumns { data, path: beside } = columns;
    taker.table(DataTable { file: crate::escape::escape(name), data: data.clone(), path: beside.clone() });
    let mut full = [name, b":", column.as_bytes(), b"/"].concat();
    let prefix = full.len();
    columns.each_row(path, &mut |row, beside| {
        full.truncate(prefix);
        // A vector takes everything.
        let _ = write!(full, "{row}");
        if let Some(beside) = beside {
            full.push(b'/');
            full.extend_from_slice(beside);
        }
        taker.item(Found::Row { name: &full, row }).map_err(Stop::Taker)
    })
}

/// A line or cell: a path, or the text that is the item itself.
fn text(
    value: &[u8],
    wanted: &Wanted,
    taker: &mut dyn Taker,
    named: impl FnOnce() -> String,
) -> io::Result<()> {
    if wanted.decode != Some(Decode::Value) {
        return taker.item(Found::File(value));
    }
    match std::str::from_utf8(value) {
        Ok(text) => taker.item(Found::Value(text)),
        Err(_) => taker.item(Found::Bad { name: &named(), reason: "it is not UTF-8 text" }),
    }
}
