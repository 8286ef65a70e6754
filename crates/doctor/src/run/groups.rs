//! Things that are alike, put together: the largest group first, within it the order in which they came.

use std::collections::HashMap;
use std::hash::Hash;

/// Groups by key; groups of one size stay in the order of their first member.
pub(super) fn by<K: Eq + Hash + Clone, T>(things: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut at: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, thing) in things {
        let place = *at.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(thing);
    }
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    groups
}

/// `train/a`, `3 jobs (train/a, …)`.
pub(super) fn named(jobs: &[String]) -> String {
    match jobs {
        [] => "no job".to_owned(),
        [one] => one.clone(),
        [first, ..] => format!("{} jobs ({first}, …)", jobs.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_group_comes_first() {
        let groups = by([('a', 1), ('b', 2), ('c', 3), ('b', 4)].into_iter());
        assert_eq!(groups, [('b', vec![2, 4]), ('a', vec![1]), ('c', vec![3])]);
    }
}
