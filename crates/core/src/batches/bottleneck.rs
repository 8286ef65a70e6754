//! What limits a map. Every step is a station with so many servers; the busiest one is what the others wait for.

/// The part of their time that workers may wait for batches without anything being too slow for them.
const UNNOTICED: f64 = 0.05;

/// A step on the way from a file to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes from the disk.
    Reading,
    /// Bytes to pixels.
    Decoding,
    /// Host to device.
    Copying,
    /// The model.
    Model,
    /// Results to the disk.
    Writing,
}

impl Step {
    /// Its name for a person.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Decoding => "decoding",
            Self::Copying => "copying",
            Self::Model => "the model",
            Self::Writing => "writing",
        }
    }
}

/// What was done in a stretch of time: seconds of work, added up over all that did it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// How long the stretch was.
    pub seconds: f64,
    /// Items settled in it.
    pub items: f64,
    /// Loader threads.
    pub threads: f64,
    /// Workers.
    pub workers: f64,
    /// Seconds of the threads spent reading.
    pub reading: f64,
    /// Seconds of the threads spent decoding and resizing.
    pub decoding: f64,
    /// Seconds of the workers in which only a copy to the device was under way.
    pub copying: f64,
    /// Seconds of the workers in which the model worked.
    pub model: f64,
    /// Seconds the workers waited for a batch.
    pub waiting: f64,
    /// Seconds the writer wrote.
    pub writing: f64,
}

/// The step that limits, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Which.
    pub step: Step,
    /// How busy it is, from 0 to 1.
    pub busy: f64,
    /// Items a second if it were busy all the time.
    pub limit: f64,
}

/// Finds it; `None` while there is nothing to judge by.
pub fn bottleneck(work: &Work) -> Option<Bottleneck> {
    if work.seconds <= 0.0 || work.items <= 0.0 {
        return None;
    }
    let loaders = (work.threads * work.seconds).max(1e-9);
    let workers = (work.workers.max(1.0) * work.seconds).max(1e-9);
    let loading = work.reading + work.decoding;
    let load = if work.reading > work.decoding { Step::Reading } else { Step::Decoding };
    // Threads that fill the ring ahead, or share their cores with the model, are busy as well; what they do limits nothing while no
    // worker waits for it.
    let awaited = work.waiting / workers > UNNOTICED || work.model + work.copying <= 0.0;
    let stations = [
        (load, if awaited { loading / loaders } else { 0.0 }),
        (Step::Copying, work.copying / workers),
        (Step::Model, work.model / workers),
        (Step::Writing, work.writing / work.seconds),
    ];
    let (step, busy) = stations.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let busy = busy.clamp(1e-6, 1.0);
    Some(Bottleneck { step, busy, limit: work.items / work.seconds / busy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_station_is_named() {
        let work = Work {
            seconds: 10.0,
            items: 1000.0,
            threads: 4.0,
            workers: 1.0,
            reading: 2.0,
            decoding: 36.0,
            copying: 0.5,
            model: 6.0,
            waiting: 3.5,
            writing: 0.1,
        };
        let found = bottleneck(&work).expect("there is work");
        assert_eq!(found.step, Step::Decoding);
        assert!((found.busy - 0.95).abs() < 1e-9);
        assert!((found.limit - 1000.0 / 10.0 / 0.95).abs() < 1e-6);
        let slow_model = Work { decoding: 4.0, model: 9.9, ..work };
        assert_eq!(bottleneck(&slow_model).map(|found| found.step), Some(Step::Model));
        let slow_disk = Work { decoding: 4.0, reading: 30.0, ..work };
        assert_eq!(bottleneck(&slow_disk).map(|found| found.step), Some(Step::Reading));
        assert_eq!(bottleneck(&Work::default()), None);
    }

    #[test]
    fn loaders_that_are_busy_ahead_of_a_slow_model_are_not_named() {
        // All threads decode, on cores they share with the model, and the one worker never waits.
        let work = Work {
            seconds: 10.0,
            items: 100.0,
            threads: 2.0,
            workers: 1.0,
            decoding: 19.9,
            model: 9.5,
            waiting: 0.1,
            ..Work::default()
        };
        assert_eq!(bottleneck(&work).map(|found| found.step), Some(Step::Model));
        let starving = Work { model: 5.0, waiting: 4.9, ..work };
        assert_eq!(bottleneck(&starving).map(|found| found.step), Some(Step::Decoding));
    }
}
