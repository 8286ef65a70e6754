//! How many JPEGs a second of CPU decodes: libjpeg-turbo and `fast_image_resize` driven directly, and our decoder.
//!
//! `cargo run --release -p gpulane-decode --example rate -- FOLDER [ROUNDS] [THREADS]`; the files are read beforehand.

#![allow(clippy::print_stdout)] // a tool for the terminal

use std::error::Error;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use gpulane_decode::{Decoder, Finish, Limits, Place};
use rustix::time::{ClockId, clock_gettime};
use turbojpeg::{Decompressor, Image, PixelFormat};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

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

fn main() -> Outcome {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("give a folder of JPEGs")?;
    let rounds: usize = words.next().map_or(Ok(15), |word| word.parse())?.max(1);
    let threads: usize = words.next().map_or(Ok(1), |word| word.parse())?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(std::fs::read(entry?.path())?);
    }
    let bytes: usize = files.iter().map(Vec::len).sum();
    println!("{} files of {} bytes on average, {threads} threads", files.len(), bytes / files.len().max(1));
    // In turns, so that a machine that grows slower slows all of them, and each after each: what ran before leaves its traces.
    let mut rates = [const { Vec::new() }; WAYS.len()];
    for round in 0..rounds {
        for turn in 0..WAYS.len() {
            let which = (turn * (round % (WAYS.len() - 1) + 1) + round) % WAYS.len();
            rates[which].push(rate(&files, threads, WAYS[which].1)?);
        }
    }
    for rates in &mut rates {
        rates.sort_by(f64::total_cmp);
    }
    println!("{:<28} {:>9} {:>9}   images per CPU-second; share of bare", "", "median", "best");
    let middle = rounds / 2;
    for ((name, _), own) in WAYS.iter().zip(&rates) {
        let (median, best) = (own[middle], own[rounds - 1]);
        let (share, of_best) = (median / rates[0][middle], best / rates[0][rounds - 1]);
        println!("{name:<28} {median:>9.1} {best:>9.1}   {share:.3} {of_best:.3}");
    }
    Ok(())
}

type Way = fn(&[Vec<u8>]) -> Outcome;

const WAYS: [(&str, Way); 7] = [
    ("bare decode and resize", |files| bare(files, false)),
    ("bare, a handle for each", |files| bare(files, true)),
    ("header alone", |files| headers(files, false)),
    ("header, a handle for each", |files| headers(files, true)),
    ("Decoder, finished here", |files| ours(files, Finish::Here)),
    ("Decoder, planes", |files| ours(files, Finish::Planes)),
    ("Decoder, handed on", |files| ours(files, Finish::Encoded)),
];

/// Images per second and thread.
#[allow(clippy::cast_precision_loss)] // a rate
fn rate(files: &[Vec<u8>], threads: usize, work: Way) -> Result<f64, Box<dyn Error + Send + Sync>> {
    let busy: Vec<_> = std::thread::scope(|scope| {
        let timed = || {
            let began = cpu_time();
            work(files).map(|()| cpu_time() - began)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed")).collect()
    });
    let mut seconds = 0.0;
    for thread in busy {
        seconds += thread??;
    }
    Ok((files.len() * threads) as f64 / seconds)
}

/// CPU seconds this thread has used so far.
#[allow(clippy::cast_precision_loss)] // seconds of a benchmark
fn cpu_time() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

fn ours(files: &[Vec<u8>], finish: Finish) -> Outcome {
    let mut decoder = Decoder::new("rgb:224x224".parse()?, Limits::default());
    let mut slot = Slot(Vec::new());
    for file in files {
        decoder.decode(file, finish, &mut slot)?;
    }
    Ok(())
}

/// What libjpeg-turbo reads of a file before it decodes it.
fn headers(files: &[Vec<u8>], fresh: bool) -> Outcome {
    let mut decompressor = Decompressor::new()?;
    for file in files {
        if fresh {
            decompressor = Decompressor::new()?;
        }
        decompressor.read_header(file)?;
    }
    Ok(())
}

/// libjpeg-turbo and the resizer. `fresh`: with a new handle for each file, as our decoder has it.
fn bare(files: &[Vec<u8>], fresh: bool) -> Outcome {
    let mut decompressor = Decompressor::new()?;
    let mut resizer = Resizer::new();
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let mut pixels = Vec::new();
    let mut target = vec![0; 224 * 224 * 3];
    for file in files {
        if fresh {
            decompressor = Decompressor::new()?;
        }
        let header = decompressor.read_header(file)?;
        let (width, height) = (header.width, header.height);
        pixels.resize(width * height * 3, 0);
        let image =
            Image { pixels: &mut pixels[..], width, pitch: width * 3, height, format: PixelFormat::RGB };
        decompressor.decompress(file, image)?;
        let source =
            TypedImageRef::<U8x3>::from_buffer(u32::try_from(width)?, u32::try_from(height)?, &pixels)?;
        let mut small = TypedImage::<U8x3>::from_buffer(224, 224, &mut target)?;
        resizer.resize_typed(&source, &mut small, &options)?;
    }
    Ok(())
}
