//! A disk that is really full. Needs to mount one, so it says why it is skipped where that is not allowed.

#![allow(clippy::unwrap_used)] // a test fails by panicking

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use gpulane_parts::{Block, Column, Data, Format, PartsError, Writer};
use serde_json::json;

/// A tiny file system, gone with this value.
struct Mount<'a>(&'a Path);

impl Mount<'_> {
    fn tiny(at: &Path) -> Option<Mount<'_>> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=128k", "gpulane-test"]).arg(at).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Mount(at))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

/// Texts that no compression helps with.
fn noise(rows: u64) -> Block {
    let word = |number: u64| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let text = |row: u64| (row * 100..row * 100 + 100).map(word).collect::<Vec<_>>().concat();
    let texts = (0..rows).map(|row| json!(text(row)).to_string().into()).collect();
    let column = Column { name: "result".to_owned(), data: Data::Json(texts), absent: Vec::new() };
    Block { columns: vec![column], rows: usize::try_from(rows).unwrap(), refused: Vec::new() }
}

fn add(writer: &mut Writer, first: u64, block: &Block) {
    let names: Vec<(u64, String)> =
        (first..).take(block.rows).map(|number| (number, number.to_string())).collect();
    let items: Vec<(u64, &str)> = names.iter().map(|(number, name)| (*number, name.as_str())).collect();
    assert_eq!(writer.add(&items, block).unwrap(), []);
}

/// Every file with what is in it.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_full_disk_holds_a_commit_up_and_loses_nothing() {
    for format in [Format::Parquet, Format::Jsonl] {
        let temp = tempfile::tempdir().unwrap();
        let Some(mount) = Mount::tiny(temp.path()) else {
            println!("skipped: may not mount a tmpfs here");
            return;
        };
        let (mut writer, _) = Writer::open(mount.0, format, false).unwrap();
        add(&mut writer, 0, &noise(3));
        writer.commit().unwrap();
        let before = contents(mount.0);

        add(&mut writer, 10, &noise(200));
        writer.fail(9, "9", "broken");
        let error = writer.commit().unwrap_err();
        let full =
            matches!(&error, PartsError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull);
        assert!(full, "{error}");
        assert!(error.hint().unwrap().contains("full"));
        assert_eq!(contents(mount.0), before, "what is committed is as it was");
        assert_eq!(writer.pending().rows, 200);

        assert!(
            Command::new("mount").args(["-o", "remount,size=8m"]).arg(mount.0).status().unwrap().success()
        );
        assert_eq!(writer.commit().unwrap().unwrap().rows, 200);
        assert_eq!(writer.commit().unwrap(), None);
        drop(writer);
        let (_, settled) = Writer::open(mount.0, format, false).unwrap();
        assert_eq!((settled.rows, settled.failures), (203, 1));
    }
}
