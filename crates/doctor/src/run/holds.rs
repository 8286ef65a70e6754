//! What keeps a live run from going on: starts that are held, results of a map that cannot be written, a full disk. The disk is
//! that of the run, wherever doctor is asked.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpulane_model::{Bytes, MapLive, Millis, Stage};
use rustix::fs::statvfs;

use super::story::Story;
use super::{quoted, shown};
use crate::Finding;
use crate::patience::{PATIENCE, within};

const STARTS: &str = "starts";
const RESULTS: &str = "results";
const DISK: &str = "disk";
/// `live.json` older than this is written by nobody any more.
const FRESH: Millis = Millis::seconds(10);
/// With less than this a disk takes no new file worth mentioning.
const LEAST: u64 = 64 * 1024;
/// Words that engine and feeder have for a disk without space. Not `space` alone: it may be in a path.
const OF_SPACE: [&str; 6] =
    ["space left", "some space", "some of your quota", "inode left", "(os error 28)", "(os error 122)"];
/// Reasons to wait for one's turn: nothing is broken.
const TURNS: [(&str, &str); 2] = [
    ("waiting for a GPU", "gpulane gpus    # who has them"),
    ("the CPUs are saturated", "gpulane doctor    # what else the CPUs do"),
];

pub(super) fn of(story: &Story, now: Millis) -> Vec<Finding> {
    if !story.live {
        return Vec::new();
    }
    let mut found: Vec<Finding> = starts(story).into_iter().collect();
    found.extend(story.plan.stages.iter().zip(&story.state.maps).filter_map(|(stage, map)| {
        let open = map.as_ref().is_some_and(|map| map.finished.is_none() && map.stopped.is_none());
        open.then(|| results(story, stage, now)).flatten()
    }));
    // A full disk also keeps the journal from saying that starts are held.
    if found.is_empty() {
        let full = Disk::of(story.dir.root()).filter(Disk::is_full);
        found.extend(full.map(|disk| {
            let seen = format!("there is no space left on the disk of {}", story.shown);
            disk.with_advice(Finding::bad(DISK, seen))
        }));
    }
    found
}

fn starts(story: &Story) -> Option<Finding> {
    let because = story.state.held.as_ref()?;
    let seen = format!("no job is started: {because}");
    if let Some((_, next)) = TURNS.iter().find(|(words, _)| because.starts_with(words)) {
        return Some(Finding::warning(STARTS, seen).then(*next));
    }
    let finding = Finding::bad(STARTS, seen);
    Some(advised(finding, because, story.dir.root(), "gpulane doctor    # limits and memory of this machine"))
}

/// A map whose results cannot be written, as its feeder says.
fn results(story: &Story, stage: &Stage, now: Millis) -> Option<Finding> {
    let folder = story.dir.map_dir(stage);
    let text = gpulane_files::read(&folder.join("live.json")).ok()?;
    let live: MapLive = serde_json::from_slice(&text).ok()?;
    if live.held.is_empty() || now.since(Millis(live.time)) >= FRESH {
        return None;
    }
    let jobs = stage.job_ids().map(|job| story.plan.job_name(job)).collect();
    let seen = format!("{}: results cannot be written: {}", stage.name, live.held);
    let finding = Finding::bad(RESULTS, seen).of(jobs);
    Some(advised(finding, &live.held, &folder, "sudo dmesg | tail -n 50    # what the disk said"))
}

/// Where space is wanting, the disk of `place`; `otherwise` for any other reason.
fn advised(finding: Finding, because: &str, place: &Path, otherwise: &str) -> Finding {
    if !OF_SPACE.iter().any(|words| because.contains(words)) {
        return finding.then(otherwise);
    }
    match Disk::of(place) {
        Some(disk) => disk.with_advice(finding),
        None => finding.then(format!("df -h {}", shown(place))),
    }
}

/// The disk a directory is on.
struct Disk {
    place: PathBuf,
    /// The topmost directory that is still on it.
    top: PathBuf,
    size: u64,
    free: u64,
    /// `None`: the file system does not count inodes.
    inodes_free: Option<u64>,
}

impl Disk {
    /// `None` where it does not answer.
    fn of(place: &Path) -> Option<Self> {
        let place = place.to_owned();
        within(PATIENCE, move || {
            let seen = statvfs(&place).ok()?;
            let device = std::fs::metadata(&place).ok()?.dev();
            let same = |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.dev() == device);
            let top = place.ancestors().take_while(same).last()?.to_owned();
            Some(Self {
                top,
                size: seen.f_blocks.saturating_mul(seen.f_frsize),
                free: seen.f_bavail.saturating_mul(seen.f_frsize),
                inodes_free: (seen.f_files > 0).then_some(seen.f_favail),
                place,
            })
        })?
    }

    fn is_full(&self) -> bool {
        self.free < LEAST || self.inodes_free == Some(0)
    }

    fn with_advice(&self, finding: Finding) -> Finding {
        let (free, size, top) = (Bytes(self.free), Bytes(self.size), quoted(&self.top.display().to_string()));
        let no_inode = self.inodes_free == Some(0);
        let inodes = if no_inode { ", and no inode" } else { "" };
        let counted = if no_inode { "du -x --inodes" } else { "du -xk" };
        finding
            .because(format!(
                "{} is on the disk at {top}: {free} of {size} free{inodes}; with space again it goes on by itself",
                shown(&self.place)
            ))
            .then(format!("{counted} {top} | sort -n | tail    # what takes the space on that disk"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_space_in_its_name_is_no_want_of_space() {
        let of_space = |text: &str| OF_SPACE.iter().any(|words| text.contains(words));
        assert!(!of_space("cannot make a job's files under /workspace/r: Input/output error (os error 5)"));
        assert!(of_space("no space left on the disk of /d/r"));
        assert!(of_space("less than 2 GiB left on the disk of /d/r; free some space and the run goes on"));
        assert!(of_space("no inode left on the disk of /d/r"));
    }

    #[test]
    fn a_disk_is_known_by_its_topmost_directory() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::of(folder.path()).unwrap();
        assert!(folder.path().starts_with(&disk.top) && disk.size > 0, "{}", disk.top.display());
    }
}
