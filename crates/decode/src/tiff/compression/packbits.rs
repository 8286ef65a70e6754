//! `PackBits`: runs of one byte, and bytes as they are.

use crate::Rejection;

use super::super::reasons::truncated;

/// Fills `target`; what the data holds beyond that is not looked at.
pub(super) fn decode(mut data: &[u8], target: &mut [u8]) -> Result<(), Rejection> {
    let mut at = 0;
    while at < target.len() {
        let (head, rest) = data.split_first().ok_or_else(truncated)?;
        let room = &mut target[at..];
        data = match *head {
            // Says nothing.
            128 => rest,
            0..128 => {
                let given = usize::from(*head) + 1;
                let taken = given.min(room.len());
                room[..taken].copy_from_slice(rest.get(..taken).ok_or_else(truncated)?);
                at += taken;
                rest.get(given..).unwrap_or_default()
            }
            repeated => {
                let (byte, rest) = rest.split_first().ok_or_else(truncated)?;
                let taken = (257 - usize::from(repeated)).min(room.len());
                room[..taken].fill(*byte);
                at += taken;
                rest
            }
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_bytes_fill_the_target_and_no_more() {
        let data = [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0x80, 0xfd, 0xaa];
        let mut target = [0; 10];
        decode(&data, &mut target).expect("whole");
        assert_eq!(target, [0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa]);
        decode(&data, &mut target[..4]).expect("less");
        assert_eq!(decode(&data, &mut [0; 11]), Err(truncated()));
        assert_eq!(decode(&data[..4], &mut target), Err(truncated()));
    }
}
