//! Words of a command that a person may copy into a shell: quoted so that they mean what they say, whoever chose them.

use std::fmt::Write as _;

/// The word, quoted for a shell if it needs to be. Nothing in it can end the quotes, start another command or move a terminal's cursor.
pub fn shell_word(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._/=,+-:@%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    if !word.chars().any(is_hidden) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for c in word.chars() {
        // Writing to a String cannot fail.
        let _ = match c {
            '\\' | '\'' => write!(quoted, "\\{c}"),
            c if is_hidden(c) => {
                c.encode_utf8(&mut [0; 4]).bytes().try_for_each(|byte| write!(quoted, "\\x{byte:02x}"))
            }
            c => write!(quoted, "{c}"),
        };
    }
    quoted.push('\'');
    quoted
}

/// Controls, and what turns the direction of writing around: what is shown would not be what is copied.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word() {
        for (word, quoted) in [
            ("runs/a-1", "runs/a-1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("x; rm -rf ~", "'x; rm -rf ~'"),
            ("$(id)", "'$(id)'"),
            ("a\nb", r"$'a\x0ab'"),
            ("\u{1b}[2K'", r"$'\x1b[2K\''"),
            ("\u{202e}x", r"$'\xe2\x80\xaex'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["a b", "it's", "$(id) `id` \\", "a\nb\tc\u{1b}[31m", "é \u{202e} ☃", "-rf", "*"] {
            let script = format!("printf %s {}", shell_word(word));
            let read = std::process::Command::new("bash").args(["-c", &script]).output();
            let Ok(read) = read else {
                println!("skipped: there is no bash here, whose quoting this is");
                return;
            };
            assert_eq!(String::from_utf8_lossy(&read.stdout), word);
        }
    }
}
