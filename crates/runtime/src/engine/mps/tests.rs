//! Against a program of the same name that does as the real one, or refuses to.

use std::os::unix::fs::PermissionsExt;

use gpulane_testkit::{MPS_DAEMON, Workspace};

use super::*;

/// Ready, but hears neither `quit` nor TERM.
const STUBBORN: &str = r#"trap '' TERM
[ "$1" = -f ] || exec sleep 1000
sleep 1000 &
: > "$CUDA_MPS_PIPE_DIRECTORY/control"
while :; do sleep 0.01; done
"#;

struct Scene {
    root: Workspace,
}

impl Scene {
    fn new(script: &str) -> Self {
        let root = Workspace::new();
        root.program(PROGRAM, script);
        fs::create_dir(root.path().join("place")).unwrap();
        fs::create_dir(root.path().join("run")).unwrap();
        Self { root }
    }

    fn start(&self) -> io::Result<Mps> {
        let dir = RunDir::planned(&self.root.path().join("run")).unwrap();
        let gpus = ["GPU-a".to_owned(), "GPU-b".to_owned()];
        Mps::start_at(&dir, &gpus, self.root.path().join(PROGRAM), &[self.place()])
    }

    fn place(&self) -> PathBuf {
        self.root.path().join("place")
    }

    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// The servers, once there are any.
fn servers(mps: &Mps) -> Vec<Pid> {
    let begun = Instant::now();
    while begun.elapsed() < READY {
        let servers = mps.server_pids();
        if !servers.is_empty() {
            return servers;
        }
        std::thread::yield_now();
    }
    panic!("no server came");
}

fn is_gone(pid: Pid) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < READY {
        if tree::look(pid).is_none_or(|process| process.state == b'Z') {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[test]
fn it_comes_private_and_goes_without_a_trace() {
    let scene = Scene::new(MPS_DAEMON);
    let mut mps = scene.start().unwrap();
    assert!(mps.is_alive());
    let [(_, pipes), (_, logs)] = mps.environment();
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&pipes), mode(&logs)), (0o700, 0o700));
    assert_eq!(fs::read_to_string(Path::new(&logs).join("devices")).unwrap(), "GPU-a,GPU-b\n");
    let tag = tree::tag_of(mps.pid()).unwrap();
    assert_eq!((Path::new(&tag.run), tag.job.as_str()), (scene.root.path().join("run").as_path(), TAG));
    let servers = servers(&mps);
    mps.stop();
    assert!(!mps.is_alive());
    assert!(is_gone(mps.pid()) && servers.into_iter().all(is_gone));
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn one_that_will_not_go_is_made_to_and_its_server_with_it() {
    let scene = Scene::new(STUBBORN);
    let mps = scene.start().unwrap();
    let (pid, servers) = (mps.pid(), servers(&mps));
    drop(mps);
    assert!(is_gone(pid) && servers.into_iter().all(is_gone));
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn its_death_is_noticed_and_the_server_it_leaves_is_ended() {
    let scene = Scene::new(MPS_DAEMON);
    let mps = scene.start().unwrap();
    let servers = servers(&mps);
    rustix::process::kill_process(mps.pid(), Signal::KILL).unwrap();
    assert!(is_gone(mps.pid()));
    assert!(!mps.is_alive());
    drop(mps);
    assert!(servers.into_iter().all(is_gone));
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn one_that_cannot_start_says_where_its_logs_are() {
    let scene = Scene::new("echo no device >&2; exit 1\n");
    let error = scene.start().err().unwrap().to_string();
    let logs = scene.root.path().join("run/mps");
    assert!(error.contains(&logs.display().to_string()), "{error}");
    assert_eq!(fs::read_to_string(logs.join("daemon.log")).unwrap(), "no device\n");
    assert_eq!(scene.left(), [""; 0]);
}

#[test]
fn what_dead_engines_left_is_cleared_and_nothing_else() {
    let scene = Scene::new(MPS_DAEMON);
    let mut child = Command::new("/bin/true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let me = std::process::id();
    let folders =
        [format!("gpulane-mps-{dead}-1"), format!("gpulane-mps-{dead}-2"), format!("gpulane-mps-{me}-99")];
    for folder in folders.iter().map(String::as_str).chain(["gpulane-mps-", "other-1"]) {
        fs::create_dir_all(scene.place().join(folder).join("pipe")).unwrap();
    }
    // Of an engine that only seems dead: it is in another container.
    let elsewhere = File::create(scene.place().join(&folders[1]).join("lock")).unwrap();
    rustix::fs::flock(&elsewhere, rustix::fs::FlockOperation::LockExclusive).unwrap();
    drop(scene.start().unwrap());
    let mut left = scene.left();
    left.sort();
    let mut expected = vec![folders[1].clone(), folders[2].clone(), "gpulane-mps-".into(), "other-1".into()];
    expected.sort();
    assert_eq!(left, expected);
}

#[test]
fn a_place_that_will_not_do_is_passed_over() {
    let scene = Scene::new(MPS_DAEMON);
    let meeting = Meeting::make(&[scene.root.path().join("missing"), scene.place()]).unwrap();
    assert!(meeting.path().starts_with(scene.place()));
    meeting.leave();
    assert!(meeting::fits(Path::new("/run/user/1000")) && meeting::fits(Path::new("/tmp")));
    assert!(!meeting::fits(Path::new("run")) && !meeting::fits(Path::new(&"/long".repeat(13))));
}
