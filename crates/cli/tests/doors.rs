//! A shared machine with a user who means harm: where a run is refused, what of another's run is shown, and what nobody else can read.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test fails by panicking

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use gpulane_testkit::{Finished, Gpulane};

/// Who runs gpulane.
const VICTIM: u32 = 65_101;
/// Who shares the machine.
const HOSTILE: u32 = 65_102;
/// A group they are both in, perhaps.
const GROUP: u32 = 65_200;

fn gpulane() -> Gpulane {
    Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
}

fn victim(test: &str) -> Option<Gpulane> {
    gpulane().as_user(test, VICTIM)
}

/// A directory in the workspace with this owner and mode.
fn directory(gpulane: &Gpulane, name: &str, owner: u32, mode: u32) -> PathBuf {
    let path = gpulane.workspace.path().join(name);
    fs::create_dir(&path).unwrap();
    chown(&path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn run_in(gpulane: &Gpulane, dir: &str) -> Finished {
    gpulane.call(&["run", "--gpus", "none", "--run-dir", dir, "--", "true"])
}

fn assert_refused(finished: &Finished, why: &str) {
    assert_eq!(finished.code, 2, "{}", finished.stderr);
    assert!(finished.stderr.contains(why), "{}", finished.stderr);
    assert!(finished.stderr.contains("--trust-dir"), "what to do: {}", finished.stderr);
}

#[test]
fn a_run_directory_that_any_user_could_swap_is_refused() {
    let gpulane = gpulane();
    let open = gpulane.workspace.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(&run_in(&gpulane, "open/r"), "every user may write to");
    assert_refused(&run_in(&gpulane, "open/deeper/r"), "every user may write to");
    assert_refused(&run_in(&gpulane, "open"), "every user may write to");
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0, "nothing was made there");
    gpulane.workspace.file("model.py", "def f(batch):\n    return batch\n");
    gpulane.workspace.file("a.txt", "x");
    let map = ["map", "model.py:f", "a.txt", "--gpus", "none", "--decode", "text", "--out", "open/r"];
    assert_refused(&gpulane.call(&map), "every user may write to");
    // A directory like /tmp is as safe as its owners make what is in it.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(run_in(&gpulane, "open/r").code, 0);
    // Safe when it began is not enough.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(&gpulane.call(&["resume", "open/r"]), "every user may write to");
    assert_eq!(gpulane.call(&["status", "open/r"]).code, 0, "to look at it executes nothing");
}

#[test]
fn a_run_directory_below_another_users_is_refused() {
    let test = "a_run_directory_below_another_users_is_refused";
    let Some(gpulane) = victim(test) else { return };
    let theirs = directory(&gpulane, "theirs", HOSTILE, 0o755);
    let mine = theirs.join("mine");
    fs::create_dir(&mine).unwrap();
    chown(&mine, Some(VICTIM), Some(VICTIM)).unwrap();
    assert_refused(&run_in(&gpulane, "theirs/mine"), "belongs to another user");
    assert_refused(&run_in(&gpulane, "theirs/mine/r"), "belongs to another user");
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
    // The directory itself.
    directory(&gpulane, "gift", HOSTILE, 0o777);
    assert_refused(&run_in(&gpulane, "gift"), "belongs to another user");
}

#[test]
fn a_link_that_another_user_made_is_not_followed() {
    let test = "a_link_that_another_user_made_is_not_followed";
    let Some(gpulane) = victim(test) else { return };
    let sticky = directory(&gpulane, "sticky", 0, 0o1777);
    directory(&gpulane, "mine", VICTIM, 0o700);
    let link = sticky.join("link");
    symlink(gpulane.workspace.path().join("mine"), &link).unwrap();
    lchown(&link, Some(HOSTILE), Some(HOSTILE)).unwrap();
    assert_refused(&run_in(&gpulane, "sticky/link/r"), "is a link that another user");
    lchown(&link, Some(VICTIM), Some(VICTIM)).unwrap();
    assert_eq!(run_in(&gpulane, "sticky/link/r").code, 0, "one's own link is as good as a directory");
    assert!(gpulane.workspace.path().join("mine/r/plan.json").exists());
}

#[test]
fn what_a_person_vouches_for_is_used() {
    let test = "what_a_person_vouches_for_is_used";
    let Some(gpulane) = victim(test) else { return };
    directory(&gpulane, "theirs", HOSTILE, 0o777);
    let run = |dir: &str, extra: &[&str]| {
        let words = [&["run", "--gpus", "none", "--run-dir", dir], extra, &["--", "true"]].concat();
        gpulane.call(&words).code
    };
    assert_eq!(run("theirs/a", &[]), 2);
    assert_eq!(run("theirs/b", &["--trust-dir", "theirs"]), 0);
    assert_eq!(run("theirs/c", &["--trust-dir", "elsewhere"]), 2);
    let trusted = gpulane.workspace.path().join("theirs").display().to_string();
    let gpulane = gpulane.with([("GPULANE_TRUST_DIR".to_owned(), format!("/nowhere:{trusted}"))]);
    assert_eq!(run_in(&gpulane, "theirs/d").code, 0);
}

#[test]
fn root_trusts_whoever_called_sudo() {
    if !rustix::process::geteuid().is_root() {
        return gpulane_testkit::skip("root_trusts_whoever_called_sudo", "it needs root");
    }
    let gpulane = gpulane().with([("SUDO_UID".to_owned(), VICTIM.to_string())]);
    directory(&gpulane, "home", VICTIM, 0o755);
    let finished = run_in(&gpulane, "home/r");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

const ENTRY: &str = r#"
[[stage]]
name = "s"
entry = "where.py:main"
standbys = "off"
"#;

#[test]
fn where_a_group_may_write_code_comes_from_the_users_cache() {
    let test = "where_a_group_may_write_code_comes_from_the_users_cache";
    let Some(gpulane) = victim(test) else { return };
    let shared = directory(&gpulane, "shared", VICTIM, 0o770);
    chown(&shared, None, Some(GROUP)).unwrap();
    let script = "import sys\ndef main(config, out):\n    import gpulane\n    (out / 'where').write_text(gpulane.__file__)\n";
    gpulane.workspace.file("where.py", script);
    gpulane.workspace.file("plan.toml", ENTRY);
    let run = |dir: &str| gpulane.call(&["run", "plan.toml", "--gpus", "none", "--run-dir", dir]);
    let finished = run("shared/r");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert!(finished.stderr.contains("may be written to by the group"), "{}", finished.stderr);
    let of = |run: &Path| {
        fs::read_to_string(
            fs::read_dir(run.join("jobs/s")).unwrap().next().unwrap().unwrap().path().join("out/where"),
        )
    };
    let cache = gpulane.workspace.path().join("cache/gpulane");
    assert!(
        of(&shared.join("r")).unwrap().starts_with(cache.to_str().unwrap()),
        "{:?}",
        of(&shared.join("r"))
    );
    assert!(!shared.join("r/.python").exists(), "nothing that is imported lies where others could swap it");
    let kit = fs::read_dir(&cache)
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name().to_string_lossy().starts_with("kit-"));
    let package = kit.unwrap().path().join(".python");
    assert_eq!(fs::metadata(&package).unwrap().mode() & 0o777, 0o700);
    // What was changed there is set right again.
    fs::write(package.join("gpulane/_entry.py"), "raise SystemExit(9)\n").unwrap();
    assert_eq!(run("shared/r2").code, 0);
    // In a place of one's own it stays with the run, and nothing is said.
    let finished = run("own");
    assert!(finished.code == 0 && !finished.stderr.contains("group"), "{}", finished.stderr);
    assert!(of(&gpulane.workspace.path().join("own")).unwrap().contains("own/.python"));
}

/// What others could read or write in a run directory, beside what jobs themselves made.
fn open_to_others(root: &Path, mask: u32) -> Vec<String> {
    let mut open = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(path) = ahead.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        if !found.is_symlink() && found.mode() & mask != 0 {
            open.push(format!("{} {:o}", path.strip_prefix(root).unwrap().display(), found.mode() & 0o7777));
        }
        if found.is_dir() && !path.ends_with("out") && !path.ends_with("__pycache__") {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    open
}

#[test]
fn a_run_is_its_owners_alone_whatever_the_umask() {
    let gpulane = gpulane().after("umask 000");
    gpulane
        .workspace
        .file("where.py", "def main(config, out):\n    (out / 'x').write_text('x')\n    print('secret')\n");
    assert_eq!(gpulane.run(ENTRY, "none").code, 0);
    let root = gpulane.dir();
    assert_eq!(open_to_others(&root, 0o077), Vec::<String>::new());
    let out = fs::read_dir(root.join("jobs/s")).unwrap().next().unwrap().unwrap().path().join("out/x");
    assert_eq!(
        fs::metadata(out).unwrap().mode() & 0o777,
        0o666,
        "a job's output has the mode the job gave it"
    );
    // A map's parts are its results: those may be read, by whoever may enter, and written by nobody else.
    gpulane.workspace.file("model.py", "def f(batch):\n    return [1 for _ in batch]\n");
    gpulane.workspace.file("a.txt", "x");
    let map = [
        "map",
        "model.py:f",
        "a.txt",
        "--gpus",
        "none",
        "--lanes",
        "1",
        "--decode",
        "text",
        "--format",
        "jsonl",
        "--out",
        "m",
    ];
    let finished = gpulane.call(&map);
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    assert_eq!(open_to_others(&gpulane.workspace.path().join("m"), 0o022), Vec::<String>::new());
    // New directories on the way are not open either.
    assert_eq!(gpulane.call(&["run", "--gpus", "none", "--", "true"]).code, 0);
    assert_eq!(open_to_others(&gpulane.workspace.path().join("runs"), 0o022), Vec::<String>::new());
}

#[test]
fn root_in_a_container_uses_what_was_mounted_into_it() {
    let test = "root_in_a_container_uses_what_was_mounted_into_it";
    if !rustix::process::geteuid().is_root() {
        return gpulane_testkit::skip(test, "it needs root");
    }
    let mount = format!("mount -t tmpfs -o uid={HOSTILE},mode=0755 none mounted && exec \"$@\"");
    let Some(gpulane) = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"))
        .with([("KUBERNETES_SERVICE_HOST".to_owned(), "10.0.0.1".to_owned())])
        .unshare(test, &["--mount"])
    else {
        return;
    };
    directory(&gpulane, "mounted", 0, 0o755);
    let gpulane = gpulane.unshare(test, &["--mount", "sh", "-c", &mount, "sh"]).unwrap();
    let finished = run_in(&gpulane, "mounted/r");
    assert_eq!(finished.code, 0, "{}", finished.stderr);
}

#[test]
fn a_link_in_the_cache_is_not_followed() {
    let gpulane = gpulane();
    let plan = "[[stage]]\nname = \"s\"\ncommand = [\"true\"]\n";
    assert_eq!(gpulane.run(plan, "none").code, 0);
    let known = || {
        let fit = gpulane.call(&["fit", "plan.toml", "--gpus", "none", "--json"]).stdout;
        let fit: serde_json::Value = serde_json::from_str(&fit).unwrap();
        fit["stages"][0]["seconds_from"] == "seen"
    };
    assert!(known(), "what a run taught is known");
    let stages = gpulane.workspace.path().join("cache/gpulane/stages");
    let page = fs::read_dir(&stages).unwrap().next().unwrap().unwrap().path();
    let moved = gpulane.workspace.path().join("moved.json");
    fs::rename(&page, &moved).unwrap();
    symlink(&moved, &page).unwrap();
    assert!(!known(), "what lies behind a link is not");
}

#[test]
fn in_a_user_namespace_another_users_directory_is_none_of_ours() {
    let test = "in_a_user_namespace_another_users_directory_is_none_of_ours";
    for map in [&["unshare", "--user", "--map-root-user"][..], &["unshare", "--user", "--map-user=2000"]] {
        let Some(gpulane) = victim(test).and_then(|victim| victim.then(test, map)) else { return };
        // All that is not the victim's has the same owner there: root's own directories, and these.
        let run = run_in(&gpulane, "r");
        assert_eq!(run.code, 0, "below /tmp, {map:?}: {}", run.stderr);
        for (name, mode) in [("sticky", 0o1777), ("group", 0o2775)] {
            let theirs = directory(&gpulane, name, HOSTILE, mode);
            let mine = theirs.join("mine");
            fs::create_dir(&mine).unwrap();
            chown(&mine, Some(VICTIM), Some(VICTIM)).unwrap();
            assert_refused(&run_in(&gpulane, &format!("{name}/mine")), "user namespace cannot name");
            assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
        }
        directory(&gpulane, "gift", HOSTILE, 0o777);
        assert_refused(&run_in(&gpulane, "gift"), "user namespace cannot name");
        let trusted =
            ["run", "--gpus", "none", "--run-dir", "sticky/mine", "--trust-dir", "sticky", "--", "true"];
        assert_eq!(gpulane.call(&trusted).code, 0);
        let link = gpulane.workspace.path().join("sticky/link");
        symlink(gpulane.workspace.path().join("r"), &link).unwrap();
        lchown(&link, Some(HOSTILE), Some(HOSTILE)).unwrap();
        assert_refused(&run_in(&gpulane, "sticky/link/x"), "is a link that another user");
    }
}

/// An access list of tag, rights and id of each entry, as Linux keeps it.
fn set_access_list(path: &Path, entries: &[(u16, u16, u32)]) -> rustix::io::Result<()> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty())
}

