//! The nearest right word for a wrong one.

/// Comparisons one check may spend: a plan with a hundred thousand wrong names gets suggestions for the first ones
/// only, since nobody reads more and each costs a walk over all right names.
const BUDGET: usize = 100_000;

/// Words longer than this are not typing mistakes, and comparing them is slow.
const LONGEST: usize = 64;

/// Finds right words, within a budget.
#[derive(Debug)]
pub(crate) struct Nearest {
    left: usize,
}

impl Default for Nearest {
    fn default() -> Self {
        Self { left: BUDGET }
    }
}

impl Nearest {
    /// Whether nothing is left: then lists of right words are too long for everyone, too.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// The candidate that `word` most likely meant, if one is near enough.
    pub(crate) fn find<'c>(
        &mut self,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        self.find_above(0.6, word, candidates)
    }

    /// The same, with the similarity that counts as near: the more candidates there are, the likelier one of them is
    /// near by chance.
    pub(crate) fn find_above<'c>(
        &mut self,
        least: f64,
        word: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        if word.is_empty() || word.len() > LONGEST {
            return None;
        }
        let lower = word.to_lowercase();
        let mut best: Option<(f64, &str)> = None;
        for candidate in candidates {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if candidate.len() > LONGEST {
                continue;
            }
            let score = similarity(&lower, &candidate.to_lowercase());
            // Equal scores: by alphabet, since candidates may come from a map in any order.
            if best.is_none_or(|(most, word)| score > most || (score - most).abs() < 1e-9 && candidate < word)
            {
                best = Some((score, candidate));
            }
        }
        best.filter(|(score, _)| *score > least).map(|(_, candidate)| candidate)
    }
}

/// 1 for equal words. A swapped, missing or doubled letter costs little; so does a common beginning with a
/// different end (`retry` for `retries`).
fn similarity(word: &str, candidate: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(word, candidate);
    let shared_start = strsim::jaro_winkler(word, candidate);
    if shared_start > 0.87 { edits.max(shared_start) } else { edits }
}

/// `, did you mean `x`?` for the end of a message, or nothing.
pub(crate) fn did_you_mean(found: Option<&str>) -> String {
    found.map(|word| format!(", did you mean `{word}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_far_fetched() {
        let keys = ["command", "gpus", "retries", "timeout", "max_failures"];
        for (word, expected) in [
            ("comand", Some("command")),
            ("Command", Some("command")),
            ("gpu", Some("gpus")),
            ("retry", Some("retries")),
            ("timout", Some("timeout")),
            ("max_failure", Some("max_failures")),
            ("walrus", None),
            ("", None),
        ] {
            assert_eq!(Nearest::default().find(word, keys), expected, "{word}");
        }
    }
}
