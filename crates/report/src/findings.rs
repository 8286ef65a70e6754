//! What a look at a machine, a process or a run found, for a person: the worst first, what to type below each.

use crate::clean::safe;
use crate::look::Look;
use crate::palette::{Palette, Style};
use crate::text::{plural, wrap};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Neither good nor bad: who or what is talked about.
    Plain,
    /// Something does not work.
    Bad,
    /// Works, but a person should know.
    Warning,
    /// As it should be.
    Fine,
}

/// One finding, as its finder gives it.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// How much it matters.
    pub weight: Weight,
    /// What it is about.
    pub topic: &'a str,
    /// What was seen.
    pub seen: &'a str,
    /// Why it matters; may be empty.
    pub why: &'a str,
    /// What to do, a line each; behind `    #` stands a remark.
    pub next: &'a [String],
}

/// Between a command and the remark behind it.
const REMARK: &str = "    # ";

/// All of them as text: plain ones, bad, warnings, then what is fine. `brief`: what is fine is named by its topic alone.
pub fn findings_text(findings: &[Found<'_>], brief: bool, look: Look) -> String {
    let palette = Palette::new(&look);
    let columns = look.size().0.min(110);
    let mut sorted: Vec<&Found<'_>> = findings.iter().collect();
    // Within a weight the finder's order stands.
    sorted.sort_by_key(|found| found.weight);
    let (fine, wrong): (Vec<_>, Vec<_>) = sorted.into_iter().partition(|found| found.weight == Weight::Fine);
    let mut blocks: Vec<String> = wrong.into_iter().map(|found| told(found, palette, columns)).collect();
    if brief {
        blocks.extend(topics(&fine, palette, columns));
    } else if fine.iter().any(|found| !found.next.is_empty()) {
        blocks.extend(fine.into_iter().map(|found| told(found, palette, columns)));
    } else if !fine.is_empty() {
        blocks.push(fine.into_iter().map(|found| told(found, palette, columns)).collect());
    }
    blocks.join("\n")
}

/// `2 bad, 1 warning`; nothing if there are none.
pub fn findings_count(findings: &[Found<'_>]) -> Option<String> {
    let count = |weight| findings.iter().filter(|found| found.weight == weight).count();
    let parts = [(count(Weight::Bad), "problem"), (count(Weight::Warning), "warning")];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| plural(count, word)).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn told(found: &Found<'_>, palette: Palette, columns: usize) -> String {
    let sign = match found.weight {
        Weight::Plain => palette.paint(Style::Bold, if palette.unicode { "•" } else { "*" }),
        Weight::Bad => palette.paint(Style::Bad, if palette.unicode { "✗" } else { "x" }),
        Weight::Warning => palette.alert(),
        Weight::Fine => palette.paint(Style::Good, if palette.unicode { "✓" } else { "." }),
    };
    let topic = safe(found.topic);
    let head = format!("{topic}: {}", safe(found.seen));
    let mut text = String::new();
    for (at, line) in wrap(&head, columns - 2).into_iter().enumerate() {
        // The topic stands at the beginning of the first line, whole unless it is wider than the terminal.
        let line = match line.strip_prefix(&*topic) {
            Some(rest) if at == 0 => palette.paint(Style::Bold, &topic) + rest,
            _ => line,
        };
        let lead = if at == 0 { sign.as_str() } else { " " };
        text.push_str(&format!("{lead} {line}\n"));
    }
    if !found.why.is_empty() {
        for line in wrap(&safe(found.why), columns - 2) {
            text.push_str(&format!("  {}\n", palette.paint(Style::Dim, &line)));
        }
    }
    let arrow = if palette.unicode { "→" } else { ">" };
    for next in found.next {
        let next = safe(next);
        let (command, remark) = next.split_once(REMARK).unwrap_or((&next, ""));
        let remark = if remark.is_empty() {
            String::new()
        } else {
            format!("  {}", palette.paint(Style::Dim, &format!("# {remark}")))
        };
        // Never broken: it is there to be copied.
        text.push_str(&format!("  {arrow} {command}{remark}\n"));
    }
    text
}

/// `fine: driver, GPUs, disk`, each topic once.
fn topics(fine: &[&Found<'_>], palette: Palette, columns: usize) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for found in fine {
        if !names.contains(&found.topic) {
            names.push(found.topic);
        }
    }
    if names.is_empty() {
        return None;
    }
    let sign = palette.paint(Style::Good, if palette.unicode { "✓" } else { "." });
    let lines = wrap(&format!("fine: {}", names.join(", ")), columns - 2);
    Some(format!("{sign} {}\n", lines.join("\n  ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(weight: Weight, topic: &'a str, next: &'a [String]) -> Found<'a> {
        Found { weight, topic, seen: "it was seen", why: "it matters", next }
    }

    #[test]
    fn the_worst_comes_first_and_what_is_fine_in_one_line() {
        let next = ["repair it    # as root".to_owned()];
        let all = [
            found(Weight::Fine, "disk", &[]),
            found(Weight::Warning, "MPS", &[]),
            found(Weight::Bad, "driver", &next),
            found(Weight::Fine, "disk", &[]),
            found(Weight::Fine, "system", &[]),
            found(Weight::Plain, "run", &[]),
        ];
        let expected = "• run: it was seen\n  it matters\n\n✗ driver: it was seen\n  it matters\n  → repair it  # as root\n\n\
                        ! MPS: it was seen\n  it matters\n\n✓ fine: disk, system\n";
        assert_eq!(findings_text(&all, true, Look::PLAIN), expected);
        assert_eq!(findings_count(&all).as_deref(), Some("1 problem, 1 warning"));
        assert!(findings_text(&all, false, Look::PLAIN).contains("✓ system: it was seen"));
    }

    #[test]
    fn words_are_wrapped_and_commands_are_not() {
        let long = "word ".repeat(40);
        let next = [long.trim_end().replace(' ', "-")];
        let seen = Found { weight: Weight::Bad, topic: "disk", seen: long.trim_end(), why: "", next: &next };
        let text = findings_text(&[seen], true, Look::PLAIN);
        let (command, words): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains('→'));
        assert!(words.len() > 1 && words.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(command.len(), 1, "{text}");
    }

    #[test]
    fn a_process_cannot_paint_our_terminal_by_its_name() {
        let seen = Found { seen: "\u{1b}[31mevil\u{7}", ..found(Weight::Bad, "job", &[]) };
        assert!(!findings_text(&[seen], true, Look::PLAIN).contains('\u{1b}'));
    }
}
