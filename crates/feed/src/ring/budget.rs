//! How much memory a ring may take: what is asked for, or a share of what is free.

use std::fs;
use std::path::Path;

use gpulane_model::Bytes;
use rustix::process::{Resource, getrlimit};

/// Without `--ring`: never more than this.
const USUAL_MOST: u64 = 4 << 30;
/// Without `--ring`: this part of what is free.
const USUAL_SHARE: u64 = 4;
/// Less is of no use.
const LEAST: u64 = 16 << 20;

/// What decoding takes at most, beside the ring, and what it needs for an image of usual size.
const DECODING: std::ops::RangeInclusive<u64> = 256 << 20..=2 << 30;

/// What limits memory, with its name for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    bytes: u64,
    because: &'static str,
}

/// The memory for a ring: what was asked for if it is there, otherwise a quarter of what is free, at most 4 GiB.
pub fn budget(asked: Option<Bytes>) -> Result<u64, String> {
    let free = free(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
    decide(asked, free)
}

/// The memory that decoding may take beside a ring of so many bytes, all threads together: half of what the ring leaves, at least
/// 256 MiB, at most 2 GiB.
pub fn decoding_budget(ring: u64) -> u64 {
    decoding(free(Path::new("/proc"), Path::new("/sys/fs/cgroup")).bytes, ring)
}

fn decoding(free: u64, ring: u64) -> u64 {
    (free.saturating_sub(ring) / 2).clamp(*DECODING.start(), *DECODING.end())
}

fn decide(asked: Option<Bytes>, free: Free) -> Result<u64, String> {
    let usual = (free.bytes / USUAL_SHARE).min(USUAL_MOST);
    match asked {
        Some(Bytes(asked)) if asked > free.bytes => Err(format!(
            "a ring of {} is more than the {} {}; write --ring {}MiB or less, or leave --ring out",
            Bytes(asked),
            Bytes(free.bytes),
            free.because,
            (free.bytes / 2) >> 20,
        )),
        Some(Bytes(asked)) if asked < LEAST => Err(format!(
            "a ring of {} is too small; write --ring 64MiB or more, or leave --ring out",
            Bytes(asked)
        )),
        Some(Bytes(asked)) => Ok(asked),
        None if usual < LEAST => Err(format!(
            "there is no memory for a ring: {} {}, and a quarter of it is too little; free some, or write --ring 16MiB",
            Bytes(free.bytes),
            free.because
        )),
        None => Ok(usual),
    }
}

/// The tightest of all limits.
fn free(proc: &Path, cgroups: &Path) -> Free {
    let machine =
        fs::read_to_string(proc.join("meminfo")).ok().and_then(|text| number(&text, "MemAvailable:"));
    let machine = machine.map(|kib| Free { bytes: kib * 1024, because: "that is free on this machine" });
    let group = fs::read_to_string(proc.join("self/cgroup")).ok().and_then(|text| in_group(&text, cgroups));
    let group = group.map(|bytes| Free { bytes, because: "that its control group leaves it" });
    let pages = fs::read_to_string(proc.join("self/statm")).ok();
    let used = pages.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
        * rustix::param::page_size() as u64;
    let limit = |which, used: u64, because| {
        getrlimit(which).current.map(|most| Free { bytes: most.saturating_sub(used), because })
    };
    let limits = [
        limit(Resource::As, used, "that `ulimit -v` leaves it"),
        // It counts for a memfd as for any file.
        limit(Resource::Fsize, 0, "that `ulimit -f` leaves it"),
    ];
    let all = [machine, group].into_iter().chain(limits).flatten();
    all.min_by_key(|free| free.bytes).unwrap_or(Free { bytes: USUAL_MOST, because: "taken for free" })
}

/// What the tightest control group (version 2) above this process leaves it. What files hold can be given up.
fn in_group(own: &str, root: &Path) -> Option<u64> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = root.join(path.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(left_in).min()
}

fn left_in(group: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(group.join(name)).ok();
    let most: u64 = read("memory.max")?.trim().parse().ok()?;
    let current: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let files = ["inactive_file", "active_file"].iter().filter_map(|name| number(&stat, name)).sum::<u64>();
    Some(most.saturating_sub(current.saturating_sub(files)))
}

/// The number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Free = Free { bytes: 8 << 30, because: "that is free on this machine" };

    #[test]
    fn what_is_asked_for_is_given_if_it_is_there() {
        assert_eq!(decide(Some(Bytes(6 << 30)), FREE), Ok(6 << 30));
        assert_eq!(decide(None, FREE), Ok(2 << 30));
        assert_eq!(decide(None, Free { bytes: 64 << 30, ..FREE }), Ok(4 << 30));
    }

    #[test]
    fn decoding_has_half_of_what_the_ring_leaves() {
        assert_eq!(decoding(64 << 30, 4 << 30), 2 << 30);
        assert_eq!(decoding(3 << 30, 1 << 30), 1 << 30);
        assert_eq!(decoding(1 << 30, 4 << 30), 256 << 20);
    }

    #[test]
    fn too_much_is_refused_with_the_numbers_and_what_to_write() {
        let error = decide(Some(Bytes(9 << 30)), FREE).expect_err("there are 8");
        assert!(["9 GiB", "8 GiB", "--ring 4096MiB"].iter().all(|word| error.contains(word)), "{error}");
        assert!(decide(Some(Bytes(4096)), FREE).is_err(), "of no use");
        assert!(decide(None, Free { bytes: 1 << 20, ..FREE }).is_err(), "nothing left");
    }

    #[test]
    fn the_tightest_group_counts_and_file_pages_are_free() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner) = (dir.path().join("a"), dir.path().join("a/b"));
        fs::create_dir_all(&inner).unwrap();
        for (group, max, current, stat) in [
            (&outer, "1000\n", "900\n", "anon 400\ninactive_file 300\nactive_file 100\n"),
            (&inner, "max\n", "900\n", ""),
        ] {
            fs::write(group.join("memory.max"), max).unwrap();
            fs::write(group.join("memory.current"), current).unwrap();
            fs::write(group.join("memory.stat"), stat).unwrap();
        }
        assert_eq!(in_group("0::/a/b\n", dir.path()), Some(500));
        assert_eq!(in_group("3:cpu:/a\n", dir.path()), None);
    }

    #[test]
    fn this_machine_has_some() {
        let free = free(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
        assert!(free.bytes > 0 && free.bytes != USUAL_MOST, "{free:?}");
    }
}
