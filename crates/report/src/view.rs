//! The state behind a live view: what runs where, what was printed when, and how the modes differ.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use gpulane_journal::RunDir;
use gpulane_model::{Attempt, Event, GpuIndex, JobId, LaneId, Millis, Plan, Record, RunState};

use crate::clean::{clean, json_text, safe};
use crate::echoes::Echoes;
use crate::frame::{Frame, LaneJob, LaneRow, Silence, render};
use crate::gpu_words::gpu_troubles;
use crate::lanes::{lane_label, place_label};
use crate::lines::Line;
use crate::look::{Look, Mode};
use crate::maps::maps;
use crate::metrics::Metrics;
use crate::output::{LIVE, Output, Said, Stream};
use crate::pace::Pace;
use crate::packing::at_once;
use crate::palette::Palette;
use crate::plain::{Plain, beat};
use crate::prefix::Prefix;
use crate::screen::{Screen, Sink};
use crate::summary::Summed;
use crate::suspects;
use crate::teller::Teller;
use crate::text::seconds;
use crate::used::{Shown, Used};

/// At most 20 frames a second.
const FRAME: Millis = Millis(50);
/// Bytes of lines that may gather within a tick.
const SPILL: usize = 1 << 20;

/// A job that runs now.
struct Running {
    lane: LaneId,
    attempt: Attempt,
    since: Millis,
    /// UUIDs of its GPUs.
    gpus: Vec<String>,
    /// What was thought of it last, until it prints again.
    silence: Option<Silence>,
}

pub(crate) struct View {
    mode: Mode,
    look: Look,
    palette: Palette,
    dir: RunDir,
    plan: Arc<Plan>,
    pub(crate) state: RunState,
    pace: Pace,
    /// Absent where nobody would see it.
    output: Option<Output>,
    /// Which of that was said before.
    echoes: Echoes,
    /// For `--json`.
    metrics: Option<Metrics>,
    running: BTreeMap<JobId, Running>,
    /// Lanes this engine has used.
    lanes: Used,
    prefix: Prefix,
    teller: Teller,
    plain: Plain,
    screen: Screen,
    out: Sink,
    /// JSON lines not yet written.
    json: String,
    /// When the frame was last drawn.
    drawn: Option<Millis>,
    /// Bytes of ended jobs' logs shown in this tick.
    pub(crate) log_bytes: usize,
    /// Taking in the past: nothing is shown.
    pub(crate) silent: bool,
}

impl View {
    pub(crate) fn new(
        dir: RunDir,
        plan: Arc<Plan>,
        mode: Mode,
        look: Look,
        out: Box<dyn Write>,
        err: Box<dyn Write>,
    ) -> Self {
        let palette = Palette::new(&look);
        let tails = matches!(mode, Mode::Tty | Mode::Plain);
        Self {
            mode,
            look,
            palette,
            state: RunState::new(&plan),
            pace: Pace::new(&plan),
            output: tails.then(|| Output::new(dir.clone(), Arc::clone(&plan), LIVE)),
            echoes: Echoes::default(),
            metrics: (mode == Mode::Json).then(|| Metrics::new(dir.clone(), Arc::clone(&plan))),
            running: BTreeMap::new(),
            lanes: Used::default(),
            prefix: match mode {
                Mode::Tty => Prefix::on_terminal(&plan, palette, look.size().0),
                _ => Prefix::whole(&plan, palette),
            },
            teller: Teller::new(palette, (mode == Mode::Tty).then_some(look)),
            plain: Plain::default(),
            screen: Screen::new(err),
            out: Sink::new(out),
            json: String::new(),
            drawn: None,
            log_bytes: 0,
            silent: false,
            dir,
            plan,
        }
    }

    /// Takes in one event and tells it.
    pub(crate) fn on_record(&mut self, record: &Record, line: &str) {
        let job = record.event.job().and_then(|name| self.state.find(name));
        let before = job.map(|job| self.state.job(job).status.clone());
        self.state.apply(record);
        let mut before_it = None;
        if let (Some(job), Some(before)) = (job, before) {
            let stage = self.plan.job(job).stage.index();
            self.pace.on_change(stage, &before, &self.state.job(job).status);
            before_it = self.on_job(job, record);
        }
        if matches!(record.event, Event::RunStarted { .. } | Event::RunResumed { .. }) {
            self.on_engine();
        }
        if self.silent {
            return;
        }
        match self.mode {
            Mode::Json => {
                self.json.push_str(line);
                self.json.push('\n');
            }
            Mode::Quiet => {}
            Mode::Tty | Mode::Plain => {
                self.teller.tell(record, before_it, &self.state, &self.plan, &self.dir, &mut self.screen);
            }
        }
    }

