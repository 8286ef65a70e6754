//! One loading thread: takes items, reads them, decodes them into their places.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use gpulane_decode::{Decoder, Element, Finish, Form, Kind, Rejection};
use gpulane_items::{Item, Place};
use gpulane_model::Decode;

use super::outside::{self, OutsideAnswer};
use super::reading::Reader;
use super::shared::Shared;
use super::spot::{Spot, Unfit};

/// How much below other processes the threads stand: a model's own threads go first.
const NICE: i32 = 5;
/// Sizes the model's `load` may name for one item before it has failed.
const TRIES: u32 = 4;

/// Loads until there are no more items.
pub(super) fn run(shared: &Shared, thread: usize) {
    step_back();
    let mut loader = Loader::new(shared, thread);
    let mut had_one = false;
    while let Some((item, turn)) = shared.next(had_one) {
        loader.reader.take_turn(turn);
        loader.load(item);
        had_one = true;
    }
}

/// Lets others go first. If the system says no, so be it.
fn step_back() {
    // On Linux this is a thread's own number.
    let thread = Some(rustix::thread::gettid());
    let now = rustix::process::getpriority_process(thread).unwrap_or(0);
    let _ = rustix::process::setpriority_process(thread, now + NICE);
}

struct Loader<'s> {
    shared: &'s Shared,
    thread: usize,
    reader: Reader<'s>,
    decoder: Decoder,
    /// What is owed to the share of JPEGs that go as they are; one goes when it reaches 1.
    owed: f32,
}

impl<'s> Loader<'s> {
    fn new(shared: &'s Shared, thread: usize) -> Self {
        let decoder = fresh(shared);
        Self {
            shared,
            thread,
            reader: Reader::new(&shared.large, &shared.tables, &shared.streams),
            decoder,
            owed: 0.0,
        }
    }

    fn load(&mut self, item: Item) {
        let shared = self.shared;
        let mut spot = Spot::new(shared, &item.name);
        shared.in_hand.take(self.thread, item.number);
        // A decoder that panics costs its item; its scratch is not trusted again.
        let loaded = catch_unwind(AssertUnwindSafe(|| self.fill(&item, &mut spot))).unwrap_or_else(|panic| {
            self.decoder = fresh(shared);
            Err(Unfit::Failed(format!("the decoder failed: {}", text_of(panic.as_ref()))))
        });
        shared.in_hand.put_down(self.thread);
        self.reader.relax();
        match (loaded, spot.reserved.take()) {
            (Ok(form), Some(reserved)) => {
                if form.kind == Kind::Jpeg {
                    shared.rates.on_device.add(1);
                }
                let flaw = self.decoder.take_flaw().filter(|_| form.damaged);
                shared.finish(reserved, (item.number, item.name), form, flaw);
            }
            (Ok(_), None) => {
                let reason = "the decoder gave nothing".to_owned();
                shared.fail((item.number, item.name, reason));
            }
            (Err(unfit), reserved) => {
                if let Some(reserved) = reserved {
                    shared.release(reserved);
                }
                if let Unfit::Failed(reason) = unfit {
                    shared.fail((item.number, item.name, reason));
                }
            }
        }
    }

    fn fill(&mut self, item: &Item, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
        let shared = self.shared;
        if shared.members.is_none() || !matches!(item.place, Place::Member { .. }) || shared.load.is_some() {
            return self.fill_alone(item, spot);
        }
        let began = Instant::now();
        let beside = self.reader.members(&item.place, &shared.archives, &shared.members, spot.most());
        shared.rates.reading.add_time(began.elapsed());
        let beside = beside.map_err(Unfit::Failed)?;
        spot.set_beside(beside.bytes());
        let form = self.fill_alone(item, spot)?;
        if let Some(place) = spot.reserved.as_mut().and_then(|reserved| reserved.beside.as_mut()) {
            let began = Instant::now();
            self.reader.write_members(&beside, place.bytes_mut()).map_err(Unfit::Failed)?;
            shared.rates.reading.add_time(began.elapsed());
            shared.rates.bytes_read.add(beside.bytes());
        }
        Ok(form)
    }

    fn fill_alone(&mut self, item: &Item, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
        match (&item.place, self.shared.decode) {
            (Place::Bad(reason), _) => Err(Unfit::Failed(reason.clone())),
            (place, Decode::Load) => self.outside(place, spot),
            (Place::Value(text), _) => put_text(text, spot),
            (_, Decode::Value) => put_text(&item.name, spot),
            (place, Decode::Bytes) => self.straight(place, spot),
            (place, _) => self.decode(place, spot),
        }
    }

    /// The file as it is: read to where it stays.
    fn straight(&mut self, place: &Place, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
        let rates = &self.shared.rates;
        let began = Instant::now();
        let read =
            self.reader.find(place, &self.shared.archives).map_err(Unfit::Failed).and_then(|mut found| {
                let bytes = found.size();
                let reserved = spot.reserve(bytes)?;
                found.read_into(reserved.piece.bytes_mut()).map_err(Unfit::Failed)?;
                rates.bytes_read.add(bytes);
                Ok(flat(Kind::Bytes, bytes))
            });
        self.read_ahead();
        rates.reading.add_time(began.elapsed().saturating_sub(spot.waited));
        read
    }

