//! Who has a GPU and who waits for one, as written for the others to read. For people: what counts is the lock.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpulane_model::Millis;
use rustix::fs::{AtFlags, fstat, unlinkat};
use serde::{Deserialize, Serialize};

use super::directory::{self, LeaseDir, is_locked, is_ours, make_locked, open_file};
use gpulane_files::user_name;

/// How many names are tried; more than one only where processes of several PID namespaces share the directory.
const MOST_NAMES: u32 = 16;

/// Who has a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The engine's process, as it sees itself.
    pub pid: u32,
    /// Whose it is.
    pub user: String,
    /// The run's directory.
    pub run: PathBuf,
    /// When the GPU was taken, in milliseconds of the Unix epoch.
    pub since: Millis,
}

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The engine's process, as it sees itself.
    pub pid: u32,
    /// Whose it is.
    pub user: String,
    /// The run's directory.
    pub run: PathBuf,
    /// UUIDs of the GPUs it would take.
    pub gpus: Vec<String>,
    /// When the run began, in milliseconds of the Unix epoch: its place in the queue.
    pub since: Millis,
}

/// What a holder's file says.
#[derive(Serialize, Deserialize)]
struct Note {
    /// As the driver writes it; the file's name may not hold every character.
    gpu: String,
    #[serde(flatten)]
    holder: Holder,
}

/// A file that was found.
pub(super) struct Found {
    pub(super) gpu: String,
    pub(super) holder: Holder,
    /// Its engine lives.
    pub(super) live: bool,
    /// Whose file it is.
    pub(super) owner: u32,
}

impl Holder {
    /// This process, for the run in `run`.
    pub(super) fn myself(run: &Path, since: Millis) -> Self {
        let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
        let user = user_name(rustix::process::geteuid().as_raw());
        Self { pid: std::process::id(), user, run, since }
    }
}

/// The part of a lease's file names that means the GPU.
pub(super) fn key(uuid: &str) -> String {
    uuid.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Says who has this GPU. The caller has its lock.
pub(super) fn announce(dir: &LeaseDir, uuid: &str, me: &Holder) -> io::Result<(String, std::fs::File)> {
    remove_stale(dir, uuid);
    let note = Note { gpu: uuid.to_owned(), holder: me.clone() };
    for other in 0..MOST_NAMES {
        let suffix = if other == 0 { String::new() } else { format!("-{other}") };
        let name = format!("{}.{}{suffix}.holder", key(uuid), me.pid);
        if let Some(mut file) = make_locked(&dir.files, &name)? {
            file.write_all(&serde_json::to_vec(&note)?)?;
            return Ok((name, file));
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Who has this GPU, where that can be seen: an engine that lives, or the last one, whose jobs still live.
pub(super) fn of(dir: &LeaseDir, uuid: &str) -> Option<Holder> {
    let mut found = all_of(dir, |name| is_about(name, uuid));
    found.sort_by_key(|found| (found.live, found.holder.since));
    found.pop().map(|found| found.holder)
}

/// Every holder that is written down.
pub(super) fn all(dir: &LeaseDir) -> Vec<Found> {
    all_of(dir, |name| name.ends_with(".holder"))
}

fn all_of(dir: &LeaseDir, wanted: impl Fn(&str) -> bool) -> Vec<Found> {
    let names = directory::names(&dir.files).into_iter().filter(|name| wanted(name));
    names.filter_map(|name| read(dir, &name)).collect()
}

fn read(dir: &LeaseDir, name: &str) -> Option<Found> {
    let file = open_file(&dir.files, name).ok()?;
    let live = is_locked(&file);
    let owner = fstat(&file).ok()?.st_uid;
    let note: Note = serde_json::from_str(&directory::text(file).ok()?).ok()?;
    // What a file says of its owner is anybody's word; the file system knows.
    let holder = Holder { user: user_name(owner), ..note.holder };
    Some(Found { gpu: note.gpu, holder, live, owner })
}

/// Removes what killed engines of ours have left. Other users' stay: nobody believes them.
fn remove_stale(dir: &LeaseDir, uuid: &str) {
    for name in directory::names(&dir.files).iter().filter(|name| is_about(name, uuid)) {
        let Ok(file) = open_file(&dir.files, name) else { continue };
        if is_ours(&file) && !is_locked(&file) {
            let _ = unlinkat(&dir.files, name, AtFlags::empty());
        }
    }
}

fn is_about(name: &str, uuid: &str) -> bool {
    name.strip_prefix(&key(uuid)).is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".holder"))
}
