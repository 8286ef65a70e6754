//! What a process has open: `/proc/PID/fd`, read once per look, and what a wait on one of them means.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::proc_files::{descriptor_limit, numbers_in};
use crate::sockets::TcpSockets;
use crate::{Descriptors, Wait};

/// Descriptors of one process, by number.
pub(crate) struct OpenFiles {
    links: BTreeMap<u32, PathBuf>,
    limit: Option<u64>,
}

impl OpenFiles {
    /// Of the process with this folder in `/proc`.
    pub(crate) fn of(folder: &Path) -> Self {
        let open = folder.join("fd");
        let links = numbers_in(&open).into_iter();
        let links =
            links.filter_map(|fd| Some((fd, fs::read_link(open.join(fd.to_string())).ok()?))).collect();
        Self { links, limit: descriptor_limit(folder) }
    }

    /// What one of them is, as `/proc` names it.
    pub(crate) fn link(&self, fd: u32) -> Option<&Path> {
        self.links.get(&fd).map(PathBuf::as_path)
    }

    /// All of them, by their numbers.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u32, &Path)> {
        self.links.iter().map(|(fd, link)| (*fd, link.as_path()))
    }

    /// Whether one of them is of this kind: `anon_inode:[io_uring]`.
    pub(crate) fn has(&self, kind: &str) -> bool {
        self.links.values().any(|link| link.to_str() == Some(kind))
    }

    /// The kernel's numbers of the sockets among them.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = u64> {
        self.links.values().filter_map(|link| inode(link, "socket"))
    }

    /// The summary of them.
    pub(crate) fn summary(&self, tcp: &TcpSockets) -> Descriptors {
        let inodes = |kind: &str| -> Vec<u64> {
            let mut found: Vec<u64> = self.links.values().filter_map(|link| inode(link, kind)).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        Descriptors {
            open: u32::try_from(self.links.len()).unwrap_or(u32::MAX),
            limit: self.limit,
            gpus: u32::try_from(self.links.values().filter(|link| is_gpu(link)).count()).unwrap_or(u32::MAX),
            standard: [0, 1, 2].map(|fd| Some(name(self.links.get(&fd)?, tcp))),
            pipes: inodes("pipe"),
            sockets: inodes("socket"),
        }
    }

    /// Bytes that have passed over its TCP sockets.
    pub(crate) fn tcp_bytes(&self, tcp: &TcpSockets) -> u64 {
        let sockets = self.sockets().filter_map(|inode| tcp.get(&inode));
        sockets.fold(0, |sum, socket| sum.wrapping_add(socket.bytes))
    }

    /// Adds to a wait what its descriptor is.
    pub(crate) fn explain(&self, wait: &mut Wait, tcp: &TcpSockets) {
        let Some(link) = wait.fd.and_then(|fd| self.links.get(&fd)) else { return };
        wait.on = Some(name(link, tcp));
        wait.inode = inode(link, "pipe").or_else(|| inode(link, "socket"));
        // Only sockets can have a time limit of their own; for all else the call is as endless as it looks.
        if wait.timed.is_none()
            && inode(link, "socket").is_none()
            && ["read", "readv", "write", "writev", "splice"].contains(&wait.call.as_str())
        {
            wait.timed = Some(false);
        }
    }
}

/// What a link of `/proc/PID/fd` stands for, in words.
fn name(link: &Path, tcp: &TcpSockets) -> String {
    if inode(link, "pipe").is_some() {
        return "pipe".to_owned();
    }
    let Some(socket) = inode(link, "socket") else {
        return link.to_string_lossy().trim_start_matches("anon_inode:").to_owned();
    };
    match tcp.get(&socket) {
        Some(tcp) if tcp.listens => format!("socket that listens on {}", tcp.address),
        Some(tcp) => format!("socket {}", tcp.address),
        None => "socket".to_owned(),
    }
}

/// The number in `pipe:[12]` or `socket:[12]`.
pub(crate) fn inode(link: &Path, kind: &str) -> Option<u64> {
    link.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

/// A GPU itself, not the devices by which all of them are steered: those are open wherever a program merely asks.
fn is_gpu(link: &Path) -> bool {
    let number = link.to_str().and_then(|link| link.strip_prefix("/dev/nvidia"));
    number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_apart() {
        assert_eq!(inode(Path::new("pipe:[77]"), "pipe"), Some(77));
        assert_eq!(inode(Path::new("socket:[77]"), "pipe"), None);
        assert!(is_gpu(Path::new("/dev/nvidia12")));
        assert!(!is_gpu(Path::new("/dev/nvidiactl")) && !is_gpu(Path::new("/dev/nvidia-uvm")));
        assert_eq!(name(Path::new("anon_inode:[eventpoll]"), &TcpSockets::new()), "[eventpoll]");
    }

    #[test]
    fn a_wait_on_a_pipe_is_explained() {
        let links = BTreeMap::from([(3, PathBuf::from("pipe:[9]")), (4, PathBuf::from("socket:[5]"))]);
        let files = OpenFiles { links, limit: None };
        let mut wait = Wait { call: "read".to_owned(), fd: Some(3), ..Wait::default() };
        files.explain(&mut wait, &TcpSockets::new());
        assert_eq!((wait.on.as_deref(), wait.inode, wait.timed), (Some("pipe"), Some(9), Some(false)));

        let mut socket = Wait { call: "read".to_owned(), fd: Some(4), ..Wait::default() };
        files.explain(&mut socket, &TcpSockets::new());
        assert_eq!((socket.on.as_deref(), socket.timed), (Some("socket"), None));
    }
}
