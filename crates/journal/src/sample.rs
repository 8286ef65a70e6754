//! A small run as an engine would journal it: for tests only.

use gpulane_model::{
    Attempt, Bytes, Config, Event, FailReason, Failure, Gpu, GpuKind, Job, LaneId, Machine, Millis,
    PLAN_FORMAT, Plan, ProcessExit, Record, RunSettings, RunState, Stage, StageId,
};

/// Twelve trainings, each followed by nothing.
pub(crate) fn plan() -> Plan {
    let mut stage = Stage::named("train");
    stage.command = vec!["python".into(), "train.py".into()];
    stage.jobs = 0..12;
    let jobs = (0..12)
        .map(|index| Job {
            stage: StageId(0),
            name: format!("seed={index}").into(),
            config: Config::default(),
            source: None,
        })
        .collect();
    Plan {
        format: PLAN_FORMAT,
        name: "sample".into(),
        run: RunSettings::default(),
        stages: vec![stage],
        jobs,
    }
}

/// Two simulated GPUs.
pub(crate) fn machine() -> Machine {
    let gpu = |index| Gpu {
        uuid: format!("GPU-sim-{index}"),
        name: "simulated".into(),
        memory: Bytes(24 << 30),
        reserved: Bytes(0),
    };
    Machine {
        kind: GpuKind::Sim,
        gpus: vec![gpu(0), gpu(1)],
        lanes_per_gpu: 1,
        packing: false,
        cores: 2,
        cpu_lanes: 0,
    }
}

/// The first event of a run.
pub(crate) fn run_started() -> Event {
    Event::RunStarted {
        format: 1,
        name: "sample".into(),
        gpulane: "0.1.0".into(),
        jobs: 12,
        machine: machine(),
        pid: 4711,
        boot: None,
    }
}

/// An event about the job with this index.
pub(crate) fn started(index: u32, attempt: u32) -> Event {
    Event::JobStarted {
        job: format!("train/seed={index}"),
        attempt: Attempt(attempt),
        lane: LaneId(index % 2),
        gpus: vec![format!("GPU-sim-{}", index % 2)],
        pid: 5000 + index,
        warm: false,
    }
}

/// The same job's success.
pub(crate) fn succeeded(index: u32, attempt: u32) -> Event {
    let job = format!("train/seed={index}");
    Event::JobSucceeded { job, attempt: Attempt(attempt), seconds: 1.5, peak_vram: Some(6 << 30) }
}

fn failed(index: u32, attempt: u32, failure: Failure) -> Event {
    Event::JobFailed { job: format!("train/seed={index}"), attempt: Attempt(attempt), failure }
}

/// About forty events: successes, a retry, an interruption, a resume, a skip, a full disk, odd characters.
pub(crate) fn events() -> Vec<Event> {
    let mut events = vec![run_started()];
    for index in 0..8 {
        events.push(started(index, 1));
        if index == 3 {
            let mut failure = Failure::from_exit(ProcessExit::Code(3), 0.25);
            failure.message = Some("a \"quoted\",\"crc\":\"00000000\"}\nline, é and \u{1f600}".into());
            events.push(failed(index, 1, failure));
            events.push(Event::JobRetrying { job: "train/seed=3".into(), attempt: Attempt(2), delay: 0.5 });
            events.push(started(index, 2));
        }
        events.push(succeeded(index, 1 + u32::from(index == 3)));
    }
    events.push(Event::StartsHeld { because: "the disk is full".into() });
    events.push(Event::StartsReleased {});
    events.push(started(8, 1));
    events.push(failed(8, 1, Failure::because(FailReason::Interrupted)));
    events.push(Event::RunInterrupted { because: "SIGINT".into(), exit_code: None });
    events.push(Event::RunResumed { gpulane: "0.1.0".into(), machine: machine(), pid: 4712, boot: None });
    for index in 8..11 {
        events.push(started(index, 1 + u32::from(index == 8)));
        events.push(Event::ProcessesLeft { job: format!("train/seed={index}"), count: 2, who: vec![] });
        events.push(succeeded(index, 1 + u32::from(index == 8)));
    }
    events.push(started(11, 1));
    events.push(failed(11, 1, Failure::from_exit(ProcessExit::Signal(11), 2.0)));
    events.push(Event::JobRequeued { job: "train/seed=11".into() });
    events.push(Event::JobSkipped { job: "train/seed=11".into(), because: "max_failures reached".into() });
    events.push(Event::RunFinished {
        succeeded: 11,
        failed: 0,
        skipped: 1,
        seconds: 12.5,
        exit_code: Some(3),
    });
    events
}

/// The same with their numbers and times.
pub(crate) fn records() -> Vec<Record> {
    let number = |(seq, event)| Record { seq, time: Millis(1_700_000_000_000 + seq * 10), event };
    (1..).zip(events()).map(number).collect()
}

/// The journal's bytes.
pub(crate) fn journal() -> Vec<u8> {
    records().iter().flat_map(|record| (super::encode(record) + "\n").into_bytes()).collect()
}

/// The state after some of the records.
pub(crate) fn state<'a>(records: impl IntoIterator<Item = &'a Record>) -> RunState {
    let mut state = RunState::new(&plan());
    records.into_iter().for_each(|record| state.apply(record));
    state
}

/// All of a state that can be compared.
pub(crate) fn facts(state: &RunState) -> String {
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        state.jobs,
        state.counts,
        state.started,
        state.engine_started,
        state.engine_pid,
        state.last,
        state.last_seq,
        state.finished,
        state.interrupted,
        state.held
    )
}
