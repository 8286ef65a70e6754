//! One record as one line: the record's JSON with a checksum as its last field, in exactly one form. Knows
//! nothing of files or of the order of records.

use gpulane_model::{Event, Record, is_full_job_name};

/// Every line begins like this; inside JSON strings the quotes would be escaped, so it begins nothing else.
const HEAD: &[u8] = b"{\"seq\":";
/// What the checksum covers ends here.
const MARK: &[u8] = b",\"crc\":\"";
/// `,"crc":"89abcdef"}`
const SEAL: usize = MARK.len() + 8 + 2;

/// Why a line is not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Not of the one form a line has.
    #[error("it is not a journal record")]
    Form,
    /// Of that form, but not what was written.
    #[error("its checksum does not match")]
    Checksum,
    /// What was written, but not by this gpulane.
    #[error("its checksum is right but this gpulane cannot read it, perhaps a newer one wrote it: {0}")]
    Unreadable(String),
    /// Of the right form, but about a job that cannot be.
    #[error("it is about {0:?}, which no job may be called")]
    Name(String),
}

/// The record as a line, without the newline.
pub fn encode(record: &Record) -> String {
    let mut line = Vec::with_capacity(256);
    encode_into(&mut line, record);
    // serde_json and the seal write UTF-8 only.
    String::from_utf8(line).unwrap_or_default()
}

/// The record in a line without its newline.
pub fn decode(line: &str) -> Result<Record, LineError> {
    let mut bytes = line.as_bytes().to_vec();
    parse(unseal(&mut bytes)?)
}

/// Appends the record as a line, without the newline.
pub(crate) fn encode_into(out: &mut Vec<u8>, record: &Record) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, record).is_err() {
        // Cannot happen: a vector takes every byte and all keys are strings. Should a new event break that,
        // an empty one in its place keeps the numbers without a gap.
        out.truncate(start);
        let empty = Record { event: Event::Unknown, ..*record };
        let _ = serde_json::to_writer(&mut *out, &empty);
    }
    out.pop();
    seal(out, start);
    // Catches in tests what JSON cannot carry, such as a number that is not finite.
    debug_assert!(
        std::str::from_utf8(&out[start..]).is_ok_and(|line| decode(line).is_ok()),
        "a record must be readable: {record:?}"
    );
}

/// Ends the line that begins at `start` and lacks its closing brace.
fn seal(out: &mut Vec<u8>, start: usize) {
    let digits = crc32fast::hash(&out[start..]);
    out.extend_from_slice(MARK);
    for shift in (0..8).rev() {
        out.push(b"0123456789abcdef"[(digits >> (shift * 4) & 0xf) as usize]);
    }
    out.extend_from_slice(b"\"}");
}

/// Checks a line and takes off its checksum, in place: what remains is the record's JSON.
pub(crate) fn unseal(line: &mut [u8]) -> Result<&str, LineError> {
    let body = line.len().checked_sub(SEAL).ok_or(LineError::Form)?;
    if !line.starts_with(HEAD) {
        return Err(LineError::Form);
    }
    check_seal(&line[..body], &line[body..])?;
    line[body] = b'}';
    std::str::from_utf8(&line[..=body]).map_err(|_| LineError::Form)
}

fn check_seal(body: &[u8], seal: &[u8]) -> Result<(), LineError> {
    let digits = seal
        .strip_prefix(MARK)
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .filter(|digits| digits.len() == 8)
        .ok_or(LineError::Form)?;
    let mut crc = 0_u32;
    for digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return Err(LineError::Form),
        };
        crc = crc << 4 | u32::from(value);
    }
    if crc32fast::hash(body) == crc { Ok(()) } else { Err(LineError::Checksum) }
}

/// The record in the JSON that [`unseal`] gave.
pub(crate) fn parse(json: &str) -> Result<Record, LineError> {
    let record: Record =
        serde_json::from_str(json).map_err(|error| LineError::Unreadable(error.to_string()))?;
    // Names stand on terminals and in commands to copy, and a journal may be anybody's.
    match record.event.job() {
        Some(job) if !is_full_job_name(job) => Err(LineError::Name(job.to_owned())),
        _ => Ok(record),
    }
}

/// Appends the same record as a line with another number. Works on the text, so that fields and events of a
/// newer gpulane are kept.
pub(crate) fn renumber(out: &mut Vec<u8>, json: &str, seq: u64) {
    let start = out.len();
    let rest = json.find(',').map_or("}", |comma| &json[comma..]);
    out.extend_from_slice(HEAD);
    out.extend_from_slice(seq.to_string().as_bytes());
    out.extend_from_slice(rest.as_bytes());
    out.pop();
    seal(out, start);
}

/// Where the first whole record in these bytes is, whatever is around it.
pub(crate) fn find_record(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut from = 0;
    loop {
        let body = from + find(&bytes[from..], MARK)?;
        let end = body + SEAL;
        let start = bytes[from..body].windows(HEAD.len()).rposition(|window| window == HEAD);
        if let (Some(start), Some(seal)) = (start, bytes.get(body..end))
            && check_seal(&bytes[from + start..body], seal).is_ok()
        {
            return Some(from + start..end);
        }
        from = body + MARK.len();
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
