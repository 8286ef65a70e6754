//! `{000..123}` and `{jpg,png}`: one text becomes several, as a shell would have it.

/// More shards than anybody has; keeps `{0..99999999999}` from taking all memory.
const MOST: usize = 1_000_000;

/// Every text this stands for, in order; itself, if it has no braces. `Err`: too many, and how many are
/// allowed.
pub(crate) fn expand(text: &str) -> Result<Vec<String>, usize> {
    let mut done = Vec::new();
    let mut open = vec![text.to_owned()];
    // The last one is always the first in order.
    while let Some(text) = open.pop() {
        let Some((before, words, after)) = first_group(&text) else {
            done.push(text);
            continue;
        };
        if done.len() + open.len() + words.len() > MOST {
            return Err(MOST);
        }
        open.extend(words.iter().rev().map(|word| format!("{before}{word}{after}")));
    }
    Ok(done)
}

/// The first group that means something, with what stands around it.
fn first_group(text: &str) -> Option<(&str, Vec<String>, &str)> {
    text.match_indices('{').find_map(|(start, _)| {
        let end = closing(&text[start..])? + start;
        let words = words(&text[start + 1..end])?;
        Some((&text[..start], words, &text[end + 1..]))
    })
}

/// Where the brace that opens this text is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.char_indices().find_map(|(at, letter)| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// What stands between braces: a range, or words with commas; `None`: something else, left as it is.
fn words(inner: &str) -> Option<Vec<String>> {
    if let Some(range) = inner.split_once("..").and_then(|(first, last)| range(first, last)) {
        return Some(range);
    }
    let mut words = vec![String::new()];
    let mut depth = 0_usize;
    for letter in inner.chars() {
        match letter {
            ',' if depth == 0 => {
                words.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        words.last_mut()?.push(letter);
    }
    (words.len() > 1).then_some(words)
}

/// `000..123`: as wide as the wider one, where one of them begins with a zero; backwards too.
fn range(first: &str, last: &str) -> Option<Vec<String>> {
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (from, to) = (number(first)?, number(last)?);
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    let count = usize::try_from(from.abs_diff(to)).ok()?.saturating_add(1);
    let word = |number: u64| format!("{number:0width$}");
    // One too many, so that the caller sees it is too many.
    let count = count.min(MOST + 1);
    Some(if from <= to {
        (from..=to).take(count).map(word).collect()
    } else {
        (to..=from).rev().take(count).map(word).collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn braces_mean_what_a_shell_means() {
        for (text, expanded) in [
            ("a.jpg", vec!["a.jpg"]),
            ("s-{008..011}.tar", vec!["s-008.tar", "s-009.tar", "s-010.tar", "s-011.tar"]),
            ("{2..0}", vec!["2", "1", "0"]),
            ("{9..10}", vec!["9", "10"]),
            ("*.{jpg,png}", vec!["*.jpg", "*.png"]),
            ("{a,b{1..2}}c", vec!["ac", "b1c", "b2c"]),
            ("{a,b}{c,d}", vec!["ac", "ad", "bc", "bd"]),
            ("{x,}y", vec!["xy", "y"]),
            ("{one}", vec!["{one}"]),
            ("{a..b}", vec!["{a..b}"]),
            ("open{a,b", vec!["open{a,b"]),
        ] {
            assert_eq!(expand(text), Ok(expanded.into_iter().map(str::to_owned).collect()), "{text}");
        }
    }

    #[test]
    fn too_many_are_too_many() {
        for text in ["{0..99999999999}", "{0..9999}{0..9999}", "{0..18446744073709551615}"] {
            assert_eq!(expand(text), Err(MOST), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[{},.0-9a-c]{0,16}") {
            let _ = expand(&text);
        }
    }
}
