//! Python environments: which interpreters a command would find, and whether what is installed there can use the GPUs.
//! Only files are looked at: a program started to be asked may do anything.

mod packages;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::sight::Sight;
use crate::Finding;
use crate::number::counted;
use packages::{Build, Package};

const TOPIC: &str = "Python";

/// What the machine has to offer.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    gpus: usize,
    cuda: Option<(u32, u32)>,
}

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    let cuda = sight.driver.as_ref().ok().and_then(|driver| driver.versions.cuda);
    let offer = Offer { gpus: sight.gpus().count(), cuda };
    let pythons = pythons();
    if pythons.is_empty() {
        return vec![
            Finding::warning(TOPIC, "no python3 is on the PATH")
                .because("jobs that call it cannot start")
                .then("source VENV/bin/activate"),
        ];
    }
    pythons.iter().flat_map(|python| judge(python, &packages::of(python), offer)).collect()
}

/// Interpreters that a person here would use: on the `PATH`, of the environment that is active.
fn pythons() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os);
    let active = active.map(|prefix| PathBuf::from(prefix).join("bin/python"));
    let named = ["python3", "python"].into_iter().filter_map(|name| on_path(name, &path));
    let mut known = HashSet::new();
    active
        .chain(named)
        .map(|python| behind_shim(&python).unwrap_or(python))
        .filter(|python| is_program(python))
        .filter(|python| known.insert(identity(python)))
        .collect()
}

/// pyenv puts scripts on the `PATH` that start the Python its settings name.
fn behind_shim(python: &Path) -> Option<PathBuf> {
    let shims = python.parent().filter(|folder| folder.ends_with("shims"))?;
    let root = shims.parent()?;
    let first_line = |path: PathBuf| std::fs::read_to_string(path).ok()?.lines().next().map(str::to_owned);
    let version = std::env::var("PYENV_VERSION").ok();
    let version =
        version.or_else(|| first_line(".python-version".into())).or_else(|| first_line(root.join("version")));
    let found = root.join("versions").join(version?.trim()).join("bin").join(python.file_name()?);
    is_program(&found).then_some(found)
}

/// Names that lead to the same interpreter from the same folder are one environment.
fn identity(python: &Path) -> (Option<PathBuf>, Option<PathBuf>) {
    let folder = python.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    (folder, std::fs::canonicalize(python).ok())
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn judge(python: &Path, packages: &[Package], offer: Offer) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        packages.iter().filter_map(|package| unfit(python, package, offer)).collect();
    if found.is_empty() {
        let names: Vec<String> = packages.iter().map(Package::described).collect();
        let names = if names.is_empty() { "no torch, CuPy or JAX".to_owned() } else { names.join(", ") };
        found.push(Finding::fine(TOPIC, format!("{}: {names}", python.display())));
    }
    found
}

/// Why this package cannot use the GPUs that are here.
fn unfit(python: &Path, package: &Package, offer: Offer) -> Option<Finding> {
    if offer.gpus == 0 {
        return None;
    }
    let (place, what) = (python.display(), package.described());
    let pip = format!("{place} -m pip install");
    let (driver_major, driver_minor) = offer.cuda.unwrap_or((u32::MAX, 0));
    match package.build {
        Build::CpuOnly => Some(
            Finding::bad(
                TOPIC,
                format!(
                    "{place}: {what}, built for the CPU only, on a machine with {}",
                    counted(offer.gpus, "GPU", "GPUs")
                ),
            )
            .because("the commonest reason for a GPU at 0%: everything runs, on the CPU")
            .then(package.install(&pip, driver_major.min(13))),
        ),
        Build::Cuda(major, _) if major > driver_major => Some(
            Finding::bad(
                TOPIC,
                format!("{place}: {what}, but the driver runs CUDA {driver_major}.{driver_minor} at most"),
            )
            .because("it finds no GPU, or fails with \"CUDA driver version is insufficient\"")
            .then(package.install(&pip, driver_major))
            .then("or install a newer driver"),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    const HERE: Offer = Offer { gpus: 1, cuda: Some((12, 8)) };

    fn severity(build: Build, offer: Offer) -> Severity {
        let package = Package { name: "torch", version: "2.9.0".into(), build };
        judge(Path::new("/venv/bin/python"), &[package], offer)[0].severity
    }

    #[test]
    fn what_is_installed_must_suit_the_machine() {
        assert_eq!(severity(Build::CpuOnly, HERE), Severity::Bad);
        assert_eq!(severity(Build::Cuda(13, 0), HERE), Severity::Bad);
        assert_eq!(severity(Build::Cuda(12, 9), HERE), Severity::Fine, "minor versions get along");
        assert_eq!(severity(Build::Cuda(11, 8), HERE), Severity::Fine);
        assert_eq!(severity(Build::Unknown, HERE), Severity::Fine);
    }

    #[test]
    fn without_gpus_or_a_word_from_the_driver_nothing_is_wrong() {
        assert_eq!(severity(Build::CpuOnly, Offer::default()), Severity::Fine);
        assert_eq!(severity(Build::Cuda(13, 0), Offer { gpus: 1, cuda: None }), Severity::Fine);
    }
}
