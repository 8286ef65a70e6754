//! Xids: the driver's numbers for what went wrong on a GPU. Which of them end a GPU's usefulness, and a watch for
//! them. The meanings follow NVIDIA's Xid catalogue.

use std::collections::VecDeque;
use std::time::Duration;

use nvml_wrapper::EventSet;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;

use crate::probe::Probe;

/// What an Xid says, in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xid {
    /// The process is to blame, or only it was hit; the GPU goes on.
    Application(&'static str),
    /// The GPU cannot be used until somebody acts.
    Device(&'static str),
}

/// What the driver's number means. One that is not known here is not held against the GPU: if that is really gone,
/// the next look at it tells.
pub const fn xid_meaning(xid: u64) -> Xid {
    match xid {
        8 | 43 => Xid::Application("a process was stopped on the GPU"),
        11 | 32 => Xid::Application("a process sent broken commands"),
        13 => Xid::Application("a kernel failed: an illegal instruction or an address out of range"),
        31 => Xid::Application("a process touched memory that is not its own"),
        44 | 69 => Xid::Application("a kernel failed"),
        45 => Xid::Application("a process was removed from the GPU"),
        63 => Xid::Application("bad memory was noted and will be replaced by spare rows"),
        66 => Xid::Application("a process did something the driver forbids"),
        68 => Xid::Application("the video decoder failed"),
        92 => Xid::Application("many memory errors were corrected"),
        94 => Xid::Application("a memory error ended the process it hit, and only that"),
        109 => Xid::Application("a process did not give way to another in time"),
        137 => Xid::Application("a process touched another GPU's memory that is not its own"),
        46 => Xid::Device("the GPU stopped processing"),
        48 => Xid::Device("a memory error could not be corrected"),
        54 => Xid::Device("the power cable is not connected"),
        61 | 62 => Xid::Device("the GPU's own controller stopped"),
        64 => Xid::Device("bad memory could not be replaced by spare rows"),
        74 => Xid::Device("the link to other GPUs failed"),
        79 => Xid::Device("the GPU has fallen off the bus"),
        95 => Xid::Device("a memory error may have hit any process"),
        110 => Xid::Device("a security fault"),
        119 | 120 => Xid::Device("the GPU's system processor does not answer"),
        136 => Xid::Device("the link to other GPUs could not be trained"),
        140 => Xid::Device("memory errors were not recovered from"),
        142 | 143 => Xid::Device("the GPU could not be set up"),
        157 => Xid::Device("a broken part could not be taken out of use"),
        158 => Xid::Device("the GPU did not answer in time"),
        _ => Xid::Application("an error that gpulane does not know"),
    }
}

/// A watch for Xids on some GPUs. Where the driver refuses to tell of them, none is ever seen.
#[derive(Debug)]
pub struct XidWatch<'probe> {
    /// `None` if no GPU could be registered.
    events: Option<EventSet<'probe>>,
    /// The GPU that events name, and the UUID we were asked for: for a slice they differ, and several share one GPU.
    watched: Vec<(String, String)>,
    /// Seen, but not handed out yet.
    seen: VecDeque<(String, u64)>,
}

impl Probe {
    /// Watches these GPUs or slices.
    pub fn watch_xids(&self, uuids: &[String]) -> XidWatch<'_> {
        let mut watched: Vec<(String, String)> =
            uuids.iter().filter_map(|uuid| Some((self.tells_of_xids(uuid)?, uuid.clone()))).collect();
        let mut whole: Vec<String> = watched.iter().map(|(gpu, _)| gpu.clone()).collect();
        whole.sort();
        whole.dedup();
        // A refusal takes the whole set with it; then it is made again without the one that refused.
        let events = loop {
            match self.register(&whole) {
                Ok(events) => break events,
                Err(refused) => drop(whole.remove(refused)),
            }
        };
        watched.retain(|(gpu, _)| whole.contains(gpu));
        XidWatch { events, watched, seen: VecDeque::new() }
    }

    /// The GPU whose events are about `uuid`, if it has any.
    fn tells_of_xids(&self, uuid: &str) -> Option<String> {
        let device = self.by_uuid(uuid).ok()?;
        let whole = match device.mig_is_mig_device_handle() {
            Ok(true) => device.mig_parent_device().ok()?,
            _ => device,
        };
        let told = whole.supported_event_types().ok()?;
        told.contains(EventTypes::CRITICAL_XID_ERROR).then(|| whole.uuid().ok())?
    }

    /// An event set for these GPUs, or the place of the one that cannot be in it.
    fn register(&self, gpus: &[String]) -> Result<Option<EventSet<'_>>, usize> {
        if gpus.is_empty() {
            return Ok(None);
        }
        let Ok(mut events) = self.nvml().create_event_set() else { return Ok(None) };
        for (place, uuid) in gpus.iter().enumerate() {
            let device = self.by_uuid(uuid).map_err(|_| place)?;
            events = device.register_events(EventTypes::CRITICAL_XID_ERROR, events).map_err(|_| place)?;
        }
        Ok(Some(events))
    }
}

impl XidWatch<'_> {
    /// Waits for the next Xid, so long at most: the GPU's UUID as it was asked for, and the number.
    pub fn next(&mut self, timeout: Duration) -> Option<(String, u64)> {
        if self.seen.is_empty() {
            self.wait(timeout);
        }
        self.seen.pop_front()
    }

    fn wait(&mut self, timeout: Duration) {
        let Some(events) = &self.events else { return std::thread::sleep(timeout) };
        let event = match events.wait(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX)) {
            Ok(event) => event,
            Err(NvmlError::Timeout) => return,
            // An error comes back at once, each time: do not ask in a frenzy.
            Err(_) => return std::thread::sleep(timeout),
        };
        let xid = match event.event_data {
            Some(XidError::Value(xid)) => xid,
            Some(XidError::Unknown) => 999,
            None => return,
        };
        let Ok(gpu) = event.device.uuid() else { return };
        let hit = self.watched.iter().filter(|(whole, _)| *whole == gpu);
        self.seen.extend(hit.map(|(_, uuid)| (uuid.clone(), xid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_a_process_is_told_from_a_fault_of_the_gpu() {
        for xid in [13, 31, 43, 45, 68, 69, 94] {
            assert!(matches!(xid_meaning(xid), Xid::Application(_)), "{xid}");
        }
        for xid in [48, 62, 64, 74, 79, 95, 119, 120, 140] {
            assert!(matches!(xid_meaning(xid), Xid::Device(_)), "{xid}");
        }
    }

    #[test]
    fn an_unknown_number_does_not_condemn_a_gpu() {
        assert!(matches!(xid_meaning(4711), Xid::Application(_)));
    }
}
