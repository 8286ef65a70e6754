//! Which torch a job's Python will import, found out by looking at files. Nothing is run: a program we start only to
//! ask it something may do anything.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::process::image::find_program;

/// A release of torch, as far as it matters: `2.10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// What decides where Python looks for modules.
#[derive(Default)]
pub(super) struct Surroundings<'a> {
    /// Where programs are looked up.
    pub(super) path: Option<&'a str>,
    /// `PYTHONPATH`.
    pub(super) python_path: Option<&'a str>,
    /// `HOME`, below which `pip install --user` puts things.
    pub(super) home: Option<&'a str>,
}

/// The torch that `program` would import. `None`: there is none, or it cannot be told.
pub(super) fn of(program: &Path, around: &Surroundings<'_>) -> Option<Version> {
    let python = interpreter(program, around.path)?;
    // A virtual environment is known by the path its Python was called by; the base it was made from by what that
    // leads to. The version in the name of the latter says which of several `lib/python3.*` is meant.
    let resolved = fs::canonicalize(&python).ok()?;
    let release = resolved.file_name().and_then(OsStr::to_str).filter(|name| name.starts_with("python3."));
    let prefix = python.parent()?.parent()?;
    let base = resolved.parent()?.parent()?;
    let on_python_path =
        around.python_path.unwrap_or("").split(':').filter(|entry| !entry.is_empty()).map(PathBuf::from);
    let own = if prefix.join("pyvenv.cfg").exists() {
        Vec::new()
    } else {
        around.home.map(|home| Path::new(home).join(".local")).into_iter().collect()
    };
    // Debian's Python lives in /usr and finds what pip installed in /usr/local.
    let local = base.join("local");
    let prefixes = own.iter().map(PathBuf::as_path).chain([prefix, &local, base]);
    // In the order in which Python itself looks.
    on_python_path
        .map(|folder| vec![folder])
        .chain(prefixes.map(|prefix| package_folders(prefix, release)))
        .find_map(|folders| folders.iter().filter_map(|folder| installed(folder)).min())
}

/// The Python that runs `program`: itself, or the one its first line names.
fn interpreter(program: &Path, path: Option<&str>) -> Option<PathBuf> {
    if is_python(program) {
        return Some(program.to_owned());
    }
    let mut start = Vec::new();
    fs::File::open(program).ok()?.take(512).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let first = Path::new(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first.to_owned()).filter(|python| is_python(python));
    }
    let name = words.find(|word| !word.starts_with('-'))?;
    find_program(name, path).filter(|python| is_python(python))
}

fn is_python(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name.as_bytes().starts_with(b"python"))
}

/// `lib/python3.*/site-packages` and the like below `prefix`; only those of `release`, if that is known.
fn package_folders(prefix: &Path, release: Option<&str>) -> Vec<PathBuf> {
    let entries = ["lib", "lib64"].map(|lib| fs::read_dir(prefix.join(lib)));
    let releases = entries.into_iter().flatten().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        release.map_or_else(|| name.as_bytes().starts_with(b"python3"), |release| name == release)
    });
    releases
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|packages| entry.path().join(packages)))
        .collect()
}

fn installed(folder: &Path) -> Option<Version> {
    let text = fs::read_to_string(folder.join("torch/version.py")).ok()?;
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    parse(line.split(['\'', '"']).nth(1)?)
}

/// `2.10.0+cu128`. What is not yet released (`2.10.0a0+gitabc`, `2.10.0.dev20251001`) may lack what the release
/// has, and counts as the one before.
fn parse(text: &str) -> Option<Version> {
    let public = text.split('+').next()?;
    let mut parts = public.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    let released = parts.all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    Some(Version { major, minor: if released { minor } else { minor.saturating_sub(1) } })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const NEW: Version = Version { major: 2, minor: 10 };
    const OLD: Version = Version { major: 2, minor: 4 };

    /// A base Python 3.12 and a virtual environment made from it.
    fn pythons() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["usr/bin", "venv/bin", "bin"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("usr/bin/python3.12"), "").unwrap();
        symlink(at("usr/bin/python3.12"), at("usr/bin/python3")).unwrap();
        symlink(at("usr/bin/python3"), at("venv/bin/python")).unwrap();
        fs::write(at("venv/pyvenv.cfg"), "").unwrap();
        root
    }

    fn install(root: &Path, packages: &str, version: &str) {
        let folder = root.join(packages).join("torch");
        fs::create_dir_all(&folder).unwrap();
        let text = format!("from typing import Optional\n\n__version__ = '{version}'\ndebug = False\n");
        fs::write(folder.join("version.py"), text).unwrap();
    }

    fn found(root: &Path, program: &str) -> Option<Version> {
        of(&root.join(program), &Surroundings::default())
    }

    #[test]
    fn a_virtual_environment_comes_before_what_it_was_made_from() {
        let root = pythons();
        install(root.path(), "usr/lib/python3.12/site-packages", "2.4.1");
        assert_eq!(found(root.path(), "venv/bin/python"), Some(OLD));
        install(root.path(), "venv/lib/python3.12/site-packages", "2.10.0+cu128");
        assert_eq!(found(root.path(), "venv/bin/python"), Some(NEW));
        assert_eq!(found(root.path(), "usr/bin/python3"), Some(OLD));
    }

    #[test]
    fn packages_of_another_python_do_not_count() {
        let root = pythons();
        install(root.path(), "usr/local/lib/python3.11/dist-packages", "2.4.1");
        assert_eq!(found(root.path(), "usr/bin/python3"), None);
        install(root.path(), "usr/local/lib/python3.12/dist-packages", "2.10.1");
        assert_eq!(found(root.path(), "usr/bin/python3"), Some(NEW));
    }

    #[test]
    fn what_hides_the_installed_one_is_what_counts() {
        let root = pythons();
        install(root.path(), "usr/lib/python3.12/site-packages", "2.10.0");
        install(root.path(), "home/.local/lib/python3.12/site-packages", "2.4.0");
        let home = root.path().join("home").to_string_lossy().into_owned();
        let around = Surroundings { home: Some(&home), ..Surroundings::default() };
        assert_eq!(of(&root.path().join("usr/bin/python3"), &around), Some(OLD));
        let other = root.path().join("other").to_string_lossy().into_owned();
        install(root.path(), "other", "2.10.0");
        let around = Surroundings { python_path: Some(&other), ..around };
        assert_eq!(of(&root.path().join("usr/bin/python3"), &around), Some(NEW));
    }

    #[test]
    fn a_script_leads_to_its_python() {
        let root = pythons();
        install(root.path(), "venv/lib/python3.12/site-packages", "2.10.0");
        let script = root.path().join("bin/torchrun");
        fs::write(&script, format!("#!{}/venv/bin/python\n", root.path().display())).unwrap();
        assert_eq!(of(&script, &Surroundings::default()), Some(NEW));
        let shell = root.path().join("bin/train.sh");
        fs::write(&shell, "#!/bin/sh\npython train.py\n").unwrap();
        assert_eq!(of(&shell, &Surroundings::default()), None);
    }

    #[test]
    fn versions_as_torch_writes_them() {
        let version = |major, minor| Some(Version { major, minor });
        for (text, expected) in [
            ("2.10.0+cu128", version(2, 10)),
            ("2.9.1", version(2, 9)),
            ("2.10.0a0+b558c986e8.nv25.11", version(2, 9)),
            ("2.11.0.dev20251201+cu130", version(2, 10)),
            ("3.0.0", version(3, 0)),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
