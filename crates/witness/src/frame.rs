//! Places in Python code: whose they are, and their short form. A person looks for their own line first.

use crate::Frame;

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Python's own library.
    Standard,
    /// A package that was installed.
    Library,
    /// All else.
    User,
}

impl Frame {
    /// The short form: `train.py:12`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.base(), self.line)
    }

    /// The file's name alone.
    pub(crate) fn base(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    /// Whose code it is.
    pub(crate) fn owner(&self) -> Owner {
        if self.package().is_some() {
            return Owner::Library;
        }
        let frozen = self.file.starts_with("<frozen");
        if frozen || within_lib_python(&self.file).is_some() { Owner::Standard } else { Owner::User }
    }

    /// Whether the frame belongs to Python's own library.
    pub(crate) fn is_standard(&self) -> bool {
        self.owner() == Owner::Standard
    }

    /// The installed package it belongs to: `torch`.
    pub(crate) fn package(&self) -> Option<&str> {
        let inside =
            ["/site-packages/", "/dist-packages/"].iter().find_map(|folder| self.file.split_once(folder))?.1;
        Some(inside.split_once('/').map_or(inside, |(package, _)| package).trim_end_matches(".py"))
    }

    /// The standard module it belongs to, as a path: `concurrent/futures/thread.py`.
    pub(crate) fn module(&self) -> Option<&str> {
        if !self.is_standard() {
            return None;
        }
        within_lib_python(&self.file)
    }

    /// Its function without the class that newer versions name.
    pub(crate) fn bare(&self) -> &str {
        self.function.rsplit('.').next().unwrap_or(&self.function)
    }
}

/// What follows `…/lib/python3.11/` or `…/lib64/python3/`.
fn within_lib_python(file: &str) -> Option<&str> {
    let folders = ["/lib/python3", "/lib64/python3", "/lib/pypy3"];
    let (version, inside) = folders.iter().find_map(|folder| file.split_once(folder))?.1.split_once('/')?;
    version.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 't').then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str) -> Frame {
        Frame { function: "f".to_owned(), file: file.to_owned(), line: 3 }
    }

    #[test]
    fn owners_are_told_apart() {
        for (file, owner) in [
            ("/usr/lib/python3.11/threading.py", Owner::Standard),
            ("/home/x/.pyenv/versions/3.11.7/lib/python3.11/queue.py", Owner::Standard),
            ("/opt/python3.11/lib/python3.11/queue.py", Owner::Standard),
            ("<frozen runpy>", Owner::Standard),
            ("/opt/conda/lib/python3.13t/asyncio/runners.py", Owner::Standard),
            ("/v/lib/python3.11/site-packages/cleanfid/fid.py", Owner::Library),
            ("/usr/lib/python3/dist-packages/yaml.py", Owner::Library),
            ("/home/x/train.py", Owner::User),
            ("/home/x/python3/train.py", Owner::User),
            ("/home/x/threading.py", Owner::User),
            ("<string>", Owner::User),
        ] {
            assert_eq!(frame(file).owner(), owner, "{file}");
        }
    }

    #[test]
    fn parts_are_named() {
        assert_eq!(frame("/v/lib/python3.11/site-packages/cleanfid/fid.py").package(), Some("cleanfid"));
        assert_eq!(frame("/usr/lib/python3/dist-packages/six.py").package(), Some("six"));
        assert_eq!(
            frame("/a/lib/python3.9/concurrent/futures/thread.py").module(),
            Some("concurrent/futures/thread.py")
        );
        assert_eq!(frame("/home/x/train.py").place(), "train.py:3");
    }
}
