//! Ring and loaders: started when the first worker has said what it takes, because that decides what is put into the ring.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulane_core::batches::{BatchSize, Share};
use gpulane_decode::Limits;
use gpulane_feed::loaders::{InHand, Loaders, Outside, Setup, Told};
use gpulane_feed::ring::{Geometry, Ring, budget, decoding_budget};
use gpulane_feed::wire::ToWorker;
use gpulane_model::{Bytes, Decode, MapStage, Members, Millis, NanPolicy};
use serde_json::{Map, Value};

use super::careful::DECODE;
use super::hub::{Hub, ring};
use super::outside::LoaderPool;
use super::source::Remaining;
use super::writing::{Blame, Write};

/// Items of a batch at most, where nobody said how many.
const MOST: u32 = 1024;
/// An item's entry in the table, and its name.
const PER_ITEM: u64 = 512;
/// What an item takes on average where sizes differ: enough for a photograph's planes, and for a page of text.
const PICTURE: u64 = 512 << 10;
const TEXT: u64 = 16 << 10;
/// The least and the most of a slot where sizes differ: one large image must fit.
const LEAST_SLOT: u64 = 64 << 20;
const MOST_SLOT: u64 = 192 << 20;
/// What the members of an item take on average, and the least and the most of a slot that is set apart for them where items have one size.
const MEMBERS: u64 = 16 << 10;
const LEAST_MEMBERS: u64 = 4 << 20;
const MOST_MEMBERS: u64 = 64 << 20;
/// Between two looks at the share left to the device.
const LOOK: Duration = Duration::from_millis(700);

/// What a worker has said of itself.
pub(super) struct Abilities {
    /// What it runs on, for a person.
    pub(super) device: String,
    /// Kinds of items beyond plain ones that it finishes itself.
    pub(super) accepts: Vec<String>,
    /// How its class asks for items to be decoded.
    pub(super) decode: Option<String>,
    /// Members of a sample that its class asks for.
    pub(super) members: Option<Vec<String>>,
    /// Items of a batch that its class asks for.
    pub(super) batch: Option<u32>,
    /// It has its own `load`.
    pub(super) load: bool,
}

/// The frame that goes with the ring's descriptor.
pub(super) fn ring_frame(
    ring: &Ring,
    decode: Decode,
    members: Members,
    nan: NanPolicy,
    args: Map<String, Value>,
    limit: Option<Millis>,
) -> ToWorker {
    let Geometry { slots, slot_bytes, capacity } = ring.geometry();
    let item_timeout = limit.map(Millis::as_seconds);
    ToWorker::Ring { slots, slot_bytes, capacity, decode, members, nan, args, item_timeout }
}

/// The ring of a map: batches of at most what was asked for, by the map or otherwise, and of at most so many items as are left to do.
/// `planes`: pictures come in sizes of their own; `members`: members of samples go with them.
fn geometry_for(
    map: &MapStage,
    workers: u32,
    (asked, items): (Option<u32>, u64),
    decode: Decode,
    (planes, members): (bool, bool),
) -> Result<Geometry, String> {
    let item_bytes = decode.item_bytes().filter(|_| !planes);
    let allowed = budget(map.ring)?;
    let beside = |items: u32| {
        let some = (MEMBERS * u64::from(items)).clamp(LEAST_MEMBERS, MOST_MEMBERS);
        let share = allowed / (4 * (u64::from(workers) + 1));
        if members && item_bytes.is_some() { some.min(share) } else { 0 }
    };
    let most = asked.unwrap_or_else(|| most_batch(allowed, workers, item_bytes).min(reachable(items)));
    let most = u32::try_from(items.max(1)).map_or(most, |items| most.min(items));
    let useful = map.ring.map_or_else(
        || {
            let without = useful(workers, (most, items), decode, item_bytes);
            without.saturating_add(beside(most).saturating_mul(slots(workers, most)))
        },
        |_| u64::MAX,
    );
    Geometry::plan(allowed.min(useful), workers, most, item_bytes, beside(most))
}

/// The memory a map's ring will take at most, for so many workers and items; the error is for a person.
pub fn ring_bytes(map: &MapStage, workers: u32, items: u64, decode: Decode) -> Result<u64, String> {
    let asked = (map.batch, items);
    let members = map.members.as_ref().is_some_and(|members| !members.is_none());
    let of = |planes| geometry_for(map, workers, asked, decode, (planes, members)).map(|ring| ring.bytes());
    // Whether pictures are finished on the GPU is known only when a worker is there.
    let planes = if decode.is_finished_by_workers() { of(true)? } else { 0 };
    Ok(of(false)?.max(planes))
}

