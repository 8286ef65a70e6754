//! Disks: space, names, whether they can be written, whether they are far away. And `/dev/shm`, which is memory.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gpulane_model::Bytes;
use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use super::sight::Sight;
use crate::Finding;
use crate::fields::percent;

const DISK: &str = "disk";
const SHM: &str = "/dev/shm";
const GIB: u64 = 1 << 30;

/// File systems that live on another machine, by the number the kernel gives them.
const FAR: [(u64, &str); 9] = [
    (0x6969, "NFS"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x517B, "SMB"),
    (0x0BD0_0BD0, "Lustre"),
    (0x00C3_6400, "Ceph"),
    (0x1983_0326, "BeeGFS"),
    (0x4750_4653, "GPFS"),
    (0x6573_5546, "FUSE"),
];

/// A file system at the moment of looking.
#[derive(Clone, Debug, Default)]
struct Volume {
    path: PathBuf,
    size: u64,
    free: u64,
    names: u64,
    names_free: u64,
    read_only: bool,
    far: Option<&'static str>,
}

/// `/dev/shm`: where workers hand each other tensors.
pub(super) fn shared_memory(_: &Sight) -> Vec<Finding> {
    vec![volume(Path::new(SHM)).map_or_else(no_shared_memory, |volume| judge_shared_memory(&volume))]
}

fn no_shared_memory() -> Finding {
    Finding::bad(SHM, "there is no /dev/shm")
        .because("DataLoader workers and multiprocessing hand data over through it, and fail without it")
        .then("sudo mount -t tmpfs -o size=50% tmpfs /dev/shm")
}

fn judge_shared_memory(volume: &Volume) -> Finding {
    let (size, free) = (Bytes(volume.size), Bytes(volume.free));
    let why =
        "DataLoader workers hand batches over through it; when it is full they die of SIGBUS (\"Bus error\")";
    let grow =
        "docker run --shm-size 16g …    # outside a container: sudo mount -o remount,size=50% /dev/shm";
    if percent(volume.size - volume.free.min(volume.size), volume.size) > 90 {
        return Finding::bad(SHM, format!("{free} of {size} are free"))
            .because(why)
            .then("ls -laS /dev/shm | head    # what processes that were killed left can be removed")
            .then(grow);
    }
    if volume.size < GIB {
        return Finding::bad(SHM, format!("only {size} in all")).because(why).then(grow);
    }
    Finding::fine(SHM, format!("{free} of {size} are free"))
}

pub(super) fn check(sight: &Sight) -> Vec<Finding> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let cache = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let places = [here.clone(), sight.runs.clone(), std::env::temp_dir()].into_iter().chain(cache);
    let mut known = HashSet::new();
    // Several of them are often one disk.
    let new = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| known.insert(data.dev()));
    let volumes: Vec<Volume> = places.filter(new).filter_map(|path| volume(&path)).collect();
    let mut found: Vec<Finding> = volumes.iter().flat_map(judge).collect();
    if found.is_empty() {
        let free = volumes.first().map_or(0, |volume| volume.free);
        found.push(Finding::fine(DISK, format!("{} free here", Bytes(free))));
    }
    found
}

fn volume(path: &Path) -> Option<Volume> {
    let seen = statvfs(path).ok()?;
    let kind = statfs(path).ok().and_then(|it| u64::try_from(it.f_type).ok());
    Some(Volume {
        path: path.to_owned(),
        size: seen.f_blocks.saturating_mul(seen.f_frsize),
        free: seen.f_bavail.saturating_mul(seen.f_frsize),
        names: seen.f_files,
        names_free: seen.f_favail,
        read_only: seen.f_flag.contains(StatVfsMountFlags::RDONLY),
        far: FAR.iter().find(|(number, _)| kind == Some(*number)).map(|(_, name)| *name),
    })
}

fn judge(volume: &Volume) -> Vec<Finding> {
    let path = volume.path.display();
    let mut found = Vec::new();
    if volume.read_only {
        found.push(
            Finding::bad(DISK, format!("{path} is on a file system that is mounted read-only"))
                .because("nothing can be written there; disks become read-only by themselves after errors")
                .then("sudo dmesg | grep -i -e error -e remount | tail")
                .then("gpulane run --run-dir /elsewhere/run plan.toml"),
        );
    }
    let (free, part) = (Bytes(volume.free), percent(volume.free, volume.size));
    let clean = format!("du -xsh {path}/* | sort -h | tail");
    if volume.free < GIB {
        found.push(
            Finding::bad(DISK, format!("{path}: {free} free"))
                .because("a run holds its starts when the disk is full, and checkpoints are cut short")
                .then(clean),
        );
    } else if volume.free < 10 * GIB && part < 5 {
        found.push(
            Finding::warning(DISK, format!("{path}: {free} free ({part}%)"))
                .because("a few checkpoints fill that")
                .then(clean),
        );
    }
    // Some file systems do not count names.
    if volume.names > 0 && percent(volume.names_free, volume.names) < 2 {
        found.push(
            Finding::bad(
                DISK,
                format!("{path}: {} of {} file names are free", volume.names_free, volume.names),
            )
            .because("no new file can be made, however much space there is")
            .then(format!("du -x --inodes {path} | sort -n | tail")),
        );
    }
    if let Some(kind) = volume.far {
        found.push(
            Finding::warning(DISK, format!("{path} is on a network file system ({kind})"))
                .because("each event of a run is made durable there, which is slow, and its locks do not always hold between machines")
                .then("gpulane run --run-dir /local/disk/run plan.toml"),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Severity;

    fn disk() -> Volume {
        Volume {
            path: "/d".into(),
            size: 100 * GIB,
            free: 50 * GIB,
            names: 100,
            names_free: 90,
            ..Volume::default()
        }
    }

    #[test]
    fn each_want_is_told() {
        assert_eq!(judge(&disk()), []);
        for (volume, severity, word) in [
            (Volume { read_only: true, ..disk() }, Severity::Bad, "read-only"),
            (Volume { free: GIB / 2, ..disk() }, Severity::Bad, "512 MiB free"),
            (Volume { free: 4 * GIB, ..disk() }, Severity::Warning, "4 GiB free (4%)"),
            (Volume { names_free: 1, ..disk() }, Severity::Bad, "file names"),
            (Volume { far: Some("NFS"), ..disk() }, Severity::Warning, "NFS"),
        ] {
            let found = judge(&volume);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].severity, severity);
            assert!(found[0].seen.contains(word), "{found:?}");
        }
    }

    #[test]
    fn shared_memory_must_be_there_and_have_room() {
        let shm = |size, free| judge_shared_memory(&Volume { size, free, ..Volume::default() }).severity;
        assert_eq!(shm(16 * GIB, 15 * GIB), Severity::Fine);
        assert_eq!(shm(GIB / 16, GIB / 16), Severity::Bad, "what docker gives");
        assert_eq!(shm(16 * GIB, GIB), Severity::Bad);
        assert_eq!(shm(0, 0), Severity::Bad);
    }
}
