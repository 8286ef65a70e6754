//! Pages of tables, looked at before they are decoded: what a few bytes of one may become is bounded by what it holds, not by what it says.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::delta;

/// Rows of one page at most. Writers end pages after 20,000 rows, or where a row group ends, which has a million by default.
pub const MOST_PAGE_ROWS: u64 = 1 << 22;
/// The length before every value of a plain page or a dictionary.
const LENGTH: usize = 4;

/// Bytes that values which share their beginnings (`DELTA_BYTE_ARRAY`) may become, of a page of so many: each is stored as what differs from
/// the one before it.
pub const fn shared_bytes(size: u64) -> u64 {
    const TIMES: u64 = 16;
    const FIRST: u64 = 1 << 20;
    const MOST: u64 = 256 << 20;
    let bytes = size.saturating_mul(TIMES).saturating_add(FIRST);
    if bytes < MOST { bytes } else { MOST }
}

/// A decompressed page of bytes that is safe to decode: what it becomes takes a place for each of its values and its own size. Values that share
/// their beginnings are written out. `most_level`: the definition level of a value that is there.
pub fn checked_page(page: Page, most_level: i16) -> Result<Page> {
    match page {
        Page::DictionaryPage { ref buf, num_values, .. } => {
            if num_values as usize > buf.len() / LENGTH {
                return damaged("a dictionary has less room than its values take");
            }
            Ok(page)
        }
        Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics } => {
            let levels = levels(&buf, num_values, def_level_encoding, most_level);
            let (buf, encoding) = checked_values(buf, levels, num_values, encoding)?;
            Ok(Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            })
        }
        Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
        } => {
            let levels = (def_levels_byte_len as usize).checked_add(rep_levels_byte_len as usize);
            let (buf, encoding) = checked_values(buf, levels, num_values, encoding)?;
            Ok(Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            })
        }
    }
}

fn damaged<T>(what: impl Into<String>) -> Result<T> {
    Err(ParquetError::General(what.into()))
}

/// Bytes before the values of a page of the first version, whose rows hold one value each.
fn levels(page: &[u8], values: u32, encoding: Encoding, most_level: i16) -> Option<usize> {
    if most_level == 0 {
        return Some(0);
    }
    if encoding == Encoding::RLE {
        return LENGTH.checked_add(u32::from_le_bytes(*page.first_chunk()?) as usize);
    }
    let bits = u16::BITS - most_level.cast_unsigned().leading_zeros();
    usize::try_from((u64::from(values) * u64::from(bits)).div_ceil(8)).ok()
}

/// The page and how its values are encoded, once that is safe. Generic over the buffer, which is the reader's own kind of bytes.
fn checked_values<B: AsRef<[u8]> + From<Vec<u8>>>(
    page: B,
    levels: Option<usize>,
    values: u32,
    encoding: Encoding,
) -> Result<(B, Encoding)> {
    if u64::from(values) > MOST_PAGE_ROWS {
        return damaged(format!("a page has {values} values; at most {MOST_PAGE_ROWS} are read"));
    }
    if !matches!(encoding, Encoding::DELTA_BYTE_ARRAY | Encoding::DELTA_LENGTH_BYTE_ARRAY) {
        return Ok((page, encoding));
    }
    let Some((head, body)) = levels.and_then(|levels| page.as_ref().split_at_checked(levels)) else {
        return damaged("a page ends before its values");
    };
    if encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY {
        // The reader takes memory for as many lengths as it says there are.
        return match delta::count(body) {
            Some(count) if count <= u64::from(values) => Ok((page, encoding)),
            _ => damaged("a page has lengths of more values than it holds"),
        };
    }
    let most = shared_bytes(page.as_ref().len() as u64);
    let plain = delta::written_out(head, body, values as usize, most)?;
    Ok((B::from(plain), Encoding::PLAIN))
}

/// Pages that are checked as they are read.
pub(super) struct Checked {
    /// Where they come from.
    pub(super) pages: Box<dyn PageReader>,
    /// The definition level of a value that is there.
    pub(super) most_level: i16,
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.pages.get_next_page()?.map(|page| checked_page(page, self.most_level)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
