//! Which standbys are wanted: processes that have imported a stage's file and wait for a job. As many as jobs of the stage may run at
//! once, or a few times that where jobs are over sooner than the next one can be imported; never more than are still to start. The most
//! needed first: stages with jobs that are ready, then those that wait for others, then the workers of maps, which need one only if
//! another dies.
//!
//! A standby is bound to its GPU, not to its lane. Lanes without a GPU are all alike.

use std::cmp::Reverse;
use std::collections::HashMap;

use gpulane_model::{Bytes, Event, GpuIndex, GpuKind, JobId, Millis, Stage, StageId, Standbys};

use crate::demand::{Demand, Need};
use crate::devices::{Device, Status};
use crate::state::{Core, Life};

/// Standbys that are all alike: of one stage, in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyWish {
    /// The stage.
    pub stage: StageId,
    /// Its GPU; `None`: it has none.
    pub gpu: Option<GpuIndex>,
    /// Threads it is given, as its job would be.
    pub cpus: u32,
    /// What its job may take of the GPU, where that is shared by memory and known for sure.
    pub reserve: Option<Bytes>,
    /// How many.
    pub count: u32,
}

/// Standbys that are there: stage, GPU, how many.
pub type StandbysThere = (StageId, Option<GpuIndex>, u32);

/// So many for each lane while it is not known how long a job takes.
const FIRST: u32 = 4;
/// So many at most for each lane.
const MOST: u32 = 8;

/// How quickly standbys of a stage are made and used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Importing its file takes so long, once one has.
    pub import: Option<Millis>,
    /// Its jobs work so long after that.
    pub work: Millis,
    /// One has ended; otherwise they work at least so long.
    pub sure: bool,
}

impl Pace {
    /// How many must be on their way for each lane, so that one is ready whenever it comes free.
    fn ahead(self) -> u32 {
        let most = if self.sure { MOST } else { FIRST };
        let Some(import) = self.import else { return FIRST };
        u32::try_from(import.0.div_ceil(self.work.0.max(1))).unwrap_or(most).clamp(1, most)
    }
}

/// A place where standbys of a stage may be.
struct Place {
    gpu: Option<GpuIndex>,
    /// Jobs of the stage that may run there at once.
    lanes: u32,
}

impl Core {
    /// Which standbys should be there now, the most needed first. `there`: which are, so that none is ended only to be made
    /// elsewhere, or again.
    pub fn standbys(&self, there: &[StandbysThere], paces: &HashMap<StageId, Pace>) -> Vec<StandbyWish> {
        if !matches!(self.life, Life::Going { .. }) || self.interrupt.is_some() {
            return Vec::new();
        }
        let mut wishes: Vec<StandbyWish> = Vec::new();
        for stage in self.by_need() {
            let (settings, slot) = (self.plan.stage(stage), &self.stages[stage.index()]);
            let number = per_lane(settings, paces.get(&stage).copied());
            let kept = kept(settings, number);
            let demand = slot.plain.demand;
            let places = self.places(demand);
            let here = |place: &Place| {
                let here = there.iter().filter(|(of, gpu, _)| (*of, *gpu) == (stage, place.gpu));
                here.map(|(.., count)| *count).sum::<u32>()
            };
            let rooms = places.iter().map(|place| {
                let lanes = if slot.map.is_some() { place.lanes.min(1) } else { place.lanes };
                let taken: u32 =
                    wishes.iter().filter(|wish| wish.gpu == place.gpu).map(|wish| wish.count).sum();
                let here = here(place);
                let room = lanes.saturating_mul(number).max(here.min(lanes.saturating_mul(kept)));
                (room.saturating_sub(taken), here)
            });
            let all: u32 = places.iter().map(here).sum();
            let limit = limit(settings.parallel, number).max(all.min(limit(settings.parallel, kept)));
            let most = self.most_standbys(stage).min(limit);
            let counts = spread(most, &rooms.collect::<Vec<_>>());
            let (cpus, sure) = (self.threads(stage, demand), self.is_stage_sure(stage));
            let reserve = demand.reserve(&self.machine).filter(|_| sure);
            for (place, count) in places.iter().zip(counts).filter(|(_, count)| *count > 0) {
                wishes.push(StandbyWish { stage, gpu: place.gpu, cpus, reserve, count });
            }
        }
        wishes
    }

