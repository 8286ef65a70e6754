//! The engine's side of its connection to the front. The front may be gone or slow: nothing here ever blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::front::Message;

pub(super) struct Link {
    stream: UnixStream,
    /// The front has gone; there is nothing more to read.
    closed: bool,
}

impl Link {
    pub(super) fn new(fd: OwnedFd) -> Self {
        let stream = UnixStream::from(fd);
        // A socket of our own making can always be made non-blocking; if not, small writes do not block either.
        let _ = stream.set_nonblocking(true);
        Self { stream, closed: false }
    }

    /// Tells a person something now.
    pub(super) fn note(&self, text: &str) {
        self.send(&Message::Note(text.to_owned()));
    }

    /// Tells a person what holds the run up, whatever else is shown. With nobody there, it goes to the engine's log.
    pub(super) fn trouble(&self, text: &str) {
        say(&self.stream, text);
    }

    pub(super) fn send(&self, message: &Message) {
        send(&self.stream, message);
    }

    /// For another thread to speak with.
    pub(super) fn as_voice(&self) -> Voice {
        Voice(self.stream.try_clone().ok())
    }

    /// Signals the front passed on since the last call.
    pub(super) fn signals(&mut self) -> Vec<i32> {
        let mut buffer = [0; 256];
        let mut signals = Vec::new();
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.closed = true;
                    return signals;
                }
                Ok(read) => {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    signals.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
                }
                Err(error) => {
                    // Any other error would be told again and again.
                    let later = [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted];
                    self.closed |= !later.contains(&error.kind());
                    return signals;
                }
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Speaks to the front, hears nothing.
pub(super) struct Voice(Option<UnixStream>);

impl Voice {
    /// As [`Link::trouble`].
    pub(super) fn trouble(&self, text: &str) {
        if let Some(stream) = &self.0 {
            say(stream, text);
        }
    }
}

fn say(stream: &UnixStream, text: &str) {
    if !send(stream, &Message::Trouble(text.to_owned())) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Lost if nobody listens, which is `false`; what matters is in the journal.
fn send(mut stream: &UnixStream, message: &Message) -> bool {
    let line = serde_json::to_vec(message).map(|mut line| {
        line.push(b'\n');
        line
    });
    line.is_ok_and(|line| stream.write_all(&line).is_ok())
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
