//! Images per CPU-second from files to pixels, for `bench/map/run`: `fill bare|loaders|planes FOLDER ITEMS THREADS`, or texts that are
//! not read at all: `fill values - ITEMS THREADS`. The folder's photographs, of any format, are taken over and over, at 224×224.
//! `bare`, for JPEGs alone, is a loop over `turbojpeg` and `fast_image_resize` with nothing around it: what these two can do at best.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)] // a benchmark fails by panicking

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use gpulane_decode::Limits;
use gpulane_feed::loaders::{InHand, Loaders, Setup, Source, Told};
use gpulane_feed::ring::{Geometry, Ring};
use gpulane_items::{Item, Place};
use gpulane_model::Decode;

const SIDE: u32 = 224;
const BATCH: u32 = 64;
/// What the files of a folder may end in; others in it are notes.
const PICTURES: [&str; 6] = ["jpg", "webp", "png", "tif", "gif", "bmp"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder, items, threads] = arguments.as_slice() else {
        panic!("fill bare|loaders|planes|values FOLDER ITEMS THREADS");
    };
    let (items, threads): (usize, u32) = (items.parse().unwrap(), threads.parse().unwrap());
    let files = if what == "values" { Vec::new() } else { photos(Path::new(folder)) };
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let copied = match what.as_str() {
        "bare" => bare(&files, items, threads),
        "loaders" => load(files, items, threads, pixels(), true),
        "planes" => load(files, items, threads, pixels(), false),
        "values" => load(files, items, threads, Decode::Value, true),
        other => panic!("{other}: bare, loaders, planes or values"),
    };
    println!(
        r#"{{"images": {items}, "cpu_seconds": {:.4}, "seconds": {:.4}, "bytes_copied": {copied}}}"#,
        cpu_seconds() - cpu,
        wall.elapsed().as_secs_f64()
    );
}

fn pixels() -> Decode {
    format!("rgb:{SIDE}x{SIDE}").parse().unwrap()
}

fn photos(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of photographs");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        path.extension().and_then(OsStr::to_str).is_some_and(|extension| PICTURES.contains(&extension))
    });
    files.sort();
    files
}

/// User and system time of this process, all threads.
fn cpu_seconds() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}

fn bare(files: &[PathBuf], items: usize, threads: u32) -> u64 {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| bare_loop(files, items, &next));
        }
    });
    0
}

fn bare_loop(files: &[PathBuf], items: usize, next: &AtomicUsize) {
    let mut decompressor = turbojpeg::Decompressor::new().unwrap();
    let mut resizer = Resizer::new();
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    let bytes = (SIDE * SIDE * 3) as usize;
    let mut batch = vec![0u8; bytes * BATCH as usize];
    let mut whole = Vec::new();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= items {
            return;
        }
        let encoded = std::fs::read(&files[at % files.len()]).unwrap();
        let header = decompressor.read_header(&encoded).unwrap();
        let (width, height) = (header.width, header.height);
        whole.resize(width * height * 3, 0);
        let image = turbojpeg::Image {
            pixels: whole.as_mut_slice(),
            width,
            pitch: width * 3,
            height,
            format: turbojpeg::PixelFormat::RGB,
        };
        decompressor.decompress(&encoded, image).unwrap();
        let place = at % BATCH as usize * bytes;
        let (width, height) = (u32::try_from(width).unwrap(), u32::try_from(height).unwrap());
        let from = TypedImageRef::<U8x3>::from_buffer(width, height, &whole).unwrap();
        let mut to = TypedImage::<U8x3>::from_buffer(SIDE, SIDE, &mut batch[place..place + bytes]).unwrap();
        resizer.resize_typed(&from, &mut to, &options).unwrap();
    }
}

/// The same files again and again, or texts.
struct Repeated {
    files: Vec<PathBuf>,
    next: usize,
    items: usize,
}

impl Source for Repeated {
    fn more(&mut self, most: usize, out: &mut Vec<Item>) -> std::io::Result<()> {
        let end = self.items.min(self.next + most);
        for number in self.next..end {
            let name = format!("item number {number}");
            let file = number.checked_rem(self.files.len()).map(|at| self.files[at].clone());
            let place = file.map_or_else(|| Place::Value(name.clone()), Place::File);
            out.push(Item { number: number as u64, name, place });
        }
        self.next = end;
        Ok(())
    }
}

/// Fills slots and gives them back at once. Returns the bytes that were copied within the ring.
fn load(files: Vec<PathBuf>, items: usize, threads: u32, decode: Decode, pixels_here: bool) -> u64 {
    let item_bytes = decode.item_bytes().filter(|_| pixels_here);
    let geometry = Geometry::plan(256 << 20, 1, BATCH, item_bytes, 0).unwrap();
    let ring = Arc::new(Ring::new(geometry).unwrap());
    let hands = std::env::temp_dir().join(format!("gpulane-fill-{}", std::process::id()));
    let setup = Setup {
        ring: Arc::clone(&ring),
        decode,
        limits: Limits::default(),
        damaged: gpulane_model::DamagePolicy::Fail,
        members: gpulane_model::Members::None,
        threads,
        archives: Vec::new(),
        tables: Vec::new(),
        base: PathBuf::new(),
        pixels_here,
        device_decodes: false,
        load: None,
        in_hand: Arc::new(InHand::create(&hands, threads).unwrap()),
        batch: BATCH,
    };
    let (news, told) = mpsc::channel();
    let source = Box::new(Repeated { files, next: 0, items });
    let loaders = Loaders::start(setup, source, move |told| drop(news.send(told))).unwrap();
    let mut done = 0;
    for told in told {
        match told {
            Told::Filled(filled) => {
                done += filled.items.len();
                loaders.give_back(filled.slot);
            }
            Told::Failed(failed) => panic!("{failed:?}"),
            Told::Broken(why) => panic!("{why}"),
            Told::Drained => break,
        }
    }
    assert_eq!(done, items);
    loaders.stop();
    let _ = std::fs::remove_file(hands);
    ring.counters().copied_in
}
