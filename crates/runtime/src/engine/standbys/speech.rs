//! What a standby says and what it is told: one message each, through a socket that keeps them apart. A job comes as three
//! descriptors: its two logs, and a file with what its environment has beyond the standby's.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, sendmsg, socketpair,
};
use serde::Deserialize;

use super::super::files::LogFiles;

/// A standby's word is never longer.
const LONGEST: usize = 64 << 10;

/// What a standby says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It has imported its file.
    Ready,
    /// It could not; the last line of the trace.
    Failed(String),
    /// It has become the job.
    Begun,
    /// Nothing more will come.
    Silence,
}

/// As it stands on the wire: an object whose first key is the word.
#[derive(Deserialize)]
struct Wire {
    ready: Option<serde::de::IgnoredAny>,
    failed: Option<String>,
    begun: Option<serde::de::IgnoredAny>,
}

/// Our end, and the standby's, which is to survive its exec.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Where a standby prints while it is nobody's: gone with it, so that nothing has to be cleaned up.
pub(super) fn scratch() -> io::Result<OwnedFd> {
    Ok(memfd_create("standby", MemfdFlags::CLOEXEC)?)
}

/// The next word, if there is one.
pub(super) fn hear(socket: &OwnedFd) -> Option<Word> {
    let mut buffer = vec![0; LONGEST];
    match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Some(Word::Silence),
        Ok((_, length)) => match serde_json::from_slice::<Wire>(buffer.get(..length)?) {
            Ok(Wire { failed: Some(why), .. }) => Some(Word::Failed(why)),
            Ok(Wire { ready: Some(_), .. }) => Some(Word::Ready),
            Ok(Wire { begun: Some(_), .. }) => Some(Word::Begun),
            // Whoever else writes there, it is not our runner.
            _ => Some(Word::Silence),
        },
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
        Err(_) => Some(Word::Silence),
    }
}

/// Tells a standby which job it is from now on.
pub(super) fn hand_over(socket: &OwnedFd, logs: &LogFiles, environment: &[u8]) -> io::Result<()> {
    let mut orders = File::from(scratch()?);
    orders.write_all(environment)?;
    let rights = [logs.stdout.as_fd(), logs.stderr.as_fd(), orders.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&rights)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(b"job")], &mut ancillary, flags)?;
    Ok(())
}

/// Adds to a log what was printed before there was one.
pub(super) fn copy(printed: &OwnedFd, log: &OwnedFd) -> io::Result<()> {
    let (printed, mut log) = (File::from(printed.try_clone()?), File::from(log.try_clone()?));
    let mut part = vec![0; 64 << 10];
    let mut at = 0;
    loop {
        match printed.read_at(&mut part, at)? {
            0 => return Ok(()),
            read => {
                log.write_all(&part[..read])?;
                at += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::send;

    use super::*;

    #[test]
    fn words_are_heard_one_by_one_and_silence_at_last() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(hear(&ours), None);
        for word in
            [r#"{"ready": {"seconds": 1.5}}"#, r#"{"failed": "no torch", "trace": ""}"#, r#"{"begun": {}}"#]
        {
            send(&theirs, word.as_bytes(), SendFlags::empty()).unwrap();
        }
        assert_eq!(hear(&ours), Some(Word::Ready));
        assert_eq!(hear(&ours), Some(Word::Failed("no torch".into())));
        assert_eq!(hear(&ours), Some(Word::Begun));
        send(&theirs, b"garbage", SendFlags::empty()).unwrap();
        assert_eq!(hear(&ours), Some(Word::Silence));
        drop(theirs);
        assert_eq!(hear(&ours), Some(Word::Silence));
    }

    #[test]
    fn nobody_there_is_an_error_and_no_signal() {
        let (ours, theirs) = pair().unwrap();
        drop(theirs);
        let logs = LogFiles { stdout: scratch().unwrap(), stderr: scratch().unwrap() };
        assert_eq!(hand_over(&ours, &logs, b"A=1\0").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_log_gets_all_that_was_printed() {
        let (printed, log) = (scratch().unwrap(), scratch().unwrap());
        let text = vec![b'x'; 200_000];
        File::from(printed.try_clone().unwrap()).write_all(&text).unwrap();
        copy(&printed, &log).unwrap();
        let mut found = vec![0; 200_001];
        assert_eq!(File::from(log).read_at(&mut found, 0).unwrap(), 200_000);
    }
}
