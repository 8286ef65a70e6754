//! After a crash: the items that were in the hands of the loader threads are loaded once more, each in a process of its own that may
//! crash instead of this one. What crashes it has failed; the rest goes its usual way.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpulane_decode::{Decoder, Finish, Limits};
use gpulane_feed::loaders::InHand;
use gpulane_feed::ring::decoding_budget;
use gpulane_items::{Item, Place};
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
    path: std::path::PathBuf,
    /// Where in it.
    offset: u64,
    /// How much of it; absent: all.
    bytes: Option<u64>,
    /// What to make of it.
    decode: Decode,
}

/// Whether this process is a trial; then its exit code.
pub(super) fn as_trial() -> Option<u8> {
    let text = std::env::var(VARIABLE).ok()?;
    let trial: Trial = serde_json::from_str(&text).ok()?;
    // Whether it decodes is not asked here, only whether trying it is survived.
    let _ = load(&trial);
    Some(0)
}

fn load(trial: &Trial) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(&trial.path)?;
    file.seek(SeekFrom::Start(trial.offset))?;
    let mut encoded = Vec::new();
    file.take(trial.bytes.unwrap_or(u64::MAX)).read_to_end(&mut encoded)?;
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
    let (path, offset, bytes): (&Path, u64, Option<u64>) = match &item.place {
        Place::File(path) => (path, 0, None),
        Place::Member { archive, offset, bytes } => {
            (begun.task.list.archives().get(*archive as usize)?, *offset, Some(*bytes))
        }
        Place::Value(_) | Place::Bad(_) => return None,
    };
    let used = gpulane_files::read_text(&begun.task.dir.join(DECODE)).ok().and_then(|text| text.parse().ok());
    let decode = used.or(begun.task.map.decode).unwrap_or(Decode::RGB);
    let trial = Trial { path: path.to_owned(), offset, bytes, decode };
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
