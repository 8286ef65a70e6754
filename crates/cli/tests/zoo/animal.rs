//! The animals: programs under `tests/zoo`, and what their first lines say is to be expected of them.

use std::path::{Path, PathBuf};

/// A program and its expected fate.
#[derive(Clone, Debug)]
pub(crate) struct Animal {
    /// The program's name, and its stage's.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What must become of it.
    pub(crate) fate: Fate,
    /// `# stuck: ONE | OTHER`: one of these words must be said about it.
    pub(crate) words: Vec<String>,
    /// `# at: FILE:MARK`: where it freezes, as file and line.
    pub(crate) place: Option<(String, usize)>,
    /// `# result: FILE`: what its stage declares as result.
    pub(crate) result: Option<String>,
}

/// What must become of an animal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Ended: what it waits for provably cannot come.
    End,
    /// Told and left alone: what it waits for may still come. With `outside` it is ended, too.
    Tell,
    /// Succeeds; what it left behind is ended and said.
    Left,
    /// Succeeds, though it had to be ended.
    Lingers,
    /// Succeeds by itself, however slow.
    Lives,
}

impl Animal {
    /// A second job of this program, which may not wait for ever.
    pub(crate) fn double(&self) -> Self {
        Self { name: format!("{}-outside", self.name), ..self.clone() }
    }

    /// From a file, by what its first lines say.
    fn read(path: PathBuf, lives: bool) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let said = |key: &str| {
            let key = format!("# {key}: ");
            text.lines().find_map(|line| line.strip_prefix(&key)).map(|value| value.trim().to_owned())
        };
        let fate = match (said("verdict").as_deref(), said("expect").as_deref(), lives) {
            (None, None, true) => Fate::Lives,
            (Some("end"), None, false) => Fate::End,
            (Some("tell"), None, false) => Fate::Tell,
            (None, Some("processes_left"), false) => Fate::Left,
            (None, Some("job_lingered"), false) => Fate::Lingers,
            said => panic!("{} must say its verdict, `end` or `tell`, and says {said:?}", path.display()),
        };
        let words =
            said("stuck").map_or_else(Vec::new, |words| words.split(" | ").map(str::to_lowercase).collect());
        assert!(fate == Fate::Lives || !words.is_empty(), "{} must say `# stuck: `", path.display());
        let place = said("at").map(|at| find(&path, &at));
        assert!(
            !matches!(fate, Fate::End | Fate::Tell) || place.is_some(),
            "{} must say `# at: `",
            path.display()
        );
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Self { name, fate, words, place, result: said("result"), path }
    }
}

/// The folder of all animals.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/zoo").canonicalize().unwrap()
}

/// All animals, by name, those that freeze first.
pub(crate) fn zoo() -> Vec<Animal> {
    let folder = folder();
    let animals = [("hang", false), ("alive", true)].into_iter().flat_map(|(cage, lives)| {
        let entries = std::fs::read_dir(folder.join(cage)).unwrap().map(|entry| entry.unwrap().path());
        let mut programs: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "py")).collect();
        programs.sort();
        programs.into_iter().map(move |path| Animal::read(path, lives))
    });
    animals.collect()
}

/// The line of `FILE:MARK` that carries the comment `# MARK`. The file is beside the animal or in `site-packages`.
fn find(animal: &Path, at: &str) -> (String, usize) {
    let (file, mark) =
        at.split_once(':').unwrap_or_else(|| panic!("{}: `# at: FILE:MARK`", animal.display()));
    let beside = animal.with_file_name(file);
    let path = if beside.exists() { beside } else { folder().join("site-packages").join(file) };
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mark = format!("  # {mark}");
    let line = text.lines().position(|line| line.ends_with(&mark));
    (file.to_owned(), 1 + line.unwrap_or_else(|| panic!("{}: no line ends with `{mark}`", path.display())))
}
