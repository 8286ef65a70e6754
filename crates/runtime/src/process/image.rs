//! What `execve` needs: program, argv and environment as C strings. The inherited environment is converted once
//! per stage; a job adds its own few variables.

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A list of C strings with the NULL-terminated pointer array `execve` wants.
#[derive(Default)]
pub(crate) struct CStrings {
    strings: Vec<CString>,
}

impl CStrings {
    /// Adds `text`; a NUL inside ends it early (plans with NULs were refused long before).
    pub(crate) fn push(&mut self, text: impl Into<Vec<u8>>) {
        let mut bytes: Vec<u8> = text.into();
        if let Some(nul) = bytes.iter().position(|byte| *byte == 0) {
            bytes.truncate(nul);
        }
        // No NUL is left, so this cannot fail; an empty string is the harmless answer.
        self.strings.push(CString::new(bytes).unwrap_or_default());
    }

    /// Adds `NAME=value`.
    pub(crate) fn set(&mut self, name: &str, value: &[u8]) {
        self.push([name.as_bytes(), b"=", value].concat());
    }

    /// Those that begin so, each ended by a NUL.
    pub(crate) fn block_of(&self, beginning: &[u8]) -> Vec<u8> {
        let strings = self.strings.iter().map(CString::as_bytes_with_nul);
        strings.filter(|string| string.starts_with(beginning)).flatten().copied().collect()
    }

    /// The strings as text, for tests.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.strings.iter().filter_map(|string| string.to_str().ok())
    }

    fn pointers(&self) -> impl Iterator<Item = *const c_char> + '_ {
        self.strings.iter().map(|string| string.as_ptr())
    }
}

/// Pointers into several [`CStrings`], ended by NULL. Valid while those live.
pub(crate) struct PointerArray<'a> {
    pointers: Vec<*const c_char>,
    _strings: std::marker::PhantomData<&'a CStrings>,
}

impl<'a> PointerArray<'a> {
    /// All strings of all lists, in order.
    pub(crate) fn of(lists: &[&'a CStrings]) -> Self {
        let mut pointers = Vec::with_capacity(lists.iter().map(|list| list.strings.len()).sum::<usize>() + 1);
        for list in lists {
            pointers.extend(list.pointers());
        }
        pointers.push(std::ptr::null());
        Self { pointers, _strings: std::marker::PhantomData }
    }

    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// Everything `execve` takes.
pub(crate) struct Image<'a> {
    /// The program's path, already found.
    pub(crate) program: &'a CStr,
    /// argv.
    pub(crate) argv: PointerArray<'a>,
    /// Environment.
    pub(crate) envp: PointerArray<'a>,
}

/// Finds `program` as `execvp` would: a name with a slash stands for itself, others are looked up in `path`.
pub(crate) fn find_program(program: &str, path: Option<&str>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    path.unwrap_or("/usr/local/bin:/usr/bin:/bin")
        .split(':')
        .map(|directory| Path::new(if directory.is_empty() { "." } else { directory }).join(program))
        .find(|candidate| is_executable(candidate))
}

pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A path as a C string.
pub(crate) fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
