//! A disk that is really full. Needs to mount one, so it says why it is skipped where that is not allowed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use gpulane_journal::{Commit, Journal, Mode, RunDir};
use gpulane_model::{Event, Millis};

use crate::run::sample;
use crate::run::{open, temp_dir};

const SOON: Duration = Duration::from_secs(20);

/// A tiny file system, gone with this value.
struct Mount<'a>(&'a Path);

impl Mount<'_> {
    fn tiny(at: &Path) -> Option<Mount<'_>> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "gpulane-test"]).arg(at).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Mount(at))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_blocks_the_journal_until_space_returns() {
    let temp = temp_dir();
    let Some(mount) = Mount::tiny(temp.path()) else {
        println!("skipped: may not mount a tmpfs here");
        return;
    };
    let dir = RunDir::create(&mount.0.join("run")).unwrap();
    let (said, heard) = channel();
    let on_commit = Box::new(move |commit| said.send(commit).unwrap_or_default());
    let (journal, ..) = Journal::open(&dir, &sample::plan(), Mode::Strict, on_commit).unwrap();
    journal.append(Millis(1), sample::run_started());
    assert!(journal.flush(SOON));
    heard.recv_timeout(SOON).unwrap();

    let filler = mount.0.join("filler");
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    // More than what is set aside takes.
    for _ in 0..400 {
        journal.append(Millis(2), Event::StartsHeld { because: "x".repeat(300) });
    }
    let blocked = std::iter::from_fn(|| heard.recv_timeout(SOON).ok())
        .find_map(|commit| if let Commit::Blocked { because } = commit { Some(because) } else { None });
    assert!(blocked.as_ref().is_some_and(|because| because.contains("No space left")), "{blocked:?}");

    fs::remove_file(&filler).unwrap();
    assert_eq!(heard.recv_timeout(SOON).unwrap(), Commit::Unblocked);
    assert!(journal.close(SOON));
    assert_eq!(open(&dir, Mode::Strict).unwrap().1.last_seq, 401);
}
