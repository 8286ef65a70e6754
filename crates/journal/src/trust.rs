//! Who could change what lies at a path, or what the path leads to: every directory and every link on the way is looked at, from the
//! root on. Whoever may write to one of them can put another directory in the place of the next, and with it other programs.
//! Looks only; what follows from it is said by [`RunDirError`](crate::RunDirError).

mod lists;
mod ours;
mod walk;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use crate::RunDirError;
use ours::Ours;
use walk::{Place, Walked};

/// Others may read what leads to a run, nobody else may write to it, whatever the umask allows.
const PARENT: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP).union(Mode::ROTH).union(Mode::XOTH);

/// Whom a run directory is shared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// The first place that a group of several users may write to, or a user whom its access list names, and who that is.
    pub shared_with: Option<(PathBuf, String)>,
    /// Others may write there, which a person or the container they are in vouches for.
    pub vouched: bool,
}

impl Exposure {
    /// Whether nobody but this user (and root) can change what is there.
    pub fn is_private(&self) -> bool {
        self.shared_with.is_none() && !self.vouched
    }

    /// What a person should know of it.
    pub fn note(&self) -> Option<String> {
        let (path, who) = self.shared_with.as_ref()?;
        Some(format!(
            "{} may be written to by {who}, who could change this run while it goes on. gpulane's own Python \
             code is taken from your cache instead; `chmod g-w` closes it",
            path.display()
        ))
    }
}

/// One reason not to use a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Risk {
    /// Belongs to another user.
    Owner { path: PathBuf, owner: u32 },
    /// Everybody may write there, or to everything in it.
    Everybody { path: PathBuf, ours: bool },
    /// Belongs to somebody outside this user namespace, who could be anybody, and others may write there.
    Unknown { path: PathBuf },
    /// A link that another user made.
    Link { path: PathBuf, owner: u32 },
}

impl Risk {
    fn refuse(self, target: &Path) -> RunDirError {
        let target = target.to_owned();
        match self {
            Self::Owner { path, owner } if path == target => RunDirError::NotOurs { path, owner },
            Self::Owner { path, owner } => RunDirError::BelowAnothers { path, owner, target },
            Self::Everybody { path, ours } => RunDirError::OpenToAll { path, ours, target },
            Self::Unknown { path } => RunDirError::UnknownOwner { path, target },
            Self::Link { path, owner } => RunDirError::AnothersLink { path, owner, target },
        }
    }
}

