//! Which user ids are us: this user, root, and whoever else acts for the same person here.

use std::fs;
use std::os::fd::BorrowedFd;

use gpulane_files::user_name;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, unlinkat};
use rustix::process::{getegid, geteuid};

/// The whole range of ids: what `uid_map` says where no user namespace translates them.
const ALL_IDS: u64 = u32::MAX as u64;

/// Ids that are us, or that could do whatever they like anyway.
pub(super) struct Ours {
    me: u32,
    /// Who called `sudo`.
    caller: Option<u32>,
    /// What stands for all ids that this user namespace cannot name: root of the machine as well as anybody else.
    unmapped: Option<u32>,
    /// Ids that stand for us on one device, where a server gives them what we make.
    there: Vec<(u32, u64)>,
}

impl Ours {
    pub(super) fn now() -> Self {
        let me = geteuid().as_raw();
        let caller = geteuid().is_root().then(|| number_in("SUDO_UID")).flatten();
        Self { me, caller, unmapped: unmapped(), there: Vec::new() }
    }

    /// Whether what belongs to this id, on this device, is safe with us.
    pub(super) fn has(&self, uid: u32, device: u64) -> bool {
        self.is_one_of_us(uid) || !self.is_unmapped(uid) && self.there.contains(&(uid, device))
    }

    /// Whether this id is ours or root's wherever it is met.
    pub(super) fn is_one_of_us(&self, uid: u32) -> bool {
        !self.is_unmapped(uid) && (uid == self.me || uid == 0 || self.caller == Some(uid))
    }

    /// Whether this id may be anybody outside this user namespace.
    pub(super) fn is_unmapped(&self, uid: u32) -> bool {
        self.unmapped == Some(uid)
    }

    /// Whether a file server means us by this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        name == "root" || name == user_name(self.me)
    }

    /// Whether this id is the person who typed the command.
    pub(super) fn is_me(&self, uid: u32) -> bool {
        uid == self.me || self.caller == Some(uid)
    }

    /// Takes what belongs to this id on this device for ours.
    pub(super) fn add(&mut self, uid: u32, device: u64) {
        self.there.push((uid, device));
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

/// Whose a file is that we make in this directory, and on which device it lies. On servers the owner may be another id than ours.
pub(super) fn owner_of_what_we_make(dir: BorrowedFd<'_>) -> Option<(u32, u64)> {
    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = openat(dir, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
        return fstat(&file).ok().map(|found| (found.st_uid, found.st_dev));
    }
    // Not every file system has files without names.
    let name = format!(".gpulane-{}", std::process::id());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(dir, &name, flags, mode).ok()?;
    let owner = fstat(&file).ok().map(|found| (found.st_uid, found.st_dev));
    let _ = unlinkat(dir, &name, AtFlags::empty());
    owner
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

    #[test]
    fn an_id_that_stands_for_us_on_one_device_is_a_stranger_on_others() {
        let mut ours = Ours { me: 1000, caller: None, unmapped: Some(65_534), there: Vec::new() };
        assert!(ours.has(1000, 1) && ours.has(0, 1) && !ours.has(7, 1));
        ours.add(7, 1);
        assert!(ours.has(7, 1) && !ours.has(7, 2) && !ours.is_one_of_us(7));
        ours.add(65_534, 1);
        assert!(!ours.has(65_534, 1), "which may be anybody");
        let nameless = Ours { me: 65_534, caller: None, unmapped: Some(65_534), there: Vec::new() };
        assert!(!nameless.has(65_534, 1), "also where we have no other name ourselves");
    }
}