    /// A new engine: what the last one left running is over.
    fn on_engine(&mut self) {
        self.running.clear();
        self.lanes.clear();
        self.pace.on_engine();
        self.hear_rest();
        self.prefix.on_engine();
    }

    /// Takes in what happened to a job. If it failed with the same lines as one before it: which one that was.
    fn on_job(&mut self, job: JobId, record: &Record) -> Option<JobId> {
        match &record.event {
            Event::JobStarted { attempt, lane, gpus, .. } => {
                let (lane, attempt, gpus) = (*lane, *attempt, gpus.clone());
                let running = Running { lane, attempt, since: record.time, gpus, silence: None };
                self.running.insert(job, running);
                self.lanes.on_start(lane);
                self.prefix.on_start(job, lane);
                self.plain.on_start(job, record.time);
                if let Some(output) = &mut self.output {
                    output.start(job, attempt);
                }
                if let Some(metrics) = &mut self.metrics {
                    metrics.start(job, attempt);
                }
            }
            Event::HangSuspected { frozen, .. } => {
                if let Some(running) = self.running.get_mut(&job) {
                    running.silence = Some(Silence::of(*frozen));
                }
            }
            Event::JobRevived { .. } => {
                if let Some(running) = self.running.get_mut(&job) {
                    running.silence = None;
                }
            }
            Event::JobSucceeded { attempt, .. } | Event::JobFailed { attempt, .. } => {
                if let Some(running) = self.running.remove(&job) {
                    self.lanes.on_end(running.lane, record.time);
                }
                self.plain.on_end(job);
                // Workers of a map have no line of their own that could say it.
                let failed =
                    matches!(record.event, Event::JobFailed { .. }) && self.plan.stage_of(job).map.is_none();
                let before_it = self.hear_end(job, *attempt, failed);
                self.prefix.on_end(job);
                return before_it;
            }
            _ => {}
        }
        None
    }

