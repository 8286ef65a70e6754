//! How a ring is divided into slots.

use gpulane_model::Bytes;

use super::ENTRY;

/// A page: slots and the data in them begin at multiples of it.
const PAGE: u64 = 4096;
/// Offsets of names have 32 bits.
const LARGEST_SLOT: u64 = (1 << 32) - PAGE;
/// Room planned for an item's name; longer ones close a slot earlier.
const NAME: u64 = 256;
/// Batches a worker may have at once.
const AHEAD: u32 = 3;
/// Items whose failure is held back until it is known whose it is: their slots stay as they are meanwhile. Those of a broken worker,
/// and of two fresh ones in its place that were broken by their first item.
const HELD: u32 = 24;
/// What a slot for items of unknown size should have, if that leaves enough slots.
const GOOD_RAGGED: u64 = 64 << 20;
/// What it must have beside its table.
const LEAST_RAGGED: u64 = 1 << 20;

/// How a ring is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many slots there are.
    pub slots: u32,
    /// Bytes of each: a multiple of 4096, less than 4 GiB.
    pub slot_bytes: u64,
    /// Entries of a slot's table, so the largest batch.
    pub capacity: u32,
}

impl Geometry {
    /// Divides a budget. Items of one size: a slot holds the largest batch and there are no more slots than
    /// can be in use. Items of any size: fewer and larger slots, because the largest item must fit into one. `beside`: room in a slot for what
    /// goes with items of one size.
    pub fn plan(
        budget: u64,
        workers: u32,
        most_batch: u32,
        item_bytes: Option<u64>,
        beside: u64,
    ) -> Result<Self, String> {
        let (workers, capacity) = (workers.max(1), most_batch.max(1));
        let least = workers.saturating_add(1);
        let most = Self::most_slots(workers, capacity);
        let Some(item) = item_bytes else { return ragged(budget, least, most, capacity) };
        let slot_bytes = fixed_slot(capacity, item, beside);
        if slot_bytes > LARGEST_SLOT {
            return Err(too_large(capacity, item));
        }
        let slots = u32::try_from(budget / slot_bytes).unwrap_or(u32::MAX).min(most);
        if slots < least {
            return Err(format!(
                "a batch of {capacity} items of {} takes {}, and {workers} workers need {least} of them, but the ring \
                 has {}; use --ring {} or more, or a smaller --batch",
                Bytes(item),
                Bytes(slot_bytes),
                Bytes(budget),
                whole_mebibytes(slot_bytes * u64::from(least)),
            ));
        }
        Ok(Self { slots, slot_bytes, capacity })
    }

    /// Slots that can be in use: so many with each worker, some being filled, and where batches are small those of failures that are
    /// held back.
    pub const fn most_slots(workers: u32, batch: u32) -> u32 {
        let held = HELD.div_ceil(if batch == 0 { 1 } else { batch });
        workers.saturating_mul(AHEAD + 1).saturating_add(3 + held)
    }

    /// All of it.
    pub const fn bytes(&self) -> u64 {
        self.slots as u64 * self.slot_bytes
    }

    /// Where the items' data begins in a slot.
    pub const fn data_start(&self) -> u64 {
        table_bytes(self.capacity)
    }

    /// The most an item and its name can have.
    pub const fn most_item(&self) -> u64 {
        self.slot_bytes.saturating_sub(self.data_start())
    }

    /// Whether it can be a ring's: slots of whole pages below 4 GiB, with room for data behind the table.
    pub const fn is_sound(&self) -> bool {
        self.slots > 0
            && self.capacity > 0
            && self.slot_bytes.is_multiple_of(PAGE)
            && self.slot_bytes <= LARGEST_SLOT
            && self.slot_bytes > self.data_start()
    }
}

