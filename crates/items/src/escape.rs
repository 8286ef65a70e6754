//! Names as one field of one line: tab, newline, carriage return and backslash as `\t`, `\n`, `\r`, `\\`,
//! bytes that are not UTF-8 as `\xNN`. Everything else stands as it is.

use std::borrow::Cow;

/// Appends the bytes in their escaped form, which is always UTF-8.
pub(crate) fn escape_into(out: &mut Vec<u8>, mut bytes: &[u8]) {
    if memchr::memchr3(b'\t', b'\r', b'\\', bytes).is_none()
        && memchr::memchr(b'\n', bytes).is_none()
        && std::str::from_utf8(bytes).is_ok()
    {
        return out.extend_from_slice(bytes);
    }
    while !bytes.is_empty() {
        let (good, bad) = match std::str::from_utf8(bytes) {
            Ok(_) => (bytes.len(), 0),
            Err(error) => {
                let good = error.valid_up_to();
                (good, error.error_len().unwrap_or(bytes.len() - good))
            }
        };
        for byte in &bytes[..good] {
            match byte {
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                other => out.push(*other),
            }
        }
        for byte in &bytes[good..good + bad] {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
            out.extend_from_slice(&[b'\\', b'x', digit(byte >> 4), digit(*byte)]);
        }
        bytes = &bytes[good + bad..];
    }
}

/// The bytes in their escaped form.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    escape_into(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
}

/// The bytes that were escaped; `None` if nothing can have been.
pub(crate) fn unescape(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains('\\') {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b't' => b'\t',
            b'n' => b'\n',
            b'r' => b'\r',
            b'\\' => b'\\',
            b'x' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
                u8::try_from(value).ok()?
            }
            _ => return None,
        });
    }
    Some(Cow::Owned(out))
}

/// The name a person sees, which no other name has: as it is, or escaped if it is not UTF-8, or if it looks like one that was.
pub(crate) fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !looks_escaped(text) => text.to_owned(),
        _ => escape(bytes),
    }
}

/// Whether a name could be taken for the escaped form of one that is not UTF-8, or of one that could be taken for that.
fn looks_escaped(text: &str) -> bool {
    let mut text = Cow::Borrowed(text);
    while text.contains('\\') {
        let Some(bytes) = unescape(&text) else { return false };
        match String::from_utf8(bytes.into_owned()) {
            Ok(shorter) => text = Cow::Owned(shorter),
            Err(_) => return true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes of which escaped forms are made, and some that have to be.
    fn odd() -> impl Strategy<Value = u8> {
        prop::sample::select(b"\\\\xfe\xff\xfen\n".to_vec())
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let text = escape(&bytes);
            prop_assert!(!text.contains(['\n', '\t', '\r']));
            prop_assert_eq!(unescape(&text).unwrap().into_owned(), bytes);
        }

        #[test]
        fn no_two_names_are_shown_alike(names in prop::collection::vec(prop::collection::vec(odd(), 0..12), 2..40)) {
            for (at, name) in names.iter().enumerate() {
                for other in names[..at].iter().filter(|other| *other != name) {
                    prop_assert_ne!(shown(name), shown(other));
                }
                prop_assert!(shown(escape(name).as_bytes()) != shown(name) || escape(name).as_bytes() == name.as_slice());
            }
        }

        #[test]
        fn no_text_is_too_strange(text in "[\\\\xtn0-9a-f]{0,20}") {
            let _ = unescape(&text);
        }
    }

    #[test]
    fn plain_names_stand_as_they_are() {
        assert_eq!(escape("photos/Zoë 🦊.jpg".as_bytes()), "photos/Zoë 🦊.jpg");
        assert_eq!(escape(b"a\tb\\c\xff\xe2\x82"), "a\\tb\\\\c\\xff\\xe2\\x82");
        assert_eq!(shown(b"a\\b"), "a\\b");
        assert_eq!(shown(b"C:\\new\\x41.jpg"), "C:\\new\\x41.jpg");
        assert_eq!(shown(b"\xff.txt"), "\\xff.txt");
        assert_eq!(shown(b"\\xff.txt"), "\\\\xff.txt", "a backslash, not the byte");
        assert_eq!(shown(b"\\\\xff.txt"), "\\\\\\\\xff.txt");
    }
}
