//! What an input means: a file, a directory, a glob, a list, a table; or what is wrong with it, before
//! anything starts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gpulane_model::Decode;

use crate::Wanted;
use crate::braces;
use crate::gather::{Taker, gather};
use crate::problem::{Problem, Stop};
use crate::record::Found;
use crate::stamp::Stamp;
use crate::table;
use crate::walk::{Glob, is_glob};

/// Suffixes of tars whose compression is not read.
const UNKNOWN: [&str; 6] = [".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.lz4", ".tar.z"];

/// What an input means.
#[derive(Debug)]
pub(crate) enum Source {
    /// Files and globs, in this order.
    Paths(Vec<Paths>),
    /// `@files.txt`.
    List(String),
    /// Tables of one kind each, and the column that counts.
    Tables(Vec<Paths>, String),
}

#[derive(Debug)]
pub(crate) enum Paths {
    File(String),
    Matching(Glob),
}

impl Source {
    /// Whether directories have to be walked for it.
    pub(crate) fn walks(&self) -> bool {
        match self {
            Self::List(_) => false,
            Self::Paths(paths) | Self::Tables(paths, _) => {
                paths.iter().any(|path| matches!(path, Paths::Matching(_)))
            }
        }
    }
}

impl Source {
    /// Whether it may stand for more than one file.
    pub(crate) fn is_several(&self) -> bool {
        match self {
            Self::List(_) => false,
            Self::Paths(paths) | Self::Tables(paths, _) => paths.len() > 1 || self.walks(),
        }
    }
}

/// Every mistake that can be seen without reading much. An empty answer does not mean that all will be well:
/// a shard may still turn out to be cut short, a table damaged.
pub fn check(wanted: &Wanted) -> Vec<Problem> {
    if wanted.inputs.is_empty() {
        return vec![nothing_given()];
    }
    wanted
        .inputs
        .iter()
        .filter_map(|input| check_one(input, wanted).err().and_then(|stop| problem(input, stop)))
        .collect()
}

pub(crate) fn nothing_given() -> Problem {
    Problem {
        input: String::new(),
        what: "there is no input".to_owned(),
        hint: "name a directory, a glob such as 'photos/**/*.jpg', a list `@files.txt` or a table \
               `table.csv:path`"
            .to_owned(),
    }
}

/// The problem that stopped an input; `None` if it was not the input's fault.
pub(crate) fn problem(input: &str, stop: Stop) -> Option<Problem> {
    match stop {
        Stop::Input(what, hint) => Some(Problem { input: input.to_owned(), what, hint }),
        Stop::Taker(_) => None,
    }
}

/// It matches no item.
pub(crate) fn matches_nothing() -> Stop {
    Stop::input(
        "it matches nothing",
        "check the spelling, and quote globs so that the shell leaves them alone",
    )
}

/// Ends at the first item that is no table.
struct Any {
    found: bool,
    decode: Option<Decode>,
    /// The first table, as long as there was nothing else.
    table: Option<(table::Kind, PathBuf)>,
}

impl Taker for Any {
    fn item(&mut self, found: Found<'_>) -> std::io::Result<()> {
        if let Found::File(name) = found
            && let Some(kind) = table::Kind::of(&String::from_utf8_lossy(name))
            && kind.is_meant(self.decode)
        {
            self.table.get_or_insert_with(|| (kind, PathBuf::from(OsStr::from_bytes(name))));
            return Ok(());
        }
        self.found = true;
        Err(std::io::ErrorKind::Interrupted.into())
    }

    fn shard(&mut self, _: Stamp) -> std::io::Result<bool> {
        self.found = true;
        Err(std::io::ErrorKind::Interrupted.into())
    }
}

fn check_one(input: &str, wanted: &Wanted) -> Result<(), Stop> {
    let source = resolve(input, wanted)?;
    // A list names files one by one, and means them.
    let decode = if matches!(source, Source::Paths(_)) { wanted.decode } else { Some(Decode::Bytes) };
    let mut any = Any { found: false, decode, table: None };
    gather(&source, wanted, &mut any)?;
    match any.table {
        _ if any.found => Ok(()),
        Some((kind, path)) => {
            let input = tables_of(input, &path, wanted);
            Err(table::which_column(kind, &wanted.base.join(path), &input, true)?)
        }
        None => Err(matches_nothing()),
    }
}

