//! Where lines and frames go: one write per flush, the frame always below the lines. Leaves no state in the
//! terminal (no hidden cursor, no raw mode), so that even SIGKILL or Ctrl-Z leaves it usable.

use std::io::{self, Write};

use crate::text::Drawn;

/// A writer that may go away. Once it took no more, nothing is written to it again.
pub(crate) struct Sink {
    writer: Box<dyn Write>,
    gone: bool,
}

impl Sink {
    pub(crate) fn new(writer: Box<dyn Write>) -> Self {
        Self { writer, gone: false }
    }

    /// Writes all of it and flushes. A reader that left is no error; anything else is one, once.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.gone || bytes.is_empty() {
            return Ok(());
        }
        match self.write_all(bytes) {
            Ok(()) => Ok(()),
            Err(error) => {
                // EIO is what a terminal says that was closed under us.
                let left = error.kind() == io::ErrorKind::BrokenPipe
                    || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
                self.gone = true;
                if left { Ok(()) } else { Err(error) }
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.writer.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some program made our shared terminal non-blocking.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
        self.writer.flush()
    }
}

/// Lines, and below them a frame that is drawn over.
pub(crate) struct Screen {
    sink: Sink,
    /// Lines not yet written.
    lines: String,
    /// What stands at the bottom of the terminal now.
    frame: Vec<Drawn>,
}

impl Screen {
    pub(crate) fn new(writer: Box<dyn Write>) -> Self {
        Self { sink: Sink::new(writer), lines: String::new(), frame: Vec::new() }
    }

    /// Adds a line; written at the next flush.
    pub(crate) fn line(&mut self, text: &str) {
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    /// Adds lines.
    pub(crate) fn lines(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line);
        }
    }

    /// Bytes of lines that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.lines.len()
    }

    /// Writes the waiting lines. There must be no frame.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let lines = std::mem::take(&mut self.lines);
        self.sink.write(lines.as_bytes())
    }

    /// Writes the waiting lines and the frame below them, if either is new. `columns`: the terminal's width now.
    pub(crate) fn draw(&mut self, frame: Vec<Drawn>, columns: usize) -> io::Result<()> {
        if self.lines.is_empty() && frame == self.frame {
            return Ok(());
        }
        // Synchronised update: terminals that know it show the change at once, others ignore it.
        let mut text = String::from("\x1b[?2026h");
        self.home(&mut text, columns);
        if !self.lines.is_empty() {
            text.push_str("\x1b[J");
            text.push_str(&self.lines);
            self.lines.clear();
        }
        for (at, line) in frame.iter().enumerate() {
            if at > 0 {
                text.push('\n');
            }
            text.push_str(&line.text);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J\x1b[?2026l");
        self.frame = frame;
        self.sink.write(text.as_bytes())
    }

    /// Takes the frame away and writes the waiting lines where it was.
    pub(crate) fn close(&mut self, columns: usize) -> io::Result<()> {
        if self.frame.is_empty() {
            return self.flush();
        }
        let mut text = String::new();
        self.home(&mut text, columns);
        text.push_str("\x1b[J");
        text.push_str(&std::mem::take(&mut self.lines));
        self.frame.clear();
        self.sink.write(text.as_bytes())
    }

    /// The writer takes no more.
    pub(crate) fn is_gone(&self) -> bool {
        self.sink.gone
    }

    /// Leaves the frame where it is and goes on below it.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        let below = if self.frame.is_empty() { "" } else { "\n" };
        self.frame.clear();
        self.sink.write(below.as_bytes())
    }

    /// Moves the cursor from the end of the frame to its start. A terminal that became narrower has wrapped the
    /// frame's lines, so rows are counted for its width now.
    fn home(&self, text: &mut String, columns: usize) {
        let rows: usize = self.frame.iter().map(|line| line.width.div_ceil(columns.max(1)).max(1)).sum();
        text.push('\r');
        if rows > 1 {
            text.push_str(&format!("\x1b[{}A", rows - 1));
        }
    }
}
