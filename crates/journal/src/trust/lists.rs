//! Who else than its owner may write to a place: its group, and whoever its access list names. With an access list the group's bits of the
//! mode are the most that anybody named in it has, and say nothing of the group.

use std::os::fd::{AsFd, AsRawFd};

use gpulane_files::{group_name, user_name};
use rustix::fs::{getxattr, getxattr_query};
use rustix::io::Errno;

use super::ours::Ours;

const POSIX: &str = "system.posix_acl_access";
const NFS4: &str = "system.nfs4_acl";
const GROUP_WRITES: u32 = 0o020;

/// The first user or group other than us that may write there, for a person; everybody is not meant.
pub(super) fn others_who_write(place: impl AsFd, mode: u32, group: u32, ours: &Ours) -> Option<String> {
    // A descriptor that only names a place cannot be asked for attributes, its entry in /proc can.
    let path = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    let posix = (mode & GROUP_WRITES != 0).then(|| match read(&path, POSIX) {
        Ok(Some(list)) => match posix(&list) {
            Some(named) => named,
            None => vec![Named::Unknown],
        },
        Ok(None) => vec![Named::Group(group)],
        Err(_) => vec![Named::Unknown],
    });
    let posix = posix.unwrap_or_default().into_iter().map(|named| match named {
        Named::OwnGroup => Named::Group(group),
        other => other,
    });
    // On a file server of this kind the bits of the mode need not show what the list allows.
    let nfs4 = read(&path, NFS4).ok().flatten().map(|list| nfs4(&list)).unwrap_or_default();
    posix.chain(nfs4).find(|named| !named.is_us(ours)).map(|named| named.told())
}

/// Somebody who may write.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    User(u32),
    Group(u32),
    /// The group of the file itself.
    OwnGroup,
    /// As a file server calls a user or group.
    Called {
        name: String,
        is_group: bool,
    },
    /// A list that cannot be read.
    Unknown,
}

impl Named {
    fn is_us(&self, ours: &Ours) -> bool {
        match self {
            Self::User(uid) => ours.is_one_of_us(*uid),
            Self::Group(gid) => ours.is_alone_in(*gid),
            Self::Called { name, is_group } => match (name.parse(), is_group) {
                (Ok(uid), false) => ours.is_one_of_us(uid),
                (Ok(gid), true) => ours.is_alone_in(gid),
                (Err(_), false) => ours.is_called(name.split('@').next().unwrap_or_default()),
                (Err(_), true) => false,
            },
            Self::OwnGroup | Self::Unknown => false,
        }
    }

    fn told(&self) -> String {
        match self {
            Self::User(uid) => format!("the user `{}`", user_name(*uid)),
            Self::Group(gid) => format!("the group `{}`", group_name(*gid)),
            Self::Called { name, is_group: false } => format!("the user `{}`", name.escape_default()),
            Self::Called { name, is_group: true } => format!("the group `{}`", name.escape_default()),
            Self::OwnGroup | Self::Unknown => {
                "whoever its access list names, which cannot be read".to_owned()
            }
        }
    }
}

/// The attribute; nothing where there is none.
fn read(path: &str, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let none = |error| match error {
        Errno::NODATA | Errno::OPNOTSUPP => Ok(None),
        error => Err(error),
    };
    let length = match getxattr_query(path, name) {
        Ok(0) => return Ok(None),
        Ok(length) => length,
        Err(error) => return none(error),
    };
    let mut list = vec![0; length];
    match getxattr(path, name, &mut list[..]) {
        Ok(length) => {
            list.truncate(length);
            Ok(Some(list))
        }
        Err(error) => none(error),
    }
}

