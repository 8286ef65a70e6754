//! One worker's socket: what it has said so far, what is still to be sent to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use gpulane_feed::wire::{self, FrameReader, Outbox, RawFrame, ToWorker};

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Connected, has not said who it is.
    Strange,
    /// Loads its model.
    SettingUp,
    /// Takes batches.
    Working,
    /// Was told that there is nothing more, or is to be ended: what it says does not count.
    Leaving,
}

/// What came from a worker.
pub(crate) enum Heard {
    /// A whole frame; there may be more.
    Frame(RawFrame),
    /// Nothing more for now.
    Nothing,
    /// The other end is closed.
    Closed,
    /// It does not speak our language.
    Nonsense(String),
}

/// A worker's connection.
pub(crate) struct Connection {
    /// How far it is.
    pub(crate) progress: Progress,
    /// `STAGE/worker-0`, for messages.
    pub(crate) job: String,
    /// The attempt of that job: its log is kept under this number.
    pub(crate) attempt: u32,
    /// Seconds its model has worked since it is there.
    pub(crate) model_seconds: f64,
    /// The same for copies to its device.
    pub(crate) copy_seconds: f64,
    /// The same for waiting for a batch.
    pub(crate) wait_seconds: f64,
    /// Since when its model has worked on so many items without an answer.
    pub(crate) clock: Option<(Instant, u32)>,
    /// Since when it has had nothing to do.
    pub(crate) idle: Option<Instant>,
    stream: UnixStream,
    reader: FrameReader,
    outbox: Outbox,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            progress: Progress::Strange,
            job: String::new(),
            attempt: 0,
            model_seconds: 0.0,
            copy_seconds: 0.0,
            wait_seconds: 0.0,
            clock: None,
            idle: None,
            stream,
            reader: FrameReader::new(),
            outbox: Outbox::default(),
        })
    }

    /// Sends a frame, as far as the socket takes it; the rest follows by `flush`.
    pub(crate) fn send(&mut self, frame: &ToWorker) -> io::Result<()> {
        self.outbox.push(wire::encode(frame, 0));
        self.flush()
    }

    /// Sends a frame with a copy of a descriptor.
    pub(crate) fn send_with_fd(&mut self, frame: &ToWorker, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.outbox.push_with_fd(wire::encode(frame, 0), fd.try_clone_to_owned()?);
        self.flush()
    }

    /// Sends what waits. `Ok` also if the socket is full.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.outbox.write_to(&self.stream).map(|_| ())
    }

    /// Whether something waits to be sent.
    pub(crate) fn has_more(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Reads on until a frame is whole or no more has come.
    pub(crate) fn hear(&mut self) -> Heard {
        let read = self.reader.read_from(&self.stream);
        match self.reader.next() {
            Ok(Some(frame)) => return Heard::Frame(frame),
            Ok(None) => {}
            Err(error) => return Heard::Nonsense(error.to_string()),
        }
        match read {
            Ok(wire::Progress::Later | wire::Progress::Ready) => Heard::Nothing,
            Ok(wire::Progress::Closed) | Err(_) => Heard::Closed,
        }
    }

    /// Gives the socket away: a loader's belongs to the thread it serves.
    pub(crate) fn into_stream(self) -> io::Result<UnixStream> {
        self.stream.set_nonblocking(false)?;
        Ok(self.stream)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
