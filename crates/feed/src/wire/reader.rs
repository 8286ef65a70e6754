//! Frames out of a stream of bytes that may end, stall or lie anywhere.
//!
//! Every length is checked before anything is allocated for it, and memory grows only as bytes arrive. A body is read
//! straight to where it stays.

use std::io;
use std::os::fd::AsFd;

use serde::Deserialize;

use super::{FromWorker, MAGIC, MOST_BODY, MOST_HEAD, PREFIX, PROTOCOL, ToWorker};

/// Room made ahead of the bytes when a frame's part is longer than this.
const AHEAD: usize = 1 << 20;

/// Why a stream is no stream of frames. There is no going on after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The first bytes are others.
    #[error("not a frame of gpulane's worker protocol (it begins with {0:02x?})")]
    Magic([u8; 4]),
    /// Another version.
    #[error("the other side speaks version {0} of the worker protocol, this gpulane speaks {PROTOCOL}")]
    Version(u8),
    /// The head is longer than heads can be.
    #[error("a frame's head of {0} bytes is longer than {MOST_HEAD}")]
    HeadTooLong(u32),
    /// The body is longer than bodies can be, or this kind of frame has none.
    #[error("a body of {0} bytes is longer than this frame may have")]
    BodyTooLong(u64),
    /// The head is no JSON object with a `frame`.
    #[error("a frame's head cannot be read: {0}")]
    Head(String),
}

/// A frame as it came: checked as a frame, its fields not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// JSON.
    pub head: Vec<u8>,
    /// What follows it.
    pub body: Vec<u8>,
}

impl RawFrame {
    /// What a worker or loader says with it.
    pub fn from_worker(&self) -> Result<FromWorker, WireError> {
        serde_json::from_slice(&self.head).map_err(|error| WireError::Head(error.to_string()))
    }

    /// What the feeder says with it.
    pub fn to_worker(&self) -> Result<ToWorker, WireError> {
        serde_json::from_slice(&self.head).map_err(|error| WireError::Head(error.to_string()))
    }
}

/// How far [`FrameReader::read_from`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A frame is there, or what came is no frame: see [`FrameReader::next`], then read on.
    Ready,
    /// No more for now.
    Later,
    /// The other side has closed.
    Closed,
}

/// Reads frames from one connection.
#[derive(Debug)]
pub struct FrameReader {
    /// Which part of a frame is being read, and how long that is.
    part: Part,
    /// The part itself. It grows as bytes come, so a length alone costs no memory.
    bytes: Vec<u8>,
    /// How much of `bytes` has come.
    filled: usize,
    /// The head, while the body is being read.
    head: Vec<u8>,
    /// The length the body will have, while the head is being read.
    body_len: usize,
    /// What has been read and not been taken: a whole frame, or the end.
    done: Option<Result<RawFrame, WireError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Prefix,
    Head(usize),
    Body(usize),
}

impl Part {
    const fn len(self) -> usize {
        match self {
            Self::Prefix => PREFIX,
            Self::Head(len) | Self::Body(len) => len,
        }
    }
}

#[derive(Deserialize)]
struct Kind {
    frame: String,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// At the beginning of a connection.
    pub const fn new() -> Self {
        Self { part: Part::Prefix, bytes: Vec::new(), filled: 0, head: Vec::new(), body_len: 0, done: None }
    }

    /// Reads until a frame is there or the socket has no more.
    pub fn read_from(&mut self, socket: impl AsFd) -> io::Result<Progress> {
        while self.done.is_none() {
            match rustix::io::read(&socket, self.room()) {
                Ok(0) => return Ok(Progress::Closed),
                Ok(read) => self.advance(read),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(Progress::Later),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Progress::Ready)
    }

    /// Takes bytes that were read elsewhere, up to the end of a frame. Gives how many it took.
    pub fn push(&mut self, mut bytes: &[u8]) -> usize {
        let before = bytes.len();
        while self.done.is_none() && !bytes.is_empty() {
            let room = self.room();
            let now = room.len().min(bytes.len());
            room[..now].copy_from_slice(&bytes[..now]);
            bytes = &bytes[now..];
            self.advance(now);
        }
        before - bytes.len()
    }

    /// The frame that is there. An error stays: the connection is of no more use.
    #[allow(clippy::should_implement_trait)] // an iterator's end means something else
    pub fn next(&mut self) -> Result<Option<RawFrame>, WireError> {
        match self.done.take() {
            Some(Err(error)) => {
                self.done = Some(Err(error.clone()));
                Err(error)
            }
            other => other.transpose(),
        }
    }

    /// Bytes of memory held for frames that have not been taken.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.head.capacity()
    }

    /// Where the next bytes go. Never empty: a part of no length is passed over at once.
    fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            let missing = self.part.len() - self.filled;
            // Doubling beyond the first step, so that a long body is moved a few times at most.
            self.bytes.resize(self.filled + missing.min(AHEAD.max(self.filled)), 0);
        }
        &mut self.bytes[self.filled..]
    }

    fn advance(&mut self, read: usize) {
        self.filled += read;
        while self.done.is_none() && self.filled == self.part.len() {
            let part = std::mem::take(&mut self.bytes);
            self.filled = 0;
            if let Err(error) = self.end_part(part) {
                self.done = Some(Err(error));
            }
        }
    }

    fn end_part(&mut self, bytes: Vec<u8>) -> Result<(), WireError> {
        match self.part {
            Part::Prefix => {
                let (head, body) = lengths(&bytes)?;
                self.part = Part::Head(head);
                self.body_len = body;
            }
            Part::Head(_) => {
                let kind: Kind =
                    serde_json::from_slice(&bytes).map_err(|error| WireError::Head(error.to_string()))?;
                if self.body_len > 0 && kind.frame != "results" {
                    return Err(WireError::BodyTooLong(self.body_len as u64));
                }
                self.part = Part::Body(self.body_len);
                self.head = bytes;
            }
            Part::Body(_) => {
                self.part = Part::Prefix;
                let head = std::mem::take(&mut self.head);
                self.done = Some(Ok(RawFrame { head, body: bytes }));
            }
        }
        Ok(())
    }
}

/// The lengths of head and body that a prefix announces.
fn lengths(prefix: &[u8]) -> Result<(usize, usize), WireError> {
    let wrong = || WireError::Magic([0; 4]);
    let start: [u8; 4] = prefix.get(..4).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
    let head: [u8; 4] = prefix.get(4..8).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
    let body: [u8; 8] = prefix.get(8..16).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
    let (head, body) = (u32::from_le_bytes(head), u64::from_le_bytes(body));
    if start[..2] != MAGIC {
        return Err(WireError::Magic(start));
    }
    if start[2] != PROTOCOL {
        return Err(WireError::Version(start[2]));
    }
    if start[3] != 0 {
        return Err(WireError::Magic(start));
    }
    if head > MOST_HEAD {
        return Err(WireError::HeadTooLong(head));
    }
    let body =
        usize::try_from(body).ok().filter(|_| body <= MOST_BODY).ok_or(WireError::BodyTooLong(body))?;
    Ok((head as usize, body))
}
