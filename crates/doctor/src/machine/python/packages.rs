//! What is installed for an interpreter, by the files that are there: torch, `CuPy`, JAX and what they were built for.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) version: String,
    pub(super) build: Build,
}

/// What it was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// This CUDA, major and minor.
    Cuda(u32, u32),
    CpuOnly,
    /// AMD's GPUs, or it does not say.
    Unknown,
}

impl Package {
    /// `torch 2.9.0 (CUDA 12.8)`.
    pub(super) fn described(&self) -> String {
        let built = match self.build {
            Build::Cuda(major, 0) if self.name != "torch" => format!(" (CUDA {major})"),
            Build::Cuda(major, minor) => format!(" (CUDA {major}.{minor})"),
            Build::CpuOnly => " (CPU only)".to_owned(),
            Build::Unknown => String::new(),
        };
        format!("{} {}{built}", self.name, self.version)
    }

    /// The command that puts a build for this CUDA in its place.
    pub(super) fn install(&self, pip: &str, cuda: u32) -> String {
        match self.name {
            "torch" => {
                let index = if cuda >= 13 { "cu130" } else { "cu126" };
                format!("{pip} --force-reinstall torch --index-url https://download.pytorch.org/whl/{index}")
            }
            "cupy" => format!("{pip} cupy-cuda{cuda}x    # after: pip uninstall every other cupy"),
            _ => format!("{pip} -U 'jax[cuda{cuda}]'"),
        }
    }
}

/// What the interpreter would import. The first folder that has a package is the one that counts.
pub(super) fn of(python: &Path) -> Vec<Package> {
    let folders = folders(python);
    let find = |look: fn(&Path) -> Option<Package>| folders.iter().find_map(|folder| look(folder));
    [torch, cupy, jax].into_iter().filter_map(find).collect()
}

/// `site-packages` and the like, in the order in which Python looks.
fn folders(python: &Path) -> Vec<PathBuf> {
    let Ok(resolved) = fs::canonicalize(python) else { return Vec::new() };
    // The version in the resolved name says which of several `lib/python3.*` is meant.
    let release = resolved.file_name().and_then(OsStr::to_str).filter(|name| name.starts_with("python3."));
    let above = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
    let (prefix, base) = (above(python), above(&resolved));
    let isolated = prefix.join("pyvenv.cfg").exists();
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local")).filter(|_| !isolated);
    let shared = fs::read_to_string(prefix.join("pyvenv.cfg")).is_ok_and(|text| {
        text.lines().any(|line| line.replace(' ', "") == "include-system-site-packages=true")
    });
    let mut prefixes: Vec<PathBuf> = home.into_iter().chain([prefix]).collect();
    if !isolated || shared {
        // Debian's Python lives in /usr and finds what pip installed in /usr/local.
        prefixes.extend([base.join("local"), base]);
    }
    prefixes.iter().flat_map(|prefix| package_folders(prefix, release)).collect()
}

fn package_folders(prefix: &Path, release: Option<&str>) -> Vec<PathBuf> {
    let entries = ["lib", "lib64"].map(|lib| fs::read_dir(prefix.join(lib)));
    let releases = entries.into_iter().flatten().flatten().flatten().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Debian's own packages are in `python3`, whatever the release.
        name == "python3" || release.map_or_else(|| name.starts_with("python3."), |release| name == release)
    });
    releases
        .flat_map(|entry| ["site-packages", "dist-packages"].map(|packages| entry.path().join(packages)))
        .collect()
}

fn torch(folder: &Path) -> Option<Package> {
    let text = fs::read_to_string(folder.join("torch/version.py")).ok()?;
    let version = quoted(assigned(&text, "__version__")?)?;
    let hip = assigned(&text, "hip").and_then(quoted);
    let build = match assigned(&text, "cuda") {
        Some(cuda) => match (quoted(cuda), hip) {
            (Some(cuda), _) => parse(&cuda),
            (None, None) => Build::CpuOnly,
            (None, Some(_)) => Build::Unknown,
        },
        None => Build::Unknown,
    };
    Some(Package { name: "torch", version, build })
}

/// What a line such as `cuda: Optional[str] = '12.8'` gives to a name.
fn assigned<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([' ', ':', '=']).then(|| rest.split_once('=').map(|(_, value)| value.trim()))?
    })
}