/// Walks to a directory, makes what is missing of it (itself with mode 0700), and refuses if others could swap it. Returns its path
/// without links. `new`: one that is there already is not taken, even if it is empty.
pub(crate) fn make(path: &Path, trusted: &[PathBuf], new: bool) -> Result<PathBuf, RunDirError> {
    let io = |error: Errno| RunDirError::io("create", path)(error.into());
    let walked = walk::to(path).map_err(|error| RunDirError::io("create", path)(error))?;
    if new && walked.missing.is_empty() {
        return Err(io(Errno::EXIST));
    }
    judge(&walked, path, trusted)?;
    let mut at = walked.last().try_clone_fd().map_err(io)?;
    let mut real = walked.path().to_owned();
    for (left, name) in walked.missing.iter().enumerate().map(|(at, name)| (walked.missing.len() - at, name))
    {
        let mode = if left == 1 { Mode::RWXU } else { PARENT };
        match mkdirat(&at, name, mode) {
            // Another run that begins now may have made a parent; the directory itself must be new.
            Err(Errno::EXIST) if left > 1 => {}
            answer => answer.map_err(io)?,
        }
        let next = openat(
            &at,
            name,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(io)?;
        real.push(name);
        sync(&at);
        at = next;
    }
    if !walked.missing.is_empty() {
        // What another run has just made is looked at as anything else is.
        judge(&walk::to(&real).map_err(|error| RunDirError::io("create", path)(error))?, path, trusted)?;
    }
    Ok(real)
}

/// Makes a directory that nobody but this user can change, for what is executed from there.
pub fn private_directory(path: &Path) -> Result<PathBuf, RunDirError> {
    let real = make(path, &[], false)?;
    match examine(&real, &[])?.shared_with {
        None => Ok(real),
        Some((path, who)) => Err(RunDirError::OpenToGroup { path, who, target: real }),
    }
}

/// Whether a run in this directory could be changed by others; refuses where anybody could.
pub(crate) fn examine(path: &Path, trusted: &[PathBuf]) -> Result<Exposure, RunDirError> {
    let walked = walk::to(path).map_err(|error| RunDirError::io("open", path)(error))?;
    judge(&walked, path, trusted)
}

/// Refuses a file of a run that another user has put there or that everybody may write to; says if a group may.
pub(crate) fn examine_file(dir: &Path, name: &str, exposure: &mut Exposure) -> Result<(), RunDirError> {
    let path = dir.join(name);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(CWD, &path, flags, Mode::empty()).and_then(|file| Ok((fstat(&file)?, file)));
    let (found, file) = match found {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(RunDirError::io("look at", &path)(error.into())),
    };
    if exposure.vouched {
        return Ok(());
    }
    let ours = Ours::now();
    let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
    if found.st_mode & 0o002 != 0 && !is_link {
        let ours = ours.is_me(found.st_uid);
        return Err(RunDirError::OpenToAll { path, ours, target: dir.to_owned() });
    }
    // Where the directory is ours although its owner is not (a server that maps users), so is a file of the same owner.
    let root = statat(CWD, dir, AtFlags::empty()).map(|root| (root.st_uid, root.st_dev));
    if !ours.has(found.st_uid, found.st_dev) && root != Ok((found.st_uid, found.st_dev)) {
        return Err(RunDirError::NotOurs { path, owner: found.st_uid });
    }
    if exposure.shared_with.is_none() && !is_link {
        let who = lists::others_who_write(&file, found.st_mode, found.st_gid, &ours);
        exposure.shared_with = who.map(|who| (path, who));
    }
    Ok(())
}

/// Whether a directory belongs to this user, for those who only look: nothing is made there to find out.
pub(crate) fn is_ours(path: &Path) -> bool {
    statat(CWD, path, AtFlags::empty()).is_ok_and(|found| Ours::now().is_me(found.st_uid))
}

fn judge(walked: &Walked, target: &Path, trusted: &[PathBuf]) -> Result<Exposure, RunDirError> {
    let mut ours = Ours::now();
    let mut found = look(walked, &ours);
    if matches!(found, Err(Risk::Owner { .. } | Risk::Link { .. }))
        && let Some((owner, device)) = ours::owner_of_what_we_make(walked.last())
        && !ours.has(owner, device)
    {
        // A server gives what we make to another id: then that id is us there, and nowhere else.
        ours.add(owner, device);
        found = look(walked, &ours);
    }
    match found {
        Ok(exposure) => Ok(exposure),
        Err(_) if is_vouched_for(walked, trusted) || ours.trusts_mounts() && is_mounted_in(walked) => {
            Ok(Exposure { shared_with: None, vouched: true })
        }
        Err(risk) => Err(risk.refuse(target)),
    }
}

/// What is found on the way, the worst first.
fn look(walked: &Walked, ours: &Ours) -> Result<Exposure, Risk> {
    let mut shared_with = None;
    for link in &walked.links {
        if !ours.has(link.owner, link.device) && link.in_shared {
            return Err(Risk::Link { path: link.path.clone(), owner: link.owner });
        }
    }
    for (index, place) in walked.places.iter().enumerate() {
        let is_target = walked.missing.is_empty() && index + 1 == walked.places.len();
        if ours.is_unmapped(place.owner) {
            // Nobody can have made a directory for us where only its owner writes, except that owner, who then is root.
            if is_target || place.mode & 0o022 != 0 && !place.is_systems_own() {
                return Err(Risk::Unknown { path: place.path.clone() });
            }
        } else if !ours.has(place.owner, place.device()) {
            return Err(Risk::Owner { path: place.path.clone(), owner: place.owner });
        }
        // The sticky bit keeps what is in a directory from being replaced, not from being joined by more.
        let is_open = is_target || !place.is_sticky();
        if place.mode & 0o002 != 0 && is_open {
            return Err(Risk::Everybody { path: place.path.clone(), ours: ours.is_me(place.owner) });
        }
        if is_open && shared_with.is_none() {
            let who = lists::others_who_write(place, place.mode, place.group, ours);
            shared_with = who.map(|who| (place.path.clone(), who));
        }
    }
    Ok(Exposure { shared_with, vouched: false })
}

/// Whether it is one of the directories a person vouches for, or below one.
fn is_vouched_for(walked: &Walked, trusted: &[PathBuf]) -> bool {
    let mut ids = trusted.iter().filter_map(|dir| {
        let found = statat(CWD, dir, AtFlags::empty()).ok()?;
        Some((found.st_dev, found.st_ino))
    });
    ids.any(|id| walked.places.iter().any(|place| place.id == id))
}

/// Whether it lies in something that was mounted into this container.
fn is_mounted_in(walked: &Walked) -> bool {
    walked.places.iter().skip(1).any(Place::is_mount)
}

/// Makes the names in a directory durable: a journal in a directory that a power cut took away would keep nothing.
fn sync(dir: &OwnedFd) {
    // A parent we may not read can still be one we may write to; then the system's own pace must do.
    let opened = openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let _ = opened.and_then(rustix::fs::fsync);
}

trait TryClone {
    fn try_clone_fd(&self) -> Result<OwnedFd, Errno>;
}

impl TryClone for BorrowedFd<'_> {
    fn try_clone_fd(&self) -> Result<OwnedFd, Errno> {
        self.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
    }
}
