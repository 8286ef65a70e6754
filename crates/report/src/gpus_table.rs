//! `gpulane gpus` as a person reads it: a line per GPU with meters, below it who holds what and what is wrong.

use gpulane_gpu::{GpuReading, Ticket};
use gpulane_model::{Bytes, Millis};

use crate::clean::safe;
use crate::gpu_advice::troubles;
use crate::gpus_seen::{SeenGpu, SeenGpus, SeenHolder, Whose, run_name};
use crate::look::Look;
use crate::palette::{Palette, Style};
use crate::table::{Cell, Table};
use crate::text::{Drawn, Row, ago, fit, lasted, pad, shorten, width, wrap};

/// Columns before what stands below a GPU.
const INDENT: usize = 5;
/// Columns of the longest user name shown whole.
const USER: usize = 12;
/// A command cut to less says nothing.
const COMMAND: usize = 16;
/// Room for names and meters below which the rest is said more briefly.
const NARROW: usize = 24;

/// The GPUs as text. `now`: Unix time.
pub fn gpus_table(seen: &SeenGpus, look: Look, now: Millis) -> String {
    let lines = lines(seen, Palette::new(&look), look.size().0, now);
    lines.into_iter().map(|line| line.text + "\n").collect()
}

pub(crate) fn lines(seen: &SeenGpus, palette: Palette, columns: usize, now: Millis) -> Vec<Drawn> {
    let columns = columns - 1;
    let mut lines = Vec::new();
    let mut rows = summary_lines(seen, palette, columns).into_iter();
    lines.extend(rows.next());
    for (gpu, row) in seen.gpus.iter().zip(rows) {
        lines.push(row);
        below(gpu, palette, columns, now, &mut lines);
    }
    queue(seen, palette, columns, now, &mut lines);
    lines
}

/// Titles, then a line per GPU.
fn summary_lines(seen: &SeenGpus, palette: Palette, columns: usize) -> Vec<Drawn> {
    let readings: Vec<&GpuReading> = seen.gpus.iter().map(|gpu| &gpu.reading).collect();
    let widest = |text: &dyn Fn(&GpuReading) -> String| {
        readings.iter().map(|reading| width(&text(reading))).max().unwrap_or(0)
    };
    // Columns and the gaps between them, all but names and meters.
    let fixed = |limit: bool| {
        let power = widest(&|reading| power(reading, limit)).max(5);
        3 + widest(&memory).max(6)
            + widest(&load).max(4)
            + power
            + widest(&|r| temperature(r, palette)).max(4)
            + 14
    };
    let narrow = columns < fixed(true) + NARROW;
    let room = columns.saturating_sub(fixed(!narrow));
    let name = widest(&name).min((room * 2 / 5).max(room.saturating_sub(30))).max(4);
    let meters = room.saturating_sub(name);
    let shape =
        Shape { narrow, name, memory: (meters * 3 / 5).clamp(4, 20), load: (meters * 2 / 5).clamp(3, 12) };
    let title = |word: &'static str, text: &dyn Fn(&GpuReading) -> String| {
        // Simulated GPUs have neither.
        if widest(text) > 0 { word } else { "" }
    };
    let temperature = |reading: &GpuReading| temperature(reading, palette);
    let (load, power) = (title("load", &load), title("power", &|reading| power(reading, false)));
    let titles = ["gpu", "name", "", "memory", "", load, power, title("temp", &temperature)];
    let titles = titles.map(str::to_owned).to_vec();
    let rows = readings.iter().map(|reading| row(reading, &shape, palette)).collect();
    Table { titles, rows, indent: 0 }.lines(palette)
}

/// How wide the parts of a line are.
struct Shape {
    narrow: bool,
    name: usize,
    memory: usize,
    load: usize,
}

