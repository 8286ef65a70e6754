//! Follows one log file as it grows. Holds no file open between looks, so a thousand lanes cost no descriptors; a
//! log that did not grow costs one `stat`.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::lines::{Line, Lines};

/// Read at once.
const CHUNK: usize = 64 * 1024;
/// What is shown of a log that was too far ahead.
const KEEP: u64 = 64 * 1024;

/// How much of a log is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most bytes of a line.
    pub(crate) line: usize,
    /// When more than this is unread, all but the end is jumped over.
    pub(crate) behind: u64,
}

/// What a look at a log found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// A whole line.
    Line(Line<'a>),
    /// So many bytes were jumped over.
    Jumped(u64),
}

/// Takes what was found, and the file it is in.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Found<'_>, &Path);

/// One log file and how far it was read.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    /// Bytes read or jumped over.
    offset: u64,
    lines: Lines,
    limits: Limits,
}

impl Tail {
    /// A follower of the file, from its start. It need not exist yet.
    pub(crate) fn new(path: PathBuf, limits: Limits) -> Self {
        Self { path, offset: 0, lines: Lines::new(limits.line), limits }
    }

    /// Leaves out what is there already, but for its last `keep` bytes.
    pub(crate) fn skip_to_end(&mut self, keep: u64) {
        let length = self.length();
        if length > keep {
            self.offset = length - keep;
            self.lines.jump();
        }
    }

    /// Hands out what is new, reading about `budget` bytes at most; says how many it read. A log that cannot be
    /// read shows nothing: that must not trouble the run's view.
    pub(crate) fn poll(&mut self, budget: usize, chunk: &mut Vec<u8>, each: Each<'_>) -> usize {
        let length = self.length();
        // Cut short by someone: go on from its new end.
        self.offset = self.offset.min(length);
        let behind = length - self.offset;
        if behind == 0 {
            return 0;
        }
        if behind > self.limits.behind {
            let jump = behind - KEEP.min(behind);
            self.offset += jump;
            self.lines.jump();
            each(Found::Jumped(jump), &self.path);
        }
        self.read(budget, chunk, each).unwrap_or(0)
    }

    /// The job has ended: hands out all the rest, also a last line without a line end.
    pub(crate) fn finish(&mut self, chunk: &mut Vec<u8>, each: Each<'_>) -> usize {
        let mut read = 0;
        loop {
            match self.poll(usize::MAX, chunk, each) {
                0 => break,
                more => read += more,
            }
        }
        let Self { lines, path, .. } = self;
        lines.finish(&mut |line| each(Found::Line(line), path));
        read
    }

    /// The line being written, and whether it is a progress bar.
    pub(crate) fn unfinished(&self) -> Option<(&[u8], bool)> {
        self.lines.unfinished()
    }

    fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    fn read(&mut self, budget: usize, chunk: &mut Vec<u8>, each: Each<'_>) -> io::Result<usize> {
        let file = gpulane_files::open(&self.path)?;
        chunk.resize(CHUNK, 0);
        let mut total = 0;
        while total < budget {
            let read = match file.read_at(chunk, self.offset) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.offset += read as u64;
            total += read;
            let Self { lines, path, .. } = self;
            lines.push(&chunk[..read], &mut |line| each(Found::Line(line), path));
            // A short read is the end: spare the call that says so.
            if read < chunk.len() {
                break;
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMITS: Limits = Limits { line: 100, behind: 1 << 20 };

    fn look(tail: &mut Tail, budget: usize) -> Vec<String> {
        let mut found = Vec::new();
        tail.poll(budget, &mut Vec::new(), &mut |what, _| found.push(word(what)));
        found
    }

    fn word(found: Found<'_>) -> String {
        match found {
            Found::Line(line) => String::from_utf8_lossy(line.text).into_owned(),
            Found::Jumped(bytes) => format!("jumped {bytes}"),
        }
    }

    #[test]
    fn shows_whole_lines_as_they_come() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        let mut tail = Tail::new(path.clone(), LIMITS);
        assert!(look(&mut tail, 1).is_empty(), "a file that is not there yet is no trouble");
        let mut file = fs::File::create(&path).unwrap();
        write!(file, "one\ntw").unwrap();
        assert_eq!(look(&mut tail, usize::MAX), ["one"]);
        write!(file, "o\nthree").unwrap();
        assert_eq!(look(&mut tail, usize::MAX), ["two"]);
        let mut last = Vec::new();
        tail.finish(&mut Vec::new(), &mut |what, _| last.push(word(what)));
        assert_eq!(last, ["three"]);
    }

    #[test]
    fn a_flood_is_jumped_over_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        fs::write(&path, b"0123456789abcde\n".repeat(200_000)).unwrap();
        let mut tail = Tail::new(path, LIMITS);
        let found = look(&mut tail, usize::MAX);
        assert_eq!(found[0], format!("jumped {}", 3_200_000 - KEEP));
        // The line the jump landed at the start of counts as half: one of 4096 is left out.
        assert_eq!(found.len(), 1 + 4095);
        assert!(found[1..].iter().all(|line| line == "0123456789abcde"));
    }

    #[test]
    fn work_per_look_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        fs::write(&path, b"0123456789abcde\n".repeat(60_000)).unwrap();
        let mut tail = Tail::new(path, LIMITS);
        assert_eq!(look(&mut tail, 256 * 1024).len(), 256 * 1024 / 16);
    }

    #[test]
    fn a_log_cut_short_goes_on_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        fs::write(&path, "long text\n").unwrap();
        let mut tail = Tail::new(path.clone(), LIMITS);
        assert_eq!(look(&mut tail, usize::MAX), ["long text"]);
        fs::write(&path, "a\n").unwrap();
        assert!(look(&mut tail, usize::MAX).is_empty());
        fs::write(&path, "a\nb\n").unwrap();
        assert_eq!(look(&mut tail, usize::MAX), ["b"]);
    }
}
