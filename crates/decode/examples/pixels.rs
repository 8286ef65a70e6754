//! What the decoder makes of files, for scripts that compare it with others: reads lines of `DECODE<TAB>PATH` and answers each on standard output
//! with a line of JSON, `{"kind", "element", "dims", "bytes", "peak"}` or `{"refused"}`, and behind the first kind so many bytes of pixels. `peak`
//! is how much larger the process was at most, in bytes, than before, less what was claimed and given: above zero, memory was taken unclaimed.
//! A line of `DECODE<TAB>PATH<TAB>ROUNDS` is answered with `{"cpu"}` alone: the seconds of CPU that decoding it once takes, the file being read beforehand.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)] // a tool for tests fails by panicking

use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

use gpulane_decode::{Decoder, Finish, Limits, Place};
use rustix::time::{ClockId, clock_gettime};

/// Room for one item, and what was claimed beside it.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    claimed: u64,
}

impl Place for Room {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.bytes = vec![0xa5; usize::try_from(bytes).ok()?];
        Some(&mut self.bytes)
    }

    fn claim(&mut self, bytes: u64) {
        self.claimed = bytes;
    }
}

fn figure(name: &str) -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("known");
    1024 * line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<i64>().expect("a number")
}

/// A slot that is used for every item, as one of a ring is.
struct Slot(Vec<u8>);

impl Place for Slot {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        let bytes = usize::try_from(bytes).ok()?;
        self.0.resize(self.0.len().max(bytes), 0);
        Some(&mut self.0[..bytes])
    }
}

/// Seconds of CPU that decoding takes, on average.
fn seconds(decode: &str, encoded: &[u8], rounds: u32) -> f64 {
    let mut decoder = Decoder::new(decode.parse().expect("a way to decode"), Limits::default());
    let mut slot = Slot(Vec::new());
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(
            u64::try_from(time.tv_sec).expect("positive"),
            u32::try_from(time.tv_nsec).expect("small"),
        )
    };
    decoder.decode(encoded, Finish::Here, &mut slot).expect("it is decoded");
    let began = now();
    for _ in 0..rounds {
        decoder.decode(encoded, Finish::Here, &mut slot).expect("it is decoded");
    }
    now().saturating_sub(began).as_secs_f64() / f64::from(rounds.max(1))
}

fn main() {
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let line = line.expect("a line");
        let (decode, rest) = line.split_once('\t').expect("DECODE<TAB>PATH");
        let (path, rounds) = rest.split_once('\t').unwrap_or((rest, ""));
        let encoded = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        if let Ok(rounds) = rounds.parse() {
            let told = serde_json::json!({ "cpu": seconds(decode, &encoded, rounds) });
            writeln!(out, "{told}").expect("written");
            out.flush().expect("written");
            continue;
        }
        let mut room = Room::default();
        let mut decoder = Decoder::new(decode.parse().expect("a way to decode"), Limits::default());
        std::fs::write("/proc/self/clear_refs", "5").expect("the largest size begins anew");
        let before = figure("VmRSS");
        match decoder.decode(&encoded, Finish::Here, &mut room) {
            Ok(form) => {
                let beside = i64::try_from(room.claimed + form.bytes).expect("small");
                let told = serde_json::json!({
                    "kind": form.kind.code(),
                    "element": format!("{:?}", form.element),
                    "dims": &form.dims[..form.ndim as usize],
                    "bytes": form.bytes,
                    "peak": figure("VmHWM") - before - beside,
                });
                writeln!(out, "{told}").expect("written");
                out.write_all(&room.bytes).expect("written");
            }
            Err(rejected) => {
                let told = serde_json::json!({ "refused": rejected.to_string() });
                writeln!(out, "{told}").expect("written");
            }
        }
        out.flush().expect("written");
    }
}
