//! Which GPUs are ours, which are being looked at, and which somebody else has.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use gpulane_gpu::{Holder, Lease, Leases, Standing as LeaseStanding, Take};
use gpulane_model::{Bytes, Machine};

/// After strangers were seen on a GPU, it is looked at again this much later.
const AGAIN: Duration = Duration::from_secs(1);
/// Another reason for the same waiting is told this much later at the earliest.
const SAY_AGAIN: Duration = Duration::from_mins(1);

enum Place {
    /// Not ours. Why, if it was tried: for a person.
    Away { why: Option<String>, not_before: Option<Instant> },
    /// Leased, and being looked at.
    Asked { lease: Lease },
    /// Leased, and the core's to use. Without leases: no lease, but ours all the same.
    Ours { lease: Option<Lease>, since: Instant },
    /// Fallen off the bus. The lease is kept: nobody else should have it either.
    Lost(#[allow(dead_code)] Option<Lease>),
}

pub(super) struct Standing {
    /// `None`: nobody shares these GPUs with us.
    leases: Option<Leases>,
    uuids: Vec<String>,
    usable: Vec<Bytes>,
    /// Memory to be left free on each.
    headroom: Bytes,
    places: Vec<Place>,
    /// How many more the core could use.
    wanted: u32,
    /// By GPU: whether any of its jobs could run there.
    useful: Vec<bool>,
    /// What was last said about waiting, and when.
    said: Option<(String, Instant)>,
    /// Strangers were named on these GPUs.
    named: Vec<bool>,
}

impl Standing {
    pub(super) fn new(machine: &Machine, headroom: Bytes, leases: Option<Leases>) -> Self {
        let place = |_| match &leases {
            Some(_) => Place::Away { why: None, not_before: None },
            None => Place::Ours { lease: None, since: Instant::now() },
        };
        Self {
            places: machine.gpus.iter().map(place).collect(),
            leases,
            uuids: machine.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
            usable: machine.gpus.iter().map(gpulane_model::Gpu::usable).collect(),
            headroom,
            wanted: 0,
            useful: vec![true; machine.gpus.len()],
            said: None,
            named: vec![false; machine.gpus.len()],
        }
    }

    pub(super) fn want(&mut self, count: u32) {
        self.wanted = count;
    }

    pub(super) fn set_useful(&mut self, useful: Vec<bool>) {
        self.useful = useful;
    }

    /// Leases as many GPUs as are wanted and free; they are to be looked at before they are granted.
    pub(super) fn reach_out(&mut self) -> Vec<usize> {
        let Some(leases) = &mut self.leases else { return Vec::new() };
        let asked = self.places.iter().filter(|place| matches!(place, Place::Asked { .. })).count();
        let mut missing = (self.wanted as usize).saturating_sub(asked);
        let mut taken = Vec::new();
        for (gpu, place) in self.places.iter_mut().enumerate() {
            if missing == 0 {
                break;
            }
            let Place::Away { why, not_before } = place else { continue };
            if !self.useful[gpu] || not_before.is_some_and(|at| at > Instant::now()) {
                continue;
            }
            match leases.try_take(&self.uuids[gpu]) {
                Ok(Take::Taken(lease)) => {
                    *place = Place::Asked { lease };
                    taken.push(gpu);
                    missing -= 1;
                }
                Ok(Take::Busy { holder: Some(holder) }) => {
                    *why = Some(leased_by(&holder));
                }
                Ok(Take::Busy { holder: None }) => *why = Some("leased by another run".to_owned()),
                Ok(Take::NotYourTurn { before }) => {
                    let runs = if before == 1 { "run" } else { "runs" };
                    *why = Some(format!("{before} {runs} came first"));
                }
                Err(error) => *why = Some(format!("cannot be leased: {error}")),
            }
        }
        self.stand_in_line(missing);
        taken
    }

    /// Waits in line with other runs while something is missing.
    fn stand_in_line(&mut self, missing: usize) {
        let Some(leases) = &mut self.leases else { return };
        let away = |(gpu, place): (usize, &Place)| {
            (matches!(place, Place::Away { .. }) && self.useful[gpu]).then(|| self.uuids[gpu].clone())
        };
        let away: Vec<String> = self.places.iter().enumerate().filter_map(away).collect();
        if missing == 0 || away.is_empty() {
            leases.stop_wanting();
        } else {
            // Without a ticket we still try, only not in turn.
            let _ = leases.want(&away);
        }
    }

    /// An older run waits for a GPU of ours while we wait for more: whatever lies idle must go to it, or neither would
    /// ever have enough.
    pub(super) fn gives_way(&mut self) -> bool {
        if self.wanted == 0 {
            return false;
        }
        let Some(leases) = &mut self.leases else { return false };
        let mut ours = self
            .places
            .iter()
            .zip(&self.uuids)
            .filter(|(place, _)| matches!(place, Place::Ours { lease: Some(_), .. }));
        ours.any(|(_, uuid)| leases.older_waits_for(uuid))
    }

