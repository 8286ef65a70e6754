//! Python stacks of a process, read from its memory by py-spy while it goes on running. Owns whatever can go wrong with
//! that: memory that is not what it seems, and rights that are missing.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};

use crate::proc_files::read;
use crate::{Frame, Python};

/// How often a stack is tried to be read: one that changes under the reader may make no sense.
const TRIES: usize = 2;

/// One thread's part.
#[derive(Default)]
pub(crate) struct PythonThread {
    pub(crate) name: Option<String>,
    pub(crate) gil: bool,
    pub(crate) frames: Vec<Frame>,
    pub(crate) marks: Marks,
    pub(crate) texts: Vec<Text>,
}

/// A variable of a frame that holds a short text.
pub(crate) struct Text {
    /// The frame's place in the stack, the innermost 0.
    pub(crate) frame: usize,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Frames whose texts are kept.
const WITH_TEXTS: usize = 8;

/// By what threads of one interpreter find each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    /// What Python calls it (`threading.get_ident()`): owners of locks are written down by it.
    pub(crate) ident: u64,
    /// Where its own `Thread` object is, unless it is the main thread.
    pub(crate) object: Option<usize>,
    /// Where the `Thread` object is that it joins.
    pub(crate) joins: Option<usize>,
}

/// A process as Python sees it, its threads by their ids of the system.
pub(crate) fn look(pid: u32, folder: &Path, tids: &[u32]) -> (Python, HashMap<u32, PythonThread>) {
    if !is_python(folder) {
        return (Python::NotPython, HashMap::new());
    }
    let mut why = String::new();
    for attempt in 0..TRIES {
        // py-spy follows pointers of a foreign process; where one leads astray, it may panic.
        match catch_unwind(AssertUnwindSafe(|| stacks(pid, attempt == 0))) {
            Ok(Ok((version, stacks))) => return (Python::Version(version), by_thread(stacks, folder, tids)),
            Ok(Err(text)) => why = text,
            Err(_) => "its memory makes no sense as an interpreter".clone_into(&mut why),
        }
    }
    (Python::Unreadable(why), HashMap::new())
}

/// By its program, or by the library where another program holds the interpreter. The program of others is not shown, but
/// their command line is.
fn is_python(folder: &Path) -> bool {
    let program = fs::read_link(folder.join("exe")).ok();
    let program = program.or_else(|| Some(PathBuf::from(read(&folder.join("cmdline"))?.split('\0').next()?)));
    let name = program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match name {
        Some(name) if name.starts_with("python") || name.starts_with("pypy") => true,
        Some(_) => read(&folder.join("maps")).is_some_and(|maps| maps.contains("/libpython")),
        None => false,
    }
}

fn stacks(pid: u32, locals: bool) -> Result<(String, Vec<StackTrace>), String> {
    let pid = py_spy::Pid::try_from(pid).map_err(|error| error.to_string())?;
    // Anything but non-blocking stops the process by ptrace: what is watched must not feel it.
    let config = Config {
        blocking: LockingStrategy::NonBlocking,
        collect_thread_names: true,
        // For shorter names it would look into folders of the program, whose disk may not answer.
        full_filenames: true,
        dump_locals: u64::from(locals),
        ..Config::default()
    };
    let mut spy = PythonSpy::new(pid, &config).map_err(|error| in_words(error.chain()))?;
    let stacks = spy.get_stack_traces().map_err(|error| in_words(error.chain()))?;
    Ok((spy.version.to_string(), stacks))
}

