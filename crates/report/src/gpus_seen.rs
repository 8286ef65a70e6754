//! What a look at this machine's GPUs found: readings, who holds what, leases and the queue. Also as JSON.

use std::path::{Path, PathBuf};

use gpulane_gpu::{GpuReading, Holder, ProcessReading, Survey, Ticket};
use gpulane_model::{Bytes, Millis};
use serde_json::{Value, json};

use crate::status_json::time;

/// Memory that the driver keeps for itself beside a process is no ghost's.
const SLACK: Bytes = Bytes(256 << 20);

/// All GPUs of a look.
#[derive(Clone, Debug, Default)]
pub struct SeenGpus {
    /// In PCI order, slices behind their GPU.
    pub gpus: Vec<SeenGpu>,
    /// Runs that wait for a GPU, the next one first.
    pub waiting: Vec<Ticket>,
}

/// A GPU or a slice of one, and who uses it.
#[derive(Clone, Debug)]
pub struct SeenGpu {
    /// What the driver tells.
    pub reading: GpuReading,
    /// Who holds memory on it, the most first.
    pub holders: Vec<SeenHolder>,
    /// The run that has leased it.
    pub lease: Option<Holder>,
    /// Memory that is held, but by no process that can be seen.
    pub ghost: Option<Bytes>,
}

/// A process on a GPU, as far as this machine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenHolder {
    /// What the driver tells.
    pub process: ProcessReading,
    /// Whose it is.
    pub user: Option<String>,
    /// Its command line.
    pub command: Option<String>,
    /// How it came here.
    pub whose: Whose,
}

/// Whether gpulane started a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// It belongs to a run.
    Run {
        /// The run's directory.
        run: PathBuf,
        /// `STAGE/NAME`; `None` where it serves the run as a whole.
        job: Option<String>,
    },
    /// It was not started by gpulane.
    Foreign,
    /// Its id means nothing here.
    Unknown,
}

impl SeenGpus {
    /// Puts together what was found. `who` tells what is known of a process.
    pub fn new(
        readings: Vec<GpuReading>,
        survey: Survey,
        mut who: impl FnMut(&ProcessReading) -> SeenHolder,
    ) -> Self {
        let cut: Vec<String> = readings.iter().filter_map(|reading| reading.slice_of.clone()).collect();
        let mut see = |reading: GpuReading| {
            let mut holders: Vec<SeenHolder> = reading.processes.iter().map(&mut who).collect();
            holders.sort_by_key(|holder| (std::cmp::Reverse(holder.process.memory), holder.process.pid));
            let lease = survey.leases.iter().find(|(uuid, _)| *uuid == reading.uuid);
            SeenGpu {
                lease: lease.map(|(_, holder)| holder.clone()),
                // What is held on slices is counted there.
                ghost: if cut.contains(&reading.uuid) { None } else { ghost(&reading) },
                holders,
                reading,
            }
        };
        Self { gpus: readings.into_iter().map(&mut see).collect(), waiting: survey.waiting }
    }
}

/// Memory that no visible process holds. Where the driver does not say what a process holds, nothing can be said.
fn ghost(reading: &GpuReading) -> Option<Bytes> {
    let held = reading.processes.iter().map(|process| process.memory.map(|memory| memory.0));
    let held = held.sum::<Option<u64>>()?;
    let left = reading.memory.used.0.saturating_sub(held);
    (left > SLACK.0.max(held / 50)).then_some(Bytes(left))
}

/// The name by which a person knows a run.
pub(crate) fn run_name(run: &Path) -> String {
    run.file_name().map_or_else(|| run.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// All of it as one JSON array, an object for each GPU or slice.
pub fn gpus_json(seen: &SeenGpus) -> String {
    let gpus: Vec<Value> = seen.gpus.iter().map(|gpu| gpu_value(gpu, &seen.waiting)).collect();
    Value::from(gpus).to_string()
}

fn gpu_value(gpu: &SeenGpu, waiting: &[Ticket]) -> Value {
    // A reading is plain data: it always has a JSON form.
    let mut value = serde_json::to_value(&gpu.reading).unwrap_or_default();
    if let Value::Object(map) = &mut value {
        map.remove("processes");
        let lease = gpu.lease.as_ref().map(|by| party(by.pid, &by.user, &by.run, by.since));
        let waits = waiting.iter().filter(|ticket| ticket.gpus.contains(&gpu.reading.uuid));
        let waits = waits.map(|by| party(by.pid, &by.user, &by.run, by.since));
        map.insert("holders".to_owned(), gpu.holders.iter().map(holder_value).collect());
        map.insert("lease".to_owned(), lease.unwrap_or_default());
        map.insert("waiting".to_owned(), waits.collect());
        map.insert("ghost".to_owned(), json!(gpu.ghost));
    }
    value
}

fn holder_value(holder: &SeenHolder) -> Value {
    let (word, run, job) = match &holder.whose {
        Whose::Run { run, job } => ("ours", Some(run), job.as_ref()),
        Whose::Foreign => ("foreign", None, None),
        Whose::Unknown => ("unknown", None, None),
    };
    json!({
        "pid": holder.process.pid,
        "user": holder.user,
        "command": holder.command,
        "memory": holder.process.memory,
        "compute": holder.process.compute,
        "whose": word,
        "run": run,
        "job": job,
    })
}

fn party(pid: u32, user: &str, run: &Path, since: Millis) -> Value {
    json!({ "pid": pid, "user": user, "run": run, "since": time(since) })
}

#[cfg(test)]
mod tests {
    use gpulane_gpu::MemoryReading;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(used: u64, held: &[Option<u64>]) -> GpuReading {
        let process = |memory: &Option<u64>| ProcessReading {
            pid: 1,
            memory: memory.map(|mib| Bytes(mib * MIB)),
            compute: true,
        };
        GpuReading {
            memory: MemoryReading { used: Bytes(used * MIB), ..MemoryReading::default() },
            processes: held.iter().map(process).collect(),
            ..GpuReading::default()
        }
    }

    #[test]
    fn memory_without_a_process_is_a_ghosts() {
        for (used, held, expected) in [
            (1024, &[][..], Some(1024)),
            (200, &[], None),
            (3000, &[Some(1000), Some(1000)], Some(1000)),
            // The driver's own part grows with what is in use.
            (50_300, &[Some(50_000)], None),
            (52_000, &[Some(50_000)], Some(2000)),
            (3000, &[Some(1000), None], None),
            (500, &[Some(900)], None),
        ] {
            assert_eq!(ghost(&reading(used, held)), expected.map(|mib| Bytes(mib * MIB)), "{used} {held:?}");
        }
    }
}
