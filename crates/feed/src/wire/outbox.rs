//! Bytes on their way to a socket that may not take them yet.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// How long a peer may leave a frame with a descriptor half taken.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Frames that wait for a non-blocking socket, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Frames, the first perhaps partly sent.
    waiting: VecDeque<Parcel>,
    /// Bytes of the first that have gone.
    sent: usize,
}

#[derive(Debug)]
struct Parcel {
    bytes: Vec<u8>,
    /// Goes with the first byte.
    descriptor: Option<OwnedFd>,
}

impl Outbox {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a frame behind the others.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.put(bytes, None);
    }

    /// Puts a frame behind the others; the descriptor goes with its first byte.
    pub fn push_with_fd(&mut self, bytes: Vec<u8>, descriptor: OwnedFd) {
        self.put(bytes, Some(descriptor));
    }

    fn put(&mut self, bytes: Vec<u8>, descriptor: Option<OwnedFd>) {
        if !bytes.is_empty() {
            self.waiting.push_back(Parcel { bytes, descriptor });
        }
    }

    /// Whether everything has gone.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.waiting.iter().map(|parcel| parcel.bytes.len()).sum::<usize>() - self.sent
    }

    /// Sends what the socket takes. True: all has gone; false: call again when the socket is writable.
    pub fn write_to(&mut self, socket: impl AsFd) -> io::Result<bool> {
        while let Some(parcel) = self.waiting.front_mut() {
            let descriptor = parcel.descriptor.as_ref().map(AsFd::as_fd);
            match send(socket.as_fd(), &parcel.bytes[self.sent..], descriptor) {
                Ok(now) => {
                    self.sent += now;
                    // It has gone with the first byte and must not go twice.
                    parcel.descriptor = None;
                    if self.sent == parcel.bytes.len() {
                        self.waiting.pop_front();
                        self.sent = 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(true)
    }
}

/// Sends a frame with a descriptor on its first byte, and returns when all of it has gone, whether the socket
/// blocks or not. A peer that takes nothing for 10 s is an error.
pub fn send_with_fd(socket: impl AsFd, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let (mut sent, mut descriptor) = (0, Some(descriptor));
    while sent < bytes.len() {
        match send(socket.as_fd(), &bytes[sent..], descriptor) {
            Ok(now) => {
                sent += now;
                descriptor = None;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => until_writable(socket.as_fd())?,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn until_writable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut wanted = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    match rustix::event::poll(&mut wanted, Some(&PATIENCE)) {
        Ok(0) => Err(io::Error::new(io::ErrorKind::TimedOut, "the other side takes nothing")),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<usize, Errno> {
    // A peer that is gone is an error here, not a signal.
    let Some(descriptor) = descriptor else {
        return rustix::net::send(socket, bytes, SendFlags::NOSIGNAL);
    };
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
}
