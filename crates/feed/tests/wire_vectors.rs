//! The golden vectors in `tests/map-protocol`: one frame of every kind as bytes and as JSON, and what is no frame.
//! Python's tests read the same files.
//!
//! `cargo test -p gpulane-feed --test wire_vectors -- --ignored` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use gpulane_feed::wire::{FrameReader, FromWorker, ToWorker, WireError, encode};
use serde_json::{Value, json};

/// Name, who sends it, head, body.
type Vector = (&'static str, &'static str, Value, &'static [u8]);

fn dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/map-protocol")
}

fn from_workers() -> Vec<Vector> {
    vec![
        (
            "hello",
            "worker",
            json!({"frame": "hello", "protocol": 1, "role": "worker", "job": "map/worker-0", "attempt": 1,
                "pid": 4711, "ready": false}),
            b"",
        ),
        (
            "hello-loader",
            "loader",
            json!({"frame": "hello", "protocol": 1, "role": "loader", "job": "", "attempt": 0, "pid": 4712,
                "ready": false}),
            b"",
        ),
        (
            "ready",
            "worker",
            json!({"frame": "ready", "device": "NVIDIA H200", "framework": "torch",
                "accepts": ["planes", "jpeg"], "decode": "rgb:224x224", "batch": 256, "load": false,
                "seconds": 2.5}),
            b"",
        ),
        (
            "ready-plain",
            "worker",
            json!({"frame": "ready", "device": "CPU", "framework": "none", "accepts": [], "decode": null,
                "batch": null, "load": true, "seconds": 0.0}),
            b"",
        ),
        (
            "ready-members",
            "worker",
            json!({"frame": "ready", "device": "CPU", "framework": "none", "accepts": [], "decode": null,
                "members": ["json", "txt"], "batch": null, "load": false, "seconds": 0.0}),
            b"",
        ),
        (
            "setup_failed",
            "worker",
            json!({"frame": "setup_failed", "error": "ValueError: kein Gewicht für „a“",
                "traceback": "Traceback (most recent call last):\n  …\nValueError: kein Gewicht für „a“\n"}),
            b"",
        ),
        ("began", "worker", json!({"frame": "began", "batch": 18_446_744_073_709_551_615_u64}), b""),
        (
            "results",
            "worker",
            json!({"frame": "results", "batch": 7, "count": 2, "columns": [
                    {"name": "score", "type": "f32", "shape": [], "bytes": 8},
                    {"name": "label", "type": "json", "shape": [], "bytes": 11}],
                "failed": [{"at": 1, "reason": "ValueError: no"}],
                "seconds": {"wait": 0.5, "copy": 0.25, "model": 1.0, "fetch": 0.125},
                "bytes": {"copied_to_device": 451_584, "copied_on_host": 0}, "split": 3, "ooms": 0,
                "memory": {"peak": 1_073_741_824, "total": 150_323_855_360_u64}}),
            b"\x00\x00\x80\x3f\x00\x00\x00\xc0[\"cat\",\"d\"]",
        ),
        (
            "results-none",
            "worker",
            json!({"frame": "results", "batch": 8, "count": 0, "columns": [],
                "failed": [{"at": 0, "reason": "no"}],
                "seconds": {"wait": 0.0, "copy": 0.0, "model": 0.0, "fetch": 0.0},
                "bytes": {"copied_to_device": 0, "copied_on_host": 12}, "split": 1, "ooms": 2,
                "memory": null}),
            b"",
        ),
        ("here", "worker", json!({"frame": "here"}), b""),
        (
            "loaded",
            "loader",
            json!({"frame": "loaded", "kind": 1, "type": 6, "shape": [2, 3], "bytes": 24}),
            b"",
        ),
        ("too_large", "loader", json!({"frame": "too_large", "bytes": 5_000_000_000_u64}), b""),
        (
            "load_failed",
            "loader",
            json!({"frame": "load_failed", "reason": "OSError: not a DICOM file"}),
            b"",
        ),
    ]
}

fn to_workers() -> Vec<Vector> {
    vec![
        ("setup", "feeder", json!({"frame": "setup"}), b""),
        (
            "setup-args",
            "feeder",
            json!({"frame": "setup", "args": {"threshold": 0.5, "labels": ["Katze", "Hund"], "name": "größe"}}),
            b"",
        ),
        (
            "ring-loader",
            "feeder",
            json!({"frame": "ring", "slots": 12, "slot_bytes": 38_617_088, "capacity": 256, "decode": "load",
                "nan": "keep", "args": {"skip": 1}}),
            b"",
        ),
        (
            "ring",
            "feeder",
            json!({"frame": "ring", "slots": 12, "slot_bytes": 38_617_088, "capacity": 256,
                "decode": "rgb:224x224:crop", "nan": "keep"}),
            b"",
        ),
        (
            "ring-members",
            "feeder",
            json!({"frame": "ring", "slots": 12, "slot_bytes": 38_617_088, "capacity": 256,
                "decode": "rgb:224x224", "members": ["json", "txt"], "nan": "keep"}),
            b"",
        ),
        (
            "batch",
            "feeder",
            json!({"frame": "batch", "batch": 7, "slot": 3, "first": 0, "count": 256, "packed": true,
                "data": 16_384, "data_end": 38_551_552, "careful": false}),
            b"",
        ),
        (
            "batch-careful",
            "feeder",
            json!({"frame": "batch", "batch": 8, "slot": 3, "first": 128, "count": 1, "packed": true,
                "data": 16_384, "data_end": 38_551_552, "careful": true}),
            b"",
        ),
        ("wait", "feeder", json!({"frame": "wait"}), b""),
        ("bye", "feeder", json!({"frame": "bye"}), b""),
        (
            "load",
            "feeder",
            json!({"frame": "load", "path": "scans/größe 1.dcm", "slot": 2, "offset": 20_480,
                "room": 1_048_576}),
            b"",
        ),
    ]
}

