//! The score: who was caught, who was named, who was killed though it lived, and how fast.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LIMIT_S;
use crate::animal::{Animal, Fate};
use crate::sight::Sight;

/// Stands once in `stacks.txt` for each look.
const LOOK: &str = "no sign of life";

/// Over all rounds.
#[derive(Default)]
pub(crate) struct Score {
    /// Frozen programs that were told or ended, as their verdict says.
    hangs: Tally,
    /// With the right cause and place.
    named: usize,
    /// Of those whose verdict is `end`: who was ended.
    ended: Tally,
    /// Of those whose verdict is `tell`: who was ended where `outside` says so.
    outside: Tally,
    /// Living jobs, and who of them was ended.
    living: Tally,
    /// Living jobs that were looked at twice and so stood before a verdict.
    tried: usize,
    to_verdict: Vec<Duration>,
    to_next: Vec<Duration>,
    /// What was last said of each that froze.
    said: BTreeMap<String, String>,
    /// Everything that is not as it must be, for a person.
    pub(crate) faults: Vec<String>,
}

/// A count and what it is out of.
#[derive(Default)]
struct Tally {
    hit: usize,
    all: usize,
}

impl Tally {
    fn add(&mut self, hit: bool) {
        self.all += 1;
        self.hit += usize::from(hit);
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}", self.hit, self.all)
    }
}

impl Score {
    /// One animal of one round.
    pub(crate) fn add(&mut self, animal: &Animal, sight: &Sight) {
        match animal.fate {
            Fate::Lives => self.add_living(animal, sight),
            Fate::End => self.add_end(animal, sight),
            Fate::Tell => self.add_tell(animal, sight),
            Fate::Left => {
                let said = sight.event("processes_left", animal).map(|event| event["who"].to_string());
                self.add_success(animal, sight, said);
            }
            Fate::Lingers => {
                let said = sight.event("job_lingered", animal).map(|event| event["because"].to_string());
                self.add_success(animal, sight, said.filter(|_| sight.published(animal, "model.pt")));
            }
        }
    }

    fn add_end(&mut self, animal: &Animal, sight: &Sight) {
        let caught = sight.event("job_failed", animal).is_some_and(|event| event["reason"] == "hang");
        let evidence = sight
            .verdict(animal)
            .map(|verdict| format!("{} | {}", text(&verdict["evidence"]), text(&verdict["cause"])));
        self.ended.add(caught);
        self.count(animal, sight, caught);
        self.to_verdict.extend(sight.freeze_to_verdict(animal));
        self.to_next.extend(sight.verdict_to_next(animal));
        self.name(animal, sight, &evidence.unwrap_or_default());
    }

    /// Told, and ended by us and nobody else; its double, which has `outside`, by that.
    fn add_tell(&mut self, animal: &Animal, sight: &Sight) {
        let left_alone =
            sight.event("job_failed", animal).is_some_and(|event| event["reason"] == "cancelled");
        let told = sight.event("hang_suspected", animal).filter(|_| sight.verdict(animal).is_none());
        let evidence = told.map(|told| {
            let [evidence, what, cause] = ["evidence", "waits_for", "cause"].map(|key| text(&told[key]));
            format!("{evidence} | {what} | {cause}")
        });
        self.count(animal, sight, left_alone && evidence.is_some());
        self.name(animal, sight, &evidence.unwrap_or_default());
        let double = animal.double();
        let ended = sight.event("job_failed", &double).is_some_and(|event| event["reason"] == "hang");
        self.outside.add(ended);
        if !ended {
            self.faults.push(format!("{} was not ended by `outside`:{}", animal.name, sight.story(&double)));
        }
    }

    fn add_success(&mut self, animal: &Animal, sight: &Sight, said: Option<String>) {
        let caught = said.is_some() && sight.event("job_succeeded", animal).is_some();
        self.count(animal, sight, caught);
        self.name(animal, sight, &said.unwrap_or_default());
    }

    fn count(&mut self, animal: &Animal, sight: &Sight, caught: bool) {
        self.hangs.add(caught);
        if !caught {
            self.faults.push(format!(
                "{} was not caught ({:?}):{}",
                animal.name,
                animal.fate,
                sight.story(animal)
            ));
        }
    }

    /// Whether what was said has the right words, and the right place stands there or in the stacks.
    fn name(&mut self, animal: &Animal, sight: &Sight, said: &str) {
        self.said.insert(animal.name.clone(), said.to_owned());
        // The program's own name tells what it does; it must not answer for gpulane.
        let lower = said.to_lowercase().replace(&animal.name, "");
        let words = animal.words.iter().any(|word| lower.contains(word));
        let stacks = sight.file(animal, "stacks.txt");
        let place = animal.place.as_ref().is_none_or(|(file, line)| {
            !stacks.is_empty() && (mentions(said, file, *line) || mentions(&stacks, file, *line))
        });
        self.named += usize::from(words && place);
        if !words {
            self.faults.push(format!("{}: none of {:?} in: {said}", animal.name, animal.words));
        }
        if !place {
            let place = &animal.place;
            self.faults.push(format!("{}: {place:?} is neither in: {said}\nnor in:\n{stacks}", animal.name));
        }
    }

    fn add_living(&mut self, animal: &Animal, sight: &Sight) {
        let success =
            sight.event("job_succeeded", animal).filter(|_| sight.event("job_lingered", animal).is_none());
        let killed = success.is_none();
        self.living.add(killed);
        self.tried += usize::from(sight.file(animal, "stacks.txt").matches(LOOK).count() > 1);
        if killed {
            self.faults.push(format!("{} was killed though it lived:{}", animal.name, sight.story(animal)));
        }
        // An animal that speaks or is quick proves nothing. Its time counts from when the engine noted its start, which is late
        // where many start at once on a busy machine.
        let slow = success.is_none_or(|event| event["seconds"].as_f64().unwrap_or(0.0) > f64::from(LIMIT_S));
        let silent = killed || sight.file(animal, "stdout.log") == "alive\n";
        if !(slow && silent) {
            self.faults.push(format!("{} was not silent for long:{}", animal.name, sight.story(animal)));
        }
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "frozen {} as their verdict says, named {}/{}; ended by proof {}, by `outside` {}; living ended {} ({} were looked \
             at twice); freeze→verdict median {:.1} s, verdict→next start median {:.0} ms",
            self.hangs,
            self.named,
            self.hangs.all,
            self.ended,
            self.outside,
            self.living,
            self.tried,
            median(&self.to_verdict).as_secs_f64(),
            median(&self.to_next).as_secs_f64() * 1000.0,
        )
    }

    /// Prints it, and writes the line to the file that `GPULANE_ZOO_SCORE` names.
    pub(crate) fn publish(&self) {
        for (animal, said) in &self.said {
            println!("{animal:<24} {said}");
        }
        println!("{}", self.line());
        if let Some(path) = std::env::var_os("GPULANE_ZOO_SCORE") {
            std::fs::write(path, self.line() + "\n").unwrap();
        }
    }
}

/// `FILE:LINE`, or as Python tells it.
fn mentions(text: &str, file: &str, line: usize) -> bool {
    let ends = |after: &str| !after.starts_with(|next: char| next.is_ascii_digit());
    [format!("{file}:{line}"), format!("{file}\", line {line}")]
        .iter()
        .any(|place| text.match_indices(place.as_str()).any(|(at, _)| ends(&text[at + place.len()..])))
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or("no cause known")
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
