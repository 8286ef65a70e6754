//! Questions about sockets to the kernel (`sock_diag`), and the messages it answers with. What is in them is read elsewhere.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Lengths of the kernel's structs: a message's header, an attribute's header.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// Asks this and hands every message of the answer to `each`. An error leaves what came before it.
pub(crate) fn ask(question: &[u8], each: &mut dyn FnMut(&[u8])) -> rustix::io::Result<()> {
    let kernel = kernel()?;
    send(&kernel, &with_header(question), SendFlags::empty())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&kernel, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || read_messages(&buffer[..length], each) {
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

/// `struct nlmsghdr` before it.
fn with_header(question: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER + question.len()).unwrap_or(0);
    let mut request = Vec::new();
    request.extend(length.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST_DUMP.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(question);
    request
}

/// Whether that was the last of them.
fn read_messages(mut bytes: &[u8], each: &mut dyn FnMut(&[u8])) -> bool {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        if kind == DONE || kind == ERROR || length < HEADER || length > bytes.len() {
            return true;
        }
        each(&bytes[HEADER..length]);
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    false
}

/// The attribute of this kind.
pub(crate) fn attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        if u16_at(attributes, 2)? == kind {
            return attributes.get(ATTRIBUTE..length);
        }
        attributes = attributes.get(aligned(length.max(ATTRIBUTE))..)?;
    }
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rubbish_is_the_end_of_it() {
        let mut count = 0;
        let mut each = |_: &[u8]| count += 1;
        assert!(read_messages(&[0xff; 64], &mut each));
        assert!(read_messages(&[0; 64], &mut each));
        assert!(!read_messages(&[], &mut each));
        assert_eq!(count, 0);
    }

    #[test]
    fn an_attribute_is_found_behind_another() {
        let bytes = [5, 0, 1, 0, 9, 0, 0, 0, 8, 0, 2, 0, 1, 2, 3, 4];
        assert_eq!(attribute(&bytes, 2), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&bytes, 3), None);
    }
}
