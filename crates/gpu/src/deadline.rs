//! Asking NVML without waiting for ever: a thread asks, and whoever wants to know gives it so long and no longer.

use std::sync::mpsc;
use std::time::Duration;

use gpulane_model::{Millis, env_vars};

use crate::probe::{NoProbe, Probe};
use crate::reading::GpuReading;

/// A healthy driver answers in well under a second, a cold one (persistence mode off) in a few.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Opens a probe on a thread of its own and asks it. An NVML that stays silent costs that thread, which is never
/// waited for, and is said to be broken. `GPULANE_NVML_DEADLINE_MS` stands for `deadline` where it is set.
pub fn with_deadline<T: Send + 'static>(
    deadline: Duration,
    ask: impl FnOnce(&Probe) -> T + Send + 'static,
) -> Result<T, NoProbe> {
    within(deadline_from_environment().unwrap_or(deadline), move || Ok(ask(&Probe::open()?)))
}

/// Everything about every GPU.
pub fn readings(deadline: Duration) -> Result<Vec<GpuReading>, NoProbe> {
    let found = with_deadline(deadline, Probe::readings)?;
    if found.is_empty() { Err(no_gpu()) } else { Ok(found) }
}

/// A driver without a device.
pub(crate) fn no_gpu() -> NoProbe {
    NoProbe::Absent("the driver sees no GPU".to_owned())
}

fn deadline_from_environment() -> Option<Duration> {
    std::env::var(env_vars::NVML_DEADLINE_MS).ok()?.parse().ok().map(Duration::from_millis)
}

fn within<T: Send + 'static>(
    deadline: Duration,
    ask: impl FnOnce() -> Result<T, NoProbe> + Send + 'static,
) -> Result<T, NoProbe> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let asking = std::thread::Builder::new().name("nvml".into()).spawn(move || {
        // The receiver may have given up; then nobody is left to tell.
        let _ = sender.send(ask());
    });
    if let Err(error) = asking {
        return Err(NoProbe::Broken(format!("cannot start a thread to ask NVML: {error}")));
    }
    receiver.recv_timeout(deadline).unwrap_or_else(|silence| {
        Err(NoProbe::Broken(match silence {
            mpsc::RecvTimeoutError::Timeout => {
                let waited = Millis(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
                format!("NVML did not answer within {waited}; does nvidia-smi work?")
            }
            mpsc::RecvTimeoutError::Disconnected => "the thread that asks NVML died".to_owned(),
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_ends_in_words() {
        let answer: Result<(), NoProbe> = within(Duration::from_millis(1), || {
            loop {
                std::thread::park();
            }
        });
        let Err(NoProbe::Broken(why)) = answer else { panic!("{answer:?}") };
        assert!(why.contains("did not answer within 0.0 s"), "{why}");
    }

    #[test]
    fn an_answer_in_time_is_the_answer() {
        assert_eq!(within(DEADLINE, || Ok(3)), Ok(3));
        let absent = NoProbe::Absent("none".into());
        let refused = absent.clone();
        assert_eq!(within::<()>(DEADLINE, || Err(absent)), Err(refused));
    }
}