    /// Why nothing can be had, if that changed: `Some(None)`: it is over.
    #[allow(clippy::option_option)]
    pub(super) fn complaint(&mut self) -> Option<Option<String>> {
        let asking = self.is_asking();
        let away = self.places.iter().enumerate().filter_map(|(gpu, place)| match place {
            Place::Away { why: Some(why), .. } => Some(format!("GPU {gpu}: {why}")),
            _ => None,
        });
        if self.wanted == 0 {
            return self.said.take().map(|_| None);
        }
        let text = away.collect::<Vec<_>>().join("; ");
        // Who is in the way may change by the second while runs come and go; that it lasts is what matters.
        let lately = |(_, at): &(String, Instant)| at.elapsed() < SAY_AGAIN;
        let known = self.said.as_ref().is_some_and(|said| said.0 == text || lately(said));
        if asking || text.is_empty() || known {
            return None;
        }
        let because = format!("waiting for a GPU: {text}");
        self.said = Some((text, Instant::now()));
        Some(Some(because))
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.wanted > 0 && self.leases.is_some()
    }

    /// The core may use it; what of it, given what is free now.
    pub(super) fn granted(&mut self, gpu: usize, free: Bytes) -> Bytes {
        let since = Instant::now();
        let place = std::mem::replace(&mut self.places[gpu], Place::Ours { lease: None, since });
        if let Place::Asked { lease } = place {
            self.places[gpu] = Place::Ours { lease: Some(lease), since };
        }
        self.named[gpu] = false;
        self.said = None;
        self.usable[gpu].min(Bytes(free.0.saturating_sub(self.headroom.0)))
    }

    /// Strangers use it: back it goes, to be looked at again later. Whether that is new.
    pub(super) fn occupied(&mut self, gpu: usize, who: &str) -> bool {
        let Place::Asked { .. } = self.places[gpu] else { return false };
        let why = Some(format!("used by others, {who}"));
        self.places[gpu] = Place::Away { why, not_before: Some(Instant::now() + AGAIN) };
        !std::mem::replace(&mut self.named[gpu], true)
    }

    pub(super) fn release(&mut self, gpu: usize) {
        if let Place::Ours { lease: Some(_), since } = self.places[gpu] {
            // Given back at once: too little of it is free for any job. Others are tried before it is again.
            let of_no_use = since.elapsed() < AGAIN / 4;
            let why = of_no_use.then(|| "has too little memory free".to_owned());
            self.places[gpu] = Place::Away { why, not_before: of_no_use.then(|| Instant::now() + AGAIN) };
        }
    }

    pub(super) fn lost(&mut self, gpu: usize) {
        let place = std::mem::replace(&mut self.places[gpu], Place::Lost(None));
        if let Place::Asked { lease } | Place::Ours { lease: Some(lease), .. } = place {
            self.places[gpu] = Place::Lost(Some(lease));
        }
    }

    pub(super) fn is_asked(&self, gpu: usize) -> bool {
        matches!(self.places[gpu], Place::Asked { .. })
    }

    /// A GPU is being looked at.
    pub(super) fn is_asking(&self) -> bool {
        self.places.iter().any(|place| matches!(place, Place::Asked { .. }))
    }

    /// Looks after the locks of what is leased: which GPUs have another by now, and which are no longer ours alone.
    pub(super) fn look_after_leases(&mut self) -> Vec<(usize, LeaseStanding)> {
        let Some(leases) = &self.leases else { return Vec::new() };
        let mut found = Vec::new();
        for (gpu, place) in self.places.iter_mut().enumerate() {
            if let Place::Asked { lease } | Place::Ours { lease: Some(lease), .. } = place {
                // A lock that cannot be looked at is held as long as nothing else is known.
                found.extend(lease.look(leases).ok().map(|standing| (gpu, standing)));
            }
        }
        found
    }

    pub(super) fn keep_fresh(&self) {
        for place in &self.places {
            if let Place::Asked { lease } | Place::Ours { lease: Some(lease), .. } = place {
                lease.keep_fresh();
            }
        }
    }

    /// GPUs whose look will not come.
    pub(super) fn asked(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|gpu| self.is_asked(*gpu)).collect()
    }

    pub(super) fn lease_fd(&self, gpu: usize) -> Option<RawFd> {
        match &self.places[gpu] {
            Place::Ours { lease: Some(lease), .. } => Some(lease.as_fd().as_raw_fd()),
            _ => None,
        }
    }

    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.leases.as_ref()?.changes()
    }

    pub(super) fn clear_changes(&self) {
        if let Some(leases) = &self.leases {
            leases.clear_changes();
        }
    }
}

/// Who has it, for a person.
pub(super) fn leased_by(holder: &Holder) -> String {
    format!("leased by {}'s run {} (pid {})", holder.user, holder.run.display(), holder.pid)
}
