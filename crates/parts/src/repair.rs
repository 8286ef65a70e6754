//! Opening a directory of results: finishes or undoes what was under way when it was left, and refuses what
//! it cannot explain before it changes anything.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gpulane_model::Format;

use crate::bits::write_ranges;
use crate::error::PartsError;
use crate::failures;
use crate::ledger::{self, Growing, Line, Part, Replay};

/// A part under its hidden name, before its commit.
pub(crate) fn hidden(dir: &Path, part: &str) -> PathBuf {
    dir.join(format!(".{part}.tmp"))
}

/// A part that is written anew with so many columns, under its hidden name. No two renewals of a part have the same.
pub(crate) fn hidden_renewal(dir: &Path, part: &str, columns: u64) -> PathBuf {
    dir.join(format!(".{part}.{columns}.tmp"))
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), PartsError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(PartsError::io("sync", dir))
}

/// Gives a committed part its name.
pub(crate) fn give_name(dir: &Path, part: &str) -> Result<(), PartsError> {
    let (from, to) = (hidden(dir, part), dir.join(part));
    match fs::rename(&from, &to) {
        // A try before this one got that far.
        Err(error) if error.kind() == io::ErrorKind::NotFound && to.exists() => Ok(()),
        other => other.map_err(PartsError::io("rename", &from)),
    }
}

/// What is settled there, the ledger and `failed.jsonl`, both ready to grow.
pub(crate) fn open(
    dir: &Path,
    format: Format,
    forgive: bool,
) -> Result<(Replay, Growing, Growing), PartsError> {
    // Never what is above it: a run directory that was moved away is not made again at its old place.
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(PartsError::io("create", dir)(error));
        }
        _ => {}
    }
    let text = ledger::read(dir)?;
    let mut replay = text.replay()?;
    if let Some(begun) = replay.format
        && begun != format
    {
        return Err(PartsError::OtherFormat { dir: dir.to_owned(), begun, asked: format });
    }
    // First of all: if the ledger's last line was damaged rather than torn, its part is here to tell.
    put_aside_strays(dir, &replay)?;
    let missing = missing_parts(dir, &replay)?;
    let failures = check_failures(dir, &replay)?;
    if !forgive && let Some(error) = missing.into_iter().map(|(_, error)| error).chain(failures).next() {
        return Err(error);
    }

    let mut growing = Growing::open(text.path.clone(), text.length)?;
    if replay.format.is_none() {
        growing.begin(format)?;
        sync_dir(dir)?;
        replay.format = Some(format);
    }
    if forgive {
        replay = give_up(dir, &mut growing, replay)?;
    }
    for part in replay.parts.values() {
        if let Some(renewal) = waiting_renewal(dir, part)? {
            let path = dir.join(&part.name);
            fs::rename(&renewal, &path).map_err(PartsError::io("rename", &renewal))?;
        } else if !dir.join(&part.name).exists() {
            give_name(dir, &part.name)?;
        }
    }
    sweep(dir)?;
    sync_dir(dir)?;
    let failures = Growing::open(dir.join(failures::NAME), replay.failed_bytes)?;
    Ok((replay, growing, failures))
}

/// Whether a directory can be opened as it is, found without changing anything in it.
pub fn check(dir: &Path, format: Format) -> Result<(), PartsError> {
    let replay = ledger::read(dir)?.replay()?;
    if let Some(begun) = replay.format.filter(|begun| *begun != format) {
        return Err(PartsError::OtherFormat { dir: dir.to_owned(), begun, asked: format });
    }
    let lost = missing_parts(dir, &replay)?.into_iter().map(|(_, error)| error);
    lost.chain(check_failures(dir, &replay)?).next().map_or(Ok(()), Err)
}

/// Where the part is that the ledger speaks of, if it was written anew and does not have its name yet.
fn waiting_renewal(dir: &Path, part: &Part) -> Result<Option<PathBuf>, PartsError> {
    if !part.renewed {
        return Ok(None);
    }
    let path = hidden_renewal(dir, &part.name, part.columns);
    Ok((length(&path)? == Some(part.bytes)).then_some(path))
}