fn row(reading: &GpuReading, shape: &Shape, palette: Palette) -> Vec<Cell> {
    let number =
        if reading.slice_of.is_some() { palette.branch().to_owned() } else { reading.index.to_string() };
    let name = fit(&name(reading), shape.name, palette.dots());
    let mut cells = vec![Cell::number(Style::Bold, number), Cell::text(name)];
    if reading.memory.total.0 == 0 {
        cells.push(Cell::styled(Style::Bad, "?"));
        return cells;
    }
    let meter =
        |fraction: f64, columns: usize| Cell::painted(palette.meter(Style::Good, fraction, columns), columns);
    let busy = reading.load.map(f64::from);
    cells.extend([
        meter(gib(reading.memory.used) / gib(reading.memory.total), shape.memory),
        Cell::number(Style::Plain, memory(reading)),
        busy.map_or_else(|| Cell::text(""), |load| meter(load / 100.0, shape.load)),
        Cell::number(Style::Plain, load(reading)),
        Cell::number(Style::Plain, power(reading, !shape.narrow)),
        Cell::number(Style::Plain, temperature(reading, palette)),
    ]);
    cells
}

#[allow(clippy::cast_precision_loss)] // for people
fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 30)
}

/// Its name; a slice's without that of its GPU, which stands above.
fn name(reading: &GpuReading) -> String {
    let name = safe(&reading.name);
    if let Some(at) = name.find("MIG ").filter(|_| reading.slice_of.is_some()) {
        return name[at..].to_owned();
    }
    // Whoever made it matters least, and room is short.
    name.strip_prefix("NVIDIA ").unwrap_or(&name).to_owned()
}

fn memory(reading: &GpuReading) -> String {
    format!("{:.1}/{:.1} GiB", gib(reading.memory.used), gib(reading.memory.total))
}

fn load(reading: &GpuReading) -> String {
    reading.load.map(|load| format!("{load} %")).unwrap_or_default()
}

fn power(reading: &GpuReading, limit: bool) -> String {
    match (reading.power, reading.power_limit.filter(|_| limit)) {
        (Some(power), Some(limit)) => format!("{power:.0}/{limit:.0} W"),
        (Some(power), None) => format!("{power:.0} W"),
        (None, _) => String::new(),
    }
}

fn temperature(reading: &GpuReading, palette: Palette) -> String {
    reading.temperature.map(|degrees| format!("{degrees}{}", palette.degrees())).unwrap_or_default()
}

/// What stands below a GPU's line.
fn below(gpu: &SeenGpu, palette: Palette, columns: usize, now: Millis, lines: &mut Vec<Drawn>) {
    if gpu.reading.slice_of.is_some() {
        lines.push(indented(palette, columns, Style::Dim, &gpu.reading.uuid));
    }
    holders(&gpu.holders, palette, columns, lines);
    if let Some(lease) = &gpu.lease {
        let (run, user) = (run_name(&lease.run), safe(&lease.user));
        let since = lasted(now.since(lease.since));
        let text = format!("leased to run {run} (pid {}, {user}) for {since}", lease.pid);
        lines.push(indented(palette, columns, Style::Dim, &safe(&text)));
    }
    for (style, trouble) in troubles(gpu) {
        sentence(palette, columns, style, &trouble, lines);
    }
}

fn indented(palette: Palette, columns: usize, style: Style, text: &str) -> Drawn {
    let mut row = Row::new(palette, columns);
    row.put(Style::Plain, &" ".repeat(INDENT)).put(style, text);
    row.done()
}

/// A sentence over as many lines as it takes.
fn sentence(palette: Palette, columns: usize, style: Style, text: &str, lines: &mut Vec<Drawn>) {
    for (at, line) in wrap(text, columns.saturating_sub(INDENT + 2)).iter().enumerate() {
        let sign = if at == 0 { "! " } else { "  " };
        lines.push(indented(palette, columns, style, &format!("{sign}{line}")));
    }
}

