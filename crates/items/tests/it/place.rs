//! A directory with inputs in it, and what becomes of them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use gpulane_items::{Item, ItemList, Place, Problem, Refused, Wanted, check, freeze};
use gpulane_model::Decode;

/// Inputs are in `base`, the frozen list in `out`.
pub(crate) struct Scene {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) decode: Option<Decode>,
}

impl Scene {
    pub(crate) fn new(files: &[&str]) -> Self {
        let scene = Self { temp: tempfile::tempdir().unwrap(), decode: None };
        fs::create_dir(scene.out()).unwrap();
        fs::create_dir(scene.base()).unwrap();
        for file in files {
            scene.write(file, "x");
        }
        scene
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.temp.path().join("base")
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.temp.path().join("out")
    }

    pub(crate) fn write(&self, name: impl AsRef<OsStr>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.base().join(Path::new(name.as_ref()));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn with<T>(&self, inputs: &[&str], act: impl FnOnce(&Wanted) -> T) -> T {
        let inputs: Vec<String> = inputs.iter().map(|input| (*input).to_owned()).collect();
        act(&Wanted { inputs: &inputs, base: &self.base(), decode: self.decode })
    }

    pub(crate) fn freeze(&self, inputs: &[&str]) -> Result<ItemList, Vec<Problem>> {
        self.with(inputs, |wanted| match freeze(wanted, &self.out(), &mut |_| true) {
            Ok(list) => Ok(list),
            Err(Refused::Problems(problems)) => Err(problems),
            Err(error) => panic!("{error}"),
        })
    }

    /// The items of these inputs, which have no mistakes.
    pub(crate) fn items(&self, inputs: &[&str]) -> Vec<Item> {
        assert_eq!(self.with(inputs, check), Vec::new());
        all(&self.freeze(inputs).unwrap())
    }

    pub(crate) fn names(&self, inputs: &[&str]) -> Vec<String> {
        self.items(inputs).into_iter().map(|item| item.name).collect()
    }

    /// The only mistake of this input: seen before anything starts, and when freezing.
    pub(crate) fn mistake(&self, input: &str) -> String {
        let checked = self.with(&[input], check);
        assert_eq!(self.freeze(&[input]).unwrap_err(), checked);
        checked[0].to_string()
    }
}

pub(crate) fn all(list: &ItemList) -> Vec<Item> {
    let mut out = Vec::new();
    list.cursor().next_in(&|_| true, usize::MAX, &mut out).unwrap();
    assert_eq!(out.len() as u64, list.len());
    out
}

pub(crate) fn reason(item: &Item) -> &str {
    if let Place::Bad(reason) = &item.place { reason } else { panic!("{item:?} is not bad") }
}
