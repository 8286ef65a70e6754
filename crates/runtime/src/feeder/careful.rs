//! After a crash: the items that were in the hands of the loader threads are loaded once more, each in a process of its own that may
//! crash instead of this one. What crashes it has failed; the rest goes its usual way.

use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpulane_decode::{Decoder, Finish, Limits};
use gpulane_feed::loaders::{InHand, read_alone};
use gpulane_feed::ring::decoding_budget;
use gpulane_items::{Item, Place, Table};
use gpulane_model::{Decode, FEEDER};
use serde::{Deserialize, Serialize};

use super::begin::Begun;
use crate::process::signals::{reap_within, unblocked};

/// What a trial may take: a file that never answers crashes nothing.
const PATIENCE: Duration = Duration::from_mins(1);
/// What one that was killed may take to be gone.
const KILLED: Duration = Duration::from_secs(2);
/// Signals of a program that went wrong by itself.
const CRASHES: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];
/// Where it is kept how items are decoded, which the model's class may decide: a trial must do the same.
pub(super) const DECODE: &str = "in-hand.decode";
/// Where the trial's orders stand; their presence tells a trial from a feeder.
const VARIABLE: &str = "GPULANE_TRY_ITEM";

/// One item to load and forget.
#[derive(Debug, Serialize, Deserialize)]
struct Trial {
    /// The file it is in.
    path: PathBuf,
    /// What of it.
    part: Part,
    /// What to make of it.
    decode: Decode,
}

/// What of a file an item is.
#[derive(Debug, Serialize, Deserialize)]
enum Part {
    /// All of it.
    Whole,
    /// A member of a tar file.
    Member { offset: u64, bytes: u64 },
    /// A row of a table: the columns with the data and with a path, and where paths begin.
    Row { row: u64, data: String, beside: Option<String>, base: PathBuf },
}

/// Whether this process is a trial; then its exit code.
pub(super) fn as_trial() -> Option<u8> {
    let text = std::env::var(VARIABLE).ok()?;
    let trial: Trial = serde_json::from_str(&text).ok()?;
    // Whether it decodes is not asked here, only whether trying it is survived.
    let _ = load(trial);
    Some(0)
}

fn load(trial: Trial) -> Result<(), String> {
    let path = trial.path;
    let encoded = match trial.part {
        Part::Whole => read_alone(&Place::File(path), &[], &[], Path::new("")),
        Part::Member { offset, bytes } => read_alone(
            &Place::Member { archive: 0, offset, bytes, before: None },
            &[path],
            &[],
            Path::new(""),
        ),
        Part::Row { row, data, beside, base } => {
            let table = Table { file: path, data, path: beside };
            read_alone(&Place::Row { table: 0, row }, &[], &[table], &base)
        }
    }?;
    let limits = Limits { max_memory: decoding_budget(0), ..Limits::default() };
    let mut decoder = Decoder::new(trial.decode, limits);
    for finish in [Finish::Here, Finish::Planes] {
        let _ = decoder.decode(&encoded, finish, &mut Heap(Vec::new()));
    }
    Ok(())
}

/// A place that is thrown away.
struct Heap(Vec<u8>);

impl gpulane_decode::Place for Heap {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.0 = vec![0; usize::try_from(bytes).ok()?];
        Some(&mut self.0)
    }
}

/// Tries what a feeder that crashed had in hand. Returns what crashed again, with the reason.
pub(super) fn try_suspects(begun: &Begun) -> Vec<(Item, String)> {
    let file = begun.task.dir.join("in-hand");
    let suspects: BTreeSet<u64> = InHand::left_by(&file).unwrap_or_default().into_iter().collect();
    let mut deadly = Vec::new();
    for number in suspects {
        if number >= begun.task.list.len()
            || begun.settled.done.contains(number)
            || begun.settled.failed.contains(number)
        {
            continue;
        }
        let Ok(item) = begun.task.list.get(number) else { continue };
        if let Some(signal) = crashes(&item, begun) {
            let reason = format!("decoding it crashed ({})", signal_name(signal));
            deadly.push((item, reason));
        }
    }
    let _ = std::fs::remove_file(&file);
    deadly
}

/// The signal that ended the trial, if one did.
fn crashes(item: &Item, begun: &Begun) -> Option<i32> {
    let list = &begun.task.list;
    let (path, part) = match &item.place {
        Place::File(path) => (path, Part::Whole),
        Place::Member { archive, offset, bytes, .. } => {
            (list.archives().get(*archive as usize)?, Part::Member { offset: *offset, bytes: *bytes })
        }
        Place::Row { table, row } => {
            let Table { file, data, path } = list.tables().get(*table as usize)?;
            let base = begun.task.base.clone();
            (file, Part::Row { row: *row, data: data.clone(), beside: path.clone(), base })
        }
        Place::Value(_) | Place::Bad(_) => return None,
    };
    let used = gpulane_files::read_text(&begun.task.dir.join(DECODE)).ok().and_then(|text| text.parse().ok());
    let decode = used.or(begun.task.map.decode).unwrap_or(Decode::RGB);
    let trial = Trial { path: path.clone(), part, decode };
    let mut command = Command::new("/proc/self/exe");
    command.arg0(FEEDER).env(VARIABLE, serde_json::to_string(&trial).ok()?);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = unblocked(&mut command, libc::SIGKILL).spawn().ok()?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            // Another signal says nothing of the item: somebody sent it.
            Ok(Some(status)) => return status.signal().filter(|signal| CRASHES.contains(signal)),
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    // Stuck in a disk that does not answer, it outlives that; it ends with this process.
    reap_within(&mut child, KILLED);
    None
}

fn signal_name(signal: i32) -> String {
    match signal {
        libc::SIGSEGV => "SIGSEGV".to_owned(),
        libc::SIGBUS => "SIGBUS".to_owned(),
        libc::SIGABRT => "SIGABRT".to_owned(),
        libc::SIGILL => "SIGILL".to_owned(),
        libc::SIGFPE => "SIGFPE".to_owned(),
        other => format!("signal {other}"),
    }
}
