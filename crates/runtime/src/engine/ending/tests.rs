//! Whose a process is that nobody claims.

use super::*;

#[test]
fn what_bears_no_mark_is_a_stray_only_where_neither_job_nor_standby_could_have_started_it() {
    let mut roster = Roster::new("/no/such/run".to_owned());
    let standby = Pid::INIT;
    assert!(roster.is_stray(Owner::Nobody));
    roster.attend(standby, "train/standby-1".to_owned());
    assert!(!roster.is_stray(Owner::Nobody), "the import of one that waits may need it");
    assert!(!roster.is_stray(Owner::Unclear), "or it is the job's that begins");
    assert!(roster.is_stray(Owner::Past), "a job that is over needs nothing more");
    roster.dismiss(standby);
    assert!(roster.is_stray(Owner::Nobody));
}

/// As where `/proc` belongs to another PID namespace: the numbers are no child's of ours, or even another's.
#[test]
fn a_list_that_the_kernel_does_not_agree_with_is_read_once() {
    let mut list = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut list, b"1 2 3 ").unwrap();
    let mut roster = Roster::new("/no/such/run".to_owned());
    roster.children = Children::listed_in(list);
    assert!(!roster.sweep(), "none of them is ours");
    roster.end_all_children(std::time::Duration::from_mins(1));
}
