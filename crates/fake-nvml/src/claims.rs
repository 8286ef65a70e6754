//! Memory that processes of a test hold. Each file `DIR/PID` of the script's `claims` has lines `UUID SIZE`: so much
//! is held there as long as that process lives, and `late_ms` longer, by nobody who can be seen.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use gpulane_model::Bytes;

use crate::script::{Process, Script, Size};

/// Numbers that no process here has.
const ELSEWHERE: u32 = 1 << 23;

/// What is held on one GPU or slice.
pub(crate) struct Held {
    pub(crate) processes: Vec<Process>,
    pub(crate) bytes: u64,
}

impl Script {
    /// Who holds how much of `uuid`, beside what `scripted` processes hold.
    pub(crate) fn held(&self, uuid: &str, scripted: &[Process]) -> Held {
        let mut processes = scripted.to_vec();
        let mut ghosts = 0;
        for (pid, bytes, lives) in self.claims_on(uuid) {
            if lives {
                processes.push(Process { pid, used: Some(Size(bytes)), graphics: false, mps: false });
            } else {
                ghosts += bytes;
            }
        }
        let seen: u64 = processes.iter().filter_map(|process| process.used).map(|used| used.0).sum();
        if self.hide_processes {
            for process in &mut processes {
                process.pid += ELSEWHERE;
            }
        }
        if !self.list_processes {
            processes.clear();
        }
        Held { processes, bytes: seen + ghosts }
    }

    /// Process, bytes, and whether it lives; the dead only while their memory is not back.
    fn claims_on(&self, uuid: &str) -> Vec<(u32, u64, bool)> {
        let Some(dir) = &self.claims else { return Vec::new() };
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
                let bytes = claimed(&std::fs::read_to_string(entry.path()).ok()?, uuid);
                let lives = lives(pid) && died(&entry.path(), false).is_none();
                (bytes > 0 && (lives || self.is_late(&entry.path()))).then_some((pid, bytes, lives))
            })
            .collect()
    }

    fn is_late(&self, claim: &Path) -> bool {
        let Some(died) = died(claim, true) else { return false };
        died.elapsed().is_ok_and(|since| since < Duration::from_millis(self.late_ms))
    }
}

fn claimed(text: &str, uuid: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    let sizes = lines.filter(|(gpu, _)| *gpu == uuid).filter_map(|(_, size)| size.parse::<Bytes>().ok());
    sizes.map(|size| size.0).sum()
}

/// When the process of this claim was first seen to be dead, by whichever process asked; noted now if `note`. A claim
/// made later under the same number is another's.
fn died(claim: &Path, note: bool) -> Option<SystemTime> {
    let mark = claim.with_extension("gone");
    let claimed = claim.metadata().ok()?.modified().ok()?;
    let marked = || mark.metadata().ok()?.modified().ok();
    match marked() {
        Some(time) if time >= claimed => Some(time),
        _ if note => {
            let _ = std::fs::remove_file(&mark);
            File::create_new(&mark).ok().and_then(|_| marked()).or_else(marked)
        }
        _ => None,
    }
}

/// A zombie has given its memory back: it does not live.
fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
