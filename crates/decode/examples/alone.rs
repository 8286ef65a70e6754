//! What a fresh decoder makes of each file, for `tests/pictures`: names on standard input, one JSON object a line on standard output.
//!
//! `alone DECODE < names`. Every file has a decoder of its own, so nothing can be left from the one before. Beside the result stand
//! the time, the memory that was claimed, and what the process took for it beyond the file and its pixels.

#![allow(clippy::print_stdout)] // a tool for scripts

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use gpulane_decode::{Decoder, Finish, Form, Limits, Place, Rejection};
use gpulane_model::Decode;
use serde_json::{Value, json};

/// Room for one item, and what was claimed for it.
#[derive(Default)]
struct Room {
    bytes: Vec<u8>,
    claimed: u64,
}

impl Place for Room {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        // Not zero: a pixel that is not written is seen.
        self.bytes = vec![0xa5; usize::try_from(bytes).ok()?];
        Some(&mut self.bytes)
    }

    fn claim(&mut self, bytes: u64) {
        self.claimed = bytes;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let decode: Decode = std::env::args().nth(1).ok_or("alone DECODE < names")?.parse()?;
    let mut out = std::io::stdout().lock();
    for name in std::io::stdin().lines() {
        let name = name?;
        // Told before it is tried: whoever reads this knows which file a crash was for.
        writeln!(out, "{}", json!({ "begin": name }))?;
        out.flush()?;
        let file = std::fs::read(&name)?;
        writeln!(out, "{}", outcome(&name, &file, decode))?;
        out.flush()?;
    }
    Ok(())
}

fn outcome(name: &str, file: &[u8], decode: Decode) -> Value {
    let mut room = Room::default();
    let before = resident("VmRSS:");
    // The largest size is measured from here on.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let started = Instant::now();
    let made = Decoder::new(decode, Limits::default()).decode(file, Finish::Here, &mut room);
    let seconds = started.elapsed().as_secs_f64();
    let taken = resident("VmHWM:").saturating_sub(before).saturating_sub(room.bytes.len() as u64);
    let mut told = json!({ "item": name, "seconds": seconds, "claimed": room.claimed, "taken": taken });
    match made {
        Ok(form) => tell_pixels(&mut told, &form, &room.bytes),
        Err(Rejection::Broken(reason)) => told["reason"] = json!(reason),
        Err(Rejection::NoRoom { bytes }) => told["reason"] = json!(format!("no room for {bytes} bytes")),
    }
    told
}

fn tell_pixels(told: &mut Value, form: &Form, pixels: &[u8]) {
    let mut sum = flate2::Crc::new();
    sum.update(pixels);
    told["crc32"] = json!(sum.sum());
    told["shape"] = json!(&form.dims[..form.ndim as usize]);
}

/// A size of this process in bytes, by its name in `/proc/self/status`.
fn resident(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib: u64 = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib * 1024
}
