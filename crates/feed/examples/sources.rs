//! Images per CPU-second from each kind of source to pixels of 224×224, for `bench/map/sources.py`: `sources ROUNDS THREADS INPUT…`, inputs as
//! `gpulane map` takes them. Inputs are taken in turn, a round at a time; a JSON object a round and input, listing apart from loading.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, clippy::cast_precision_loss)] // a benchmark fails by panicking

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use gpulane_decode::Limits;
use gpulane_feed::loaders::{InHand, Loaders, Setup, Source, Told};
use gpulane_feed::ring::{Geometry, Ring};
use gpulane_items::{Cursor, Item, ItemList, Wanted, freeze};
use gpulane_model::Decode;

const BATCH: u32 = 64;

struct All(Cursor);

impl Source for All {
    fn more(&mut self, most: usize, out: &mut Vec<Item>) -> std::io::Result<()> {
        self.0.next_in(&|_| true, most, out)
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rounds, threads, inputs @ ..] = arguments.as_slice() else {
        panic!("sources ROUNDS THREADS INPUT…")
    };
    let (rounds, threads): (u32, u32) = (rounds.parse().unwrap(), threads.parse().unwrap());
    let base = std::env::current_dir().unwrap();
    let dir = std::env::temp_dir().join(format!("gpulane-sources-{}", std::process::id()));
    for _ in 0..rounds {
        for input in inputs {
            std::fs::create_dir_all(&dir).unwrap();
            let (wall, cpu) = (Instant::now(), cpu_seconds());
            let wanted = Wanted { inputs: std::slice::from_ref(input), base: &base, decode: None };
            let list = freeze(&wanted, &dir, &mut |_| true).unwrap();
            let listed = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
            let (wall, cpu) = (Instant::now(), cpu_seconds());
            let done = load(&list, threads, &base, &dir);
            println!(
                r#"{{"input": {input:?}, "images": {done}, "listing_cpu": {:.4}, "cpu": {:.4}, "seconds": {:.4}}}"#,
                listed.0,
                cpu_seconds() - cpu,
                wall.elapsed().as_secs_f64()
            );
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}

/// Fills slots and gives them back at once. Returns how many items came through.
fn load(list: &ItemList, threads: u32, base: &Path, dir: &Path) -> usize {
    let decode: Decode = "rgb:224x224".parse().unwrap();
    let geometry = Geometry::plan(256 << 20, 1, BATCH, decode.item_bytes(), 0).unwrap();
    let setup = Setup {
        ring: Arc::new(Ring::new(geometry).unwrap()),
        decode,
        limits: Limits::default(),
        damaged: gpulane_model::DamagePolicy::Fail,
        members: gpulane_model::Members::None,
        threads,
        archives: list.archives().to_vec(),
        tables: list.tables().to_vec(),
        base: PathBuf::from(base),
        pixels_here: true,
        device_decodes: false,
        load: None,
        in_hand: Arc::new(InHand::create(&dir.join("in-hand"), threads).unwrap()),
        batch: BATCH,
    };
    let (news, told) = mpsc::channel();
    let loaders =
        Loaders::start(setup, Box::new(All(list.cursor())), move |told| drop(news.send(told))).unwrap();
    let mut done = 0;
    for word in &told {
        match word {
            Told::Filled(filled) => {
                assert!(filled.failed.is_empty(), "{:?}", filled.failed);
                done += filled.items.len();
                loaders.give_back(filled.slot);
            }
            Told::Drained => break,
            other => panic!("{other:?}"),
        }
    }
    done
}

fn cpu_seconds() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}