    fn decode(&mut self, place: &Place, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
        let shared = self.shared;
        let began = Instant::now();
        let encoded = self.reader.read(place, &shared.archives);
        let encoded = encoded.map_err(Unfit::Failed).map(<[u8]>::len);
        self.read_ahead();
        shared.rates.reading.add_time(began.elapsed());
        shared.rates.bytes_read.add(encoded? as u64);
        let encoded = self.reader.encoded();

        let finish = finish(shared, &mut self.owed, encoded);
        let (before, began) = (self.decoder.spent().resize, Instant::now());
        let decoded = self.decoder.decode(encoded, finish, spot);
        let resized = self.decoder.spent().resize.saturating_sub(before);
        self.count(began.elapsed().saturating_sub(spot.waited), resized);
        decoded.map_err(|rejection| match rejection {
            Rejection::Broken(reason) => Unfit::Failed(advised(place, reason)),
            Rejection::NoRoom { bytes } => spot.no_room(bytes),
        })
    }

    /// Where a page's rows are in work and its neighbour's will be, the first thread that sees it decodes that one, so that
    /// the others do not wait for it.
    fn read_ahead(&self) {
        let Some(row) = self.reader.row().filter(|_| self.shared.rates.threads > 1) else { return };
        let Some(left) = row.rows_left() else { return };
        if let Some((table, next)) = self.shared.row_behind(left)
            && row.begin_ahead()
        {
            self.shared.tables.read_ahead(table, next);
        }
    }

    fn count(&self, all: Duration, resizing: Duration) {
        self.shared.rates.resizing.add_time(resizing);
        self.shared.rates.decoding.add_time(all.saturating_sub(resizing));
    }

    /// What the model's own `load` makes of it.
    fn outside(&self, place: &Place, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
        let shared = self.shared;
        let failed = |reason: &str| Unfit::Failed(reason.to_owned());
        let load = shared.load.as_ref().ok_or_else(|| failed("the model has no `load`"))?;
        let path = match place {
            Place::File(path) => path.to_str().ok_or_else(|| failed("its path is not UTF-8"))?,
            Place::Value(text) => text,
            Place::Member { .. } => {
                return Err(failed(
                    "lies in a tar file, which the model's `load` cannot read; decode it as `bytes`",
                ));
            }
            Place::Row { .. } => {
                return Err(failed(
                    "lies in a table, which the model's `load` cannot read; decode it as `bytes`",
                ));
            }
            Place::Bad(reason) => return Err(Unfit::Failed(reason.clone())),
        };
        let mut room = shared.guess.room().min(spot.most());
        for _ in 0..TRIES {
            let reserved = spot.reserve(room)?;
            let (slot, offset) = (reserved.piece.slot(), reserved.piece.start());
            let began = Instant::now();
            let answer = load.load(self.thread, path, slot, offset, room);
            shared.rates.decoding.add_time(began.elapsed());
            match answer {
                OutsideAnswer::Loaded { form } => {
                    if let Some(wrong) = outside::wrong(&form, room) {
                        return Err(Unfit::Failed(wrong));
                    }
                    shared.guess.saw(form.bytes);
                    shared.trim(reserved, form.bytes);
                    return Ok(form);
                }
                OutsideAnswer::TooLarge { bytes } => {
                    spot.give_back();
                    room = bytes.max(room);
                    shared.guess.saw(bytes.min(spot.most()));
                }
                OutsideAnswer::Failed(reason) => return Err(Unfit::Failed(reason)),
            }
        }
        Err(failed("its size changed every time it was loaded"))
    }
}

fn fresh(shared: &Shared) -> Decoder {
    Decoder::new(shared.decode, shared.limits).with_damaged(shared.damaged)
}

/// A decoder's reason with advice that can be followed: what lies in a table or a tar has no path that the model's `load` could be given.
fn advised(place: &Place, reason: String) -> String {
    match place {
        Place::Member { .. } | Place::Row { .. } => reason
            .replace("give the model its own load(path)", "decode it as `bytes` and let the model read them"),
        Place::File(_) | Place::Value(_) | Place::Bad(_) => reason,
    }
}

/// Who finishes this item. JPEGs that go as they are are spread evenly among the others.
fn finish(shared: &Shared, owed: &mut f32, encoded: &[u8]) -> Finish {
    if shared.device_decodes && encoded.starts_with(&[0xFF, 0xD8, 0xFF]) {
        *owed += shared.on_device();
        if *owed >= 1.0 {
            *owed -= 1.0;
            return Finish::Encoded;
        }
    }
    if shared.pixels_here { Finish::Here } else { Finish::Planes }
}

fn put_text(text: &str, spot: &mut Spot<'_>) -> Result<Form, Unfit> {
    let reserved = spot.reserve(text.len() as u64)?;
    reserved.piece.bytes_mut().copy_from_slice(text.as_bytes());
    Ok(flat(Kind::Text, text.len() as u64))
}

/// Bytes or text: a length and nothing else.
const fn flat(kind: Kind, bytes: u64) -> Form {
    Form {
        kind,
        element: Element::U8,
        orientation: 1,
        chroma: 0,
        dims: [0; 4],
        ndim: 0,
        bytes,
        damaged: false,
    }
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".to_owned())
}
