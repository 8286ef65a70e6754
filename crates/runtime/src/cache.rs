//! Where gpulane keeps things for this user between runs.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/gpulane`, else below `~/.cache`; `None`: there is no home.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_by(|name| std::env::var_os(name).map(PathBuf::from))
}

pub(crate) fn folder_by(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let home = || variable("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".cache"));
    Some(cache.or_else(home)?.join("gpulane"))
}