/// The text between quotes; `None` for Python's `None`.
fn quoted(value: &str) -> Option<String> {
    value.split(['\'', '"']).nth(1).map(str::to_owned)
}

fn parse(cuda: &str) -> Build {
    let mut parts = cuda.split('.').map(|part| part.parse().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), minor) => Build::Cuda(major, minor.unwrap_or(0)),
        (None, _) => Build::Unknown,
    }
}

/// `CuPy` says in the name it was installed by what it was built for: `cupy_cuda12x-13.4.0.dist-info`.
fn cupy(folder: &Path) -> Option<Package> {
    let (name, version) = installed(folder, "cupy")?;
    let digits: String =
        name.strip_prefix("cupy_cuda").unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
    // `cupy-cuda112` is CUDA 11.2, `cupy-cuda12x` any 12.
    let major = digits.get(..2).and_then(|digits| digits.parse().ok());
    Some(Package {
        name: "cupy",
        version,
        build: major.map_or(Build::Unknown, |major| Build::Cuda(major, 0)),
    })
}

/// JAX comes without GPUs; a plugin brings them.
fn jax(folder: &Path) -> Option<Package> {
    let (_, version) = installed(folder, "jaxlib")?;
    let plugins = [13, 12].into_iter().find(|major| folder.join(format!("jax_cuda{major}_plugin")).is_dir());
    let old = version.contains("cuda");
    let build =
        plugins.map_or(if old { Build::Unknown } else { Build::CpuOnly }, |major| Build::Cuda(major, 0));
    Some(Package { name: "jax", version, build })
}

/// The first `NAME-VERSION.dist-info` whose name begins like this: name and version.
fn installed(folder: &Path, name: &str) -> Option<(String, String)> {
    let entries =
        fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let named = entries.filter_map(|entry| {
        let (found, version) = entry.strip_suffix(".dist-info")?.split_once('-')?;
        let meant = found == name || found.starts_with(&format!("{name}_cuda"));
        meant.then(|| (found.to_owned(), version.to_owned()))
    });
    named.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn torch_says_what_it_was_built_for() {
        let root = tempfile::tempdir().unwrap();
        for (text, build) in [
            (
                "__version__ = '2.9.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n",
                Build::Cuda(12, 8),
            ),
            ("__version__ = '2.1.0'\ncuda = '11.8'\n", Build::Cuda(11, 8)),
            (
                "__version__ = '2.9.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n",
                Build::CpuOnly,
            ),
            (
                "__version__ = '2.9.0'\ncuda: Optional[str] = None\nhip: Optional[str] = '6.3'\n",
                Build::Unknown,
            ),
        ] {
            put(root.path(), "torch/version.py", text);
            assert_eq!(torch(root.path()).map(|torch| torch.build), Some(build), "{text}");
        }
    }

    #[test]
    fn the_others_say_it_by_their_names() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!((cupy(root.path()), jax(root.path())), (None, None));
        put(root.path(), "cupy_cuda12x-13.4.0.dist-info/METADATA", "");
        assert_eq!(cupy(root.path()).unwrap().described(), "cupy 13.4.0 (CUDA 12)");
        put(root.path(), "jaxlib-0.6.0.dist-info/METADATA", "");
        assert_eq!(jax(root.path()).unwrap().build, Build::CpuOnly);
        put(root.path(), "jax_cuda12_plugin/__init__.py", "");
        assert_eq!(jax(root.path()).unwrap().build, Build::Cuda(12, 0));
    }

    #[test]
    fn a_virtual_environment_does_not_see_what_it_was_made_from() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        put(root.path(), "usr/bin/python3.12", "");
        put(
            root.path(),
            "usr/lib/python3.12/site-packages/torch/version.py",
            "__version__ = '2.0.0'\ncuda = None\n",
        );
        put(root.path(), "venv/pyvenv.cfg", "include-system-site-packages = false\n");
        fs::create_dir_all(at("venv/bin")).unwrap();
        std::os::unix::fs::symlink(at("usr/bin/python3.12"), at("venv/bin/python")).unwrap();
        assert_eq!(of(&at("venv/bin/python")), []);
        assert_eq!(of(&at("usr/bin/python3.12")).len(), 1);
        put(root.path(), "venv/pyvenv.cfg", "include-system-site-packages = true\n");
        assert_eq!(of(&at("venv/bin/python")).len(), 1);
    }
}
