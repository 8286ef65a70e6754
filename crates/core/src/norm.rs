//! How quiet the jobs of a stage normally are, and from that, which silence is too long.

use gpulane_model::{Hang, Millis};

/// What the jobs of one stage that succeeded have shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Norm {
    jobs: u32,
    /// The longest silence of any of them.
    longest: Millis,
}

/// So many jobs make a norm.
const ENOUGH: u32 = 3;
/// So many times the longest normal silence is too long.
const FACTOR: u64 = 10;
const SHORTEST: Millis = Millis::seconds(2 * 60);
const LONGEST: Millis = Millis::seconds(30 * 60);

impl Norm {
    /// A job that succeeded was quiet for at most so long.
    pub fn learn(&mut self, quiet: Millis) {
        self.jobs = self.jobs.saturating_add(1);
        self.longest = self.longest.max(quiet);
    }

    /// Which silence of a job of this stage is too long. What a person said counts as it is.
    pub fn after(&self, hang: &Hang) -> Millis {
        if hang.adaptive && self.jobs >= ENOUGH {
            Millis(self.longest.0.saturating_mul(FACTOR)).clamp(SHORTEST, LONGEST)
        } else {
            hang.after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(quiet: &[u64], adaptive: bool) -> u64 {
        let mut norm = Norm::default();
        for seconds in quiet {
            norm.learn(Millis::seconds(*seconds));
        }
        norm.after(&Hang { adaptive, ..Hang::default() }).0 / 1000
    }

    #[test]
    fn the_limit_follows_the_quietest_job_once_three_are_known() {
        assert_eq!(after(&[1, 1], true), 600);
        assert_eq!(after(&[1, 40, 1], true), 400);
        assert_eq!(after(&[1, 1, 1], true), 120);
        assert_eq!(after(&[1, 1, 1, 500], true), 1800);
    }

    #[test]
    fn what_a_person_said_counts_as_it_is() {
        assert_eq!(after(&[1, 40, 1, 1], false), 600);
    }
}
