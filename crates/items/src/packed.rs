//! Compressed tars: gzip and Zstandard, as a stream of what they hold. Nothing in them can be found without what comes before it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

/// Bytes of the compressed file read at a time.
const CHUNK: usize = 128 << 10;
/// Bytes passed over at a time.
const PASSED: usize = 16 << 10;
/// The largest window of Zstandard that memory is taken for, as a power of two: the library's own limit.
const WINDOW: u32 = 27;
/// A stream may become so many times its size, and a first gigabyte: gzip never does, images do not by far.
const MOST_RATIO: u64 = 2000;
const FIRST: u64 = 1 << 30;

/// A member of a gzip file begins with this byte.
const GZIP: u8 = 0x1f;

/// How a tar is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `.tar.gz`, `.tgz`.
    Gzip,
    /// `.tar.zst`, `.tzst`.
    Zstd,
}

const NAMED: [(&[u8], Packing); 4] = [
    (b".tar.gz", Packing::Gzip),
    (b".tgz", Packing::Gzip),
    (b".tar.zst", Packing::Zstd),
    (b".tzst", Packing::Zstd),
];

impl Packing {
    /// By a file's name; none: it is no compressed tar that can be read.
    pub fn of(name: &[u8]) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        NAMED.iter().find(|(end, _)| name.ends_with(end)).map(|(_, packing)| *packing)
    }

    /// What a person calls it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "Zstandard",
        }
    }
}

/// The contents of a compressed tar, from its first byte on.
pub struct Unpacked {
    inner: Box<dyn Read + Send>,
    /// Bytes of the compressed file read so far.
    taken: Arc<AtomicU64>,
    /// What was read and is to be read again, from `again_at` on.
    again: Vec<u8>,
    again_at: usize,
    /// Bytes of the contents given so far.
    position: u64,
    /// Where the last byte that is not zero ended.
    last_nonzero: u64,
    /// What came was no contents but an error.
    failed: bool,
    /// How much the contents may be of what was read of the file, and beside that.
    ratio: u64,
    first: u64,
}

impl std::fmt::Debug for Unpacked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Counts what is read.
struct Counted {
    file: File,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(to)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The members of a gzip file, one after the other. Zeros between and behind them are passed over, as `gzip` and Python do: tapes and disks
/// fill files up to whole blocks.
struct Gunzipped<R> {
    /// The one at hand; absent only while the next one is begun.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Gunzipped<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(to)?;
            if read > 0 || to.is_empty() {
                return Ok(read);
            }
            match first_behind_zeros(member.get_mut())? {
                None => return Ok(0),
                Some(GZIP) => {
                    self.member = self.member.take().map(|ended| GzDecoder::new(ended.into_inner()));
                }
                Some(_) => {
                    let what = "its compressed data ends, and what follows is neither zeros nor gzip";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
        }
        Ok(0)
    }
}

/// The next byte that is not zero, which is not taken.
fn first_behind_zeros(from: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let some = from.fill_buf()?;
        let zeros = some.iter().take_while(|byte| **byte == 0).count();
        let found = some.get(zeros).copied();
        if some.is_empty() || found.is_some() {
            from.consume(zeros);
            return Ok(found);
        }
        from.consume(zeros);
    }
}

impl Unpacked {
    /// Begins to read a file that is compressed in this way.
    pub fn open(path: &Path, packing: Packing) -> io::Result<Self> {
        Self::of(File::open(path)?, packing)
    }

    /// Begins to read an open file.
    pub fn of(file: File, packing: Packing) -> io::Result<Self> {
        let taken = Arc::<AtomicU64>::default();
        let counted = BufReader::with_capacity(CHUNK, Counted { file, taken: Arc::clone(&taken) });
        let inner: Box<dyn Read + Send> = match packing {
            Packing::Gzip => Box::new(Gunzipped { member: Some(GzDecoder::new(counted)) }),
            Packing::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(counted)?;
                decoder.window_log_max(WINDOW)?;
                Box::new(decoder)
            }
        };
        Ok(Self {
            inner,
            taken,
            again: Vec::new(),
            again_at: 0,
            position: 0,
            last_nonzero: 0,
            failed: false,
            ratio: MOST_RATIO,
            first: FIRST,
        })
    }

    /// How much of the contents has been read.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Whether it cannot be decompressed any further.
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether all that was read from there on was zeros.
    pub(crate) const fn is_zero_from(&self, from: u64) -> bool {
        self.last_nonzero <= from
    }

    /// Puts back what was read last, to be read again.
    pub fn unread(&mut self, bytes: &[u8]) {
        let rest = self.again.get(self.again_at..).unwrap_or_default();
        self.again = [bytes, rest].concat();
        self.again_at = 0;
        self.position -= bytes.len() as u64;
    }

    /// Passes over the contents up to this byte, which must not lie before what was read.
    pub fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        let mut passed = [0; PASSED];
        while self.position < offset {
            let some = usize::try_from(offset - self.position).unwrap_or(PASSED).min(PASSED);
            if self.read(&mut passed[..some])? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

impl Read for Unpacked {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if let Some(again) = self.again.get(self.again_at..).filter(|again| !again.is_empty()) {
            let some = again.len().min(to.len());
            to[..some].copy_from_slice(&again[..some]);
            self.again_at += some;
            self.position += some as u64;
            return Ok(some);
        }
        let most = self.first.saturating_add(self.taken.load(Ordering::Relaxed).saturating_mul(self.ratio));
        if self.position > most {
            self.failed = true;
            return Err(io::Error::other(format!(
                "it becomes more than {} times its size, as no tar of data does",
                self.ratio
            )));
        }
        let read = self.inner.read(to).inspect_err(|error| {
            self.failed |= error.kind() != io::ErrorKind::Interrupted;
        })?;
        if let Some(last) = to[..read].iter().rposition(|byte| *byte != 0) {
            self.last_nonzero = self.position + last as u64 + 1;
        }
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn names_say_how_a_tar_is_compressed() {
        for (name, right) in [
            ("a.tar.gz", Some(Packing::Gzip)),
            ("A.TGZ", Some(Packing::Gzip)),
            ("a.tar.zst", Some(Packing::Zstd)),
            ("a.tar", None),
            ("a.gz", None),
            ("a.tar.xz", None),
        ] {
            assert_eq!(Packing::of(name.as_bytes()), right, "{name}");
        }
    }

    #[test]
    fn what_grows_without_end_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bomb.tar.zst");
        let mut encoder = zstd::stream::write::Encoder::new(File::create(&path).unwrap(), 3).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..20 {
            encoder.write_all(&zeros).unwrap();
        }
        encoder.finish().unwrap();
        let mut unpacked = Unpacked::open(&path, Packing::Zstd).unwrap();
        (unpacked.ratio, unpacked.first) = (100, 4 << 20);
        let error = unpacked.skip_to(u64::MAX).unwrap_err();
        assert!(error.to_string().contains("100 times"), "{error}");
        assert!(unpacked.position() < 10 << 20 && unpacked.has_failed(), "{unpacked:?}");
    }
}