/// What moves items to workers.
pub(super) struct Flow {
    pub(super) ring: Arc<Ring>,
    pub(super) loaders: Loaders,
    /// How many items a batch has.
    pub(super) size: BatchSize,
    /// How many JPEGs are left to the device, where it can.
    pub(super) share: Option<Share>,
    /// How items are decoded.
    pub(super) decode: Decode,
    /// Which members of its sample go with an item.
    pub(super) members: Members,
    /// Threads that load.
    pub(super) threads: u32,
    /// Processes that load what gpulane does not decode.
    pub(super) outside: Option<Arc<LoaderPool>>,
    /// The last look at the share: when, and how long workers and loaders had waited by then.
    looked: (Instant, f64, f64),
}

impl Flow {
    /// The share of what was loaded so far that went to the device as it is, to be decoded there; `None` where none can. What is no JPEG, or none that
    /// every decoder knows, counts as loaded and never goes.
    pub(super) fn on_device(&self) -> Option<f64> {
        self.share.as_ref().map(|_| self.loaders.rates().share_on_device())
    }

    /// Sets the share anew from who waited for whom since the last look.
    pub(super) fn tune(&mut self, now: Instant, workers_waited: f64, workers: u32) {
        let Some(share) = &mut self.share else { return };
        let (since, waited_then, loaders_then) = self.looked;
        let stretch = now.duration_since(since);
        if stretch < LOOK || workers == 0 {
            return;
        }
        let loaders_waited = self.loaders.rates().waiting_for_slots;
        let part = |seconds: f64, of: u32| {
            (seconds / (stretch.as_secs_f64() * f64::from(of.max(1)))).clamp(0.0, 1.0)
        };
        let workers_part = part(workers_waited - waited_then, workers);
        let loaders_part = part(loaders_waited - loaders_then, self.threads);
        if let Some(share) = share.on_look(workers_part, loaders_part) {
            self.loaders.set_on_device(share);
        }
        self.looked = (now, workers_waited, loaders_waited);
    }
}

impl Hub {
    /// Starts loading for a worker like this one; the error is for a person.
    pub(super) fn start_flow(&mut self, ready: &Abilities) -> Result<(), String> {
        let map = &self.task.map;
        let decode = self.decode_for(ready)?;
        let members = self.members_for(ready)?;
        let planes = decode.is_finished_by_workers() && ready.accepts.iter().any(|kind| kind == "planes");
        let on_device = planes && ready.accepts.iter().any(|kind| kind == "jpeg");
        let threads = map.threads.unwrap_or_else(cores).clamp(1, 256);
        let workers = u32::try_from(self.task.stage.jobs.len()).unwrap_or(1).max(1);
        let asked = map.batch.or(ready.batch);
        let settled = self.tally.rows_before + self.tally.failed_before;
        let left = self.task.list.len().saturating_sub(settled);
        let geometry = geometry_for(map, workers, (asked, left), decode, (planes, !members.is_none()))?;
        let ring_made = Ring::new(geometry).map_err(|error| {
            format!("cannot make a ring of {}: {error}; write a smaller --ring", Bytes(geometry.bytes()))
        })?;
        let ring_made = Arc::new(ring_made);
        let size = BatchSize::new(asked, geometry.capacity);
        let in_hand = InHand::create(&self.task.dir.join("in-hand"), threads)
            .map_err(|error| format!("cannot write {}: {error}", self.task.dir.display()))?;
        // Without it a trial after a crash tries as best it can.
        let _ = gpulane_files::write(&self.task.dir.join(DECODE), decode.to_string());
        let outside = matches!(decode, Decode::Load).then(|| {
            Arc::new(LoaderPool::new(
                &self.task,
                Arc::clone(&ring_made),
                threads,
                decode,
                self.news_to.clone(),
            ))
        });
        let load = outside.clone().map(|outside| outside as Arc<dyn Outside>);
        let setup = Setup {
            ring: Arc::clone(&ring_made),
            decode,
            members: members.clone(),
            limits: Limits { max_memory: decoding_budget(geometry.bytes()), ..Limits::default() },
            damaged: map.damaged,
            threads,
            archives: self.task.list.archives().to_vec(),
            tables: self.task.list.tables().to_vec(),
            base: self.task.base.clone(),
            pixels_here: !planes,
            device_decodes: on_device,
            load,
            in_hand: Arc::new(in_hand),
            batch: size.now(),
        };
        let source = Remaining::new(self.task.list.cursor(), Arc::clone(&self.settled));
        let (news, bell) = (self.news_to.clone(), Arc::clone(&self.bell));
        let tell = move |told: Told| {
            // The hub is gone only when this process ends.
            let _ = news.send(told);
            ring(&bell);
        };
        let loaders = Loaders::start(setup, Box::new(source), tell).map_err(|error| {
            let hint = gpulane_journal::io_hint(&error).map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("cannot start the threads that load: {error}{hint}")
        })?;
        loaders.set_workers(workers);
        self.say_how((decode, &members), threads, &geometry, (planes, on_device), ready);
        self.begin_figures();
        let share = on_device.then(Share::default);
        let looked = (Instant::now(), 0.0, 0.0);
        let ring = ring_made;
        self.flow = Some(Flow { ring, loaders, size, share, decode, members, threads, outside, looked });
        Ok(())
    }

