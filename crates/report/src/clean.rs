//! A job's bytes to text that is safe on a terminal: no cursor movement, no titles, no stray controls. Colours
//! stay where colours are wanted, and always end with the line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The line as text. `color`: keep the job's own colours.
pub(crate) fn clean(bytes: &[u8], color: bool) -> Cow<'_, str> {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        // Printable ASCII, nearly always.
        return String::from_utf8_lossy(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut clean = String::with_capacity(text.len());
    let mut painted = false;
    let mut rest: &str = &text;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' {
            let (length, is_color) = escape(rest);
            if is_color && color {
                clean.push_str(&rest[..length]);
                painted = true;
            }
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        push(&mut clean, c);
    }
    if painted {
        clean.push_str("\x1b[0m");
    }
    Cow::Owned(clean)
}

/// Text from events: it may quote what a system or a person said.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    clean(text.as_bytes(), false)
}

/// A whole text for a terminal, line by line: of all that could move a cursor or set a title, only our own colours are left.
pub fn terminal_text(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(line) => clean(line.as_bytes(), true).into_owned() + "\n",
        None => clean(line.as_bytes(), true).into_owned(),
    });
    Cow::Owned(lines.collect())
}

/// JSON for a terminal, too: whatever could move a cursor or turn the direction of writing around is written as `\\uXXXX`, which says
/// the same. (`serde_json` escapes the controls below a space alone.)
pub fn json_text(json: &str) -> Cow<'_, str> {
    if json.bytes().all(|byte| byte < 0x7f) {
        return Cow::Borrowed(json);
    }
    let mut text = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if matches!(c, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

fn push(clean: &mut String, c: char) {
    match c {
        '\t' => clean.push(c),
        '\u{8}' | '\u{7}' => {}
        // C0 and C1 controls, and what turns the direction of writing around.
        c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
            let code = u32::from(c);
            // Writing to a String cannot fail.
            let _ =
                if code < 0x100 { write!(clean, "\\x{code:02x}") } else { write!(clean, "\\u{{{code:x}}}") };
        }
        c => clean.push(c),
    }
}

/// The length of the escape sequence at the start of `text`, and whether it only sets colours.
fn escape(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    match bytes.get(1) {
        Some(b'[') => {
            let body = bytes[2..].iter().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
            match bytes.get(2 + body) {
                Some(b'm') => {
                    (3 + body, bytes[2..2 + body].iter().all(|b| matches!(b, b'0'..=b'9' | b';' | b':')))
                }
                Some(0x40..=0x7e) => (3 + body, false),
                // Broken off: what there is of it is not text either.
                _ => (2 + body, false),
            }
        }
        // Strings (titles, links): up to BEL or ESC \.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let end = bytes[2..].iter().position(|byte| matches!(byte, 0x07 | 0x1b));
            match end.map(|end| end + 2) {
                Some(at) if bytes[at] == 0x07 => (at + 1, false),
                Some(at) if bytes.get(at + 1) == Some(&b'\\') => (at + 2, false),
                Some(at) => (at, false),
                None => (bytes.len(), false),
            }
        }
        // `ESC ( B` and kin: intermediates, then one final byte.
        Some(0x20..=0x2f) => {
            let between = bytes[1..].iter().take_while(|byte| matches!(byte, 0x20..=0x2f)).count();
            let last = usize::from(bytes.get(1 + between).is_some_and(|byte| matches!(byte, 0x30..=0x7e)));
            (1 + between + last, false)
        }
        Some(0x30..=0x7e) => (2, false),
        _ => (1, false),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_job_prints_cannot_move_the_cursor() {
        for (raw, plain, colored) in [
            (&b"plain\ttext"[..], "plain\ttext", "plain\ttext"),
            (b"\x1b[31mred\x1b[0m", "red", "\x1b[31mred\x1b[0m\x1b[0m"),
            (b"\x1b[1;38;5;9mx", "x", "\x1b[1;38;5;9mx\x1b[0m"),
            (b"\x1b[2K\x1b[1A50%", "50%", "50%"),
            (b"\x1b[?25lhidden\x1b[?25h", "hidden", "hidden"),
            (b"\x1b]0;title\x07text", "text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", "link"),
            (b"a\0b\x07", "a\\x00b", "a\\x00b"),
            (b"caf\xc3\xa9 \xff", "café \u{fffd}", "café \u{fffd}"),
            ("\u{9b}31m".as_bytes(), "\\x9b31m", "\\x9b31m"),
            (b"cut \x1b[3", "cut ", "cut "),
            (b"\x1b(Bok\x1bM\x1b", "ok", "ok"),
            (b"\x1b[>1mx", "x", "x"),
        ] {
            assert_eq!(clean(raw, false), plain, "{raw:?}");
            assert_eq!(clean(raw, true), colored, "{raw:?}");
        }
    }

    #[test]
    fn a_text_keeps_its_lines_and_its_colours_and_nothing_else() {
        let text = "\u{1b}[1;31merror\u{1b}[0m: \u{1b}]0;owned\u{7}x\u{1b}[2K\nnext \u{1b}[1A\n";
        assert_eq!(terminal_text(text), "\u{1b}[1;31merror\u{1b}[0m: x\u{1b}[0m\nnext \n");
        assert_eq!(terminal_text("plain\n\ttext"), "plain\n\ttext");
    }

    proptest! {
        #[test]
        fn no_control_survives(bytes in proptest::collection::vec(prop_oneof![Just(0x1b), Just(b'['), Just(b'm'), any::<u8>()], 0..100)) {
            prop_assert!(!clean(&bytes, false).chars().any(|c| c.is_control() && c != '\t'));
        }
    }
}
