//! The other ends of sockets: by the kernel's numbers, with the name of each connection.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::targets::Target;
use crate::sockets::{TcpSocket, TcpSockets};
use crate::unix::{UnixSocket, UnixSockets, unix_sockets};

/// The other end of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Sockets of this machine, any of which can send; and what the connection is.
    Sockets(Vec<u64>, String),
    /// Whoever connects to it: where it listens.
    Listener(String),
    /// Not on this machine, or not to be seen.
    Outside(String),
}

/// All that is known of other ends.
#[derive(Default)]
pub(super) struct Peers {
    tcp: HashMap<u64, TcpSocket>,
    /// By both addresses, the own first.
    ends: HashMap<(SocketAddr, SocketAddr), u64>,
    /// By the address where they listen.
    listeners: HashMap<SocketAddr, Vec<u64>>,
    unix: UnixSockets,
}

impl Peers {
    /// Of what is waited for; unix sockets are asked for only if there is one.
    pub(super) fn of<'a>(targets: impl Iterator<Item = &'a Target>, tcp: &TcpSockets) -> Self {
        let sockets: Vec<u64> = targets
            .filter_map(|target| match target {
                Target::Socket(inode) => Some(*inode),
                _ => None,
            })
            .collect();
        if sockets.is_empty() {
            return Self::default();
        }
        let mut peers = Self { tcp: tcp.clone(), ..Self::default() };
        if sockets.iter().any(|inode| !tcp.contains_key(inode)) {
            peers.unix = unix_sockets();
        }
        // One that was not accepted yet has no number.
        for (inode, socket) in tcp.iter().filter(|(inode, _)| **inode != 0) {
            if socket.listens {
                peers.listeners.entry(socket.local).or_default().push(*inode);
            } else {
                peers.ends.insert((socket.local, socket.address), *inode);
            }
        }
        peers
    }

    pub(super) fn end(&self, inode: u64) -> End {
        if let Some(socket) = self.tcp.get(&inode) {
            return self.tcp_end(socket);
        }
        match self.unix.get(&inode) {
            Some(socket) => self.unix_end(inode, socket),
            None => End::Outside("a socket that is neither TCP nor unix, or of another network".to_owned()),
        }
    }

    /// In words, as it stands behind a wait.
    pub(super) fn name(&self, inode: u64) -> String {
        match self.unix.get(&inode) {
            Some(socket) if socket.listens => format!("socket that listens on {}", socket.name),
            Some(socket) => format!("socket {}", self.unix_name(socket)),
            None => "socket".to_owned(),
        }
    }

    fn tcp_end(&self, socket: &TcpSocket) -> End {
        let TcpSocket { local, address, listens, .. } = socket;
        if *listens {
            return End::Listener(local.to_string());
        }
        let what = format!("the connection {local} → {address}");
        if let Some(other) = self.ends.get(&(*address, *local)) {
            return End::Sockets(vec![*other], what);
        }
        // Connected, but not accepted: then whoever listens there will answer, or nobody.
        let waiting = self.listeners.iter().filter(|(at, _)| {
            at.port() == address.port() && (at.ip() == address.ip() || at.ip().is_unspecified())
        });
        let waiting: Vec<u64> = waiting.flat_map(|(_, inodes)| inodes).copied().collect();
        if address.ip().is_loopback() && !waiting.is_empty() {
            return End::Sockets(waiting, format!("{what}, which was not accepted"));
        }
        End::Outside(format!("{address}, at the other end of a connection"))
    }

    fn unix_end(&self, inode: u64, socket: &UnixSocket) -> End {
        let name = self.unix_name(socket);
        if socket.listens {
            return End::Listener(socket.name.clone());
        }
        if socket.datagram && !socket.name.is_empty() {
            return End::Outside(format!("anybody who sends to {}", socket.name));
        }
        let what = format!("unix socket {name}");
        if let Some(peer) = socket.peer {
            return End::Sockets(vec![peer], what);
        }
        let listener = self.unix.iter().find(|(_, other)| other.pending.contains(&inode));
        match listener {
            Some((listener, other)) => {
                End::Sockets(vec![*listener], format!("unix socket {}, which was not accepted", other.name))
            }
            None => End::Outside(format!("{what}, which has no other end")),
        }
    }

    /// Its own name, or that of the other end; a pair has none.
    fn unix_name(&self, socket: &UnixSocket) -> String {
        let other = || Some(self.unix.get(&socket.peer?)?.name.clone());
        let named = |name: &String| !name.is_empty();
        Some(socket.name.clone())
            .filter(named)
            .or_else(|| other().filter(named))
            .unwrap_or_else(|| "of a pair".to_owned())
    }
}