    /// The stages that may have any, the most needed first.
    fn by_need(&self) -> Vec<StageId> {
        let may = |stage: &StageId| {
            let (settings, slot) = (self.plan.stage(*stage), &self.stages[stage.index()]);
            (settings.entry.is_some() || settings.map.is_some())
                && settings.gpus <= 1
                && settings.standbys != Standbys::Off
                && settings.standbys != Standbys::PerLane(0)
                && !(slot.standbys_off || slot.stopped || slot.lack.is_some())
        };
        let mut stages: Vec<StageId> = (0..self.stages.len()).map(StageId::at).filter(may).collect();
        stages.sort_by_key(|stage| {
            let slot = &self.stages[stage.index()];
            (slot.map.is_some(), slot.ready() == 0, Reverse(slot.plain.rank))
        });
        stages
    }

    /// How many jobs are there for standbys of this stage to begin with.
    fn most_standbys(&self, stage: StageId) -> u32 {
        let slot = &self.stages[stage.index()];
        match &slot.map {
            // Those that came to grief beside others are started in another way.
            None => slot.pending.saturating_sub(slot.alone.ready),
            // First all workers are started; a standby is for those that are started again.
            Some(map) if map.end.is_none() && map.lives() => {
                let begun = |job: JobId| self.jobs[job.index()].attempts > 0;
                let all = self.plan.stage(stage).job_ids().all(begun);
                if all { slot.busy + slot.pending } else { 0 }
            }
            Some(_) => 0,
        }
    }

    /// Where jobs that take this may run.
    fn places(&self, demand: Demand) -> Vec<Place> {
        let (devices, machine) = (&self.lanes.devices, &self.machine);
        let may_use = |device: &Device| matches!(device.status, Status::Usable | Status::Held(_));
        match demand {
            Demand::Cores(cores) => {
                let lanes = machine.all_lanes().saturating_sub(machine.main_lanes());
                vec![Place { gpu: None, lanes: lanes.min(machine.cores / cores.max(1)) }]
            }
            Demand::Devices { need, .. } if machine.kind == GpuKind::None => {
                let lanes = devices.iter().filter(|(_, device)| may_use(device) && device.suffices(need));
                vec![Place { gpu: None, lanes: u32::try_from(lanes.count()).unwrap_or(u32::MAX) }]
            }
            Demand::Devices { need, .. } => {
                let usable = devices.iter().filter(|(_, device)| may_use(device) && device.suffices(need));
                let lanes = |device: &Device| match need {
                    Need::Whole(_) => 1,
                    Need::Share(amount) => u32::try_from(device.capacity / amount.max(1))
                        .unwrap_or(u32::MAX)
                        .min(devices.places()),
                };
                usable.map(|(at, device)| Place { gpu: Some(GpuIndex(at)), lanes: lanes(device) }).collect()
            }
        }
    }

    /// Standbys of this stage are of no use: there will be none any more. Said once.
    pub(crate) fn on_standbys_failed(&mut self, stage: StageId, why: String) {
        let Some(slot) = self.stages.get_mut(stage.index()).filter(|slot| !slot.standbys_off) else { return };
        slot.standbys_off = true;
        let stage = self.plan.stage(stage).name.clone();
        self.record(Event::StandbysOff { stage, why });
    }

    /// What must be true of the wishes, whatever happened.
    pub(crate) fn check_standbys(&self) -> Result<(), String> {
        let pace = |work| Pace { import: Some(Millis(10_000)), work: Millis(work), sure: true };
        for pace in [None, Some(pace(1)), Some(pace(4000)), Some(pace(3_600_000))] {
            let stages = (0..self.stages.len()).map(StageId::at);
            self.check_wishes(&stages.filter_map(|stage| Some((stage, pace?))).collect())?;
        }
        Ok(())
    }

