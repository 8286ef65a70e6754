//! Whose a process is that nobody claims.

use super::*;

#[test]
fn what_bears_no_mark_is_a_stray_only_where_neither_job_nor_standby_could_have_started_it() {
    let mut roster = Roster::new("/no/such/run".to_owned());
    // Without a mark of any run, as a helper with an environment of its own.
    let (unmarked, standby) = (rustix::process::getpid(), Pid::INIT);
    assert!(roster.is_stray(unmarked, Owner::Nobody));
    roster.attend(standby, "train/standby-1".to_owned());
    assert!(!roster.is_stray(unmarked, Owner::Nobody), "the import of one that waits may need it");
    assert!(!roster.is_stray(unmarked, Owner::Unclear), "or it is the job's that begins");
    roster.dismiss(standby);
    assert!(roster.is_stray(unmarked, Owner::Nobody));
}