    /// The rest of what a job printed that has ended; not what a failed one said as another before it, which is given.
    fn hear_end(&mut self, job: JobId, attempt: Attempt, failed: bool) -> Option<JobId> {
        match &mut self.metrics {
            Some(metrics) if self.silent => metrics.forget(job),
            Some(metrics) => metrics.end(job, &mut self.json),
            None => {}
        }
        let Self { output, echoes, prefix, plan, screen, .. } = self;
        let output = output.as_mut()?;
        // What an earlier engine started and lost is not shown again.
        if self.silent || !output.follows(job, attempt) {
            output.forget(job);
            echoes.release(job);
            return None;
        }
        let mut hear = |said: Said<'_>| {
            screen.lines(&echoes.hear(&said, || prefix.said(plan, &said)));
        };
        self.log_bytes += output.end(job, attempt, &mut hear);
        let ended = echoes.end(job, failed);
        ended.map_err(|lines| screen.lines(&lines)).ok()
    }

    /// The past was taken in: of the output so far only the end is shown, and none where nobody works on these jobs
    /// any more. `before`: all of it happened before the engine that works now.
    pub(crate) fn on_caught_up(&mut self, keep: u64, before: bool) {
        if before || !self.dir.is_live() {
            self.running.clear();
            self.lanes.clear();
            self.prefix.on_engine();
            if let Some(output) = &mut self.output {
                output.forget_all();
            }
            if let Some(metrics) = &mut self.metrics {
                metrics.forget_all();
            }
            return;
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.skip_to_end();
        }
        if let Some(output) = &mut self.output {
            output.skip_to_end(keep);
            self.hear();
            // What was heard now is old: it ends no silence.
            for (job, running) in &mut self.running {
                running.silence = self.state.suspected.get(job).map(|it| Silence::of(it.frozen));
            }
        }
    }

    /// The rest of what running jobs printed: nothing more will come of them.
    fn hear_rest(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.forget_all();
        }
        let Self { output, echoes, prefix, plan, screen, silent, .. } = self;
        match output {
            Some(output) if *silent => output.forget_all(),
            Some(output) => output.end_all(&mut |said| {
                screen.lines(&echoes.hear(&said, || prefix.said(plan, &said)));
            }),
            None => {}
        }
        screen.lines(&echoes.release_all());
    }

    /// Reads the logs of running jobs and puts everything on the screen. A screen that cannot be written to (a
    /// log on a full disk) loses its lines; the run and its view go on.
    pub(crate) fn show(&mut self, now: Millis) {
        self.hear();
        self.screen.lines(&self.echoes.overdue(now));
        if matches!(self.mode, Mode::Tty | Mode::Plain) {
            self.teller.tick(now, false, &self.state, &mut self.screen);
        }
        let _ = match self.mode {
            Mode::Tty => self.show_frame(now),
            Mode::Plain => self.show_plain(now),
            Mode::Json => {
                self.hear_metrics();
                self.screen.flush()
            }
            Mode::Quiet => self.screen.flush(),
        };
    }

    fn hear_metrics(&mut self) {
        if let Some(metrics) = &mut self.metrics {
            metrics.poll(&mut self.json);
            self.write_json();
        }
    }

    fn hear(&mut self) {
        let Self { output, echoes, prefix, plan, screen, running, .. } = self;
        let Some(output) = output else { return };
        output.poll(&mut |said| {
            if let Some(running) = running.get_mut(&said.job) {
                running.silence = None;
            }
            screen.lines(&echoes.hear(&said, || prefix.said(plan, &said)));
        });
    }

    fn show_frame(&mut self, now: Millis) -> io::Result<()> {
        if self.drawn.is_some_and(|at| now.since(at) < FRAME && now >= at) {
            return Ok(());
        }
        self.drawn = Some(now);
        let (columns, rows) = self.look.size();
        self.prefix.fit(&self.plan, columns);
        let frame = self.frame(now, true);
        self.screen.draw(render(&frame, self.palette, columns, rows), columns)
    }

    fn show_plain(&mut self, now: Millis) -> io::Result<()> {
        let jobs: Vec<JobId> = self.running.keys().copied().collect();
        for job in jobs {
            let Some((text, true)) = self.output.as_ref().and_then(|output| output.unfinished(job)) else {
                continue;
            };
            if self.plain.show_bar(job, text, now) {
                let line = Line { text, cut: false };
                self.screen.line(&self.prefix.line(&self.plan, job, Stream::Stderr, line));
            }
        }
        if self.screen.waiting() > 0 {
            self.plain.on_print(now);
        } else if self.plain.is_due(now, self.state.maps.iter().flatten().next().is_some())
            && self.state.started.is_some()
            && !self.state.finished
        {
            self.plain.on_print(now);
            let frame = self.frame(now, false);
            self.screen.line(&beat(&frame, self.palette));
        }
        self.screen.flush()
    }

    /// What the frame shows now.
    fn frame(&mut self, now: Millis, with_lanes: bool) -> Frame {
        let elapsed = self.state.engine_started.map_or(Millis(0), |start| now.since(start));
        let plan = &self.plan;
        let running = self
            .running
            .iter()
            .map(|(job, running)| (plan.job(*job).stage.index(), now.since(running.since)));
        let state = &self.state;
        let most = |at: usize| match (&state.machine, plan.stages.get(at)) {
            (Some(machine), Some(stage)) => {
                at_once(stage, machine, state.measured[at].map(|measured| measured.reserve))
            }
            _ => 1,
        };
        let left = self.pace.left(plan, &most, now, elapsed, running);
        Frame {
            name: plan.name.clone(),
            counts: self.state.counts,
            total: u32::try_from(plan.jobs.len()).unwrap_or(u32::MAX),
            elapsed,
            rate: self.pace.rate(elapsed),
            left: left.filter(|_| self.state.held.is_none() && !self.state.finished),
            held: self.state.held.as_deref().map(|because| safe(because).into_owned()),
            troubles: gpu_troubles(&self.state, true),
            maps: maps(&self.dir, plan, &self.state, now),
            lanes: if with_lanes { self.lane_rows(now) } else { Vec::new() },
            name_columns: self.prefix.columns(),
        }
    }

    fn lane_rows(&self, now: Millis) -> Vec<LaneRow> {
        let machine = self.state.machine.as_ref();
        let by_lane: BTreeMap<LaneId, (&JobId, &Running)> =
            self.running.iter().map(|(job, running)| (running.lane, (job, running))).collect();
        // A GPU that is part of a job elsewhere is not idle.
        let taken = |gpu: Option<GpuIndex>| {
            let uuid = machine.and_then(|m| m.gpus.get(gpu?.index())).map(|gpu| &gpu.uuid);
            uuid.is_some_and(|uuid| {
                self.running.values().any(|running| running.gpus.len() > 1 && running.gpus.contains(uuid))
            })
        };
        let idle =
            |gpu: Option<GpuIndex>, label: String| (!taken(gpu)).then_some(LaneRow { label, job: None });
        let row = |shown: Shown| match shown {
            Shown::IdleGpu(gpu) => idle(Some(gpu), format!("gpu {gpu}")),
            Shown::Lane(lane) => match by_lane.get(&lane) {
                Some((job, running)) => Some(LaneRow {
                    label: place_label(machine, lane, &running.gpus),
                    job: Some(self.lane_job(**job, running, now)),
                }),
                None => idle(machine.and_then(|m| m.gpu_of(lane)), lane_label(machine, lane)),
            },
        };
        self.lanes.shown(machine, now).into_iter().filter_map(row).collect()
    }

    fn lane_job(&self, job: JobId, running: &Running, now: Millis) -> LaneJob {
        let text = self.output.as_ref().and_then(|output| output.unfinished(job));
        let text = text.map(|(text, _)| clean(text, false).trim().replace('\t', " ")).unwrap_or_default();
        let suspicion = self.state.suspected.get(&job).filter(|_| running.silence == Some(Silence::Quiet));
        let told = suspicion.filter(|_| text.is_empty()).map(suspects::waits_for);
        LaneJob {
            name: self.prefix.name(&self.plan, job),
            style: self.prefix.style(job),
            attempt: running.attempt.0,
            elapsed: now.since(running.since),
            silence: running.silence,
            quiet: suspicion.map_or(Millis(0), |it| seconds(it.lasted(now))),
            text: told.unwrap_or(text),
        }
    }

    /// A line from gpulane itself.
    pub(crate) fn note(&mut self, text: &str) {
        if self.mode != Mode::Quiet {
            self.screen.line(text);
        }
    }

    /// The same where it must be seen, also by who asked for quiet.
    pub(crate) fn warn(&mut self, text: &str) {
        self.screen.line(text);
    }

    /// Writes the JSON lines gathered.
    pub(crate) fn write_json(&mut self) {
        let json = std::mem::take(&mut self.json);
        // A sink that takes no more marks itself as gone; the run matters more than who listens.
        let _ = self.out.write(json_text(&json).as_bytes());
    }

    /// Writes lines before the tick is over where very many have gathered.
    pub(crate) fn spill(&mut self, now: Millis) {
        if self.screen.waiting() < SPILL {
            return;
        }
        if self.mode == Mode::Tty {
            self.drawn = None;
            let _ = self.show_frame(now);
        } else {
            let _ = self.screen.flush();
        }
    }

    /// Nothing more will come: the rest of all output, and no frame.
    pub(crate) fn close(&mut self, now: Millis) {
        self.hear_rest();
        if matches!(self.mode, Mode::Tty | Mode::Plain) {
            self.teller.tick(now, true, &self.state, &mut self.screen);
        }
        let _ = self.screen.close(self.look.size().0);
    }

    /// What the summary is made from.
    pub(crate) fn summed(&self, now: Millis) -> Summed<'_> {
        Summed {
            dir: &self.dir,
            plan: &self.plan,
            state: &self.state,
            palette: self.palette,
            brief: matches!(self.mode, Mode::Json | Mode::Quiet),
            now,
            columns: (self.mode == Mode::Tty).then(|| self.look.size().0),
        }
    }

    /// Prints lines below everything else.
    pub(crate) fn print(&mut self, lines: &[String]) {
        self.screen.lines(lines);
        let _ = self.screen.flush();
    }
}

impl Drop for View {
    /// A view that was not finished leaves no half of a frame behind.
    fn drop(&mut self) {
        let _ = self.screen.close(self.look.size().0);
    }
}