/// A prefix, what follows it, and what is wrong.
fn broken() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let frame = |start: &[u8; 4], head_len: u32, body_len: u64, head: &[u8]| {
        [start.as_slice(), &head_len.to_le_bytes(), &body_len.to_le_bytes(), head].concat()
    };
    let here = br#"{"frame":"here"}"#;
    vec![
        ("magic", frame(b"GX\x01\x00", 16, 0, here), "the first bytes are not GL"),
        ("http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), "the first bytes are not GL"),
        ("version", frame(b"GL\x02\x00", 16, 0, here), "version 2"),
        ("head-too-long", frame(b"GL\x01\x00", (16 << 20) + 1, 0, b""), "a head of more than 16 MiB"),
        ("body-too-long", frame(b"GL\x01\x00", 16, (4 << 30) + 1, here), "a body of more than 4 GiB"),
        ("not-json", frame(b"GL\x01\x00", 16, 0, b"{\"frame\": \"here\""), "the head is not JSON"),
        ("not-an-object", frame(b"GL\x01\x00", 2, 0, b"[]"), "the head is no object"),
        ("no-kind", frame(b"GL\x01\x00", 2, 0, b"{}"), "the head has no `frame`"),
    ]
}

fn bytes_of((_, _, head, body): &Vector) -> Vec<u8> {
    [encode(head, body.len() as u64).as_slice(), body].concat()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[test]
#[ignore = "writes the files the others compare with"]
fn write_them_anew() {
    fs::create_dir_all(dir().join("broken")).unwrap();
    for vector in from_workers().iter().chain(&to_workers()) {
        let (name, from, head, body) = vector;
        fs::write(dir().join(format!("{name}.bin")), bytes_of(vector)).unwrap();
        let said = json!({"from": from, "head": head, "body": hex(body)});
        let said = serde_json::to_string_pretty(&said).unwrap() + "\n";
        fs::write(dir().join(format!("{name}.json")), said).unwrap();
    }
    for (name, bytes, because) in broken() {
        fs::write(dir().join(format!("broken/{name}.bin")), bytes).unwrap();
        let said = serde_json::to_string_pretty(&json!({ "because": because })).unwrap() + "\n";
        fs::write(dir().join(format!("broken/{name}.json")), said).unwrap();
    }
}

#[test]
fn what_is_written_is_what_the_files_hold() {
    for vector in from_workers().iter().chain(&to_workers()) {
        let name = vector.0;
        assert_eq!(fs::read(dir().join(format!("{name}.bin"))).unwrap(), bytes_of(vector), "{name}");
    }
}

#[test]
fn every_file_is_read_as_the_json_beside_it_says() {
    let mut seen = 0;
    for file in fs::read_dir(dir()).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "bin") {
            continue;
        }
        let name = file.file_stem().unwrap().to_str().unwrap();
        let said = fs::read(file.with_extension("json")).unwrap();
        let said: Value = serde_json::from_slice(&said).unwrap();
        let bytes = fs::read(&file).unwrap();
        let mut reader = FrameReader::new();
        assert_eq!(reader.push(&bytes), bytes.len(), "{name}");
        let frame = reader.next().unwrap().expect(name);
        assert_eq!(serde_json::from_slice::<Value>(&frame.head).unwrap(), said["head"], "{name}");
        assert_eq!(hex(&frame.body), said["body"], "{name}");
        seen += 1;
    }
    assert_eq!(seen, from_workers().len() + to_workers().len());
}

#[test]
fn every_frame_of_a_worker_goes_through_its_type_unchanged() {
    for (name, _, head, _) in from_workers() {
        let typed: FromWorker =
            serde_json::from_value(head.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(serde_json::to_value(&typed).unwrap(), head, "{name}");
    }
}

#[test]
fn every_frame_to_a_worker_goes_through_its_type_unchanged() {
    for (name, _, head, _) in to_workers() {
        let typed: ToWorker = serde_json::from_value(head.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(serde_json::to_value(&typed).unwrap(), head, "{name}");
    }
}

#[test]
fn fields_nobody_knows_are_passed_over() {
    let typed: FromWorker =
        serde_json::from_value(json!({"frame": "began", "batch": 3, "mood": "good"})).unwrap();
    assert_eq!(typed, FromWorker::Began { batch: 3, count: None });
}

#[test]
fn broken_frames_are_told_apart() {
    for (name, bytes, _) in broken() {
        let kept = fs::read(dir().join(format!("broken/{name}.bin"))).unwrap();
        assert_eq!(kept, bytes, "{name}");
        let mut reader = FrameReader::new();
        reader.push(&bytes);
        let error = reader.next().expect_err(name);
        let right = match name {
            "magic" | "http" => matches!(error, WireError::Magic(_)),
            "version" => error == WireError::Version(2),
            "head-too-long" => matches!(error, WireError::HeadTooLong(_)),
            "body-too-long" => matches!(error, WireError::BodyTooLong(_)),
            _ => matches!(error, WireError::Head(_)),
        };
        assert!(right, "{name}: {error}");
        assert_eq!(reader.next(), Err(error), "the connection stays broken");
    }
}
