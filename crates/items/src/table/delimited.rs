//! CSV and TSV with a header line.

use std::cell::Cell as Counter;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use super::{Each, no_column};
use crate::problem::Stop;

/// A quote that is never closed would make one row of the whole file.
const LONGEST: u64 = 64 << 20;

/// Gives up when one row takes too much.
struct Bounded {
    file: File,
    /// Bytes read since the last whole row.
    since: Rc<Counter<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.since.get() > LONGEST {
            return Err(io::Error::other("a row is longer than 64 MiB; is a quote not closed?"));
        }
        let read = self.file.read(out)?;
        self.since.set(self.since.get() + read as u64);
        Ok(read)
    }
}

type Opened = (csv::Reader<Bounded>, Rc<Counter<u64>>, csv::ByteRecord);

fn open(path: &Path, delimiter: u8) -> Result<Opened, Stop> {
    let file = File::open(path).map_err(Stop::io("open", path))?;
    let since = Rc::new(Counter::new(0));
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        // A row with too few cells is an item that fails, not a table that does.
        .flexible(true)
        .buffer_capacity(1 << 18)
        .from_reader(Bounded { file, since: Rc::clone(&since) });
    let header = reader.byte_headers().cloned().map_err(|error| unreadable(path, &error))?;
    Ok((reader, since, header))
}

pub(super) fn columns(path: &Path, delimiter: u8) -> Result<Vec<String>, Stop> {
    let (_, _, header) = open(path, delimiter)?;
    Ok(header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

pub(super) fn read(path: &Path, delimiter: u8, column: &str, each: &mut Each) -> Result<(), Stop> {
    let (mut reader, since, header) = open(path, delimiter)?;
    let Some(at) = header.iter().position(|name| name == column.as_bytes()) else {
        return Err(no_column(path, column, &columns(path, delimiter)?));
    };
    let mut row = csv::ByteRecord::new();
    let mut number = 0;
    while reader.read_byte_record(&mut row).map_err(|error| unreadable(path, &error))? {
        since.set(0);
        number += 1;
        match row.get(at) {
            None => each(number, Err(format!("row {number} has no `{column}`")))?,
            Some(b"") => each(number, Err(format!("`{column}` is empty in row {number}")))?,
            Some(value) => each(number, Ok(value))?,
        }
    }
    Ok(())
}

fn unreadable(path: &Path, error: &csv::Error) -> Stop {
    Stop::input(format!("cannot read {}: {error}", path.display()), "mend the table, or choose another")
}