fn ragged(budget: u64, least: u32, most: u32, capacity: u32) -> Result<Geometry, String> {
    let slots = u32::try_from(budget / GOOD_RAGGED).unwrap_or(u32::MAX).clamp(least, most);
    let slot_bytes = (budget / u64::from(slots) / PAGE * PAGE).min(LARGEST_SLOT);
    let needed = table_bytes(capacity) + LEAST_RAGGED;
    if slot_bytes < needed {
        return Err(format!(
            "a ring of {} is too small for {} slots; use --ring {} or more",
            Bytes(budget),
            slots,
            whole_mebibytes(needed * u64::from(least)),
        ));
    }
    Ok(Geometry { slots, slot_bytes, capacity })
}

fn too_large(capacity: u32, item: u64) -> String {
    // What is lost by rounding up is at most a page for the table and one for the slot.
    let fits = (LARGEST_SLOT - 2 * PAGE) / (item.saturating_add(NAME + ENTRY as u64));
    if fits == 0 {
        return format!("an item of {} does not fit into a slot, which has less than 4 GiB", Bytes(item));
    }
    format!(
        "a batch of {capacity} items of {} does not fit into a slot, which has less than 4 GiB; \
         use --batch {fits} or less",
        Bytes(item)
    )
}

/// As `--ring` takes it.
fn whole_mebibytes(bytes: u64) -> String {
    format!("{}MiB", bytes.div_ceil(1 << 20))
}

const fn table_bytes(capacity: u32) -> u64 {
    (capacity as u64 * ENTRY as u64).next_multiple_of(PAGE)
}

const fn fixed_slot(capacity: u32, item: u64, beside: u64) -> u64 {
    let items = (capacity as u64).saturating_mul(item.saturating_add(NAME));
    let whole = items.saturating_add(table_bytes(capacity)).saturating_add(beside);
    if whole > LARGEST_SLOT { whole } else { whole.next_multiple_of(PAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn items_of_one_size_get_slots_of_a_batch_and_not_more_than_can_be_used() {
        let plan = Geometry::plan(4 * GIB, 1, 256, Some(224 * 224 * 3), 0).unwrap();
        assert_eq!((plan.slots, plan.capacity), (8, 256));
        assert!(plan.most_item() >= 256 * (224 * 224 * 3 + NAME));
        assert!(plan.is_sound());
    }

    #[test]
    fn many_workers_still_get_a_slot_each_and_one_to_fill() {
        let plan = Geometry::plan(4 * GIB, 64, 256, None, 0).unwrap();
        assert!(plan.slots >= 65 && plan.bytes() <= 4 * GIB && plan.is_sound(), "{plan:?}");
    }

    #[test]
    fn what_does_not_fit_says_what_to_write() {
        for (budget, workers, batch, item, word) in [
            (64 << 20, 4, 256, Some(150_528), "--ring 185MiB or more"),
            (1 << 20, 1, 256, None, "--ring 3MiB or more"),
            (64 * GIB, 1, 1 << 20, Some(150_528), "--batch 28472 or less"),
            (64 * GIB, 1, 1, Some(5 * GIB), "an item of 5 GiB does not fit"),
        ] {
            let error = Geometry::plan(budget, workers, batch, item, 0).expect_err(word);
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn what_is_advised_works() {
        assert!(Geometry::plan(185 << 20, 4, 256, Some(150_528), 0).is_ok());
        assert!(Geometry::plan(3 << 20, 1, 256, None, 0).is_ok());
        assert!(Geometry::plan(64 * GIB, 1, 28_472, Some(150_528), 0).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn every_plan_is_sound_and_within_its_budget(
            budget in 0..1_u64 << 40, workers in 0..300_u32, batch in 0..1_u32 << 20,
            item in proptest::option::of(0..1_u64 << 40),
        ) {
            if let Ok(plan) = Geometry::plan(budget, workers, batch, item, 0) {
                assert!(plan.is_sound() && plan.bytes() <= budget && plan.slots > workers, "{plan:?}");
            }
        }
    }
}
