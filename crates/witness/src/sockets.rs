//! TCP sockets of this machine, asked from the kernel (`sock_diag`): who is at the other end, and how many bytes have passed.
//! A process that waits for a peer that sends is alive, and nothing in `/proc` counts those bytes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// One TCP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpSocket {
    /// Its own end.
    pub(crate) local: SocketAddr,
    /// The other end; its own address for one that listens.
    pub(crate) address: SocketAddr,
    /// It waits for others to connect.
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
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Lengths of the kernel's structs: a message's header, a socket's description, an attribute's header.
const HEADER: usize = 16;
const SOCKET: usize = 72;
const ATTRIBUTE: usize = 4;

/// All TCP sockets in our network namespace; none if the kernel does not say.
pub(crate) fn tcp_sockets() -> TcpSockets {
    let mut found = TcpSockets::new();
    for family in FAMILIES {
        // Half an answer is worth having: the sum of bytes is only compared with the next one.
        let _ = ask(family, &mut found);
    }
    found
}

fn ask(family: u8, found: &mut TcpSockets) -> rustix::io::Result<()> {
    let kernel = kernel()?;
    send(&kernel, &request(family), SendFlags::empty())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || read_messages(&buffer[..length], found) {
            return Ok(());
        }
    }
}

fn kernel() -> rustix::io::Result<OwnedFd> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    set_socket_timeout(&kernel, Timeout::Recv, Some(Duration::from_secs(1)))?;
    Ok(kernel)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`; a dump looks at nothing of the socket's own name.
fn request(family: u8) -> Vec<u8> {
    let length = u32::try_from(HEADER + 56).unwrap_or(0);
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, TCP, 1 << (INFO - 1), 0]);
    request.extend(STATES.to_ne_bytes());
    request.extend([0; 48]);
    request
}

/// Whether that was the last of them.
fn read_messages(mut bytes: &[u8], found: &mut TcpSockets) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        if kind == DONE || kind == ERROR || length < HEADER || length > bytes.len() {
            return true;
        }
        if let Some((inode, socket)) = read_socket(&bytes[HEADER..length]) {
            found.insert(inode, socket);
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    false
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
    let bytes = tcp_info(message.get(SOCKET..)?).map_or(0, |info| {
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

fn tcp_info(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        if u16_at(attributes, 2)? == INFO {
            return attributes.get(ATTRIBUTE..length);
        }
        attributes = attributes.get(aligned(length.max(ATTRIBUTE))..)?;
    }
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
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

    #[test]
    fn rubbish_is_the_end_of_it() {
        let mut found = TcpSockets::new();
        assert!(read_messages(&[0xff; 64], &mut found));
        assert!(read_messages(&[0; 64], &mut found));
        assert!(!read_messages(&[], &mut found));
        assert!(found.is_empty());
    }
}