/// Who may write by a list as Linux keeps it: a version, then tag, rights and id of each entry.
fn posix(list: &[u8]) -> Option<Vec<Named>> {
    const WRITE: u16 = 2;
    let (version, entries) = list.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != 2 || entries.len() % 8 != 0 {
        return None;
    }
    let entries: Vec<(u16, u16, u32)> = entries
        .chunks_exact(8)
        .map(|entry| {
            let short = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            (short(0), short(2), u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]))
        })
        .collect();
    let mask = entries.iter().find(|(tag, ..)| *tag == 0x10).map_or(u16::MAX, |(_, rights, _)| *rights);
    let named = entries.iter().filter(|(_, rights, _)| rights & mask & WRITE != 0);
    Some(
        named
            .filter_map(|(tag, _, id)| match tag {
                0x02 => Some(Named::User(*id)),
                0x04 => Some(Named::OwnGroup),
                0x08 => Some(Named::Group(*id)),
                _ => None,
            })
            .collect(),
    )
}

/// Who may write by a list of an NFS server, version 4: a count, then type, flags, rights and name of each entry. What is denied is not
/// weighed against it: a note too many harms nobody.
fn nfs4(list: &[u8]) -> Vec<Named> {
    const ALLOW: u32 = 0;
    const IS_GROUP: u32 = 0x40;
    // To add files or directories, remove what is in it, change its list or its owner.
    const WRITES: u32 = 0x2 | 0x4 | 0x40 | 0x4_0000 | 0x8_0000;
    let mut rest = list;
    let mut number = move |skip: usize| -> Option<(u32, &[u8])> {
        rest = rest.get(skip..)?;
        let (word, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some((u32::from_be_bytes(*word), after))
    };
    let mut named = Vec::new();
    let Some((count, _)) = number(0) else { return named };
    let mut skip = 0;
    for _ in 0..count {
        let (Some((kind, _)), Some((flags, _)), Some((rights, _)), Some((length, after))) =
            (number(skip), number(0), number(0), number(0))
        else {
            break;
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(name) = after.get(..length) else { break };
        skip = length.next_multiple_of(4);
        let name = String::from_utf8_lossy(name).into_owned();
        // Owner, group and everybody are what the bits of the mode speak of.
        if kind == ALLOW && rights & WRITES != 0 && !name.ends_with('@') {
            named.push(Named::Called { name, is_group: flags & IS_GROUP != 0 });
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries {
            list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
            list.extend(id.to_le_bytes());
        }
        list
    }

    #[test]
    fn whoever_a_list_lets_write_is_found() {
        const NONE: u32 = u32::MAX;
        let whole = [(1, 7, NONE), (2, 7, 1234), (4, 5, NONE), (8, 2, 50), (0x10, 7, NONE), (0x20, 0, NONE)];
        assert_eq!(posix(&list(&whole)), Some(vec![Named::User(1234), Named::Group(50)]));
        let masked = [(2, 7, 1234), (4, 7, NONE), (0x10, 5, NONE)];
        assert_eq!(posix(&list(&masked)), Some(vec![]), "the mask takes it away");
        assert_eq!(posix(&list(&[(1, 7, NONE), (4, 7, NONE)])), Some(vec![Named::OwnGroup]));
        assert_eq!(posix(b"\x03\0\0\0"), None);
        assert_eq!(posix(b"\x02\0\0\0half"), None);
    }

    #[test]
    fn whoever_a_servers_list_lets_write_is_found() {
        let entry = |kind: u32, flags: u32, rights: u32, name: &str| {
            let mut entry = [kind, flags, rights, u32::try_from(name.len()).unwrap()]
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .collect::<Vec<_>>();
            entry.extend(name.bytes());
            entry.resize(entry.len().next_multiple_of(4), 0);
            entry
        };
        let mut list = 5_u32.to_be_bytes().to_vec();
        for (kind, flags, rights, name) in [
            (0, 0, 0x2, "OWNER@"),
            (0, 0, 0x1, "reader@lab.org"),
            (1, 0, 0x2, "denied@lab.org"),
            (0, 0, 0x2, "mal@lab.org"),
            (0, 0x40, 0x40, "1234"),
        ] {
            list.extend(entry(kind, flags, rights, name));
        }
        let called = |name: &str, is_group| Named::Called { name: name.to_owned(), is_group };
        let expected = vec![called("mal@lab.org", false), called("1234", true)];
        assert_eq!(nfs4(&list), expected);
        for end in 0..list.len() {
            assert!(nfs4(&list[..end]).len() <= 2, "what is cut off is not read");
        }
    }
}
