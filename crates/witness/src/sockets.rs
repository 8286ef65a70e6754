//! TCP sockets of this machine, asked from the kernel: who is at the other end, and how many bytes have passed.
//! A process that waits for a peer that sends is alive, and nothing in `/proc` counts those bytes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::netlink::{ask, attribute, u32_at, u64_at};

/// One TCP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpSocket {
    /// Its own end.
    pub(crate) local: SocketAddr,
    /// The other end; its own address for one that listens.
    pub(crate) address: SocketAddr,
    /// The socket waits for others to connect.
    pub(crate) listens: bool,
    /// Bytes received, and sent and acknowledged.
    pub(crate) bytes: u64,
}

/// By the number that `/proc/PID/fd` shows for them.
pub(crate) type TcpSockets = HashMap<u64, TcpSocket>;

const FAMILIES: [u8; 2] = [2, 10];
const TCP: u8 = 6;
const LISTEN: u8 = 10;
/// All states but `TIME_WAIT`, which belongs to no process any more.
const STATES: u32 = !(1 << 6);
/// Asks for `struct tcp_info` with each socket.
const INFO: u16 = 2;
/// Length of `struct inet_diag_msg`.
const SOCKET: usize = 72;

/// All TCP sockets in our network namespace; none if the kernel does not say.
pub(crate) fn tcp_sockets() -> TcpSockets {
    let mut found = TcpSockets::new();
    for family in FAMILIES {
        // Half an answer is worth having: the sum of bytes is only compared with the next one.
        let _ = ask(&question(family), &mut |message| found.extend(read_socket(message)));
    }
    found
}

/// `struct inet_diag_req_v2`; a dump looks at nothing of the socket's own name.
fn question(family: u8) -> Vec<u8> {
    let mut question = vec![family, TCP, 1 << (INFO - 1), 0];
    question.extend(STATES.to_ne_bytes());
    question.extend([0; 48]);
    question
}

/// `struct inet_diag_msg` and its attributes.
fn read_socket(message: &[u8]) -> Option<(u64, TcpSocket)> {
    let (family, state) = (*message.first()?, *message.get(1)?);
    let listens = state == LISTEN;
    let inode = u32_at(message, 68)?;
    let end = |port_at: usize, address_at: usize| {
        let port = u16::from_be_bytes(message.get(port_at..port_at + 2)?.try_into().ok()?);
        Some(SocketAddr::new(read_address(family, message.get(address_at..address_at + 16)?)?, port))
    };
    let local = end(4, 8)?;
    let address = if listens { local } else { end(6, 24)? };
    let bytes = attribute(message.get(SOCKET..)?, INFO).map_or(0, |info| {
        // `tcpi_bytes_acked` and `tcpi_bytes_received`; older kernels have a shorter struct.
        u64_at(info, 120).unwrap_or(0).wrapping_add(u64_at(info, 128).unwrap_or(0))
    });
    Some((u64::from(inode), TcpSocket { local, address, listens, bytes }))
}

fn read_address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    if family == FAMILIES[0] {
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        return Some(IpAddr::V4(Ipv4Addr::from(four)));
    }
    let sixteen: [u8; 16] = bytes.try_into().ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(sixteen)).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn bytes_that_pass_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let mut seen_after = |length: usize| {
            sender.write_all(&vec![7; length]).unwrap();
            receiver.read_exact(&mut vec![0; length]).unwrap();
            let address = sender.local_addr().unwrap();
            tcp_sockets()
                .into_values()
                .find(|socket| socket.address == address)
                .expect("the receiver's end")
                .bytes
        };
        let before = seen_after(1);
        assert_eq!(seen_after(1000) - before, 1000);

        let here = listener.local_addr().unwrap();
        assert!(tcp_sockets().values().any(|socket| socket.listens && socket.address == here));
    }
}
