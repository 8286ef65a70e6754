//! How far a map has come, folded from its events.

use crate::Event;

/// How far a map has come, as far as that is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapState {
    /// How many items there are; `None`: they were not listed yet.
    pub items: Option<u64>,
    /// How many of them are settled, in results or failed.
    pub settled: u64,
    /// Items with a result.
    pub rows: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items with a result whose picture is damaged.
    pub damaged: u64,
    /// Items that fail by the list alone, however often they are tried.
    pub lacking: u64,
    /// How many commits the journal knows of.
    pub commits: u64,
    /// Failures the journal names one by one; there is a limit to them.
    pub named: u64,
    /// Items that failed are to be tried again, and no feeder has begun with that.
    pub again: bool,
    /// Why it did not go on, if it did not.
    pub stopped: Option<String>,
    /// It is complete: the line that sums it up.
    pub finished: Option<String>,
}

impl MapState {
    /// The command that its reason to stop advises, if it names one: the last in backquotes that starts or resumes something. Views
    /// tell this one, and none of their own that would meet the same reason again.
    pub fn advised(&self) -> Option<&str> {
        const BEGINNINGS: [&str; 3] = ["`gpulane resume ", "`gpulane map ", "`gpulane run "];
        let because = self.stopped.as_deref()?;
        let at = BEGINNINGS.iter().filter_map(|beginning| because.rfind(beginning)).max()?;
        because[at + 1..].split('`').next()
    }

    /// Whether every item that failed would fail again: what is wrong with it stands in the list of items, which stays as it was.
    pub const fn fails_for_good(&self) -> bool {
        self.finished.is_some() && self.failed > 0 && self.failed <= self.lacking
    }

    /// Items that are neither in results nor failed; `None`: they were not listed yet.
    pub fn left(&self) -> Option<u64> {
        self.items.map(|items| items.saturating_sub(self.settled))
    }

    /// Takes in one event of this map.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::MapOpened { items, settled, lacking, .. } => {
                self.lacking = count(*lacking);
                (self.items, self.settled, self.again) = (Some(count(*items)), count(*settled), false);
                self.stopped = None;
            }
            Event::ItemFailed { .. } => self.named += 1,
            Event::BatchCommitted { rows, failed, damaged, .. } => {
                self.commits += 1;
                self.damaged = count(self.damaged + count(*damaged));
                let (rows, failed) = (count(*rows), count(*failed));
                self.rows = count(self.rows + rows);
                self.failed = count(self.failed + failed);
                self.settled = count(self.settled + rows + failed);
            }
            Event::MapFinished { rows, failed, damaged, summary, .. } => {
                self.damaged = count(*damaged);
                let (rows, failed) = (count(*rows), count(*failed));
                (self.rows, self.failed, self.settled) = (rows, failed, count(rows + failed));
                self.finished = Some(summary.clone());
            }
            Event::MapStopped { because, .. } => self.stopped = Some(because.clone()),
            Event::MapReopened { .. } => {
                self.settled = self.settled.saturating_sub(self.failed);
                (self.failed, self.again, self.finished) = (0, true, None);
            }
            _ => {}
        }
    }
}

/// A count as a journal tells it, which anybody may have written: never so large that the sum of some is no number any more.
fn count(told: u64) -> u64 {
    /// More than any map has items, and what every reader of JSON can tell exactly.
    const MOST: u64 = 1 << 53;
    told.min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(commit: u64, rows: u64, failed: u64) -> Event {
        Event::BatchCommitted { stage: "map".into(), commit, part: None, rows, failed, damaged: rows / 3 }
    }

    #[test]
    fn what_a_reason_advises_is_the_last_command_that_goes_on() {
        let advised = |because: &str| {
            let map = MapState { stopped: Some(because.to_owned()), ..MapState::default() };
            map.advised().map(str::to_owned)
        };
        let both =
            "KeyError: `x; `gpulane logs r m/worker-0` tells more; mend it, then `gpulane resume r --failed`";
        assert_eq!(advised(both).as_deref(), Some("gpulane resume r --failed"));
        assert_eq!(advised("`gpulane resume` tries the missing ones"), None);
        assert_eq!(MapState::default().advised(), None);
    }

    #[test]
    fn a_map_taken_up_again_owes_what_failed() {
        let mut map = MapState::default();
        let stage = || "map".to_owned();
        map.apply(&Event::MapOpened { stage: stage(), items: 10, settled: 0, lacking: 2 });
        map.apply(&committed(0, 6, 2));
        map.apply(&committed(1, 2, 0));
        assert_eq!(map.damaged, 2);
        map.apply(&Event::MapFinished {
            stage: stage(),
            rows: 8,
            failed: 2,
            damaged: 3,
            summary: "quick".into(),
        });
        assert_eq!((map.settled, map.commits, map.finished.as_deref()), (10, 2, Some("quick")));
        assert_eq!(map.damaged, 3, "the last word counts");
        map.apply(&Event::MapReopened { stage: stage() });
        assert_eq!((map.settled, map.failed, map.again, map.finished.is_none()), (8, 0, true, true));
        map.apply(&Event::MapOpened { stage: stage(), items: 10, settled: 8, lacking: 2 });
        assert!(!map.again);
    }
}