#[test]
fn whoever_an_access_list_lets_write_is_named() {
    const NONE: u32 = u32::MAX;
    let test = "whoever_an_access_list_lets_write_is_named";
    let Some(gpulane) = victim(test) else { return };
    let shared = directory(&gpulane, "shared", VICTIM, 0o700);
    let list = |tag, id, mask| {
        let named = (tag, 7, id);
        let rest = [(0x04, 0, NONE), (0x10, mask, NONE), (0x20, 0, NONE)];
        let mut entries = vec![(0x01, 7, NONE), named];
        entries.extend(rest);
        entries.sort_unstable();
        set_access_list(&shared, &entries)
    };
    if let Err(error) = list(0x02, HOSTILE, 7) {
        return gpulane_testkit::skip(test, &format!("no access lists here: {error}"));
    }
    assert_eq!(fs::metadata(&shared).unwrap().mode() & 0o777, 0o770, "it looks like the user's own group");
    let note = |dir: &str| {
        let finished = run_in(&gpulane, dir);
        assert_eq!(finished.code, 0, "{}", finished.stderr);
        finished.stderr
    };
    let said = note("shared/user");
    assert!(said.contains(&format!("may be written to by the user `uid {HOSTILE}`")), "{said}");
    assert!(!shared.join("user/.python").exists());
    list(0x08, GROUP, 7).unwrap();
    let said = note("shared/group");
    assert!(said.contains(&format!("may be written to by the group `gid {GROUP}`")), "{said}");
    // Who is named and may not write, or is oneself, is no danger.
    list(0x02, HOSTILE, 5).unwrap();
    let said = note("shared/masked");
    assert!(!said.contains("may be written to"), "{said}");
    list(0x02, VICTIM, 7).unwrap();
    let said = note("shared/own");
    assert!(!said.contains("may be written to"), "{said}");
}

#[test]
fn a_plan_that_a_group_may_write_to_is_noted() {
    let test = "a_plan_that_a_group_may_write_to_is_noted";
    let Some(gpulane) = victim(test) else { return };
    assert_eq!(run_in(&gpulane, "r").code, 0);
    let root = gpulane.workspace.path().join("r");
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    chown(root.join("plan.json"), None, Some(GROUP)).unwrap();
    fs::set_permissions(root.join("plan.json"), fs::Permissions::from_mode(0o660)).unwrap();
    let said = gpulane.call(&["resume", "r"]).stderr;
    assert!(said.contains("plan.json may be written to by the group"), "{said}");
}
