//! Frames from peers that are slow, broken or hostile.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use gpulane_feed::wire::{
    FrameReader, Outbox, Progress, RawFrame, ToWorker, WireError, encode, send_with_fd,
};
use proptest::prelude::*;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// All golden vectors, those that are broken too.
fn vectors() -> Vec<Vec<u8>> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/map-protocol");
    let files = [dir.join("broken"), dir].into_iter().flat_map(|dir| fs::read_dir(dir).expect("vectors"));
    let mut paths: Vec<_> = files.map(|entry| entry.expect("a vector").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a vector")).collect()
}

fn good() -> Vec<Vec<u8>> {
    let is_good =
        |bytes: &Vec<u8>| matches!(read_all(bytes, bytes.len()), (frames, None) if frames.len() == 1);
    vectors().into_iter().filter(is_good).collect()
}

/// Everything a reader makes of bytes that come `step` at a time, and the error at the end, if there is one.
fn read_all(bytes: &[u8], step: usize) -> (Vec<RawFrame>, Option<WireError>) {
    let (mut reader, mut frames, mut came) = (FrameReader::new(), Vec::new(), 0);
    for mut chunk in bytes.chunks(step.max(1)) {
        came += chunk.len();
        while !chunk.is_empty() {
            let taken = reader.push(chunk);
            assert!(reader.held() <= 2 * came + (1 << 20) + 16, "{} bytes for {came}", reader.held());
            chunk = &chunk[taken..];
            match reader.next() {
                Ok(frame) => frames.extend(frame),
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

#[test]
fn a_body_belongs_to_results_only() {
    let frame = encode(&serde_json::json!({"frame": "here"}), 5);
    assert_eq!(read_all(&frame, 1000).1, Some(WireError::BodyTooLong(5)));
}

#[test]
fn a_length_alone_costs_no_memory() {
    let mut reader = FrameReader::new();
    reader.push(&encode(&serde_json::json!({"frame": "results"}), 4 << 30));
    reader.push(&[1; 100]);
    assert!(reader.held() <= (1 << 20) + 4096, "{}", reader.held());
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn a_socket_is_read_until_it_has_no_more() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let body = vec![7_u8; 100_000];
    let frame = [encode(&serde_json::json!({"frame": "results"}), 100_000), body.clone()].concat();
    let mut reader = FrameReader::new();
    assert_eq!(reader.read_from(&theirs).unwrap(), Progress::Later);
    ours.write_all(&frame[..50_000]).unwrap();
    assert_eq!(reader.read_from(&theirs).unwrap(), Progress::Later);
    ours.write_all(&frame[50_000..]).unwrap();
    ours.write_all(&frame[..3]).unwrap();
    drop(ours);
    assert_eq!(reader.read_from(&theirs).unwrap(), Progress::Ready);
    assert_eq!(reader.next().unwrap().expect("a frame").body, body);
    assert_eq!(reader.read_from(&theirs).unwrap(), Progress::Closed);
}

/// Receives what is there, and the descriptors with it.
fn receive(socket: &UnixStream, bytes: &mut [u8]) -> (usize, Vec<OwnedFd>) {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [std::io::IoSliceMut::new(bytes)];
    let got = rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::empty()).expect("bytes");
    let messages = ancillary.drain();
    let rights = messages.filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    (got.bytes, rights.flatten().collect())
}

#[test]
fn a_descriptor_comes_with_the_first_byte_of_its_frame() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    let frame = encode(&ToWorker::Wait, 0);
    send_with_fd(&ours, &frame, file.as_fd()).unwrap();
    let (bytes, descriptors) = receive(&theirs, &mut [0; 16]);
    assert_eq!((bytes, descriptors.len()), (16, 1));
}

#[test]
fn an_outbox_keeps_order_and_sends_a_descriptor_once() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut outbox = Outbox::new();
    // More than a socket holds, so that it has to wait in the middle.
    outbox.push(vec![1; 1 << 20]);
    outbox.push_with_fd(vec![2; 1 << 20], tempfile::tempfile().unwrap().into());
    outbox.push(vec![3; 10]);
    let (mut came, mut descriptors) = (Vec::new(), 0);
    while !outbox.write_to(&ours).unwrap() {
        let mut bytes = vec![0; 1 << 16];
        let (now, rights) = receive(&theirs, &mut bytes);
        came.extend_from_slice(&bytes[..now]);
        descriptors += rights.len();
    }
    assert!(outbox.is_empty());
    drop(ours);
    loop {
        let mut bytes = vec![0; 1 << 16];
        let (now, rights) = receive(&theirs, &mut bytes);
        descriptors += rights.len();
        came.extend_from_slice(&bytes[..now]);
        if now == 0 {
            break;
        }
    }
    assert_eq!(came, [vec![1; 1 << 20], vec![2; 1 << 20], vec![3; 10]].concat());
    assert_eq!(descriptors, 1);
}

#[test]
fn a_peer_that_is_gone_is_an_error_and_no_signal() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    let mut outbox = Outbox::new();
    outbox.push(vec![1]);
    assert_eq!(outbox.write_to(&ours).expect_err("gone").kind(), std::io::ErrorKind::BrokenPipe);
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..4096), step in 1..64_usize) {
        read_all(&bytes, step);
    }

    #[test]
    fn random_heads_and_lengths_do_no_harm(
        head in prop::collection::vec(any::<u8>(), 0..100), head_len in any::<u32>(), body_len in any::<u64>(),
        small in any::<bool>(),
    ) {
        let head_len = if small { u32::try_from(head.len()).unwrap_or(0) } else { head_len };
        let frame = [b"GL\x01\x00".as_slice(), &head_len.to_le_bytes(), &body_len.to_le_bytes(), &head].concat();
        read_all(&frame, 7);
    }

    #[test]
    fn changed_vectors_do_no_harm(
        which in any::<prop::sample::Index>(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let vectors = vectors();
        let mut bytes = which.get(&vectors).clone();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let (frames, _) = read_all(&bytes, bytes.len());
        for frame in frames {
            // Either is fine; neither panics.
            let _ = (frame.from_worker(), frame.to_worker());
        }
    }

    #[test]
    fn frames_cut_anywhere_come_out_the_same(step in 1..200_usize, which in prop::collection::vec(any::<prop::sample::Index>(), 1..6)) {
        let good = good();
        let stream: Vec<u8> = which.iter().flat_map(|index| index.get(&good).clone()).collect();
        let (frames, error) = read_all(&stream, step);
        prop_assert_eq!(error, None);
        prop_assert_eq!(frames.len(), which.len());
        prop_assert_eq!((frames, None), read_all(&stream, stream.len()));
    }
}
