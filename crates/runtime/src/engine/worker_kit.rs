//! What the workers of a map, and jobs with an entry, need beside what every job gets: gpulane's own Python package, carried by this program and put into
//! the run directory, or into the user's cache where others may write to that; and the way to their feeder.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gpulane_journal::{Exposure, RunDir, RunDirError};
use gpulane_model::{Stage, env_vars};

/// The package's files by their path below the directory Python looks in.
const PACKAGE: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/python_package.rs"));

/// Runs entries, and standbys of any kind; below the directory Python looks in.
pub(super) const RUNNER: &str = "gpulane/_entry.py";

/// Whether [`variables`] sets this, whatever else is said.
pub(super) fn sets(stage: &Stage, name: &str) -> bool {
    let kit = stage.map.is_some() || stage.entry.is_some();
    name == env_vars::PYTHONPATH && kit
        || [env_vars::FEED, env_vars::GRACE].contains(&name) && stage.map.is_some()
}

/// Why the package is not there.
pub(super) enum Missing {
    /// Others could change it wherever it may stand.
    Unsafe(RunDirError),
    /// This file of it cannot be written.
    Io(PathBuf, io::Error),
}

/// Puts the package where nobody else can change it; gives the run with the place in it. A file that is right is left alone: a
/// worker may be reading it.
pub(super) fn unpack(dir: RunDir, exposure: &Exposure) -> Result<RunDir, Missing> {
    let dir = if exposure.is_private() { dir } else { dir.with_python(&cached().map_err(Missing::Unsafe)?) };
    let root = dir.python_dir();
    for (name, text) in PACKAGE {
        write(&root, name, text).map_err(|error| Missing::Io(root.join(name), error))?;
    }
    Ok(dir)
}

/// A directory in the user's cache for this very package: it is called by its hash, and what is in it is compared byte by byte.
fn cached() -> Result<PathBuf, RunDirError> {
    let Some(cache) = crate::cache::folder() else {
        let (verb, path) =
            ("find a cache for gpulane's Python code below", PathBuf::from("$XDG_CACHE_HOME and $HOME"));
        let source = io::Error::new(io::ErrorKind::NotFound, "neither is set to an absolute path");
        return Err(RunDirError::Io { verb, path, source });
    };
    // The last name is that of the run directory: whoever reads a traceback knows it.
    gpulane_journal::private_directory(&cache.join(format!("kit-{:016x}/.python", hash())))
}

/// Over names and texts.
fn hash() -> u64 {
    let bytes =
        PACKAGE.iter().flat_map(|(name, text)| name.bytes().chain([0]).chain(text.bytes()).chain([0]));
    gpulane_model::stable_hash(bytes)
}

/// `root` is made too, but nothing above it: a run directory that was moved away stays away.
fn write(root: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = &root.join(name);
    if gpulane_files::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    let mut folders: Vec<_> = path.ancestors().skip(1).take_while(|above| above.starts_with(root)).collect();
    folders.reverse();
    for folder in folders {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // Several engines may write to the cache at once.
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = std::fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Removes the package again, file by file; what else has come to be there stays.
pub(super) fn remove(dir: &RunDir) {
    let root = dir.python_dir();
    let mut folders = BTreeSet::from([root.clone()]);
    for (name, _) in PACKAGE {
        let file = root.join(name);
        let _ = std::fs::remove_file(&file);
        folders.extend(file.ancestors().skip(1).take_while(|above| *above != root).map(Path::to_owned));
    }
    // The deepest first; each goes only if it is empty.
    for folder in folders.iter().rev() {
        let _ = std::fs::remove_dir(folder);
    }
}

/// Variables that all workers of a map or all jobs with an entry share; none for a command.
pub(super) fn variables(
    dir: &RunDir,
    stage: &Stage,
    inherited: &[(OsString, OsString)],
) -> Vec<(&'static str, OsString)> {
    if stage.map.is_none() && stage.entry.is_none() {
        return Vec::new();
    }
    let mut path = dir.python_dir().into_os_string();
    let own = stage.env.get(env_vars::PYTHONPATH).map(OsString::from);
    let others = own.or_else(|| {
        let found = inherited.iter().find(|(name, _)| name == env_vars::PYTHONPATH);
        found.map(|(_, value)| value.clone())
    });
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    let mut all = Vec::with_capacity(3);
    if stage.map.is_some() {
        all.push((env_vars::FEED, dir.map_dir(stage).into_os_string()));
        all.push((env_vars::GRACE, stage.grace.as_seconds().to_string().into()));
    }
    all.push((env_vars::PYTHONPATH, path));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpulane_model::MapStage;

    #[test]
    fn the_package_is_put_where_a_worker_looks_for_it() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::planned(root.path()).unwrap();
        let unpack = || unpack(dir.clone(), &Exposure::default()).ok().unwrap();
        unpack();
        assert!(dir.python_dir().join("gpulane/__init__.py").exists());
        let file = dir.python_dir().join("gpulane/__init__.py");
        std::fs::write(&file, "broken").unwrap();
        unpack();
        assert!(std::fs::read_to_string(&file).unwrap().contains("def "), "set right again");
    }

    #[test]
    fn of_what_is_there_only_the_package_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::planned(root.path()).unwrap();
        unpack(dir.clone(), &Exposure::default()).ok().unwrap();
        let theirs = dir.python_dir().join("gpulane/notes.txt");
        std::fs::write(&theirs, "mine").unwrap();
        remove(&dir);
        assert!(theirs.exists() && !dir.python_dir().join("gpulane/__init__.py").exists());
        std::fs::remove_file(&theirs).unwrap();
        unpack(dir.clone(), &Exposure::default()).ok().unwrap();
        remove(&dir);
        assert!(!dir.python_dir().exists());
    }

    #[test]
    fn only_workers_are_told_of_a_feeder() {
        let dir = RunDir::planned(Path::new("/runs/a")).unwrap();
        let stage = |map| Stage { map, ..Stage::named("embed") };
        assert_eq!(variables(&dir, &stage(None), &[]), []);
        let inherited = [("PYTHONPATH".into(), "/mine".into())];
        let of = |lone| variables(&dir, &stage(Some(MapStage { lone, ..MapStage::default() })), &inherited);
        let path = ("PYTHONPATH", "/runs/a/.python:/mine".into());
        let entry = Stage { entry: Some("train.py:main".into()), ..Stage::named("train") };
        assert_eq!(variables(&dir, &entry, &inherited), std::slice::from_ref(&path));
        let grace = ("GPULANE_GRACE", "10".into());
        assert_eq!(of(true), [("GPULANE_FEED", "/runs/a".into()), grace.clone(), path.clone()]);
        assert_eq!(of(false), [("GPULANE_FEED", "/runs/a/maps/embed".into()), grace, path]);
    }
}
