//! Making an output visible: everything in it durable, then one rename to its final place. An empty output has
//! nothing to lose and only needs the rename. All of it is done by threads, because a disk can take its time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use gpulane_core::Input;
use gpulane_model::{Attempt, JobId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, open};

/// Large outputs must not make small ones wait; more would only compete for the disk.
const THREADS: usize = 4;

/// One output to publish.
pub(super) struct Output {
    pub(super) job: JobId,
    pub(super) attempt: Attempt,
    /// The attempt's private directory.
    pub(super) from: PathBuf,
    /// Its final place.
    pub(super) to: PathBuf,
}

/// Publishes outputs.
pub(super) struct Publisher {
    shared: Arc<Shared>,
    /// Started when first needed.
    has_thread: bool,
}

struct Shared {
    /// Unbounded: it holds finished jobs, a few paths each, never data; the plan bounds it.
    queue: Mutex<Queue>,
    work: Condvar,
    answers: Mutex<Vec<Input>>,
    /// Readable when there are answers.
    wake: OwnedFd,
}

#[derive(Default)]
struct Queue {
    outputs: Vec<Output>,
    /// The thread waits for work.
    asleep: bool,
}

impl Publisher {
    pub(super) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared =
            Shared { queue: Mutex::default(), work: Condvar::new(), answers: Mutex::default(), wake };
        Ok(Self { shared: Arc::new(shared), has_thread: false })
    }

    /// Leaves the output to a thread. The answer comes through [`take`](Self::take).
    pub(super) fn publish(&mut self, output: Output) {
        if !self.has_thread {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("publish".into());
            self.has_thread = thread.spawn(move || shared.work()).is_ok();
        }
        if !self.has_thread {
            // No thread could be had: do it here rather than not at all.
            self.shared.answer([finish(&output)]);
            return;
        }
        let mut queue = lock(&self.shared.queue);
        queue.outputs.push(output);
        if std::mem::take(&mut queue.asleep) {
            drop(queue);
            self.shared.work.notify_one();
        }
    }

    /// Answers that came in.
    pub(super) fn take(&self) -> Vec<Input> {
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        std::mem::take(&mut *lock(&self.shared.answers))
    }
}

impl AsFd for Publisher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

