//! The pages of one column in one row group: where they lie, which rows are in them, what they take; and one of them decoded.
//!
//! Headers are walked once per row group, which needs no page index in the file. A page's size is read from its header before memory
//! is taken for it: what decompresses to more than that is refused.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use gpulane_items::{MOST_PAGE_ROWS, checked_page, shared_bytes};
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// Read at once where a page's header is looked for; longer ones, with long statistics, take more reads.
const HEADER: usize = 512;
/// LZ4 makes at most so much of a byte. Its older form in Parquet does not say how much a page becomes.
const LZ4_RATIO: u64 = 255;

/// A file that pages are read from, at any place by any thread.
#[derive(Clone, Debug)]
pub(super) struct Source {
    file: Arc<File>,
    length: u64,
    /// Where a header was read last.
    started: Arc<AtomicU64>,
}

/// Reads on from one place.
pub(super) struct At {
    file: Arc<File>,
    next: u64,
    buffer: [u8; HEADER],
    /// What of the buffer was not given yet.
    rest: std::ops::Range<usize>,
}

impl Source {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), length, started: Arc::default() })
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.length
    }
}

impl Read for At {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            let read = self.file.read_at(&mut self.buffer, self.next)?;
            self.next += read as u64;
            self.rest = 0..read;
        }
        let some = self.rest.len().min(to.len());
        to[..some].copy_from_slice(&self.buffer[self.rest.start..self.rest.start + some]);
        self.rest.start += some;
        Ok(some)
    }
}

impl ChunkReader for Source {
    type T = At;

    fn get_read(&self, start: u64) -> Result<At> {
        self.started.store(start, Ordering::Relaxed);
        Ok(At { file: Arc::clone(&self.file), next: start, buffer: [0; HEADER], rest: 0..0 })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF("the file ends within a page".to_owned()));
        }
        let mut buffer = vec![0; length];
        self.file.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAt {
    /// Its first row within the row group.
    pub(super) first: u64,
    /// How many rows it has.
    pub(super) rows: u64,
    /// Where its header begins.
    offset: u64,
    /// Bytes of header and body in the file.
    stored: u64,
    /// Bytes it becomes.
    size: u64,
    /// Values of a dictionary.
    entries: u64,
}

/// The pages of a column chunk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) pages: Vec<PageAt>,
    dictionary: Option<PageAt>,
    /// Whether pages may hold values that share their beginnings, and become more than their size.
    shares: bool,
    /// Why there are no pages for the rows behind the last one.
    pub(super) broken: Option<String>,
}

impl Chunk {
    /// Walks the headers of all pages. `rows`: those of the row group.
    pub(super) fn walk(source: &Source, meta: &ColumnChunkMetaData, rows: u64) -> Self {
        let shares = shares(meta);
        let mut chunk = Self { pages: Vec::new(), dictionary: None, shares, broken: None };
        if let Err(error) = chunk.walk_on(source, meta, rows) {
            chunk.broken = Some(error.to_string());
        }
        chunk
    }

    fn walk_on(&mut self, source: &Source, meta: &ColumnChunkMetaData, rows: u64) -> Result<()> {
        // A count of its own: other threads walk other chunks of the same file.
        let source = Source { started: Arc::default(), ..source.clone() };
        let (start, length) = meta.byte_range();
        let end = start.saturating_add(length).min(source.length);
        let mut reader = SerializedPageReader::new(Arc::new(source.clone()), meta, as_size(rows)?, None)?;
        let (mut row, mut open): (u64, Option<(u64, PageMetadata)>) = (0, None);
        loop {
            let next = reader.peek_next_page()?;
            let at = if next.is_some() { source.started.load(Ordering::Relaxed) } else { end };
            if let Some((offset, page)) = open.take() {
                self.add(&source, &page, offset..at, &mut row, rows)?;
            }
            let Some(page) = next else { break };
            open = Some((at, page));
            reader.skip_next_page()?;
        }
        if row < rows {
            return Err(ParquetError::General(format!("its pages hold {row} of {rows} rows")));
        }
        Ok(())
    }

    fn add(
        &mut self,
        source: &Source,
        page: &PageMetadata,
        lies: std::ops::Range<u64>,
        row: &mut u64,
        most: u64,
    ) -> Result<()> {
        let mut head = [0; 32];
        let read = source.file.read_at(&mut head, lies.start)?;
        let (size, entries) = sizes_of_page(&head[..read], page.is_dict)
            .ok_or_else(|| ParquetError::General("a page's header is damaged".to_owned()))?;
        let rows = page.num_rows.or(page.num_levels).unwrap_or(0) as u64;
        if rows > MOST_PAGE_ROWS || page.num_levels.is_some_and(|levels| levels as u64 != rows) {
            return Err(ParquetError::General(format!("a page says that it has {rows} rows")));
        }
        let stored = lies.end.saturating_sub(lies.start);
        let mut found = PageAt { first: *row, rows, offset: lies.start, stored, size, entries };
        if page.is_dict {
            found.rows = 0;
            self.dictionary = Some(found);
            return Ok(());
        }
        if row.saturating_add(rows) > most {
            return Err(ParquetError::General(format!("a page has more rows than the row group, {most}")));
        }
        *row += rows;
        if rows > 0 {
            self.pages.push(found);
        }
        Ok(())
    }

