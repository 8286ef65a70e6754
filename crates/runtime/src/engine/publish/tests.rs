//! Publishing onto a real file system.

use std::time::{Duration, Instant};

use super::*;

/// An output with a place to go to, as a stage's directory `root` has it.
fn output(root: &Path) -> Output {
    let from = root.join("j/attempt-1/out");
    std::fs::create_dir_all(&from).unwrap();
    let stage = Arc::new(open(root, DIRECTORY, Mode::empty()).unwrap());
    let place = OutputPlace::new(stage, Arc::default(), "j", Attempt(1));
    Output { job: JobId(0), attempt: Attempt(1), from, place }
}

fn wait_for_answer(publisher: &Publisher) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(answer) = publisher.take().pop() {
            return answer;
        }
        assert!(Instant::now() < deadline, "no answer");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_empty_output_is_in_place_at_once() {
    let root = tempfile::tempdir().unwrap();
    let published = Publisher::new().unwrap().publish(output(root.path()));
    assert!(matches!(published, Some(Answer::Published { .. })));
    assert!(root.path().join("j/out").is_dir());
}

#[test]
fn a_full_output_arrives_whole_and_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let output = output(root.path());
    let from = output.from.clone();
    std::fs::create_dir(from.join("deep")).unwrap();
    std::fs::write(from.join("deep/model.bin"), b"weights").unwrap();
    std::os::unix::fs::symlink("/nowhere", from.join("link")).unwrap();
    let mut publisher = Publisher::new().unwrap();
    assert!(publisher.publish(output).is_none());
    assert!(matches!(wait_for_answer(&publisher), Answer::Published { .. }));
    assert_eq!(std::fs::read(root.path().join("j/out/deep/model.bin")).unwrap(), b"weights");
    assert!(!from.exists());
}

#[test]
fn what_occupies_the_place_is_put_aside_and_nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let output = output(root.path());
    let to = root.path().join("j/out");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("precious"), b"old").unwrap();
    std::fs::write(output.from.join("new"), b"new").unwrap();
    let mut publisher = Publisher::new().unwrap();
    assert!(publisher.publish(output).is_none());
    assert!(matches!(wait_for_answer(&publisher), Answer::Published { .. }));
    assert_eq!(std::fs::read(root.path().join("j/out.lost-1/precious")).unwrap(), b"old");
    assert_eq!(std::fs::read(to.join("new")).unwrap(), b"new");
}

#[test]
fn an_output_deeper_than_any_path_arrives_whole() {
    // In memory, where there is such a place: a disk takes seconds for so many directories.
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let output = output(root.path());
    let mut bottom = open(&output.from, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..1500 {
        mkdirat(&bottom, "a-name-of-some-length", Mode::RWXU).unwrap();
        bottom = openat(&bottom, "a-name-of-some-length", DIRECTORY, Mode::empty()).unwrap();
    }
    let file = openat(&bottom, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    rustix::io::write(&file, b"weights").unwrap();
    // A thread with the least stack a thread can have.
    let place = output.place.clone();
    let published = std::thread::Builder::new().stack_size(32 << 10).spawn(move || publish(&place)).unwrap();
    assert!(published.join().unwrap().is_ok());
    assert!(root.path().join("j/out/a-name-of-some-length").is_dir());
    let removed = std::process::Command::new("rm").arg("-rf").arg(root.path().join("j")).status().unwrap();
    assert!(removed.success());
}

#[test]
fn what_nobody_may_read_is_published_too() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let output = output(root.path());
    std::fs::write(output.from.join("secret"), b"weights").unwrap();
    std::fs::create_dir(output.from.join("closed")).unwrap();
    for name in ["secret", "closed"] {
        let path = output.from.join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
    }
    assert!(publish(&output.place).is_ok());
    assert_eq!(std::fs::metadata(root.path().join("j/out/secret")).unwrap().len(), 7);
}

#[test]
fn an_output_the_disk_once_refused_is_never_published() {
    let root = tempfile::tempdir().unwrap();
    let output = output(root.path());
    std::fs::write(output.from.join("model.bin"), b"weights").unwrap();
    let to = root.path().join("j/out");
    let mut publisher = Publisher::new().unwrap();
    publisher.queue.note_lost(&output);
    assert!(publisher.publish(output).is_none());
    assert!(matches!(wait_for_answer(&publisher), Answer::Failed { kept: false, .. }));
    assert!(!to.exists());
}

#[test]
fn what_runs_short_passes_and_what_is_lost_does_not() {
    let of = |error: SyncError| Unpublished::from(error).may_pass();
    assert!(
        [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT]
            .into_iter()
            .all(|errno| { of(SyncError::Reach(errno.into())) && Unpublished::moving(errno).may_pass() })
    );
    assert!(!of(SyncError::Reach(Errno::ACCESS.into())));
    // After a sync that failed, one that succeeds proves nothing.
    assert!(!of(SyncError::Lost(Errno::NOSPC.into())));
}

#[test]
fn an_output_is_measured_however_deep_and_no_further_than_its_own() {
    let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let output = output(root.path());
    let outside = root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("kept"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink(&outside, output.from.join("link")).unwrap();
    std::fs::hard_link(outside.join("kept"), output.from.join("second-name")).unwrap();
    // Both names of a checkpoint go with the output, so it counts, once.
    std::fs::write(output.from.join("epoch-9"), vec![1; 256 << 10]).unwrap();
    std::fs::hard_link(output.from.join("epoch-9"), output.from.join("last")).unwrap();
    let mut bottom = open(&output.from, DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..1500 {
        mkdirat(&bottom, "a-name-of-some-length", Mode::RWXU).unwrap();
        bottom = openat(&bottom, "a-name-of-some-length", DIRECTORY, Mode::empty()).unwrap();
    }
    let file = openat(&bottom, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    rustix::io::write(&file, &vec![1; 64 << 10]).unwrap();
    let mut publisher = Publisher::new().unwrap();
    let from = output.from.clone();
    publisher.measure(output);
    let Answer::Measured { bytes, .. } = wait_for_answer(&publisher) else { panic!("measured") };
    let file_and_checkpoint = (64 + 256) << 10;
    assert!(
        (file_and_checkpoint..file_and_checkpoint + (128 << 10)).contains(&bytes),
        "what has another name outside does not count: {bytes}"
    );
    assert_eq!(std::fs::read_dir(from).unwrap().count(), 5, "nothing is removed");
    assert_eq!(std::fs::read(outside.join("kept")).unwrap().len(), 1 << 20);
}