/// `4711  ada  35.2 GiB  python train.py --lr 0.1  ours: run ablation, job train/a`, in two lines where one is too short.
fn holders(holders: &[SeenHolder], palette: Palette, columns: usize, lines: &mut Vec<Drawn>) {
    let widest = |text: &dyn Fn(&SeenHolder) -> String| {
        holders.iter().map(|holder| width(&text(holder))).max().unwrap_or(0)
    };
    let pids = widest(&|holder| holder.process.pid.to_string());
    let (users, memories) = (widest(&user).min(USER), widest(&held));
    let (commands, ends) = (widest(&command), widest(&|holder| whose(&holder.whose).1));
    let room = columns.saturating_sub(INDENT + pids + 2 + users + 2 + memories + 2);
    let beside = room.checked_sub(ends + 2).filter(|room| *room >= COMMAND.min(commands));
    let commands = commands.min(beside.unwrap_or(room));
    for holder in holders {
        let (pid, held) = (holder.process.pid, held(holder));
        let user = pad(&fit(&user(holder), users, palette.dots()), users);
        let command = pad(&shorten(&command(holder), commands, palette.dots()), commands);
        let (style, whose) = whose(&holder.whose);
        let mut row = Row::new(palette, columns);
        row.put(Style::Plain, &" ".repeat(INDENT));
        row.put(Style::Plain, &format!("{pid:>pids$}  {user}  {held:>memories$}  "));
        row.put(Style::Dim, if beside.is_some() { &command } else { command.trim_end() });
        if beside.is_some() {
            row.put(Style::Plain, if commands > 0 { "  " } else { "" }).put(style, &whose);
            lines.push(row.done());
        } else {
            lines.push(row.done());
            lines.push(indented(palette, columns, style, &format!("{}{whose}", " ".repeat(pids + 2))));
        }
    }
}

fn user(holder: &SeenHolder) -> String {
    safe(holder.user.as_deref().unwrap_or("?")).into_owned()
}

fn held(holder: &SeenHolder) -> String {
    holder.process.memory.map_or_else(|| "?".to_owned(), |memory| memory.to_string())
}

fn command(holder: &SeenHolder) -> String {
    safe(holder.command.as_deref().unwrap_or_default()).into_owned()
}

fn whose(whose: &Whose) -> (Style, String) {
    match whose {
        Whose::Run { run, job } => {
            let job = job.as_ref().map(|job| format!(", job {job}")).unwrap_or_default();
            (Style::Good, safe(&format!("ours: run {}{job}", run_name(run))).into_owned())
        }
        Whose::Foreign => (Style::Warn, "foreign".to_owned()),
        Whose::Unknown => (Style::Warn, "unknown (another PID namespace)".to_owned()),
    }
}

/// Runs that wait for a GPU.
fn queue(seen: &SeenGpus, palette: Palette, columns: usize, now: Millis, lines: &mut Vec<Drawn>) {
    if seen.waiting.is_empty() {
        return;
    }
    lines.push(Drawn::default());
    let mut title = Row::new(palette, columns);
    title.put(Style::Bold, "Waiting for a GPU, the first in line first");
    lines.push(title.done());
    for ticket in &seen.waiting {
        let (run, user, pid) = (run_name(&ticket.run), &ticket.user, ticket.pid);
        let (wanted, since) = (wanted(ticket, seen), ago(ticket.since, now));
        let text = format!("  run {run} (pid {pid}, {user}), begun {since}, {wanted}");
        let mut row = Row::new(palette, columns);
        row.put(Style::Plain, &safe(&text));
        lines.push(row.done());
    }
}

/// `for gpu 0`, `for any of gpu 0, 2`.
fn wanted(ticket: &Ticket, seen: &SeenGpus) -> String {
    let number = |uuid: &String| {
        let gpu = seen.gpus.iter().find(|gpu| gpu.reading.uuid == *uuid);
        gpu.map_or_else(|| uuid.clone(), |gpu| gpu.reading.index.to_string())
    };
    let numbers: Vec<String> = ticket.gpus.iter().map(number).collect();
    let any = if numbers.len() > 1 { "any of " } else { "" };
    format!("for {any}gpu {}", numbers.join(", "))
}