    /// The page that has this row of the row group.
    pub(super) fn page_of(&self, row: u64) -> Option<usize> {
        let behind = self.pages.partition_point(|page| page.first <= row);
        let at = behind.checked_sub(1)?;
        (row - self.pages[at].first < self.pages[at].rows).then_some(at)
    }

    /// Memory that decoding a page takes: as it is stored, decompressed, and a place for each value.
    pub(super) fn cost(&self, page: &PageAt, compression: Compression) -> u64 {
        let body = |page: &PageAt| match compression {
            Compression::UNCOMPRESSED => page.stored,
            Compression::LZ4 => page.stored + page.size.max(page.stored.saturating_mul(LZ4_RATIO)),
            _ => page.stored + page.size,
        };
        let written_out = if self.shares { shared_bytes(page.size) } else { 0 };
        let dictionary = self.dictionary.as_ref().map_or(0, |page| body(page) + page.entries * PER_ENTRY);
        body(page) + written_out + dictionary + page.rows * PER_VALUE
    }

    /// Reads a page, and the dictionary where it needs one.
    pub(super) fn read(&self, source: &Source, meta: &ColumnChunkMetaData, page: &PageAt) -> Result<OnePage> {
        let data = read_page(source, meta, page)?;
        let encoding = data.encoding();
        let uses = matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        if encoding == Encoding::DELTA_BYTE_ARRAY && !self.shares {
            let what = "a page is encoded by DELTA_BYTE_ARRAY, which the table does not say of its column";
            return Err(ParquetError::General(what.to_owned()));
        }
        let level = meta.column_descr().max_def_level();
        let data = checked_page(data, level)?;
        let dictionary = match &self.dictionary {
            Some(dictionary) if uses => Some(checked_page(read_page(source, meta, dictionary)?, level)?),
            _ => None,
        };
        Ok(OnePage { dictionary, data: Some(data) })
    }
}

/// Whether the column has pages of values that share their beginnings.
fn shares(meta: &ColumnChunkMetaData) -> bool {
    meta.encodings().any(|encoding| encoding == Encoding::DELTA_BYTE_ARRAY)
}

/// A place in the list of values that are there and one in that of rows, a definition level, a length.
const PER_VALUE: u64 = 80;
/// A place in the list of a dictionary's values, or of rows.
const PER_ENTRY: u64 = 32;

fn as_size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|error| ParquetError::General(error.to_string()))
}

fn read_page(source: &Source, meta: &ColumnChunkMetaData, page: &PageAt) -> Result<Page> {
    let location = PageLocation {
        offset: i64::try_from(page.offset).map_err(|error| ParquetError::General(error.to_string()))?,
        compressed_page_size: i32::try_from(page.stored)
            .map_err(|_| ParquetError::General("a page has more than 2 GiB".to_owned()))?,
        first_row_index: 0,
    };
    let plain = match meta.compression() {
        // Decompressed below, up to the size it says.
        Compression::GZIP(_) => {
            Some(meta.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?)
        }
        Compression::LZ4 if page.stored.saturating_mul(LZ4_RATIO) > u64::from(u32::MAX / 2) => {
            let what = "a page of more than 8 MiB is compressed by `LZ4`, which does not say what it becomes; \
                        write the table with `LZ4_RAW`, `SNAPPY` or `ZSTD`";
            return Err(ParquetError::General(what.to_owned()));
        }
        _ => None,
    };
    let (whole, rows) = (Arc::new(source.clone()), as_size(page.rows)?);
    let used = plain.as_ref().unwrap_or(meta);
    let mut reader = SerializedPageReader::new(whole, used, rows, Some(vec![location]))?;
    if used.byte_range().0 != page.offset {
        // It takes what lies before for a dictionary, which it does not read when it is told to pass over it.
        reader.skip_next_page()?;
    }
    let read = reader.get_next_page()?;
    let read = read.ok_or_else(|| ParquetError::EOF("a page is gone".to_owned()))?;
    if plain.is_some() { inflated(read, as_size(page.size)?) } else { Ok(read) }
}

