//! Whether `/proc` shows this process and those it starts. Without that, nothing that a job leaves behind can be found, so nothing is
//! started at all.

use std::fs::read_link;
use std::path::Path;

/// Why processes cannot be seen from here, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcFault {
    /// Nothing is mounted there.
    Missing,
    /// What is mounted there numbers processes as another PID namespace does.
    Foreign,
}

impl ProcFault {
    /// What to type.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Missing => "mount it first, as root: `mount -t proc proc /proc`",
            Self::Foreign => {
                "give the namespace a /proc of its own: `unshare --fork --pid --mount-proc gpulane …`, or `mount -t proc proc /proc` \
                 inside of it"
            }
        }
    }
}

impl std::fmt::Display for ProcFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => {
                "/proc is not mounted, and without it gpulane cannot find and end what jobs leave behind; nothing was started"
            }
            Self::Foreign => {
                "/proc belongs to another PID namespace than this process, so gpulane could not find and end what jobs leave behind; \
                 nothing was started"
            }
        })
    }
}

/// Looks whether `/proc` is that of our own PID namespace: it calls us by the number we have, and by no other.
pub fn check_proc() -> Result<(), ProcFault> {
    let me = std::process::id().to_string();
    match read_link("/proc/self") {
        Ok(name) if name == Path::new(&me) => {}
        Ok(_) => return Err(ProcFault::Foreign),
        // A /proc that does not know us still has its first process.
        Err(_) if Path::new("/proc/1").exists() => return Err(ProcFault::Foreign),
        Err(_) => return Err(ProcFault::Missing),
    }
    // The number may be the same by chance. Here stands one for each namespace from that of /proc down to ours.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    match numbers.map(|numbers| numbers.split_ascii_whitespace().count()) {
        Some(2..) => Err(ProcFault::Foreign),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn our_own_is_fine() {
        assert_eq!(super::check_proc(), Ok(()));
    }
}