fn in_words<'a>(mut chain: impl Iterator<Item = &'a (dyn Error + 'static)> + Clone) -> String {
    let refused = |error: &(dyn Error + 'static)| {
        error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    if chain.clone().any(refused) {
        return "not allowed to read its memory: look as its own user or as root; in a container add `--cap-add SYS_PTRACE`; \
                where `sysctl kernel.yama.ptrace_scope` is 1 or more, `sudo sysctl kernel.yama.ptrace_scope=0`"
            .to_owned();
    }
    chain.next().map_or_else(String::new, |error| format!("its interpreter cannot be read: {error}"))
}

fn by_thread(stacks: Vec<StackTrace>, folder: &Path, tids: &[u32]) -> HashMap<u32, PythonThread> {
    let memory = File::open(folder.join("mem")).ok();
    let mut found = HashMap::new();
    let mut homeless = Vec::new();
    for stack in stacks {
        let told =
            stack.os_thread_id.and_then(|tid| u32::try_from(tid).ok()).filter(|tid| tids.contains(tid));
        match told.or_else(|| tid_in_memory(memory.as_ref()?, stack.thread_id, tids)) {
            Some(tid) => drop(found.insert(tid, part_of(stack))),
            None => homeless.push(stack),
        }
    }
    // After a fork the interpreter may still know its only thread by the parent's id.
    if let (Some(main), Some(stack)) = (tids.first(), homeless.pop()) {
        found.entry(*main).or_insert_with(|| part_of(stack));
    }
    found
}

/// Before 3.11 Python knows its threads only by their pthread ids. Those are addresses of the C library's own record of the
/// thread, near the beginning of which stands the id of the system.
fn tid_in_memory(memory: &File, record: u64, tids: &[u32]) -> Option<u32> {
    let mut bytes = [0; 1024];
    let length = memory.read_at(&mut bytes, record).ok()?;
    let mut words =
        bytes[..length].chunks_exact(4).filter_map(|word| Some(u32::from_ne_bytes(word.try_into().ok()?)));
    words.find(|word| tids.contains(word))
}

fn part_of(stack: StackTrace) -> PythonThread {
    let marks = Marks { ident: stack.thread_id, object: own_object(&stack), joins: joined_object(&stack) };
    let texts = texts_of(&stack);
    let frames = stack.frames.into_iter().map(|frame| Frame {
        function: frame.name,
        file: frame.filename,
        line: u32::try_from(frame.line).unwrap_or(0),
    });
    PythonThread { name: stack.thread_name, gil: stack.owns_gil, frames: frames.collect(), marks, texts }
}

/// Texts that are there in full: longer ones end with dots.
fn texts_of(stack: &StackTrace) -> Vec<Text> {
    let frames = stack.frames.iter().take(WITH_TEXTS).enumerate();
    let locals = frames.flat_map(|(at, frame)| frame.locals.iter().flatten().map(move |local| (at, local)));
    let texts = locals.filter_map(|(frame, local)| {
        let value = local.repr.as_deref()?.strip_prefix('"')?.strip_suffix('"')?;
        let whole = !value.is_empty() && !value.ends_with("...");
        whole.then(|| Text { frame, name: local.name.clone(), value: value.to_owned() })
    });
    texts.collect()
}

/// A thread that Python started begins in a method of its object.
fn own_object(stack: &StackTrace) -> Option<usize> {
    let begins = stack
        .frames
        .iter()
        .rev()
        .take(2)
        .find(|frame| is_method(frame, &["_bootstrap", "_bootstrap_inner"]))?;
    variable(begins, "self")
}

/// The innermost frame is the end of a `join`.
fn joined_object(stack: &StackTrace) -> Option<usize> {
    let innermost =
        stack.frames.first().filter(|frame| is_method(frame, &["join", "_wait_for_tstate_lock"]))?;
    variable(innermost, "self")
}

fn is_method(frame: &py_spy::Frame, names: &[&str]) -> bool {
    let bare = frame.name.rsplit('.').next().unwrap_or(&frame.name);
    frame.filename.ends_with("/threading.py") && names.contains(&bare)
}

fn variable(frame: &py_spy::Frame, name: &str) -> Option<usize> {
    frame.locals.as_ref()?.iter().find(|local| local.name == name).map(|local| local.addr)
}
