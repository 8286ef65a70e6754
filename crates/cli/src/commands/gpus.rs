//! `gpulane gpus`: this machine's GPUs, how they do, who holds and who has leased them.

use std::io::{self, IsTerminal};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use gpulane_gpu::{GpuReading, GpuSpec, MemoryReading, NoProbe};
use gpulane_model::{Bytes, ExitCode, Gpu};
use gpulane_report::{GpusScreen, Look, Mode, SeenGpus};
use gpulane_runtime::CtrlC;

use crate::args::Gpus;
use crate::say;
use crate::view::unix_now;
use crate::whose::Attribution;

/// Between two looks on a terminal.
const ON_TERMINAL: Duration = Duration::from_secs(1);
/// Between two looks where all of them stay.
const ELSEWHERE: Duration = Duration::from_secs(2);

pub(crate) fn gpus(args: &Gpus) -> ExitCode {
    let spec: GpuSpec = match args.which.parse() {
        Ok(spec) => spec,
        Err(error) => {
            say::error(error);
            return ExitCode::BadInput;
        }
    };
    if args.watch {
        return watch(&spec, args.json);
    }
    match look(&spec) {
        Ok(seen) if args.json => say::json(gpulane_report::gpus_json(&seen)),
        Ok(seen) => {
            say::shown(&gpulane_report::gpus_table(&seen, Look::detect(&io::stdout()), unix_now()));
        }
        Err(none) => return none.tell(args.json),
    }
    ExitCode::Success
}

/// Why there is nothing to show.
enum Nothing {
    /// An ordinary machine without GPUs.
    Absent(String),
    /// The driver is there but does not work, or a GPU that was named is not here.
    Lacking(String),
}

impl Nothing {
    fn tell(&self, json: bool) -> ExitCode {
        match self {
            Self::Absent(why) => {
                say::progress(why);
                if json {
                    say::data("[]\n");
                }
                ExitCode::Success
            }
            Self::Lacking(why) => {
                say::error(why);
                ExitCode::NoResources
            }
        }
    }
}

fn look(spec: &GpuSpec) -> Result<SeenGpus, Nothing> {
    let readings = match spec {
        GpuSpec::None => Vec::new(),
        GpuSpec::Sim(_) => simulated(spec)?,
        GpuSpec::All | GpuSpec::These(_) => match gpulane_gpu::readings(gpulane_gpu::DEADLINE) {
            Ok(readings) => chosen(readings, spec)?,
            Err(NoProbe::Absent(why)) if *spec == GpuSpec::All => return Err(Nothing::Absent(why)),
            Err(NoProbe::Absent(why)) => return Err(Nothing::Lacking(why)),
            Err(NoProbe::Broken(why)) => {
                return Err(Nothing::Lacking(format!("the GPUs cannot be read: {why}")));
            }
        },
    };
    let survey = gpulane_gpu::survey();
    let attribution = Attribution::new(&survey.leases);
    Ok(SeenGpus::new(readings, survey, |process| attribution.of(process)))
}

/// Those that were named, with their slices.
fn chosen(readings: Vec<GpuReading>, spec: &GpuSpec) -> Result<Vec<GpuReading>, Nothing> {
    let GpuSpec::These(names) = spec else { return Ok(readings) };
    let is = |reading: &GpuReading, name: &str| match name.parse::<u32>() {
        Ok(index) => reading.index == index,
        Err(_) => {
            reading.uuid.starts_with(name)
                || reading.slice_of.as_deref().is_some_and(|whole| whole.starts_with(name))
        }
    };
    if let Some(name) = names.iter().find(|name| !readings.iter().any(|reading| is(reading, name))) {
        let there: Vec<String> =
            readings.iter().map(|reading| format!("{} ({})", reading.index, reading.uuid)).collect();
        return Err(Nothing::Lacking(format!("no GPU {name} here; there are {}", there.join(", "))));
    }
    Ok(readings.into_iter().filter(|reading| names.iter().any(|name| is(reading, name))).collect())
}

/// The same picture of GPUs that are not there.
fn simulated(spec: &GpuSpec) -> Result<Vec<GpuReading>, Nothing> {
    let found = gpulane_gpu::find(spec, None, Bytes(0), None);
    let gpus = found.map_err(|error| Nothing::Lacking(error.to_string()))?.machine.gpus;
    let reading = |(index, gpu): (u32, Gpu)| GpuReading {
        uuid: gpu.uuid,
        index,
        name: gpu.name,
        memory: MemoryReading { total: gpu.memory, free: gpu.memory, ..MemoryReading::default() },
        ..GpuReading::default()
    };
    Ok((0..).zip(gpus).map(reading).collect())
}

/// Looks, on a thread of its own because the driver may hang; `None`: told to stop meanwhile.
fn look_unless(spec: &GpuSpec, stop: &CtrlC) -> Option<Result<SeenGpus, Nothing>> {
    let (sender, answer) = std::sync::mpsc::sync_channel(1);
    let asked = spec.clone();
    if std::thread::Builder::new().spawn(move || sender.send(look(&asked))).is_err() {
        // There may be no more threads: then this one waits.
        return Some(look(spec));
    }
    loop {
        match answer.recv_timeout(Duration::from_millis(50)) {
            Ok(seen) => return Some(seen),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(_) if stop.wait(Duration::ZERO) => return None,
            Err(_) => {}
        }
    }
}

/// Looks again and again, until told to stop; that is success.
fn watch(spec: &GpuSpec, json: bool) -> ExitCode {
    // Before the driver is asked, on a thread that inherits what is blocked.
    let stop = match CtrlC::listen() {
        Ok(stop) => stop,
        Err(error) => {
            say::error(format!("cannot listen for Ctrl-C: {error}"));
            return ExitCode::Internal;
        }
    };
    let look_here = Look::detect(&io::stdout());
    let still = io::stdout().is_terminal() && Mode::choose(false, false) == Mode::Tty;
    let pause = if still { ON_TERMINAL } else { ELSEWHERE };
    let mut screen = GpusScreen::new(look_here, still, Box::new(io::stdout()));
    loop {
        let seen = match look_unless(spec, &stop) {
            None => return screen.close().map_or(ExitCode::Internal, |()| ExitCode::Success),
            Some(Ok(seen)) => seen,
            Some(Err(none)) => {
                let _ = screen.close();
                return none.tell(json);
            }
        };
        let shown = if json { screen.show_json(&seen) } else { screen.show(&seen, unix_now()) };
        if shown.is_err() || screen.is_gone() || stop.wait(pause) {
            // Whoever read us may be gone; then nobody misses the end.
            let _ = screen.close();
            return ExitCode::Success;
        }
    }
}
