//! Lines of a file of any size, without an allocation a line.

use std::io::{self, Read};

/// Longer than any path or row of a table; what is longer is no text file.
const LONGEST: usize = 64 << 20;
const CHUNK: usize = 1 << 20;

/// Reads lines one after the other into one buffer.
pub(crate) struct Lines<R> {
    source: R,
    /// Holds the line being handed out and what was read beyond it.
    buffer: Vec<u8>,
    /// The part of the buffer that was not handed out yet.
    start: usize,
    end: usize,
    /// The file has been read to its end.
    over: bool,
    /// Lines handed out, to name one.
    number: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; CHUNK], start: 0, end: 0, over: false, number: 0 }
    }

    /// The next line with its number from 1, without its end (`\n` or `\r\n`).
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let mut searched = self.start;
        let end = loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                break searched + found;
            }
            if self.over {
                if self.start == self.end {
                    return Ok(None);
                }
                break self.end;
            }
            let unread = self.end - self.start;
            self.fill()?;
            searched = self.start + unread;
        };
        let mut line = self.start..end;
        self.start = (end + 1).min(self.end);
        self.number += 1;
        if self.number == 1 && self.buffer[line.clone()].starts_with(b"\xef\xbb\xbf") {
            line.start += 3;
        }
        if self.buffer[line.clone()].ends_with(b"\r") {
            line.end -= 1;
        }
        Ok(Some((self.number, &self.buffer[line])))
    }

    /// Reads more, after moving what is left to the front.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            if self.end >= LONGEST {
                let why = format!("line {} is longer than {} MiB", self.number + 1, LONGEST >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            self.buffer.resize(self.end * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let some = self.1.min(out.len());
            (&mut self.0).take(some as u64).read(out)
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\n\r]{0,60}", drop in 1..7_usize) {
            let mut lines = Lines::new(Drops(text.as_bytes(), drop));
            lines.buffer = vec![0; 1];
            let mut read = Vec::new();
            while let Some((_, line)) = lines.next().unwrap() {
                read.push(String::from_utf8(line.to_vec()).unwrap());
            }
            let whole = text.strip_suffix('\n').unwrap_or(&text);
            let wanted: Vec<_> = if text.is_empty() {
                Vec::new()
            } else {
                whole.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).to_owned()).collect()
            };
            prop_assert_eq!(read, wanted);
        }
    }

    #[test]
    fn a_line_without_end_is_refused_in_bounded_memory() {
        let mut lines = Lines::new(io::repeat(b'x'));
        let error = lines.next().unwrap_err();
        assert!(error.to_string().contains("longer than 64 MiB"), "{error}");
    }
}
