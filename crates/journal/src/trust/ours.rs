//! Which user ids are us: this user, root, and whoever else acts for the same person here.

use std::fs;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::process::{getegid, geteuid};

/// The whole range of ids: what `uid_map` says where no user namespace translates them.
const ALL_IDS: u64 = u32::MAX as u64;

/// Ids that are us, or that could do whatever they like anyway.
pub(super) struct Ours {
    me: u32,
    /// Root, whoever called `sudo`, and ids that stand for us on a server.
    others: Vec<u32>,
    /// Who called `sudo`.
    caller: Option<u32>,
}

impl Ours {
    pub(super) fn now() -> Self {
        let me = geteuid().as_raw();
        let caller = geteuid().is_root().then(|| number_in("SUDO_UID")).flatten();
        let mut others = vec![0];
        others.extend(caller);
        others.extend(unmapped());
        Self { me, others, caller }
    }

    /// Whether what belongs to this id is safe with us.
    pub(super) fn has(&self, uid: u32) -> bool {
        uid == self.me || self.others.contains(&uid)
    }

    /// Whether this id is the person who typed the command.
    pub(super) fn is_me(&self, uid: u32) -> bool {
        uid == self.me || self.caller == Some(uid)
    }

    pub(super) fn add(&mut self, uid: u32) {
        self.others.push(uid);
    }

    /// Whether what was mounted into this container may be used, whoever owns it: whoever mounted it made the container, and could do
    /// as they like with its root anyway. Other users of a container with several are not meant.
    pub(super) fn trusts_mounts(&self) -> bool {
        let marks = ["/.dockerenv", "/run/.containerenv"];
        let contained = || {
            marks.iter().any(|mark| fs::symlink_metadata(mark).is_ok())
                || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
        };
        self.me == 0 && contained()
    }

    /// Whether nobody else is in this group, as far as this machine's own lists tell: most systems give each user a group of their own.
    pub(super) fn is_alone_in(&self, gid: u32) -> bool {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        alone(&users, &groups, self.me, getegid().as_raw(), gid)
    }
}

fn alone(users: &str, groups: &str, me: u32, my_group: u32, gid: u32) -> bool {
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let users: Vec<_> = users.lines().map(fields).filter(|user| user.len() > 3).collect();
    let mine = users.iter().find(|user| user[2].parse() == Ok(me));
    // A directory service may know users that these lists do not. There too, the group of one user has the user's number.
    let own = match mine {
        Some(user) => user[3].parse() == Ok(gid),
        None => gid == me && gid == my_group,
    };
    let shared = users.iter().any(|user| user[2].parse() != Ok(me) && user[3].parse() == Ok(gid));
    let my_name = mine.map(|user| user[0].as_str());
    let joined =
        groups.lines().map(fields).filter(|group| group.len() > 3 && group[2].parse() == Ok(gid)).any(
            |group| group[3].split(',').map(str::trim).any(|name| !name.is_empty() && Some(name) != my_name),
        );
    own && !shared && !joined
}

/// The id that stands for all ids which this user namespace cannot name, the machine's root among them; none where ids are as they are.
fn unmapped() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let mut lines =
        map.lines().map(|line| line.split_ascii_whitespace().filter_map(|word| word.parse().ok()));
    let whole = lines.any(|line| line.collect::<Vec<u64>>() == [0, 0, ALL_IDS]);
    (!whole).then(|| fs::read_to_string("/proc/sys/fs/overflowuid").ok()?.trim().parse().ok())?
}

fn number_in(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Whose a file is that we make in this directory. On servers and in user namespaces that may be another id than ours.
pub(super) fn owner_of_what_we_make(dir: BorrowedFd<'_>) -> Option<u32> {
    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = openat(dir, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        return fstat(&file).ok().map(|found| found.st_uid);
    }
    // Not every file system has files without names.
    let name = format!(".gpulane-{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(dir, &name, flags, mode).ok()?;
    let owner = fstat(&file).ok().map(|found| found.st_uid);
    let _ = unlinkat(dir, &name, AtFlags::empty());
    owner
}

/// What a user is called, as far as this machine's own list knows.
pub(crate) fn user_name(uid: u32) -> String {
    name_in("/etc/passwd", uid).unwrap_or_else(|| format!("uid {uid}"))
}

/// What a group is called, likewise.
pub(crate) fn group_name(gid: u32) -> String {
    name_in("/etc/group", gid).unwrap_or_else(|| format!("gid {gid}"))
}

fn name_in(list: &str, id: u32) -> Option<String> {
    let known = fs::read_to_string(list).ok()?;
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_private_where_nobody_else_is_in_it() {
        let users = "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\n";
        let groups = "ada:x:1000:\nlab:x:50:ada,bob\nusers:x:100:\nwide:x:1001:ada\n";
        for (me, gid, expected) in [
            (1000, 1000, true),
            (1000, 50, false),
            (1001, 100, true),
            (1000, 100, false),
            // Known to a directory service only: its own number, or not.
            (70_000, 70_000, true),
            (70_000, 50, false),
        ] {
            assert_eq!(alone(users, groups, me, me, gid), expected, "{me} in {gid}");
        }
        let joined = "ada:x:1000:bob\n";
        assert!(!alone(users, joined, 1000, 1000, 1000), "bob joined it");
    }
}
