//! What happened besides the ends of jobs: to the run and its GPUs, and to jobs on their way.

use gpulane_model::{Bytes, JobStatus};

use super::groups::{by, named};
use super::story::{Incident, Story, What};
use super::{shown, telling};
use crate::number::{counted, processes};
use crate::patience::{PATIENCE, within};
use crate::{Finding, leftovers};

const JOURNAL: &str = "journal";
const ENGINE: &str = "engine";
const GPUS: &str = "GPUs";
const PROCESSES: &str = "processes";
const MEMORY: &str = "GPU memory";

/// To the run as a whole.
pub(super) fn of_the_run(story: &Story) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(damage) = &story.damage {
        let finding = Finding::bad(JOURNAL, damage.what.clone())
            .because("what follows is told from what stands before it");
        found.push(match &damage.hint {
            Some(_) if story.live => finding.then("gpulane watch RUN    # if it was replaced, look again"),
            _ => finding.then(format!("gpulane resume {} --salvage", story.shown)),
        });
    }
    found.extend(engine(story));
    found.extend(left_alive(story));
    found.extend(story.state.quarantined.iter().map(|(gpu, why)| {
        Finding::bad(GPUS, format!("{gpu} is not used any more: {why}"))
            .because("its jobs were moved to other GPUs, if there are any")
            .then("gpulane doctor    # looks at every GPU")
    }));
    found.extend(story.state.vram_held.iter().map(|(gpu, because)| {
        Finding::warning(GPUS, format!("{gpu} waits: {because}"))
            .because("a job has ended but its memory is not back, so the GPU is not given to the next")
            .then("gpulane gpus")
    }));
    found
}

/// A run that stopped before its end. Where the journal is damaged, nobody knows.
fn engine(story: &Story) -> Option<Finding> {
    let state = &story.state;
    if story.live || state.finished || story.damage.is_some() {
        return None;
    }
    let left = counted(state.counts.pending + state.counts.running, "job", "jobs");
    let resume = format!("gpulane resume {}", story.shown);
    if let Some(because) = &state.interrupted {
        let seen = format!("interrupted with {left} to go: {because}");
        return Some(Finding::warning(ENGINE, seen).then(resume));
    }
    let log = story.dir.engine_log();
    let words = telling::line(&log).map_or_else(String::new, |line| format!("; its last words: {line}"));
    Some(
        Finding::bad(ENGINE, format!("it ended without a word, with {left} to go{words}"))
            .because("it was killed (the kernel does so for want of memory), or the machine went down")
            .then(resume)
            .then(format!("less {}", shown(&log))),
    )
}

/// Processes of a run that is over.
fn left_alive(story: &Story) -> Option<Finding> {
    let root = story.dir.root();
    let pids: Vec<u32> = within(PATIENCE, leftovers::find)
        .unwrap_or_default()
        .iter()
        .filter(|left| left.tag.run == root)
        .map(|left| left.process.pid)
        .collect();
    (!pids.is_empty()).then(|| {
        Finding::bad(PROCESSES, format!("still alive though the run is over: {}", listed(&pids)))
            .because("its engine and guardian were both killed, so nobody ended them; they may hold GPUs")
            .then(format!("gpulane doctor {} --fix", story.shown))
    })
}

/// To jobs, by kind.
pub(super) fn of_jobs(story: &Story) -> Vec<Finding> {
    let kinds = by(story.incidents.iter().map(|incident| (kind(incident), incident)));
    kinds.into_iter().map(|(_, incidents)| told(story, &incidents)).collect()
}

/// What makes two of them alike.
fn kind(incident: &Incident) -> (u8, String) {
    match &incident.what {
        What::Left { .. } => (0, String::new()),
        What::Stuck { because, .. } => (1, telling::normal(because)),
        What::Lingered { because } => (2, telling::normal(because)),
        What::Exceeded { .. } => (3, incident.job.split('/').next().unwrap_or_default().to_owned()),
        What::MpsFault { because } => (4, telling::normal(because)),
    }
}

fn told(story: &Story, incidents: &[&Incident]) -> Finding {
    let mut names: Vec<String> = incidents.iter().map(|incident| incident.job.clone()).collect();
    names.dedup();
    let jobs = named(&names);
    let first = incidents[0];
    let finding = match &first.what {
        What::Left { count, who } => left(&jobs, *count, who),
        What::Stuck { pids, because } => {
            Finding::bad(PROCESSES, format!("{jobs}: {} outlived SIGKILL: {because}", listed(pids)))
                .because("it is stuck in the kernel, mostly in the driver; its GPU was taken out of use")
                .then("sudo dmesg | grep -i -e xid -e nvrm -e 'blocked for more' | tail")
                .then("reboot    # nothing else ends such a process")
        }
        What::Lingered { because } => Finding::warning(PROCESSES, format!("{jobs}: {because}"))
            .because("each costs its grace; gpulane ended them and counts them as succeeded")
            .then("end worker threads and pools before the program ends, or call os._exit(0) last"),
        What::Exceeded { .. } => exceeded(&jobs, incidents),
        What::MpsFault { because } => {
            Finding::warning(GPUS, format!("{jobs}: a fault under MPS took others down: {because}"))
                .because("processes that share a GPU through MPS share their faults; they were started again")
                .then("mps = false    # in the plan of a new run, if that goes on")
        }
    };
    let running = story.live && names.iter().any(|name| is_running(story, name));
    let finding = if running && matches!(first.what, What::Stuck { .. }) {
        finding.then("gpulane gpus")
    } else {
        finding
    };
    finding.of(names)
}

fn left(jobs: &str, count: u32, who: &[String]) -> Finding {
    let who = if who.is_empty() { String::new() } else { format!(", such as {}", who[0]) };
    Finding::warning(PROCESSES, format!("{jobs}: exited and left {} behind{who}", processes(count)))
        .because("gpulane ended them before the next job started; elsewhere they would keep the GPU's memory")
        .then("wait for worker processes before the program ends: pool.close(); pool.join(), or `del loader`")
}

fn exceeded(jobs: &str, incidents: &[&Incident]) -> Finding {
    let of = |incident: &&Incident| match incident.what {
        What::Exceeded { peak, reserved } => Some((peak, reserved)),
        _ => None,
    };
    let (peak, reserved) = incidents.iter().filter_map(of).max().unwrap_or((0, 0));
    Finding::warning(MEMORY, format!("{jobs}: held {} where {} were reserved", Bytes(peak), Bytes(reserved)))
        .because("its neighbours on the GPU may run out of memory")
        .then(format!(
            "memory = \"{}GiB\"    # in the plan of a new run",
            (peak / 10).saturating_mul(11).div_ceil(1 << 30)
        ))
}

fn is_running(story: &Story, name: &str) -> bool {
    let status = story.state.find(name).map(|job| &story.state.job(job).status);
    matches!(status, Some(JobStatus::Running { .. }))
}

fn listed(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    format!("pid {}", pids.join(", "))
}
