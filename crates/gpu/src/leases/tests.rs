//! Leases within one process: locks are between descriptions of a file, so several runs in here exclude each other as
//! well as processes do. What happens to processes is in `tests/leases.rs`.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use super::survey::survey_of;
use super::*;

struct Shared {
    root: TempDir,
}

impl Shared {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("leases")
    }

    /// The next run to begin.
    fn run(&self, name: &str) -> Leases {
        Leases::open_in(&self.path(), &PathBuf::from("/runs").join(name)).unwrap()
    }
}

fn taken(run: &mut Leases, uuid: &str) -> Lease {
    match run.try_take(uuid).unwrap() {
        Take::Taken(lease) => lease,
        other => panic!("{uuid}: {other:?}"),
    }
}

fn is_busy(run: &mut Leases, uuid: &str) -> bool {
    matches!(run.try_take(uuid).unwrap(), Take::Busy { .. })
}

fn is_readable(run: &Leases) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(run.changes().unwrap(), PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).unwrap() == 1
}

fn gpus(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_gpu_is_one_runs_alone_until_it_lets_go() {
    let shared = Shared::new();
    let (mut first, mut second) = (shared.run("first"), shared.run("second"));
    let lease = taken(&mut first, "GPU-1");
    assert_eq!(lease.uuid(), "GPU-1");
    let Take::Busy { holder: Some(holder) } = second.try_take("GPU-1").unwrap() else {
        panic!("it is taken")
    };
    assert_eq!((holder.pid, holder.run), (std::process::id(), PathBuf::from("/runs/first")));
    drop(taken(&mut second, "GPU-2"));
    assert!(is_busy(&mut first, "GPU-1"), "not even its own run gets it twice");
    drop(lease);
    drop(taken(&mut second, "GPU-1"));
}

#[test]
fn whoever_inherited_a_lease_keeps_it() {
    let shared = Shared::new();
    let (mut first, mut second) = (shared.run("first"), shared.run("second"));
    let lease = taken(&mut first, "GPU-1");
    let inherited = lease.as_fd().try_clone_to_owned().unwrap();
    drop(lease);
    assert!(is_busy(&mut second, "GPU-1"));
    drop(inherited);
    drop(taken(&mut second, "GPU-1"));
}

#[test]
fn who_began_first_goes_first() {
    let shared = Shared::new();
    let (mut first, mut second, mut third) = (shared.run("first"), shared.run("second"), shared.run("third"));
    second.want(&gpus(&["GPU-1"])).unwrap();
    first.want(&gpus(&["GPU-1", "GPU-2"])).unwrap();
    let before = |run: &mut Leases, uuid: &str| match run.try_take(uuid).unwrap() {
        Take::NotYourTurn { before } => before,
        other => panic!("{other:?}"),
    };
    assert_eq!((before(&mut third, "GPU-1"), before(&mut third, "GPU-2")), (2, 1));
    assert_eq!(before(&mut second, "GPU-1"), 1);
    assert!(second.older_waits_for("GPU-1") && !first.older_waits_for("GPU-1"));
    drop(taken(&mut third, "GPU-3"));
    drop(taken(&mut first, "GPU-1"));
    // A change of mind replaces the ticket and keeps the place.
    first.want(&gpus(&["GPU-2"])).unwrap();
    drop(taken(&mut second, "GPU-1"));
    assert_eq!(before(&mut second, "GPU-2"), 1);
    first.stop_wanting();
    drop(second);
    drop(taken(&mut third, "GPU-1"));
    let tickets = directory::names(&third.dir.queue);
    assert!(!tickets.iter().any(|name| name.ends_with(".ticket")), "{tickets:?}");
}

#[test]
fn to_want_the_same_again_does_nothing() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    run.want(&gpus(&["GPU-1"])).unwrap();
    let tickets = || directory::names(&run.dir.queue);
    let before = tickets();
    let mut run = run;
    run.want(&gpus(&["GPU-1"])).unwrap();
    assert_eq!(directory::names(&run.dir.queue), before);
}