    fn check_wishes(&self, paces: &HashMap<StageId, Pace>) -> Result<(), String> {
        let wishes = self.standbys(&[], paces);
        let there: Vec<StandbysThere> =
            wishes.iter().map(|wish| (wish.stage, wish.gpu, wish.count)).collect();
        if self.standbys(&there, paces) != wishes {
            return Err(format!("{wishes:?} are wanted, and others once they are there"));
        }
        for wish in &wishes {
            let (settings, slot) = (self.plan.stage(wish.stage), &self.stages[wish.stage.index()]);
            let all: u32 = there.iter().filter(|(of, ..)| *of == wish.stage).map(|(.., count)| count).sum();
            if settings.map.is_none() && all > slot.pending {
                return Err(format!("{all} standbys for {} jobs of stage {}", slot.pending, wish.stage.0));
            }
            let place = wish.gpu.and_then(|gpu| self.lanes.devices.get(gpu.0));
            if place.is_some_and(|device| matches!(device.status, Status::Lost(_) | Status::Away)) {
                return Err(format!("{wish:?} is for a GPU that is not ours"));
            }
            if settings.gpus > 1 || settings.standbys == Standbys::Off || wish.count == 0 {
                return Err(format!("{wish:?} is of no use"));
            }
        }
        Ok(())
    }
}

fn per_lane(stage: &Stage, pace: Option<Pace>) -> u32 {
    match stage.standbys {
        Standbys::Off => 0,
        Standbys::Auto if stage.map.is_some() => 1,
        Standbys::Auto => pace.map_or(FIRST, Pace::ahead),
        Standbys::PerLane(number) => number,
    }
}

/// Up to how many for each lane are not ended if they are there. Where several are wanted they will be used soon, and how many are wanted
/// trembles; where one will do, a second is no burden.
fn kept(stage: &Stage, number: u32) -> u32 {
    match stage.standbys {
        Standbys::Auto if stage.map.is_none() && number > 1 => MOST,
        Standbys::Auto if stage.map.is_none() => number + 1,
        _ => number,
    }
}

/// No more standbys than a stage of which so many jobs run at once has a use for.
fn limit(parallel: u32, number: u32) -> u32 {
    if parallel == 0 { u32::MAX } else { parallel.saturating_mul(number) }
}

/// Gives each place a part of `most`, at most its room: first what is there already, then one by one.
fn spread(most: u32, places: &[(u32, u32)]) -> Vec<u32> {
    let mut left = most;
    let mut given: Vec<u32> = Vec::with_capacity(places.len());
    for (room, there) in places {
        let here = left.min(*room).min(*there);
        left -= here;
        given.push(here);
    }
    loop {
        let before = left;
        for ((room, _), here) in places.iter().zip(&mut given) {
            if left > 0 && *here < *room {
                (*here, left) = (*here + 1, left - 1);
            }
        }
        if left == before {
            return given;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_there_stays_and_the_rest_goes_round() {
        assert_eq!(spread(4, &[(1, 0), (1, 0), (1, 0)]), [1, 1, 1]);
        assert_eq!(spread(3, &[(2, 0), (2, 0)]), [2, 1]);
        assert_eq!(spread(2, &[(1, 0), (1, 1), (1, 1)]), [0, 1, 1], "none is ended to be made elsewhere");
        assert_eq!(spread(1, &[(0, 3), (1, 0)]), [0, 1]);
        assert_eq!(spread(0, &[(5, 5)]), [0]);
    }

    proptest! {
        #[test]
        fn no_place_has_more_than_its_room_and_nothing_is_left_that_fits(
            most in 0..40_u32,
            places in prop::collection::vec((0..6_u32, 0..8_u32), 0..6),
        ) {
            let given = spread(most, &places);
            let room: u32 = places.iter().map(|(room, _)| room).sum();
            prop_assert_eq!(given.iter().sum::<u32>(), most.min(room));
            for ((room, _), here) in places.iter().zip(&given) {
                prop_assert!(here <= room);
            }
            let usable: u32 = places.iter().map(|(room, there)| room.min(there)).sum();
            if usable <= most {
                prop_assert!(places.iter().zip(&given).all(|((room, there), here)| here >= room.min(there)));
            }
        }
    }
}