/// No code panics while it holds one of these locks, so a poisoned one holds sound data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The first thread: takes all there is at once, and passes on what will take its time.
    fn work(self: &Arc<Self>) {
        let mut heavy = None;
        let mut batch = Vec::new();
        loop {
            self.next_batch(&mut batch);
            let mut answers = Vec::with_capacity(batch.len());
            for output in batch.drain(..) {
                match publish_if_empty(&output) {
                    Ok(true) => answers.push(answer(&output, Ok(()))),
                    Ok(false) => heavy.get_or_insert_with(|| self.start_heavy()).send(output),
                    Err(error) => answers.push(answer(&output, Err(error))),
                }
            }
            if !answers.is_empty() {
                self.answer(answers);
            }
        }
    }

    fn next_batch(&self, batch: &mut Vec<Output>) {
        let mut queue = lock(&self.queue);
        while queue.outputs.is_empty() {
            queue.asleep = true;
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut queue.outputs, batch);
    }

    fn answer(&self, inputs: impl IntoIterator<Item = Input>) {
        lock(&self.answers).extend(inputs);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Threads for outputs that hold something.
    fn start_heavy(self: &Arc<Self>) -> Heavy {
        let (sender, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = 0;
        for _ in 0..THREADS {
            let (receiver, shared) = (Arc::clone(&receiver), Arc::clone(self));
            let thread = std::thread::Builder::new().name("publish".into());
            threads += usize::from(thread.spawn(move || shared.work_heavy(&receiver)).is_ok());
        }
        Heavy { sender, shared: Arc::clone(self), alone: threads == 0 }
    }

    fn work_heavy(&self, receiver: &Mutex<Receiver<Output>>) {
        loop {
            let next = lock(receiver).recv();
            let Ok(output) = next else { return };
            self.answer([finish(&output)]);
        }
    }
}

/// The way to the threads for outputs that hold something.
struct Heavy {
    sender: Sender<Output>,
    shared: Arc<Shared>,
    /// No thread could be had.
    alone: bool,
}

impl Heavy {
    fn send(&self, output: Output) {
        if self.alone {
            self.shared.answer([finish(&output)]);
        } else {
            // The receivers live as long as the program.
            let _ = self.sender.send(output);
        }
    }
}

fn finish(output: &Output) -> Input {
    answer(output, make_durable(&output.from).and_then(|()| move_to_place(output)))
}

fn answer(output: &Output, result: io::Result<()>) -> Input {
    let (job, attempt) = (output.job, output.attempt);
    match result {
        Ok(()) => Input::JobPublished { job, attempt },
        Err(error) => {
            let message = format!("{}: {error}", output.from.display());
            Input::PublishFailed { job, attempt, message }
        }
    }
}

/// Renames an output that holds nothing. `false`: it holds something.
fn publish_if_empty(output: &Output) -> io::Result<bool> {
    match open(&output.from, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(directory) => {
            let mut buffer = Vec::with_capacity(1024);
            let mut entries = rustix::fs::RawDir::new(&directory, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                if ![c".", c".."].contains(&entry?.file_name()) {
                    return Ok(false);
                }
            }
            std::fs::rename(&output.from, &output.to)?;
        }
        // The job removed its own output directory: then it has none.
        Err(rustix::io::Errno::NOENT) => std::fs::create_dir(&output.to)?,
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Every file and directory below `directory`, and itself, onto the disk. Links and special files hold no data.
fn make_durable(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_durable(&entry.path())?;
        } else if kind.is_file() {
            let file = open(entry.path(), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
            match file {
                Ok(file) => rustix::fs::fsync(file)?,
                // A file its owner may not read was still written by it.
                Err(rustix::io::Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    File::open(directory)?.sync_all()
}

/// The rename, and the directories it changed onto the disk: the record that follows must not be ahead of it.
fn move_to_place(output: &Output) -> io::Result<()> {
    std::fs::rename(&output.from, &output.to)?;
    let job = output.to.parent().unwrap_or(Path::new("."));
    File::open(job)?.sync_all()?;
    job.parent().map_or(Ok(()), |stage| File::open(stage)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(root: &Path) -> Output {
        let from = root.join("attempt-1/out");
        std::fs::create_dir_all(&from).unwrap();
        Output { job: JobId(0), attempt: Attempt(1), from, to: root.join("out") }
    }

    fn wait_for_answer(publisher: &Publisher) -> Input {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            if let Some(input) = publisher.take().pop() {
                return input;
            }
            assert!(std::time::Instant::now() < deadline, "no answer");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn an_empty_output_is_put_in_place() {
        let root = tempfile::tempdir().unwrap();
        let output = output(root.path());
        let to = output.to.clone();
        let mut publisher = Publisher::new().unwrap();
        publisher.publish(output);
        assert!(matches!(wait_for_answer(&publisher), Input::JobPublished { .. }));
        assert!(to.is_dir());
    }

    #[test]
    fn a_full_output_arrives_whole_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let output = output(root.path());
        let (from, to) = (output.from.clone(), output.to.clone());
        std::fs::create_dir(from.join("deep")).unwrap();
        std::fs::write(from.join("deep/model.bin"), b"weights").unwrap();
        std::os::unix::fs::symlink("/nowhere", from.join("link")).unwrap();
        let mut publisher = Publisher::new().unwrap();
        publisher.publish(output);
        assert!(matches!(wait_for_answer(&publisher), Input::JobPublished { .. }));
        assert_eq!(std::fs::read(to.join("deep/model.bin")).unwrap(), b"weights");
        assert!(!from.exists());
    }

    #[test]
    fn an_occupied_place_is_a_failure_and_nothing_is_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let output = output(root.path());
        std::fs::create_dir(&output.to).unwrap();
        std::fs::write(output.to.join("precious"), b"old").unwrap();
        std::fs::write(output.from.join("new"), b"new").unwrap();
        let to = output.to.clone();
        let mut publisher = Publisher::new().unwrap();
        publisher.publish(output);
        assert!(matches!(wait_for_answer(&publisher), Input::PublishFailed { .. }));
        assert_eq!(std::fs::read(to.join("precious")).unwrap(), b"old");
    }
}
