//! How a file says that it is to be turned: by EXIF, and where that has no such tag by XMP. As Pillow's `exif_transpose` looks for it,
//! in the same places and the same order. Reads hostile bytes: every access is checked.

use std::borrow::Cow;

use memchr::memmem;

use crate::exif;

/// What stands before a JPEG's EXIF block.
const EXIF_MARK: &[u8] = b"Exif\0\0";
/// What stands before a JPEG's XMP.
const XMP_MARK: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// The notes of a file that may say how it is to be turned.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes<'a> {
    /// The EXIF block.
    pub(crate) exif: Option<Cow<'a, [u8]>>,
    /// The XMP packet: XML.
    pub(crate) xmp: Option<Cow<'a, [u8]>>,
}

impl<'a> Notes<'a> {
    /// Takes what a JPEG has in an APP1 segment. An EXIF block may go on in further ones; of XMP the last counts.
    pub(crate) fn see_app1(&mut self, body: &'a [u8]) {
        if let Some(more) = body.strip_prefix(EXIF_MARK) {
            match &mut self.exif {
                Some(exif) => exif.to_mut().extend_from_slice(more),
                None => self.exif = Some(Cow::Borrowed(more)),
            }
        } else if let Some(xmp) = body.strip_prefix(XMP_MARK) {
            self.xmp = Some(Cow::Borrowed(xmp));
        }
    }

    /// The orientation, 1–8.
    pub(crate) fn orientation(&self) -> u8 {
        let by_exif = self.exif.as_deref().and_then(exif::orientation);
        by_exif.or_else(|| self.xmp.as_deref().and_then(in_xmp)).unwrap_or(1)
    }
}

/// The orientation that XMP gives, as an attribute or as an element; 1 where it has a senseless value.
pub(crate) fn in_xmp(xmp: &[u8]) -> Option<u8> {
    const NAME: &[u8] = b"tiff:Orientation";
    let digit = memmem::find_iter(xmp, NAME).find_map(|at| {
        let rest = &xmp[at + NAME.len()..];
        let value = rest.strip_prefix(b"=\"").or_else(|| rest.strip_prefix(b">"))?;
        value.first().filter(|byte| byte.is_ascii_digit())
    })?;
    Some(digit - b'0').map(|value| if (1..=8).contains(&value) { value } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xmp_gives_it_as_an_attribute_or_an_element() {
        for (xmp, is) in [
            ("<rdf:Description tiff:Orientation=\"6\"/>", Some(6)),
            ("<tiff:Orientation>8</tiff:Orientation>", Some(8)),
            ("<tiff:Orientation/><tiff:Orientation>3</tiff:Orientation>", Some(3)),
            ("tiff:Orientation=\"0\" tiff:Orientation=\"6\"", Some(1)),
            ("tiff:Orientation='6'", None),
            ("tiff:Orientation=\"", None),
            ("", None),
        ] {
            assert_eq!(in_xmp(xmp.as_bytes()), is, "{xmp}");
        }
    }

    #[test]
    fn exif_comes_first_and_xmp_where_it_says_nothing() {
        let tag = |value: u8| {
            [b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[value][..], &[0, 0]].concat()
        };
        let xmp = || Some(Cow::Borrowed(b"tiff:Orientation=\"6\"".as_slice()));
        for (exif, xmp, is) in [
            (None, None, 1),
            (None, xmp(), 6),
            (Some(tag(8)), xmp(), 8),
            (Some(tag(0)), xmp(), 1),
            (Some(b"MM\0\x2a\0\0\0\x08\0\0".to_vec()), xmp(), 6),
        ] {
            assert_eq!(Notes { exif: exif.map(Cow::Owned), xmp }.orientation(), is);
        }
    }

    #[test]
    fn a_jpegs_block_goes_on_in_its_next_segment() {
        let whole = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0";
        let rest = [EXIF_MARK, &whole[20..]].concat();
        let mut notes = Notes::default();
        notes.see_app1(&whole[..20]);
        assert_eq!(notes.orientation(), 1);
        notes.see_app1(&rest);
        assert_eq!(notes.orientation(), 5);
    }
}
