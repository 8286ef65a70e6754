//! Looking without waiting for ever: a file of a stuck process or a dead network disk may not answer, and that is
//! itself worth knowing.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::Finding;

/// How long a look may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A look that has a name.
pub(crate) struct Look {
    pub(crate) topic: &'static str,
    pub(crate) look: Box<dyn FnOnce() -> Vec<Finding> + Send>,
}

/// Looks at all at once, each on a thread of its own, and gives what they found in their order. One that stays silent
/// costs its thread, which is never waited for.
pub(crate) fn all(looks: Vec<Look>, patience: Duration) -> Vec<Finding> {
    let begun = Instant::now();
    let under_way: Vec<_> = looks.into_iter().map(|look| (look.topic, ask(look.look))).collect();
    let answers = under_way.into_iter().map(|(topic, answer)| {
        let left = patience.saturating_sub(begun.elapsed());
        answer.recv_timeout(left).unwrap_or_else(|silence| vec![unanswered(topic, silence)])
    });
    answers.flatten().collect()
}

/// What `look` gives, or `None` if it takes longer than that.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    ask(look).recv_timeout(patience).ok()
}

fn ask<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, answer) = mpsc::sync_channel(1);
    // Whoever asked may have given up; without a thread the sender is gone, which is an answer too.
    let _ = std::thread::Builder::new().name("look".into()).spawn(move || sender.send(look()));
    answer
}

fn unanswered(topic: &'static str, silence: mpsc::RecvTimeoutError) -> Finding {
    match silence {
        mpsc::RecvTimeoutError::Timeout => {
            Finding::bad(topic, format!("no answer within {} s", PATIENCE.as_secs()))
                .because("the kernel or a network disk does not answer; jobs that need it will hang as well")
                .then("dmesg | tail -n 50")
        }
        mpsc::RecvTimeoutError::Disconnected => Finding::warning(topic, "could not be looked at")
            .because("the look itself failed: a bug in gpulane"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    fn look(topic: &'static str, look: impl FnOnce() -> Vec<Finding> + Send + 'static) -> Look {
        Look { topic, look: Box::new(look) }
    }

    #[test]
    fn a_look_that_does_not_answer_is_a_finding_and_holds_nobody_up() {
        let stuck = look("stuck", || {
            loop {
                std::thread::park();
            }
        });
        let well = look("well", || vec![Finding::fine("well", "all is well")]);
        let found = all(vec![stuck, well], Duration::from_millis(50));
        let told: Vec<_> = found.iter().map(|finding| (finding.topic, finding.severity)).collect();
        assert_eq!(told, [("stuck", Severity::Bad), ("well", Severity::Fine)]);
    }

    #[test]
    fn a_look_that_fails_is_a_finding() {
        let found = all(vec![look("broken", || panic!("on purpose"))], PATIENCE);
        assert_eq!((found[0].topic, found[0].severity), ("broken", Severity::Warning));
    }
}