#[test]
fn waiters_are_woken_by_holders_and_older_waiters_but_not_by_each_other() {
    let shared = Shared::new();
    let (mut holder, mut older, mut waiter) =
        (shared.run("holder"), shared.run("older"), shared.run("waiter"));
    assert!(waiter.changes().is_none());
    let lease = taken(&mut holder, "GPU-1");
    waiter.want(&gpus(&["GPU-1"])).unwrap();
    older.want(&gpus(&["GPU-1"])).unwrap();
    assert!(matches!(waiter.try_take("GPU-1").unwrap(), Take::NotYourTurn { .. }));
    assert!(is_busy(&mut older, "GPU-1"));
    assert!(!is_readable(&waiter));
    drop(lease);
    assert!(is_readable(&waiter));
    waiter.clear_changes();
    assert!(!is_readable(&waiter));
    older.stop_wanting();
    assert!(is_readable(&waiter));
    drop(taken(&mut waiter, "GPU-1"));
}

#[test]
fn what_the_dead_left_behind_is_not_believed_and_goes_away() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    let ticket = shared.path().join("queue/00000000000000000001-7-1.ticket");
    let text = r#"{"pid":7,"user":"x","run":"/r","gpus":["GPU-1"],"since":1}"#;
    fs::write(&ticket, text).unwrap();
    let holder = shared.path().join("GPU-1.7.holder");
    fs::write(&holder, r#"{"gpu":"GPU-1","pid":7,"user":"x","run":"/r","since":1}"#).unwrap();
    assert_eq!(survey_of(&shared.path()), Survey::default());
    let _lease = taken(&mut run, "GPU-1");
    assert!(!ticket.exists() && !holder.exists());
}

#[test]
fn a_survey_names_holders_and_waiters() {
    let shared = Shared::new();
    assert_eq!(survey_of(&shared.path()), Survey::default());
    let (mut first, mut second) = (shared.run("first"), shared.run("second"));
    let lease = taken(&mut first, "GPU-1");
    second.want(&gpus(&["GPU-1", "GPU-2"])).unwrap();
    let seen = survey_of(&shared.path());
    let [(uuid, holder)] = &seen.leases[..] else { panic!("{seen:?}") };
    assert_eq!((uuid.as_str(), holder.run.to_str()), ("GPU-1", Some("/runs/first")));
    assert_eq!(holder.user, gpulane_files::user_name(rustix::process::geteuid().as_raw()));
    let [ticket] = &seen.waiting[..] else { panic!("{seen:?}") };
    assert_eq!((ticket.run.to_str(), &ticket.gpus), (Some("/runs/second"), &gpus(&["GPU-1", "GPU-2"])));
    // Its engine was killed, its job lives: still leased, and still by that run.
    let note = shared.path().join(format!("GPU-1.{}.holder", std::process::id()));
    let text = fs::read(&note).unwrap();
    let job = lease.as_fd().try_clone_to_owned().unwrap();
    drop(lease);
    fs::write(&note, text).unwrap();
    assert_eq!(survey_of(&shared.path()).leases, seen.leases);
    let Take::Busy { holder: Some(last) } = first.try_take("GPU-1").unwrap() else {
        panic!("the job has it")
    };
    assert_eq!(last, seen.leases[0].1);
    drop(job);
    assert_eq!(survey_of(&shared.path()).leases, []);
}

#[test]
fn all_users_can_share_whatever_the_umask() {
    let shared = Shared::new();
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let mut run = shared.run("run");
    let lease = taken(&mut run, "GPU-1");
    run.want(&gpus(&["GPU-2"])).unwrap();
    rustix::process::umask(umask);
    let mode = |name: &str| fs::metadata(shared.path().join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode(""), mode("queue")), (0o1777, 0o1777));
    assert_eq!(mode("GPU-1.lock"), 0o644);
    assert_eq!(mode(&format!("GPU-1.{}.holder", std::process::id())), 0o644);
    drop(lease);
    let left: Vec<_> = directory::names(&run.dir.files);
    assert_eq!(left, ["GPU-1.lock", "queue"]);
}

