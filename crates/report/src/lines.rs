//! Bytes to lines: what a job prints arrives in chunks cut anywhere and leaves as whole lines. Knows `\n`, `\r\n`
//! and the lone `\r` of progress bars, of which only the newest segment counts. Holds at most one line.

/// A line is cut here in live views; the log file has all of it.
pub(crate) const LIVE_LINE: usize = 8 * 1024;

/// One finished line, still as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Without its line end.
    pub(crate) text: &'a [u8],
    /// It was longer than the limit.
    pub(crate) cut: bool,
}

/// Where in a line the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a line without `\r` so far.
    Plain,
    /// Behind a `\r`: in a progress bar.
    Bar,
    /// The last byte was `\r`: the next one decides whether it ends the line or starts a segment.
    Returned {
        /// It was not the line's first.
        bar: bool,
    },
    /// Bytes were jumped over: what follows is no line until the next line end.
    Lost,
}

/// Assembles the lines of one stream.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The newest segment of the line being written.
    text: Vec<u8>,
    /// Most bytes of a line that are kept.
    limit: usize,
    /// The segment was longer than `limit`.
    cut: bool,
    place: Place,
}

impl Lines {
    /// An assembler that keeps at most `limit` bytes of a line.
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: Vec::new(), limit, cut: false, place: Place::Plain }
    }

    /// Takes in a chunk and hands out the lines it completes.
    pub(crate) fn push(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        if self.place == Place::Lost {
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else { return };
            bytes = &bytes[end + 1..];
            self.place = Place::Plain;
        }
        while !bytes.is_empty() {
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len());
            if end > 0 {
                self.append(&bytes[..end]);
            }
            match bytes.get(end) {
                Some(b'\n') => self.end_line(each),
                Some(_) => self.place = Place::Returned { bar: self.place != Place::Plain },
                None => {}
            }
            bytes = bytes.get(end + 1..).unwrap_or_default();
        }
    }

    /// The stream is over: hands out a last line that had no line end.
    pub(crate) fn finish(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        if !self.text.is_empty() {
            self.end_line(each);
        }
        self.restart(Place::Plain);
    }

    /// Bytes were jumped over: forgets the line begun and waits for the next one.
    pub(crate) fn jump(&mut self) {
        self.restart(Place::Lost);
    }

    /// The line being written, and whether it is a progress bar.
    pub(crate) fn unfinished(&self) -> Option<(&[u8], bool)> {
        let text = self.text.trim_ascii_end();
        (!text.is_empty()).then_some((text, self.place != Place::Plain))
    }

    fn append(&mut self, bytes: &[u8]) {
        if matches!(self.place, Place::Returned { .. }) {
            self.restart(Place::Bar);
        }
        let room = self.limit.saturating_sub(self.text.len());
        self.cut |= bytes.len() > room;
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        // A bar that wiped itself out leaves nothing to show.
        let bar = matches!(self.place, Place::Bar | Place::Returned { bar: true });
        if !(bar && self.text.trim_ascii().is_empty()) {
            each(Line { text: &self.text, cut: self.cut });
        }
        self.restart(Place::Plain);
    }

    fn restart(&mut self, place: Place) {
        self.text.clear();
        self.cut = false;
        self.place = place;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines_of(chunks: &[&[u8]], limit: usize) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut lines = Lines::new(limit);
        let mut keep =
            |line: Line<'_>| found.push((String::from_utf8_lossy(line.text).into_owned(), line.cut));
        for chunk in chunks {
            lines.push(chunk, &mut keep);
        }
        lines.finish(&mut keep);
        found
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        lines_of(&[bytes], LIVE_LINE).into_iter().map(|(text, _)| text).collect()
    }

    #[test]
    fn line_ends_of_all_kinds() {
        assert_eq!(texts(b"a\nb\r\n\nc"), ["a", "b", "", "c"]);
        assert_eq!(texts(b""), [""; 0]);
        assert_eq!(texts(b"a\r\r\nb\r"), ["a", "b"]);
    }

    #[test]
    fn of_a_progress_bar_only_the_newest_segment_counts() {
        assert_eq!(texts(b"\r 10%\r 50%\r100%\ndone\n"), ["100%", "done"]);
        assert_eq!(texts(b"10%\r50%\r100%\r\n"), ["100%"]);
        assert_eq!(texts(b"\r 10%\r     \rnext\n"), ["next"]);
        assert_eq!(texts(b"\r 10%\r     \r\n"), [""; 0]);
    }

    #[test]
    fn the_unfinished_text_is_known_as_bar_or_plain() {
        let mut lines = Lines::new(LIVE_LINE);
        lines.push(b"loading ", &mut |_| {});
        assert_eq!(lines.unfinished(), Some((&b"loading"[..], false)));
        lines.push(b"\r 10%", &mut |_| {});
        assert_eq!(lines.unfinished(), Some((&b" 10%"[..], true)));
        lines.push(b"\r", &mut |_| {});
        assert_eq!(lines.unfinished(), Some((&b" 10%"[..], true)));
        lines.push(b"\n", &mut |_| {});
        assert_eq!(lines.unfinished(), None);
    }

    #[test]
    fn a_long_line_is_cut_once_and_says_so() {
        assert_eq!(lines_of(&[b"abcdef\nab\n"], 4), [("abcd".to_owned(), true), ("ab".to_owned(), false)]);
    }

    #[test]
    fn after_a_jump_lines_start_at_the_next_line_end() {
        let mut lines = Lines::new(LIVE_LINE);
        let mut found = Vec::new();
        lines.push(b"half", &mut |_| {});
        lines.jump();
        lines.push(b"rest of some", &mut |line| found.push(line.text.to_vec()));
        lines.push(b" line\nwhole\n", &mut |line| found.push(line.text.to_vec()));
        assert_eq!(found, [b"whole".to_vec()]);
    }

    proptest! {
        #[test]
        fn chunks_split_anywhere_give_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0_usize..200, 0..20),
            limit in 1_usize..40,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks: Vec<&[u8]> = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(lines_of(&chunks, limit), lines_of(&[&bytes], limit));
        }
    }
}
