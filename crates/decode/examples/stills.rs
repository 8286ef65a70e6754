//! How many images of a folder a second of CPU decodes. `bench/stills.py` calls this in turns with other decoders.
//!
//! `cargo run --release -p gpulane-decode --example stills -- FOLDER DECODE REPEATS`; the files are read beforehand. Prints CPU seconds.

#![allow(clippy::print_stdout)] // a tool for the terminal

use std::error::Error;

use gpulane_decode::{Decoder, Finish, Limits, Place};
use rustix::time::{ClockId, clock_gettime};

/// A slot that is used for every item, as one of a ring is.
struct Slot(Vec<u8>);

impl Place for Slot {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        let bytes = usize::try_from(bytes).ok()?;
        if self.0.len() < bytes {
            self.0.resize(bytes, 0);
        }
        Some(&mut self.0[..bytes])
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("give a folder of images")?;
    let decode = words.next().ok_or("give what to decode to, as `rgb`")?;
    let repeats: usize = words.next().map_or(Ok(1), |word| word.parse())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(std::fs::read(entry?.path())?);
    }
    let mut decoder = Decoder::new(decode.parse()?, Limits::default());
    let mut slot = Slot(Vec::new());
    // Once beforehand: buffers grow, pages come.
    for file in &files {
        decoder.decode(file, Finish::Here, &mut slot)?;
    }
    let began = cpu_time();
    for _ in 0..repeats {
        for file in &files {
            decoder.decode(file, Finish::Here, &mut slot)?;
        }
    }
    println!("{}", cpu_time() - began);
    Ok(())
}

/// CPU seconds this process has used so far.
#[allow(clippy::cast_precision_loss)] // seconds of a benchmark
fn cpu_time() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}