#[test]
fn a_directory_that_others_could_tamper_with_is_refused() {
    let shared = Shared::new();
    fs::create_dir(shared.path()).unwrap();
    let mode = |mode| fs::set_permissions(shared.path(), fs::Permissions::from_mode(mode)).unwrap();
    let open = || Leases::open_in(&shared.path(), &PathBuf::from("/r"));
    mode(0o777);
    assert!(open().unwrap_err().to_string().contains("sticky"));
    mode(0o1777);
    assert!(open().is_ok());
    let link = shared.root.path().join("link");
    symlink(shared.path(), &link).unwrap();
    assert!(Leases::open_in(&link, &PathBuf::from("/r")).unwrap_err().to_string().contains("link"));
}

#[test]
fn what_is_not_a_plain_file_is_refused_and_not_waited_for() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    let victim = shared.root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, shared.path().join("GPU-1.lock")).unwrap();
    assert!(run.try_take("GPU-1").is_err());
    let pipe = shared.path().join("GPU-2.lock");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
    assert!(run.try_take("GPU-2").is_err());
    // Such things in the place of a ticket or a note are passed over.
    symlink(&victim, shared.path().join("queue/00000000000000000001-7-1.ticket")).unwrap();
    symlink(&victim, shared.path().join(format!("GPU-3.{}.holder", std::process::id()))).unwrap();
    drop(taken(&mut run, "GPU-3"));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_lock_file_that_was_tidied_away_is_no_lease() {
    let shared = Shared::new();
    let (mut first, mut second) = (shared.run("first"), shared.run("second"));
    drop(taken(&mut first, "GPU-1"));
    let opened = first.dir.lock_file("GPU-1.lock").unwrap();
    fs::remove_file(shared.path().join("GPU-1.lock")).unwrap();
    assert!(!first.dir.still_there("GPU-1.lock", &opened).unwrap());
    let _lease = taken(&mut second, "GPU-1");
    assert!(!first.dir.still_there("GPU-1.lock", &opened).unwrap());
    assert!(is_busy(&mut first, "GPU-1"));
}

#[test]
fn what_stands_in_the_place_of_a_lock_is_named_with_its_owner() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    fs::create_dir(shared.path().join("GPU-1.lock")).unwrap();
    symlink("elsewhere", shared.path().join("GPU-2.lock")).unwrap();
    for gpu in ["GPU-1", "GPU-2"] {
        let error = lease::take(&run.dir, gpu, &run.me).unwrap_err().to_string();
        assert!(error.contains(&format!("{gpu}.lock")) && error.contains("it belongs to "), "{error}");
    }
    drop(taken(&mut run, "GPU-3"));
}

#[test]
fn odd_uuids_stay_in_the_directory() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    let lease = taken(&mut run, "MIG-GPU-1/../../x");
    assert_eq!(survey_of(&shared.path()).leases[0].0, lease.uuid());
    assert!(directory::names(&run.dir.files).contains(&"MIG-GPU-1_______x.lock".to_owned()));
}