/// A page compressed by gzip, decompressed to exactly the size its header says.
fn inflated(mut page: Page, size: usize) -> Result<Page> {
    let inflate = |stored: &[u8], levels: usize| {
        let mut whole = Vec::with_capacity(size);
        whole.extend_from_slice(stored.get(..levels).unwrap_or_default());
        let body = stored.get(levels..).unwrap_or_default();
        // One byte more tells that there is more.
        let most = (size.saturating_sub(levels) as u64).saturating_add(1);
        flate2::read::MultiGzDecoder::new(body).take(most).read_to_end(&mut whole)?;
        if whole.len() != size {
            return Err(ParquetError::General("a page is not as large as its header says".to_owned()));
        }
        Ok(Bytes::from(whole))
    };
    match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = inflate(buf, 0)?,
        Page::DataPageV2 { buf, is_compressed: true, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = (*def_levels_byte_len as usize).saturating_add(*rep_levels_byte_len as usize);
            // Without any value nothing was compressed.
            if size > levels {
                *buf = inflate(buf, levels)?;
            }
        }
        Page::DataPageV2 { .. } => {}
    }
    Ok(page)
}

/// The decompressed size in a page's header: its second field, behind the kind and before the compressed size, each a number in
/// Thrift's compact form. And the values of a dictionary, the first field of the seventh, with a checksum before it or none.
fn sizes_of_page(head: &[u8], is_dictionary: bool) -> Option<(u64, u64)> {
    /// The next field, a 32-bit number.
    const NEXT_I32: u8 = 0x15;
    /// The seventh field, a structure, behind the third or the fourth.
    const DICTIONARY: [u8; 2] = [0x4C, 0x3C];
    let mut bytes = head.iter().copied().peekable();
    let mut number = |marks: &[u8]| {
        marks.iter().all(|mark| bytes.next() == Some(*mark)).then_some(())?;
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some((value, bytes.peek().copied()));
            }
            shift += 7;
            (shift < 35).then_some(())?;
        }
    };
    // Zigzag: an odd one is negative.
    let positive =
        |(value, _): (u64, _)| (value & 1 == 0 && value <= u64::from(u32::MAX - 1)).then_some(value >> 1);
    positive(number(&[NEXT_I32])?)?;
    let size = positive(number(&[NEXT_I32])?)?;
    if !is_dictionary {
        return Some((size, 0));
    }
    let mut last = number(&[NEXT_I32])?;
    if last.1 == Some(NEXT_I32) {
        last = number(&[NEXT_I32])?;
    }
    let begin = last.1.filter(|mark| DICTIONARY.contains(mark))?;
    let entries = positive(number(&[begin, NEXT_I32])?)?;
    // Each has its length before it.
    (entries <= size / 4).then_some((size, entries))
}

/// A page reader with one page, and the dictionary it needs before it.
pub(super) struct OnePage {
    dictionary: Option<Page>,
    data: Option<Page>,
}

impl OnePage {
    /// Memory that stays in use with the page's values, of which there are so many.
    pub(super) fn kept(&self, rows: u64) -> u64 {
        let pages = [&self.dictionary, &self.data];
        let bytes: usize = pages.into_iter().flatten().map(|page| page.buffer().len()).sum();
        bytes as u64 + rows * PER_ENTRY
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.dictionary.take().or_else(|| self.data.take()))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let page = self.dictionary.as_ref().or(self.data.as_ref());
        Ok(page.map(|page| PageMetadata {
            num_rows: Some(page.num_values() as usize),
            num_levels: Some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }
}

impl Iterator for OnePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_its_size_behind_its_kind() {
        // Kind 0, size 300, stored 5.
        assert_eq!(sizes_of_page(&[0x15, 0x00, 0x15, 0xD8, 0x04, 0x15, 0x0A], false), Some((300, 0)));
        for wrong in [&[][..], &[0x15, 0x00], &[0x15, 0x00, 0x15, 0x01], &[0x25, 0x00, 0x15, 0x02]] {
            assert_eq!(sizes_of_page(wrong, false), None, "{wrong:?}");
        }
        assert_eq!(sizes_of_page(&[0x15, 0x00, 0x15, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01], false), None);
    }

    #[test]
    fn a_dictionary_has_no_more_values_than_there_is_room_for() {
        let start = [0x15, 0x04, 0x15, 0xD8, 0x04, 0x15, 0x0A];
        let dictionary = |behind: &[u8]| sizes_of_page(&[&start, behind].concat(), true);
        assert_eq!(dictionary(&[0x4C, 0x15, 0x06, 0x15, 0x00]), Some((300, 3)));
        assert_eq!(dictionary(&[0x15, 0x07, 0x3C, 0x15, 0x96, 0x01]), Some((300, 75)), "behind a checksum");
        assert_eq!(dictionary(&[0x4C, 0x15, 0x98, 0x01]), None, "76 of four bytes each are more than 300");
        assert_eq!(dictionary(&[0x2C, 0x15, 0x06]), None, "no dictionary");
    }
}
