//! Opens a journal for writing: folds it, cuts what a crash tore, and leaves a file that ends in a whole record
//! and is durable.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gpulane_model::{Plan, RunState};

use crate::reader::{self, Tail};
use crate::{JournalError, RunDir, disk, salvage};

/// What to do about damage that no crash explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Refuse, so that a person decides.
    #[default]
    Strict,
    /// Keep every record that can be verified.
    Salvage,
}

/// What opening a journal had to mend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Bytes of unfinished writes cut from the end. They were never announced as durable.
    pub cut: u64,
    /// The last record was whole but lacked its newline.
    pub ended: bool,
    /// The journal was damaged, and this was done about it.
    pub salvage: Option<Salvage>,
}

/// The outcome of [`Mode::Salvage`] on a damaged journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvage {
    /// Where the damaged journal is kept.
    pub aside: PathBuf,
    /// Records that could be verified.
    pub kept: u64,
    /// Records known to be missing, at least.
    pub lost: u64,
}

impl Repair {
    /// One line for a person, if there is something to say.
    pub fn describe(&self) -> Option<String> {
        if let Some(Salvage { aside, kept, lost }) = &self.salvage {
            let aside = aside.display();
            return Some(format!(
                "the journal was damaged: {kept} records kept, {lost} lost; the damaged one is kept as {aside}"
            ));
        }
        (self.cut > 0)
            .then(|| format!("cut {} bytes of an unfinished write from the journal's end", self.cut))
    }
}

/// A journal ready for appending.
pub(crate) struct Opened {
    pub(crate) file: File,
    /// Where the next record goes. Everything before is durable.
    pub(crate) length: u64,
    pub(crate) state: RunState,
    pub(crate) repair: Repair,
}

pub(crate) fn open(dir: &RunDir, plan: &Plan, mode: Mode) -> Result<Opened, JournalError> {
    let path = dir.journal_file();
    let mut repair = Repair::default();
    let mut file = open_file(&path)?;
    let folded = match reader::fold(&path, duplicate(&file, &path)?, plan) {
        Err(JournalError::Damaged { .. }) if mode == Mode::Salvage => {
            repair.salvage = Some(salvage::salvage(dir, plan)?);
            file = open_file(&path)?;
            reader::fold(&path, duplicate(&file, &path)?, plan)?
        }
        other => other?,
    };
    let length = mend(&file, folded.end, folded.tail, &mut repair)
        .map_err(JournalError::io("cut the torn end of", &path))?;
    file.sync_all().map_err(JournalError::io("sync", &path))?;
    // Also when the file was there: its maker may have died before its name was durable.
    disk::sync_dir(dir.root()).map_err(JournalError::io("sync", dir.root()))?;
    Ok(Opened { file, length, state: folded.state, repair })
}

fn open_file(path: &Path) -> Result<File, JournalError> {
    gpulane_files::open_or_create(path).map_err(JournalError::io("open", path))
}

fn duplicate(file: &File, path: &Path) -> Result<File, JournalError> {
    file.try_clone().map_err(JournalError::io("open", path))
}

fn mend(file: &File, end: u64, tail: Tail, repair: &mut Repair) -> io::Result<u64> {
    match tail {
        Tail::Clean => Ok(end),
        Tail::Torn(bytes) => {
            file.set_len(end)?;
            repair.cut = bytes;
            Ok(end)
        }
        Tail::Unended { record, junk } => {
            let length = end + record + 1;
            file.write_all_at(b"\n", length - 1)?;
            file.set_len(length)?;
            repair.cut = junk;
            repair.ended = true;
            Ok(length)
        }
    }
}
