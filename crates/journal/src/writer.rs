//! The journal's writer: callers hand over events and go on; a thread of its own writes them, many at once, and
//! announces what is durable. The thread alone waits for the disk.

mod queue;
mod thread;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpulane_model::{Event, Millis, Plan, RunState};

use crate::disk::Disk;
use crate::repair::{self, Mode, Repair};
use crate::{JournalError, RunDir};
use queue::Queue;
use thread::Writer;

/// What the writer has to say. Calls come from its own thread, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Everything up to here survives a power cut.
    Durable {
        /// The journal's durable length, the limit for [`Follower::poll`](crate::Follower::poll).
        bytes: u64,
        /// The newest durable record.
        seq: u64,
    },
    /// The disk does not take what was appended. Nothing is lost; it is tried again until it goes.
    Blocked {
        /// The file, the cause and what to do, for a person.
        because: String,
    },
    /// It goes again.
    Unblocked,
}

/// A journal open for appending. Hold the run's lock while it exists.
#[derive(Debug)]
pub struct Journal {
    queue: Arc<Queue>,
    /// Taken when it is closed.
    thread: Option<JoinHandle<()>>,
}

/// What a journal that is dropped instead of closed waits for the disk.
const DROP_DEADLINE: Duration = Duration::from_secs(1);

impl Journal {
    /// Reads and verifies the journal, cuts what a crash tore at its end, and starts the writer. Makes the file
    /// if there is none. The caller holds the run's lock.
    pub fn open(
        dir: &RunDir,
        plan: &Plan,
        mode: Mode,
        on_commit: Box<dyn Fn(Commit) + Send>,
    ) -> Result<(Self, RunState, Repair), JournalError> {
        let opened = repair::open(dir, plan, mode)?;
        let path = dir.journal_file();
        let disk =
            rustix::fs::fstatvfs(&opened.file).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let writer = Writer::new(opened.file, &path, opened.length, on_commit).on_disk_of(disk);
        let journal = Self::start(writer, opened.state.last_seq)
            .map_err(JournalError::io("start a writer for", &path))?;
        Ok((journal, opened.state, opened.repair))
    }

    fn start<D: Disk + 'static>(writer: Writer<D>, last_seq: u64) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::after(last_seq));
        let shared = Arc::clone(&queue);
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run(&shared))?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Takes an event; the order of calls is the order in the file. Never waits for the disk.
    pub fn append(&self, time: Millis, event: Event) {
        self.queue.push(time, event);
    }

    /// Waits until everything appended so far is durable; false: it is not, within the deadline.
    pub fn flush(&self, deadline: Duration) -> bool {
        self.queue.wait_durable(Instant::now() + deadline)
    }

    /// Writes what is left and ends the writer; false: something is not durable.
    pub fn close(mut self, deadline: Duration) -> bool {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        let durable = self.queue.stop(Instant::now() + deadline);
        // A thread that a dead disk holds is left behind: waiting for it would hang the engine.
        if self.queue.has_ended() {
            return thread.join().is_ok() && durable;
        }
        durable
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end(DROP_DEADLINE);
    }
}