/// A ticket that another process would hold, as anybody could write one.
fn forged(shared: &Shared, name: &str, user: &str) -> fs::File {
    let path = shared.path().join("queue").join(name);
    let text = format!(r#"{{"pid":7,"user":"{user}","run":"/r","gpus":["GPU-1"],"since":1}}"#);
    fs::write(&path, text).unwrap();
    let file = fs::File::open(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

#[test]
fn a_waiter_that_does_not_answer_is_passed_over_and_keeps_its_place() {
    let shared = Shared::new();
    let (mut stopped, mut second, mut third) =
        (shared.run("stopped"), shared.run("second"), shared.run("third"));
    stopped.want(&gpus(&["GPU-1"])).unwrap();
    second.want(&gpus(&["GPU-1"])).unwrap();
    (second.patience, third.patience) = (Duration::from_mins(1), Duration::from_millis(30));
    let turn = |run: &mut Leases| matches!(run.try_take("GPU-1").unwrap(), Take::Taken(_));
    assert!(!turn(&mut third), "at first sight all count");
    let begun = std::time::Instant::now();
    while !turn(&mut third) {
        assert!(begun.elapsed() < Duration::from_secs(30), "it waits for one that will never answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!turn(&mut second), "who is more patient still waits");
    assert!(!third.older_waits_for("GPU-1"), "nothing is given back for it either");
    // It is awake again: it has the place it had.
    while third.older_for("GPU-1") == 0 {
        stopped.want(&gpus(&["GPU-1"])).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    assert!(!turn(&mut third));
    assert!(turn(&mut stopped));
}

#[test]
fn nobody_gets_ahead_by_claiming_to_have_come_earlier() {
    let shared = Shared::new();
    let mut run = shared.run("run");
    // The kernel's clock for files runs in steps.
    let probe = shared.root.path().join("probe");
    let stamp = || {
        fs::write(&probe, "").unwrap();
        directory::changed_at(&rustix::fs::stat(&probe).unwrap())
    };
    while stamp() <= run.place.start {
        std::thread::yield_now();
    }
    let _forged = forged(&shared, "00000000000000000001-7-1.ticket", "ada");
    drop(taken(&mut run, "GPU-1"));
    let mut later = shared.run("later");
    assert!(
        matches!(later.try_take("GPU-1").unwrap(), Take::NotYourTurn { before: 1 }),
        "it did come before this one"
    );
}

#[test]
fn whose_a_ticket_is_the_file_system_says() {
    let shared = Shared::new();
    let _run = shared.run("run");
    let _forged = forged(&shared, "00000000000000000001-7-1.ticket", "ada");
    let seen = survey_of(&shared.path());
    assert_eq!(seen.waiting[0].user, gpulane_files::user_name(rustix::process::geteuid().as_raw()));
}

#[test]
fn what_is_removed_again_and_again_is_told_at_last() {
    let (mut tries, file) = (0, PathBuf::from("/leases/GPU-1.lock"));
    let mut never = || -> std::io::Result<Option<()>> {
        tries += 1;
        assert!(tries < 1000, "for ever");
        Ok(None)
    };
    let said = directory::insist(&file, &mut never).unwrap_err().to_string();
    assert!(said.contains("/leases/GPU-1.lock") && said.contains("/run/gpulane/leases"), "{said}");
    assert_eq!(tries, 16);
}

#[test]
fn a_lease_whose_lock_was_removed_is_taken_again() {
    let shared = Shared::new();
    let (mut first, mut second) = (shared.run("first"), shared.run("second"));
    let mut lease = taken(&mut first, "GPU-1");
    assert_eq!(lease.look(&first).unwrap(), Standing::Held);
    fs::remove_file(shared.path().join("GPU-1.lock")).unwrap();
    assert!(matches!(lease.look(&first).unwrap(), Standing::Renewed { .. }));
    assert_eq!(lease.look(&first).unwrap(), Standing::Held);
    let holders = survey_of(&shared.path()).leases.len();
    let notes = fs::read_dir(shared.path()).unwrap().flatten();
    let notes = notes.filter(|entry| entry.file_name().to_string_lossy().ends_with(".holder")).count();
    assert_eq!((holders, notes), (1, 1), "the note of the lock that is gone went with it");
    assert!(is_busy(&mut second, "GPU-1"));
    // The whole directory.
    fs::remove_dir_all(shared.path()).unwrap();
    assert!(matches!(lease.look(&first).unwrap(), Standing::Renewed { .. }));
    assert!(is_busy(&mut second, "GPU-1"), "the second run goes on in the new directory");
    // Another was quicker.
    fs::remove_file(shared.path().join("GPU-1.lock")).unwrap();
    let other = taken(&mut second, "GPU-1");
    assert!(matches!(lease.look(&first).unwrap(), Standing::Taken { holder: Some(_) }));
    drop(other);
    assert!(matches!(lease.look(&first).unwrap(), Standing::Renewed { .. }));
}

#[test]
fn a_directory_made_by_root_for_all_is_preferred() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("leases");
    assert_eq!(directory::preferred(&dir), None);
    fs::create_dir_all(dir.join("queue")).unwrap();
    let modes = |mode| {
        for dir in [&dir, &dir.join("queue")] {
            fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0o1777);
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(directory::preferred(&dir).is_some(), is_root, "whoever else made it could remove it");
    modes(0o777);
    assert_eq!(directory::preferred(&dir), None);
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize, usize),
    Release(usize),
    Want(usize, Vec<usize>),
    StopWanting(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (run, gpu) = (0..4_usize, 0..3_usize);
    let step = prop_oneof![
        4 => (run.clone(), gpu.clone()).prop_map(|(run, gpu)| Step::Take(run, gpu)),
        2 => gpu.clone().prop_map(Step::Release),
        2 => (run.clone(), prop::collection::vec(gpu, 0..3)).prop_map(|(run, gpus)| Step::Want(run, gpus)),
        1 => run.prop_map(Step::StopWanting),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever runs do, the answers are those of a table with one holder per GPU and one wish list per run.
    #[test]
    fn answers_are_those_of_a_simple_table(steps in steps()) {
        let shared = Shared::new();
        let mut runs: Vec<Leases> = (0..4).map(|run| shared.run(&run.to_string())).collect();
        let mut held: [Option<Lease>; 3] = [None, None, None];
        let mut wanted: [Vec<usize>; 4] = Default::default();
        let name = |gpu: usize| format!("GPU-{gpu}");
        for step in steps {
            match step {
                Step::Take(run, gpu) => {
                    let older = wanted[..run].iter().filter(|wanted| wanted.contains(&gpu)).count();
                    let answer = runs[run].try_take(&name(gpu)).unwrap();
                    match answer {
                        Take::NotYourTurn { before } => prop_assert_eq!(before as usize, older),
                        Take::Busy { holder } => {
                            prop_assert!(older == 0 && held[gpu].is_some() && holder.is_some());
                        }
                        Take::Taken(lease) => {
                            prop_assert!(older == 0 && held[gpu].is_none());
                            held[gpu] = Some(lease);
                        }
                    }
                }
                Step::Release(gpu) => held[gpu] = None,
                Step::Want(run, gpus) => {
                    let names: Vec<String> = gpus.iter().map(|gpu| name(*gpu)).collect();
                    runs[run].want(&names).unwrap();
                    wanted[run] = gpus;
                }
                Step::StopWanting(run) => {
                    runs[run].stop_wanting();
                    wanted[run].clear();
                }
            }
            let seen = survey_of(&shared.path());
            prop_assert_eq!(seen.leases.len(), held.iter().flatten().count());
        }
    }
}

#[test]
fn many_at_once_take_turns_and_all_come_to_an_end() {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    const TURNS: u32 = 40;
    let shared = Shared::new();
    let uuids = gpus(&["GPU-1", "GPU-2"]);
    let in_use = [AtomicBool::new(false), AtomicBool::new(false)];
    let turns = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let (shared, uuids, in_use, turns) = (&shared, &uuids, &in_use, &turns);
            scope.spawn(move || {
                // All meet in a directory that none of them finds ready.
                let mut run = shared.run(name);
                let mut left = TURNS;
                while left > 0 {
                    run.clear_changes();
                    run.want(uuids).unwrap();
                    for (uuid, in_use) in uuids.iter().zip(in_use) {
                        let Take::Taken(lease) = run.try_take(uuid).unwrap() else { continue };
                        assert!(!in_use.swap(true, Ordering::SeqCst), "{uuid} is used twice");
                        left = left.saturating_sub(1);
                        turns.fetch_add(1, Ordering::SeqCst);
                        std::thread::yield_now();
                        in_use.store(false, Ordering::SeqCst);
                        drop(lease);
                    }
                    let changes = PollFd::from_borrowed_fd(run.changes().unwrap(), PollFlags::IN);
                    let timer = Timespec::try_from(Duration::from_millis(5)).unwrap();
                    poll(&mut [changes], Some(&timer)).unwrap();
                }
            });
        }
    });
    assert!(turns.load(Ordering::SeqCst) >= 6 * TURNS);
    assert_eq!(survey_of(&shared.path()), Survey::default());
}