    /// As asked; otherwise as the model's class says; otherwise by whether it loads by itself.
    fn decode_for(&self, ready: &Abilities) -> Result<Decode, String> {
        if let Some(decode) = self.task.map.decode {
            return Ok(decode);
        }
        match &ready.decode {
            Some(text) => text.parse().map_err(|error| format!("the model's `decode`: {error}")),
            None if ready.load => Ok(Decode::Load),
            None => Ok(Decode::Bytes),
        }
    }

    /// As asked; otherwise as the model's class says; otherwise none.
    fn members_for(&self, ready: &Abilities) -> Result<Members, String> {
        let members = match (&self.task.map.members, &ready.members) {
            (Some(asked), _) => asked.clone(),
            (None, Some(words)) => {
                Members::parse(words).map_err(|error| format!("the model's `members`: {error}"))?
            }
            (None, None) => Members::None,
        };
        if !members.is_none() && !self.task.list.knows_samples() {
            return Err("the list of items was made by an older gpulane, which did not note where samples begin, so that `members` cannot be \
                        found; start a new map into another --out"
                .to_owned());
        }
        Ok(members)
    }

    fn say_how(
        &self,
        (decode, members): (Decode, &Members),
        threads: u32,
        geometry: &Geometry,
        (planes, on_device): (bool, bool),
        ready: &Abilities,
    ) {
        let finish = match (planes, on_device) {
            (_, true) => ", finished and partly decoded on the GPU",
            (true, false) => ", finished on the GPU",
            _ => "",
        };
        let decoders =
            if threads == 1 { "1 thread decodes".to_owned() } else { format!("{threads} threads decode") };
        let beside = match members {
            Members::None => String::new(),
            Members::All => ", with all members of their samples,".to_owned(),
            Members::Named(named) => format!(", with the members {} of their samples,", named.join(", ")),
        };
        self.telling.note(format!(
            "{decoders} `{decode}`{finish}{beside} into a ring of {} slots of at most {}, {} in all; the model is on {}",
            geometry.slots,
            Bytes(geometry.slot_bytes),
            Bytes(geometry.bytes()),
            ready.device,
        ));
    }

    /// News from the loaders.
    pub(super) fn on_told(&mut self, told: Told) {
        match told {
            Told::Filled(mut filled) => {
                self.put_failed(std::mem::take(&mut filled.failed));
                let count = u32::try_from(filled.items.len()).unwrap_or(u32::MAX);
                let slot = filled.slot;
                self.slots.insert(slot, filled);
                self.books.on_filled(slot, count);
            }
            Told::Failed(failed) => self.put_failed(failed),
            Told::Drained => self.drained = true,
            Told::Broken(because) => self.end = Some(super::ending::End::Stopped(because)),
        }
    }

    fn put_failed(&mut self, failed: Vec<(u64, String, String)>) {
        // What `load` does not take, the model had.
        let by_model = self.flow.as_ref().is_some_and(|flow| matches!(flow.decode, Decode::Load));
        let blame = if by_model { Blame::Model } else { Blame::Item };
        for (number, name, reason) in failed {
            self.writing.put(Write::Failed((number, name), reason, blame));
        }
    }
}

/// How large batches may grow by themselves: slots for all workers must fit into the ring.
fn most_batch(allowed: u64, workers: u32, item: Option<u64>) -> u32 {
    let Some(item) = item else { return MOST };
    let fit = allowed / slots(workers, MOST) / (item + PER_ITEM);
    u32::try_from(fit).unwrap_or(MOST).clamp(1, MOST)
}

/// Slots that can be in use, with batches of at most so many items.
fn slots(workers: u32, batch: u32) -> u64 {
    Geometry::most_slots(workers, batch).into()
}

/// How large batches can become by themselves before so many items are done: they double when four of a size have been seen.
fn reachable(items: u64) -> u32 {
    u32::try_from(items / 4 + u64::from(BatchSize::FIRST)).unwrap_or(u32::MAX)
}

/// What a ring is of use for: more would only take memory. Slots for no more batches than there will be, and one for each worker, whose
/// last batches may be small. Where sizes differ a slot must hold the largest item, so it is not made smaller for few of them: what is
/// not used of it takes no memory.
fn useful(workers: u32, (most, items): (u32, u64), decode: Decode, item: Option<u64>) -> u64 {
    let guess = if matches!(decode, Decode::Text | Decode::Value) { TEXT } else { PICTURE };
    let slot = match item {
        Some(bytes) => bytes.saturating_mul(u64::from(most)),
        None => guess.saturating_mul(u64::from(MOST.max(most))).clamp(LEAST_SLOT, MOST_SLOT),
    };
    let batches = items.div_ceil(u64::from(most.clamp(1, BatchSize::FIRST)));
    let slots = slots(workers, most).min(batches.saturating_add(u64::from(workers) + 1));
    slot.saturating_add(u64::from(most) * PER_ITEM + (1 << 20)).saturating_mul(slots)
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}
