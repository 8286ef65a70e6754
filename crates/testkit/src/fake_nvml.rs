//! GPUs for tests on machines without any: a `libnvidia-ml.so.1` of our own and the script it follows. What a script
//! can hold is in `crates/fake-nvml/src/script.rs`.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The library as cargo builds it.
const BUILT: &str = "libfake_nvml.so";

/// Fake GPUs, and a directory for leases of their own. Gone when dropped.
#[derive(Debug)]
pub struct FakeNvml {
    dir: PathBuf,
    /// Absent for one that another process made.
    _owned: Option<TempDir>,
}

impl FakeNvml {
    /// One GPU of each of these sizes, such as `24GiB`; nobody uses them.
    pub fn new(sizes: &[&str]) -> Self {
        let owned =
            tempfile::Builder::new().prefix("gpulane-fake-").tempdir().expect("a temporary directory");
        let dir = owned.path().canonicalize().expect("the temporary directory is there");
        std::os::unix::fs::symlink(built(), dir.join("libnvidia-ml.so.1")).expect("a link can be made");
        std::fs::create_dir(dir.join("claims")).expect("a directory can be made");
        let gpus: Vec<Value> =
            (0..).zip(sizes).map(|(index, size)| json!({"uuid": Self::uuid(index), "total": size})).collect();
        let fake = Self { dir, _owned: Some(owned) };
        fake.write(&json!({"gpus": gpus, "claims": fake.claims_dir()}));
        fake
    }

    /// The one this process was started with, if it was.
    pub fn inherited() -> Option<Self> {
        let script = PathBuf::from(std::env::var_os("FAKE_NVML")?);
        Some(Self { dir: script.parent().expect("the script is in a directory").to_owned(), _owned: None })
    }

    /// The UUID of GPU `index`.
    pub fn uuid(index: usize) -> String {
        format!("GPU-fa4e0000-0000-4000-8000-{index:012}")
    }

    /// What makes a gpulane see these GPUs, and lets its jobs claim memory on them.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_str().expect("a path in plain text").to_owned();
        let mut libraries = text(self.dir.clone());
        if let Ok(others) = std::env::var("LD_LIBRARY_PATH") {
            libraries = format!("{libraries}:{others}");
        }
        vec![
            ("LD_LIBRARY_PATH".into(), libraries),
            ("FAKE_NVML".into(), text(self.script())),
            ("FAKE_VRAM".into(), text(self.claims_dir())),
            ("GPULANE_LEASE_DIR".into(), text(self.lease_dir())),
        ]
    }

    /// Changes the script; holds from the next call of whoever has the library loaded.
    pub fn set(&self, change: impl FnOnce(&mut Value)) {
        let text = std::fs::read(self.script()).expect("the script is there");
        let mut script = serde_json::from_slice(&text).expect("the script is JSON");
        change(&mut script);
        self.write(&script);
    }

    /// Where a process says what it holds: a file named by its pid with lines `UUID SIZE`.
    pub fn claims_dir(&self) -> PathBuf {
        self.dir.join("claims")
    }

    /// Says that process `pid` holds so much on that GPU.
    pub fn claim(&self, pid: u32, uuid: &str, size: &str) {
        self.replace(&self.claims_dir().join(pid.to_string()), &format!("{uuid} {size}\n"));
    }

    /// Where leases of these GPUs are.
    pub fn lease_dir(&self) -> PathBuf {
        self.dir.join("leases")
    }

    fn script(&self) -> PathBuf {
        self.dir.join("script.json")
    }

    fn write(&self, script: &Value) {
        self.replace(&self.script(), &script.to_string());
    }

    /// At once: nobody ever reads half of it.
    fn replace(&self, path: &Path, text: &str) {
        let aside = tempfile::NamedTempFile::new_in(&self.dir).expect("a file can be made");
        std::fs::write(aside.path(), text).expect("a file can be written");
        aside.persist(path).expect("a file can be renamed");
    }
}

/// The library, beside the running test or one directory above it.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let found = test.ancestors().skip(1).take(2).map(|dir| dir.join(BUILT)).find(|path| path.exists());
    found.unwrap_or_else(|| {
        panic!(
            "no {BUILT} near {}: build the crate gpulane-fake-nvml (gpulane-testkit depends on it)",
            test.display()
        )
    })
}
