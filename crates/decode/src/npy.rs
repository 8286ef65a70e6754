//! `.npy` files, formats 1 to 3. The header is a Python dict in a fixed spelling; hostile ones are refused.

use crate::{Element, Form, Kind, Limits, Place, Rejection};

const MAGIC: &[u8] = b"\x93NUMPY";
/// `NumPy` itself refuses longer ones.
const LONGEST_HEADER: usize = 10_000;
/// Dimensions an item can have.
const MOST_DIMENSIONS: usize = 4;

/// Copies the file's array into the place.
pub(crate) fn array(encoded: &[u8], limits: &Limits, place: &mut dyn Place) -> Result<Form, Rejection> {
    let (header, data) = split(encoded).map_err(Rejection::broken)?;
    let form = form(header).map_err(Rejection::broken)?;
    let needed = usize::try_from(form.bytes).ok();
    let Some(data) = needed.and_then(|needed| data.get(..needed)) else {
        let (has, wants) = (data.len(), form.bytes);
        return Err(Rejection::broken(format!("truncated: the array has {has} of {wants} bytes")));
    };
    limits.room(place, form.bytes)?.copy_from_slice(data);
    Ok(form)
}

/// The header's text and what follows it.
fn split(encoded: &[u8]) -> Result<(&str, &[u8]), String> {
    if encoded.is_empty() {
        return Err("empty file".to_owned());
    }
    let rest = encoded.strip_prefix(MAGIC).ok_or("not a .npy file")?;
    let cut = || "truncated: the .npy file ends within its header".to_owned();
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(length, rest)| (u32::from(u16::from_le_bytes(*length)), rest)),
        2 | 3 => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest)),
        other => return Err(format!("a .npy file of format {other}; 1 to 3 are known")),
    }
    .ok_or_else(cut)?;
    let length = length as usize;
    if length > LONGEST_HEADER {
        return Err(format!("the .npy header claims {length} bytes; at most {LONGEST_HEADER} are read"));
    }
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "broken .npy: its header is no text")?;
    Ok((header, data))
}

/// What the header says of the data.
fn form(header: &str) -> Result<Form, String> {
    let descr = value(header, "descr")?;
    let element = element(descr)?;
    let shape = value(header, "shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (shape, _) = shape.ok_or("broken .npy: its shape is no tuple")?;
    let mut dims = [0; 4];
    let mut ndim = 0;
    for word in shape.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let slot = dims.get_mut(ndim).ok_or(format!("an array of more than {MOST_DIMENSIONS} dimensions"))?;
        *slot = word.parse::<u32>().map_err(|_| format!("broken .npy: `{word}` is no side of an array"))?;
        ndim += 1;
    }
    let longer = dims[..ndim].iter().filter(|side| **side != 1).count();
    if longer > 1 && !value(header, "fortran_order")?.starts_with("False") {
        return Err("an array in Fortran order; save it with np.ascontiguousarray".to_owned());
    }
    let product =
        dims[..ndim].iter().try_fold(element.bytes(), |bytes, side| bytes.checked_mul(u64::from(*side)));
    let bytes = product.ok_or("broken .npy: an array larger than any file")?;
    #[allow(clippy::cast_possible_truncation)] // at most 4
    let ndim = ndim as u32;
    Ok(Form { kind: Kind::Array, element, orientation: 1, chroma: 0, dims, ndim, bytes, damaged: false })
}

/// The text after a key of the dict.
fn value<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let found = quoted.iter().find_map(|quoted| header.split_once(quoted.as_str()));
    let after = found.and_then(|(_, after)| after.trim_start().strip_prefix(':'));
    after.map(str::trim_start).ok_or_else(|| format!("broken .npy: its header has no {key}"))
}

