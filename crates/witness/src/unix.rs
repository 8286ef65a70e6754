//! Unix sockets of this machine, asked from the kernel: what they are bound to, and which socket is at the other end.

use std::collections::HashMap;

use crate::netlink::{ask, attribute, u32_at};

/// One unix socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnixSocket {
    /// The path it is bound to, `@name` for one that is in no file system; empty if it is bound to nothing.
    pub(crate) name: String,
    /// The socket waits for others to connect.
    pub(crate) listens: bool,
    /// Whoever knows its name may send to it.
    pub(crate) datagram: bool,
    /// The number of the socket at the other end; `None` without one, or while that has not been accepted.
    pub(crate) peer: Option<u64>,
    /// Sockets that have connected and not been accepted.
    pub(crate) pending: Vec<u64>,
}

/// By the number that `/proc/PID/fd` shows for them.
pub(crate) type UnixSockets = HashMap<u64, UnixSocket>;

const FAMILY: u8 = 1;
const DATAGRAM: u8 = 2;
const LISTEN: u8 = 10;
/// Asks for name, peer and pending connections.
const SHOW: u32 = 1 | 4 | 8;
const NAME: u16 = 0;
const PEER: u16 = 2;
const PENDING: u16 = 3;
/// Length of `struct unix_diag_msg`.
const SOCKET: usize = 16;

/// All unix sockets in our network namespace; none if the kernel does not say.
pub(crate) fn unix_sockets() -> UnixSockets {
    let mut found = UnixSockets::new();
    let _ = ask(&question(), &mut |message| found.extend(read_socket(message)));
    found
}

/// `struct unix_diag_req`.
fn question() -> Vec<u8> {
    let mut question = vec![FAMILY, 0, 0, 0];
    question.extend(u32::MAX.to_ne_bytes());
    question.extend([0; 4]);
    question.extend(SHOW.to_ne_bytes());
    question.extend([0; 8]);
    question
}

/// `struct unix_diag_msg` and its attributes.
fn read_socket(message: &[u8]) -> Option<(u64, UnixSocket)> {
    let (kind, state) = (*message.get(1)?, *message.get(2)?);
    let inode = u32_at(message, 4)?;
    let attributes = message.get(SOCKET..)?;
    let pending = attribute(attributes, PENDING).unwrap_or_default().chunks_exact(4);
    let socket = UnixSocket {
        name: attribute(attributes, NAME).map(in_words).unwrap_or_default(),
        listens: state == LISTEN,
        datagram: kind == DATAGRAM,
        peer: attribute(attributes, PEER)
            .and_then(|peer| u32_at(peer, 0))
            .filter(|peer| *peer != 0)
            .map(u64::from),
        pending: pending.filter_map(|number| u32_at(number, 0)).map(u64::from).collect(),
    };
    Some((u64::from(inode), socket))
}

/// A name that begins with a zero is not of a file.
fn in_words(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let name = name
        .strip_prefix('\0')
        .map_or_else(|| name.trim_end_matches('\0').to_owned(), |rest| format!("@{rest}"));
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn inode(socket: &impl AsRawFd) -> u64 {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn the_other_end_of_a_pair_is_found() {
        let (one, other) = UnixStream::pair().unwrap();
        let found = unix_sockets();
        assert_eq!(found[&inode(&one)].peer, Some(inode(&other)));
        assert_eq!(found[&inode(&other)].peer, Some(inode(&one)));
        drop(other);
        assert_eq!(unix_sockets()[&inode(&one)].peer, None);
    }

    #[test]
    fn who_has_not_been_accepted_waits_with_the_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        let found = unix_sockets();
        let listens = &found[&inode(&listener)];
        assert!(listens.listens && listens.name == path.to_str().unwrap(), "{listens:?}");
        assert_eq!(listens.pending, [inode(&client)]);
        assert_eq!(found[&inode(&client)].peer, None);
    }
}