/// How tables like this one are written before their column: a folder has no column.
fn tables_of(input: &str, first: &Path, wanted: &Wanted) -> String {
    if !wanted.base.join(input).is_dir() {
        return input.to_owned();
    }
    let ending = first.extension().unwrap_or_default().to_string_lossy();
    format!("{}/*.{ending}", input.trim_end_matches('/'))
}

/// What this input means.
pub(crate) fn resolve(input: &str, wanted: &Wanted) -> Result<Source, Stop> {
    let source = read_form(input, wanted)?;
    if wanted.decode == Some(Decode::Value) && matches!(source, Source::Paths(_)) {
        return Err(Stop::input(
            "with `value` the input itself holds the texts, and these are files",
            "write `@texts.txt` for a text a line, `table.csv:column` for a column of them, or decode = \"text\"",
        ));
    }
    Ok(source)
}

fn read_form(input: &str, wanted: &Wanted) -> Result<Source, Stop> {
    let exists = |name: &str| wanted.base.join(name).metadata().is_ok();
    if let Some(list) = input.strip_prefix('@') {
        return list_file(list, wanted);
    }
    if input.is_empty() {
        return Err(Stop::input("it is empty", "name a file, directory or glob"));
    }
    if exists(input) {
        return literal(input, wanted);
    }
    if let Some((file, column)) = table::Kind::split(input) {
        let files = if exists(file) { vec![Paths::File(file.to_owned())] } else { several(file, wanted)? };
        return Ok(Source::Tables(files, column.to_owned()));
    }
    several(input, wanted).map(Source::Paths)
}

fn list_file(list: &str, wanted: &Wanted) -> Result<Source, Stop> {
    let path = wanted.base.join(list);
    match path.metadata() {
        _ if list == "-" => {
            Err(Stop::input("nothing was read from standard input", "write a list file, `@files.txt`"))
        }
        Ok(metadata) if metadata.is_dir() => Err(Stop::input(
            format!("{list} is a directory"),
            format!("write `{list}` for the files below it"),
        )),
        Ok(_) => Ok(Source::List(list.to_owned())),
        Err(error) => Err(Stop::input(
            format!("cannot open the list {list}: {error}"),
            "a list file has one path a line; for a file whose name begins with @ write ./@…",
        )),
    }
}

/// A path that is there as it is written.
fn literal(input: &str, wanted: &Wanted) -> Result<Source, Stop> {
    let path = wanted.base.join(input);
    if path.is_dir() {
        return Ok(Source::Paths(vec![Paths::Matching(Glob::below(input))]));
    }
    refuse_packed(input)?;
    if let Some(kind) = table::Kind::of(input) {
        return Err(table::which_column(kind, &path, input, false)?);
    }
    Ok(Source::Paths(vec![Paths::File(input.to_owned())]))
}

/// Globs and braces.
fn several(input: &str, wanted: &Wanted) -> Result<Vec<Paths>, Stop> {
    let expanded = braces::expand(input).map_err(|most| {
        Stop::input(format!("its braces stand for more than {most} paths"), "use a glob, or a list file")
    })?;
    let mut paths = Vec::new();
    for each in &expanded {
        refuse_packed(each)?;
        if is_glob(each) && wanted.base.join(each).metadata().is_err() {
            let glob = Glob::parse(each).map_err(|error| {
                Stop::input(
                    format!("it is no glob: {error}"),
                    "`*`, `?`, `[a-z]` and `**` between slashes are known",
                )
            })?;
            paths.push(Paths::Matching(glob));
            continue;
        }
        let path = wanted.base.join(each);
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => paths.push(Paths::Matching(Glob::below(each))),
            Ok(_) => paths.push(Paths::File(each.clone())),
            Err(_) if input.contains("://") => {
                return Err(Stop::input(
                    "it is an address, not a path",
                    "copy the files here first, or mount them",
                ));
            }
            Err(error) => {
                let what = format!("cannot find {each} in {}: {error}", wanted.base.display());
                return Err(Stop::input(what, "check the spelling; relative paths begin there"));
            }
        }
    }
    Ok(paths)
}

fn refuse_packed(name: &str) -> Result<(), Stop> {
    let lower = name.to_ascii_lowercase();
    if UNKNOWN.iter().any(|end| lower.ends_with(end)) {
        return Err(Stop::input(
            "of compressed tars only .tar.gz and .tar.zst are read",
            "unpack it to a .tar (`bunzip2`, `unxz` and kin), or pack it as .tar.zst, then name that",
        ));
    }
    Ok(())
}