/// The parts that are neither under their name nor still under their hidden one, whole; and what is wrong
/// with each.
fn missing_parts(dir: &Path, replay: &Replay) -> Result<Vec<(u64, PartsError)>, PartsError> {
    let mut missing = Vec::new();
    for (commit, part) in &replay.parts {
        if waiting_renewal(dir, part)?.is_some() {
            continue;
        }
        let path = dir.join(&part.name);
        let found = match length(&path)? {
            None => length(&hidden(dir, &part.name))?,
            found => found,
        };
        let what = match found {
            Some(found) if found == part.bytes => continue,
            Some(found) => format!("has {found} bytes where {} were committed", part.bytes),
            None => "was committed and is not there any more".to_owned(),
        };
        missing.push((*commit, PartsError::Lost { path, what }));
    }
    Ok(missing)
}

fn check_failures(dir: &Path, replay: &Replay) -> Result<Option<PartsError>, PartsError> {
    let path = dir.join(failures::NAME);
    let found = length(&path)?.unwrap_or(0);
    if found >= replay.failed_bytes {
        return Ok(None);
    }
    let what = format!("has {found} bytes where {} were committed", replay.failed_bytes);
    Ok(Some(PartsError::Lost { path, what }))
}

/// Unsettles the items of what is gone, and says so in the ledger.
fn give_up(dir: &Path, ledger: &mut Growing, mut replay: Replay) -> Result<Replay, PartsError> {
    let missing = missing_parts(dir, &replay)?;
    let failures_lost = check_failures(dir, &replay)?.is_some();
    for (lost, _) in &missing {
        ledger.append(&Line::Lost { lost: *lost })?;
    }
    if failures_lost {
        ledger.append(&Line::Forgotten { forgotten: write_ranges(replay.failed.iter()), failed_bytes: 0 })?;
    }
    if !missing.is_empty() || failures_lost {
        replay = ledger::read(dir)?.replay()?;
        put_aside_strays(dir, &replay)?;
    }
    Ok(replay)
}

/// Parts the ledger does not know are refused; those it has given up get another name, so that nobody reads
/// them.
fn put_aside_strays(dir: &Path, replay: &Replay) -> Result<(), PartsError> {
    for name in names(dir)?.iter().filter(|name| is_part(name)) {
        let path = dir.join(name);
        if replay.lost.contains(name) {
            let aside = dir.join(format!("given-up-{name}"));
            fs::rename(&path, &aside).map_err(PartsError::io("rename", &path))?;
        } else if !replay.parts.values().any(|part| part.name == *name) {
            return Err(PartsError::Stray { path });
        }
    }
    Ok(())
}

/// Removes what was never committed.
fn sweep(dir: &Path) -> Result<(), PartsError> {
    for name in names(dir)? {
        let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
        let renewed = |name: &str| {
            name.rsplit_once('.')
                .is_some_and(|(part, columns)| is_part(part) && columns.parse::<u64>().is_ok())
        };
        if inner.is_some_and(|inner| is_part(inner) || renewed(inner)) {
            let path = dir.join(name);
            fs::remove_file(&path).map_err(PartsError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a part could be called this: `part-00007.parquet`.
fn is_part(name: &str) -> bool {
    let number = name
        .strip_prefix("part-")
        .and_then(|rest| rest.strip_suffix(".parquet").or_else(|| rest.strip_suffix(".jsonl")));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn names(dir: &Path) -> Result<Vec<String>, PartsError> {
    let list = || -> io::Result<Vec<String>> {
        // Names that are not UTF-8 are not ours.
        fs::read_dir(dir)?
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect()
    };
    list().map_err(PartsError::io("list", dir))
}

fn length(path: &Path) -> Result<Option<u64>, PartsError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(|metadata| Some(metadata.len())).map_err(PartsError::io("look at", path)),
    }
}
