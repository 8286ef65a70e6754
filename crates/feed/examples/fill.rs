//! How fast loaders fill a ring that is given back at once: `fill DIR|- DECODE THREADS ITEMS [planes]`.
//!
//! With a directory its files are taken over and over; with `-` the items are short texts (decode `value`). Prints items
//! per second of the clock and per CPU-second, where the threads' time went, and the bytes that were copied.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use gpulane_decode::Limits;
use gpulane_feed::loaders::{InHand, Loaders, Setup, Source, Told};
use gpulane_feed::ring::{Geometry, Ring};
use gpulane_items::{Item, Place};
use gpulane_model::Decode;

struct Again {
    files: Vec<PathBuf>,
    next: u64,
    items: u64,
}

impl Source for Again {
    fn more(&mut self, most: usize, out: &mut Vec<Item>) -> io::Result<()> {
        let end = self.items.min(self.next + most as u64);
        for number in self.next..end {
            let text = format!("item number {number}");
            let at = usize::try_from(number).unwrap_or(0).checked_rem(self.files.len());
            let place =
                at.map_or_else(|| Place::Value(text.clone()), |at| Place::File(self.files[at].clone()));
            out.push(Item { number, name: text, place });
        }
        self.next = end;
        Ok(())
    }
}

fn cpu_seconds() -> io::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 =
        after.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}

#[allow(clippy::print_stdout, clippy::cast_precision_loss)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, decode, threads, items, rest @ ..] = words.as_slice() else {
        return Err("write: fill DIR|- DECODE THREADS ITEMS [planes]".into());
    };
    let (decode, threads, items): (Decode, u32, u64) = (decode.parse()?, threads.parse()?, items.parse()?);
    let files = match dir.as_str() {
        "-" => Vec::new(),
        dir => std::fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?,
    };
    let pixels_here = rest.is_empty();
    let batch = if files.is_empty() { 1000 } else { 256 };
    let ring =
        Arc::new(Ring::new(Geometry::plan(1 << 30, 1, batch, decode.item_bytes().filter(|_| pixels_here))?)?);
    let in_hand = std::env::temp_dir().join(format!("fill-{}", std::process::id()));
    let setup = Setup {
        ring: Arc::clone(&ring),
        decode,
        limits: Limits::default(),
        threads,
        archives: Vec::new(),
        pixels_here,
        device_decodes: false,
        load: None,
        in_hand: Arc::new(InHand::create(&in_hand, threads)?),
    };
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let (began, cpu) = (Instant::now(), cpu_seconds()?);
    let source = Box::new(Again { files, next: 0, items });
    let loaders = Loaders::start(setup, source, move |word| {
        if let Ok(tell) = tell.lock() {
            let _ = tell.send(word);
        }
    })?;
    let mut slots = 0;
    for word in told {
        match word {
            Told::Filled(filled) => {
                loaders.give_back(filled.slot);
                slots += 1;
            }
            Told::Failed(failed) => println!("{failed:?}"),
            Told::Drained | Told::Broken(_) => break,
        }
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds()? - cpu);
    println!(
        "{:.0} items/s, {:.0} items per CPU-second, {slots} slots",
        items as f64 / wall,
        items as f64 / cpu
    );
    println!("{:?}\n{:?}", loaders.rates(), ring.counters());
    std::fs::remove_file(in_hand)?;
    Ok(())
}
