//! Files that are not images: as they are, or as text.

use crate::{Form, Kind, Limits, Place, Rejection};

/// What some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) fn bytes(encoded: &[u8], limits: &Limits, place: &mut dyn Place) -> Result<Form, Rejection> {
    copied(encoded, Kind::Bytes, limits, place)
}

pub(crate) fn text(encoded: &[u8], limits: &Limits, place: &mut dyn Place) -> Result<Form, Rejection> {
    let text = encoded.strip_prefix(BYTE_ORDER_MARK).unwrap_or(encoded);
    if let Err(error) = std::str::from_utf8(text) {
        return Err(Rejection::broken(format!("not UTF-8 text: wrong from byte {} on", error.valid_up_to())));
    }
    copied(text, Kind::Text, limits, place)
}

fn copied(from: &[u8], kind: Kind, limits: &Limits, place: &mut dyn Place) -> Result<Form, Rejection> {
    let form = Form::flat(kind, from.len() as u64);
    limits.room(place, form.bytes)?.copy_from_slice(from);
    Ok(form)
}
