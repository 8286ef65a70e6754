//! Making an output visible: everything in it durable, then one rename to its final place. An empty output has
//! nothing to lose and is renamed on the spot; the rest is done by threads, because a disk can take its time.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use gpulane_core::Input;
use gpulane_model::{Attempt, JobId};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat, renameat};

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
    /// The same, from the stage's directory: short ways for the common case.
    pub(super) below_stage: OutputPaths,
}

/// An output's places below the directory of its stage.
pub(super) struct OutputPaths {
    pub(super) stage: Arc<OwnedFd>,
    pub(super) from: String,
    pub(super) to: String,
}

/// Publishes outputs.
pub(super) struct Publisher {
    /// Unbounded: it holds finished jobs, a few paths each, never data; the plan bounds it.
    queue: Option<Sender<Output>>,
    receiver: Arc<Mutex<Receiver<Output>>>,
    mailbox: Arc<Mailbox>,
    /// Started when first needed.
    threads: usize,
}

/// Where the threads leave their answers; readable when there are any.
struct Mailbox {
    answers: Mutex<Vec<Input>>,
    wake: OwnedFd,
}

impl Publisher {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, receiver) = channel();
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            queue: Some(sender),
            receiver: Arc::new(Mutex::new(receiver)),
            mailbox: Arc::new(Mailbox { answers: Mutex::new(Vec::new()), wake }),
            threads: 0,
        })
    }

    /// Publishes at once if the output is empty, and answers; otherwise leaves it to a thread.
    pub(super) fn publish(&mut self, output: Output) -> Option<Input> {
        match publish_if_empty(&output) {
            Ok(true) => Some(answer(&output, Ok(()))),
            Ok(false) => {
                self.hand_over(output);
                None
            }
            Err(error) => Some(answer(&output, Err(error))),
        }
    }

    fn hand_over(&mut self, output: Output) {
        if self.threads < THREADS {
            let (receiver, mailbox) = (Arc::clone(&self.receiver), Arc::clone(&self.mailbox));
            let thread = std::thread::Builder::new().name("publish".into());
            if thread.spawn(move || work(&receiver, &mailbox)).is_ok() {
                self.threads += 1;
            }
        }
        if self.threads == 0 {
            // No thread could be had: do it here rather than not at all.
            self.mailbox.put(finish(&output));
        } else if let Some(queue) = &self.queue {
            // The receiver lives as long as we do.
            let _ = queue.send(output);
        }
    }

    /// Answers that came in.
    pub(super) fn take(&self) -> Vec<Input> {
        let _ = rustix::io::read(&self.mailbox.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.mailbox.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Publisher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.wake.as_fd()
    }
}

impl Mailbox {
    fn put(&self, input: Input) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

fn work(receiver: &Mutex<Receiver<Output>>, mailbox: &Mailbox) {
    loop {
        let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(output) = next else { return };
        mailbox.put(finish(&output));
    }
}

fn finish(output: &Output) -> Input {
    answer(output, make_durable(&output.from).and_then(|()| move_to_place(output)))
}

/// Publishes the output of an attempt that nobody was there to publish.
pub(super) fn publish_belatedly(from: &Path, to: &Path) -> io::Result<()> {
    make_durable(from)?;
    std::fs::rename(from, to)?;
    to.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
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
    let OutputPaths { stage, from, to } = &output.below_stage;
    match openat(stage, from, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(directory) => {
            let mut buffer = Vec::with_capacity(1024);
            let mut entries = rustix::fs::RawDir::new(&directory, buffer.spare_capacity_mut());
            while let Some(entry) = entries.next() {
                if ![c".", c".."].contains(&entry?.file_name()) {
                    return Ok(false);
                }
            }
            renameat(stage, from, stage, to)?;
        }
        // The job removed its own output directory: then it has none.
        Err(rustix::io::Errno::NOENT) => mkdirat(stage, to, Mode::RWXU)?,
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
    let job = output.to.parent().unwrap_or(Path::new("."));
    let directories = [File::open(job)?, File::open(job.parent().unwrap_or(job))?];
    std::fs::rename(&output.from, &output.to)?;
    directories.iter().try_for_each(File::sync_all).inspect_err(|_| {
        // At its place it would be taken for a success; it is not one until that is durable.
        let _ = std::fs::rename(&output.to, &output.from);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(root: &Path) -> Output {
        let from = root.join("attempt-1/out");
        std::fs::create_dir_all(&from).unwrap();
        let stage = Arc::new(open(root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap());
        let below_stage = OutputPaths { stage, from: "attempt-1/out".into(), to: "out".into() };
        Output { job: JobId(0), attempt: Attempt(1), from, to: root.join("out"), below_stage }
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
    fn an_empty_output_is_in_place_at_once() {
        let root = tempfile::tempdir().unwrap();
        let output = output(root.path());
        let to = output.to.clone();
        let published = Publisher::new().unwrap().publish(output);
        assert!(matches!(published, Some(Input::JobPublished { .. })));
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
        assert!(publisher.publish(output).is_none());
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
        assert!(publisher.publish(output).is_none());
        assert!(matches!(wait_for_answer(&publisher), Input::PublishFailed { .. }));
        assert_eq!(std::fs::read(to.join("precious")).unwrap(), b"old");
    }
}
