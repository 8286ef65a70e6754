//! Lists the Python package's files, so that the program carries them: a map's workers need nothing installed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    // Asked when this runs: a build directory may have been copied from another checkout.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let root = here.join("../../python");
    let package = root.join("gpulane");
    println!("cargo::rerun-if-changed={}", package.display());
    let mut files = Vec::new();
    collect(&package, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        let _ = writeln!(
            list,
            "    ({:?}, include_str!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        );
    }
    list.push_str("]\n");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    std::fs::write(out.join("python_package.rs"), list)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    Ok(())
}
