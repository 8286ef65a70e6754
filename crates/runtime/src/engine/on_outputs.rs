//! Outputs: a job that says it is finished has them made durable, one that has ended has them published.

use gpulane_core::Input;
use gpulane_model::{Attempt, Bytes, Event, JobId, ProcessExit};

use super::publish::Answer;
use super::reactor::Reactor;

/// From so many bytes on, people are told what a failed try has left on a full disk.
const WORTH_A_WORD: u64 = 1 << 20;

impl Reactor<'_> {
    /// Passes on what the watch over the jobs has found.
    pub(super) fn hear_vigils(&mut self) {
        for input in self.vigils.take() {
            if let Input::WorkDone { job, attempt, .. } = input {
                self.on_work_done(job, attempt);
            }
            self.feed(input);
        }
    }

    /// A job has finished its work and may take its time to exit, or never do so. Until its output is on the disk its word is worth
    /// nothing after a power cut.
    fn on_work_done(&mut self, job: JobId, attempt: Attempt) {
        let is_worker = self.prepared.plan.stage_of(job).map.is_some();
        let known = self.done.get(&job) == Some(&attempt);
        if is_worker || known || !self.runs(job, attempt) {
            return;
        }
        self.done.insert(job, attempt);
        if let Some(output) = self.launchpad.output_of(job, attempt) {
            self.publisher.sync(output);
        }
    }

    /// A job that dies of a signal at its exit may have said just before that its work is done, sooner than anybody looked. Whether it has.
    pub(super) fn hear_last_word(&mut self, job: JobId, attempt: Attempt, exit: ProcessExit) -> bool {
        let (dir, plan) = (&self.prepared.dir, &self.prepared.plan);
        let said = matches!(exit, ProcessExit::Signal(_))
            && self.core.ends_by_itself(job)
            // The work of a worker is the map's, which knows when that is done.
            && plan.stage_of(job).map.is_none()
            && dir.done_file(plan, job, attempt).exists();
        if said {
            let because = "called gpulane.done()".to_owned();
            self.feed(Input::WorkDone { job, attempt, because, doing: None, frozen: false });
        }
        said
    }

    fn runs(&self, job: JobId, attempt: Attempt) -> bool {
        self.roster.get(job).is_some_and(|running| running.attempt == attempt)
    }

    pub(super) fn publish(&mut self, job: JobId, attempt: Attempt) {
        self.done.remove(&job);
        // What counts of a map is not in its workers' own folders.
        if self.prepared.plan.stage_of(job).map.is_some() {
            self.inputs.push_back(Input::JobPublished { job, attempt });
        } else if let Some(other) = self.prepared.place.other() {
            let message = format!(
                "another directory stood at {} when it ended, and what it wrote may be there: nothing of it was published",
                other.display()
            );
            self.inputs.push_back(Input::PublishFailed { job, attempt, message, kept: false });
        } else if let Some(output) = self.launchpad.output_of(job, attempt)
            && let Some(answer) = self.publisher.publish(output)
        {
            let input = self.understand(answer);
            self.inputs.extend(input);
        }
    }

    pub(super) fn hear_publisher(&mut self) {
        for answer in self.publisher.take() {
            if let Some(input) = self.understand(answer) {
                self.feed(input);
            }
        }
    }

    fn understand(&mut self, answer: Answer) -> Option<Input> {
        match answer {
            Answer::Published { job, attempt } => Some(Input::JobPublished { job, attempt }),
            Answer::Failed { job, attempt, message, kept, durable } => {
                if durable {
                    self.record_done(job, attempt);
                }
                Some(Input::PublishFailed { job, attempt, message, kept })
            }
            Answer::Measured { job, attempt, bytes } => {
                self.disk_space.on_measured(job, bytes);
                if bytes >= WORTH_A_WORD {
                    let (dir, plan) = (&self.prepared.dir, &self.prepared.plan);
                    let (name, out) = (plan.job_name(job), dir.attempt_out(plan, job, attempt));
                    self.prepared.link.trouble(&format!(
                        "{} that {name} wrote before the disk was full are kept in {}; remove them if you do not need them",
                        Bytes(bytes),
                        out.display()
                    ));
                }
                None
            }
            // Of one that has ended meanwhile, its end tells more.
            Answer::Durable { job, attempt } => {
                if self.runs(job, attempt) {
                    self.record_done(job, attempt);
                }
                None
            }
        }
    }

    /// A try failed on a full disk: the next one needs at least as much space as it had written, which stays where it is.
    pub(super) fn measure_output(&mut self, job: JobId, attempt: Attempt) {
        if self.prepared.plan.stage_of(job).map.is_some() {
            return;
        }
        if let Some(output) = self.launchpad.output_of(job, attempt) {
            self.disk_space.on_measuring(job);
            self.publisher.measure(output);
        }
    }

    fn record_done(&mut self, job: JobId, attempt: Attempt) {
        let job = self.prepared.plan.job_name(job);
        self.record(Event::JobDone { job, attempt });
    }
}