fn element(descr: &str) -> Result<Element, String> {
    let quote = descr.chars().next().filter(|letter| matches!(letter, '\'' | '"'));
    let name = quote.and_then(|quote| descr[1..].split_once(quote)).map(|(name, _)| name);
    let name = name.ok_or("an array of records; give the model its own load(path)")?;
    if name.starts_with('>') && !name.ends_with('1') {
        return Err(format!("an array of big-endian elements ({name}); save it little-endian"));
    }
    Ok(match name.trim_start_matches(['<', '|', '=', '>']) {
        "u1" => Element::U8,
        "u2" => Element::U16,
        "i2" => Element::I16,
        "u4" => Element::U32,
        "i4" => Element::I32,
        "f4" => Element::F32,
        "f8" => Element::F64,
        "b1" => Element::Bool,
        "i8" => Element::I64,
        "u8" => Element::U64,
        "f2" => Element::F16,
        "i1" => Element::I8,
        _ => return Err(format!("an array of `{name}`; only numbers and bool are taken")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(header.len()).expect("short").to_le_bytes();
        let length = if version == 1 { &length[..2] } else { &length[..] };
        [MAGIC, &[version, 0], length, header.as_bytes(), data].concat()
    }

    /// Whatever is asked for, there is room.
    #[derive(Default)]
    struct Anywhere(Vec<u8>);

    impl Place for Anywhere {
        fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
            self.0 = vec![0xee; usize::try_from(bytes).ok()?];
            Some(&mut self.0)
        }
    }

    #[test]
    fn every_format_and_element_is_read() {
        for (version, descr, element, code) in [
            (1, "<u2", Element::U16, 2),
            (2, "|b1", Element::Bool, 8),
            (3, "<f8", Element::F64, 7),
            (1, "|i1", Element::I8, 12),
        ] {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 3), }}  \n");
            let bytes = usize::try_from(element.bytes() * 6).expect("few");
            let data: Vec<u8> = (0..=255).take(bytes).collect();
            let mut place = Anywhere::default();
            let form = array(&file(version, &header, &data), &Limits::default(), &mut place).expect(descr);
            assert_eq!((form.element.code(), form.dims, form.ndim), (code, [2, 3, 0, 0], 2));
            assert_eq!(place.0, data);
        }
    }

    #[test]
    fn shapes_from_none_to_four_dimensions() {
        for (shape, dims, ndim, bytes) in [
            ("()", [0; 4], 0, 1),
            ("(0,)", [0; 4], 1, 0),
            ("(7,)", [7, 0, 0, 0], 1, 7),
            ("(1, 2, 3, 1)", [1, 2, 3, 1], 4, 6),
        ] {
            let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
            let made = array(&file(1, &header, &[9; 16]), &Limits::default(), &mut Anywhere::default());
            let form = made.expect(shape);
            assert_eq!((form.dims, form.ndim, form.bytes), (dims, ndim, bytes), "{shape}");
        }
    }

    #[test]
    fn what_cannot_be_taken_says_why() {
        let dict = |descr: &str, order: &str, shape: &str| {
            file(1, &format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), &[0; 8])
        };
        for (encoded, words) in [
            (dict("'>f4'", "False", "(2,)"), "big-endian"),
            (dict("'<f4'", "True", "(1, 2, 2)"), "Fortran"),
            (dict("'<f4'", "False", "(1, 1, 1, 1, 1)"), "more than 4"),
            (dict("'<f4'", "False", "(3,)"), "8 of 12 bytes"),
            (dict("'|O'", "False", "(1,)"), "only numbers"),
            (dict("[('x', '<f4')]", "False", "(1,)"), "records"),
            (dict("'<f8'", "False", "(4294967295, 4294967295, 4294967295)"), "larger than any"),
            (dict("'<f8'", "False", "(-1,)"), "no side"),
            (file(2, "", &[]), "no descr"),
            (b"\x93NUMPY\x02\0\xff\xff\xff\xff".to_vec(), "claims 4294967295"),
            (b"\x93NUMPY\x01".to_vec(), "truncated"),
            (b"PK\x03\x04".to_vec(), "not a .npy"),
            (Vec::new(), "empty"),
        ] {
            let made = array(&encoded, &Limits::default(), &mut Anywhere::default());
            let Err(Rejection::Broken(reason)) = made else { panic!("{words}: {made:?}") };
            assert!(reason.contains(words), "{reason}");
        }
    }
}
