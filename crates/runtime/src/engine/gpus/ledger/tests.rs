//! Looks go in, findings come out.

use gpulane_gpu::{MemoryReading, ProcessReading};
use gpulane_model::Bytes;

use super::*;

const MIB: u64 = 1 << 20;
const JOB: JobId = JobId(0);
const OTHER: JobId = JobId(1);

/// A GPU of 24 GiB on which these processes hold so many MiB, and `ghost` more are used.
fn glance(processes: &[(u32, u64)], ghost: u64) -> Glance {
    let total = 24 << 30;
    let used = processes.iter().map(|(_, mib)| mib * MIB).sum::<u64>() + ghost * MIB;
    let memory = MemoryReading {
        total: Bytes(total),
        reserved: Bytes(0),
        used: Bytes(used),
        free: Bytes(total - used),
    };
    let process =
        |(pid, mib): &(u32, u64)| ProcessReading { pid: *pid, memory: Some(Bytes(mib * MIB)), compute: true };
    Glance { memory, load: Some(50), processes: processes.iter().map(process).collect() }
}

fn look(ledger: &mut Ledger, now: u64, processes: &[(u32, u64, Owner)], ghost: u64) -> Vec<Finding> {
    let held: Vec<(u32, u64)> = processes.iter().map(|(pid, mib, _)| (*pid, *mib)).collect();
    let owners: Vec<Owner> = processes.iter().map(|(_, _, owner)| *owner).collect();
    ledger.look(&Seen { gpu: 0, glance: &glance(&held, ghost), owners: &owners, workers: None });
    ledger.findings(Millis(now))
}

fn following(jobs: &[JobId]) -> Ledger {
    let mut ledger = Ledger::new(1, true);
    for job in jobs {
        ledger.follow(*job, Attempt(1), vec![0], Millis(0));
    }
    ledger
}

#[test]
fn an_idle_gpu_is_free_and_a_used_one_is_not() {
    let mut ledger = Ledger::new(1, true);
    let (empty, used, ghost) = (glance(&[], 3), glance(&[(7, 300)], 0), glance(&[], 2000));
    let idle = ledger.inspect(&Seen { gpu: 0, glance: &empty, owners: &[], workers: None });
    assert!(matches!(idle, Idle::Free { .. }));
    let strangers = ledger.inspect(&Seen { gpu: 0, glance: &used, owners: &[Owner::Foreign], workers: None });
    assert_eq!(strangers, Idle::Occupied { pids: vec![7], bytes: 300 * MIB });
    let haunted = ledger.inspect(&Seen { gpu: 0, glance: &ghost, owners: &[], workers: None });
    assert_eq!(haunted, Idle::Occupied { pids: vec![], bytes: 2000 * MIB });
    let mut careless = Ledger::new(1, false);
    let idle = careless.inspect(&Seen { gpu: 0, glance: &used, owners: &[Owner::Foreign], workers: None });
    assert!(matches!(idle, Idle::Free { .. }));
}

#[test]
fn the_peak_of_one_alone_is_what_the_whole_gpu_says() {
    let mut ledger = following(&[JOB]);
    let found = look(&mut ledger, 100, &[(7, 900, Owner::Job(JOB))], 5);
    assert_eq!(found, [Finding::Peak { job: JOB, attempt: Attempt(1), peak: 905 * MIB, settled: false }]);
    // Less later does not change it, and what is known is not said again.
    assert_eq!(look(&mut ledger, 200, &[(7, 400, Owner::Job(JOB))], 5), []);
}

#[test]
fn peaks_of_several_are_told_apart_by_their_processes() {
    let mut ledger = following(&[JOB, OTHER]);
    let held = [(7, 900, Owner::Job(JOB)), (8, 300, Owner::Job(OTHER)), (9, 100, Owner::Job(OTHER))];
    let mut peaks: Vec<u64> = look(&mut ledger, 100, &held, 20)
        .into_iter()
        .filter_map(|finding| match finding {
            Finding::Peak { peak, .. } => Some(peak / MIB),
            _ => None,
        })
        .collect();
    peaks.sort_unstable();
    assert_eq!(peaks, [400, 900]);
}

#[test]
fn memory_is_back_when_nothing_of_it_is_left() {
    let mut ledger = following(&[JOB]);
    look(&mut ledger, 100, &[(7, 900, Owner::Job(JOB))], 0);
    ledger.leave(JOB, Millis(200));
    assert_eq!(look(&mut ledger, 210, &[(7, 900, Owner::Job(JOB))], 0), [], "its process still holds it");
    assert_eq!(look(&mut ledger, 220, &[], 900), [], "nobody is seen to hold it, but it is not back");
    let back = Finding::Returned { job: JOB, attempt: Attempt(1), peak: Some(900 * MIB) };
    assert_eq!(look(&mut ledger, 230, &[], 3), [back]);
    assert!(ledger.to_look_at().is_empty());
}

#[test]
fn memory_that_does_not_come_back_holds_the_gpu_until_it_does() {
    let mut ledger = following(&[JOB]);
    ledger.leave(JOB, Millis(0));
    assert_eq!(look(&mut ledger, 10, &[], 900), []);
    let late = look(&mut ledger, 60_000, &[], 900);
    let held = Finding::Held { gpu: 0, pids: vec![], bytes: 900 * MIB };
    assert_eq!(late, [held, Finding::Returned { job: JOB, attempt: Attempt(1), peak: None }]);
    assert_eq!(ledger.to_look_at(), [0], "it is still watched");
    assert_eq!(look(&mut ledger, 61_000, &[], 900), []);
    assert_eq!(look(&mut ledger, 62_000, &[], 0), [Finding::Cleared { gpu: 0 }]);
}

#[test]
fn a_stranger_who_came_meanwhile_holds_the_gpu_unless_ignored() {
    for (mind, findings) in [(true, 2), (false, 1)] {
        let mut ledger = Ledger::new(1, mind);
        ledger.follow(JOB, Attempt(1), vec![0], Millis(0));
        ledger.leave(JOB, Millis(0));
        let found = look(&mut ledger, 60_000, &[(42, 500, Owner::Foreign)], 0);
        assert_eq!(found.len(), findings, "{found:?}");
    }
}

#[test]
fn what_outlived_its_job_is_found() {
    let mut ledger = following(&[JOB]);
    let found = look(&mut ledger, 100, &[(7, 10, Owner::Job(JOB)), (8, 10, Owner::Stray)], 0);
    assert!(found.contains(&Finding::Stray(8)));
}

#[test]
fn behind_a_pid_namespace_the_whole_gpu_tells() {
    let mut ledger = following(&[JOB]);
    assert_eq!(look(&mut ledger, 100, &[(7, 2000, Owner::Unknown)], 0), [], "it may yet grow");
    assert!(ledger.is_namespaced());
    ledger.leave(JOB, Millis(200));
    assert_eq!(look(&mut ledger, 210, &[(7, 2000, Owner::Unknown)], 0), []);
    let back = Finding::Returned { job: JOB, attempt: Attempt(1), peak: Some(2000 * MIB) };
    assert_eq!(look(&mut ledger, 220, &[], 0), [back]);
}

#[test]
fn a_settled_job_says_so_once() {
    let mut ledger = following(&[JOB]);
    let mut settled = 0;
    for now in (0..20_000).step_by(100) {
        for finding in look(&mut ledger, now, &[(7, 900, Owner::Job(JOB))], 0) {
            settled += u32::from(matches!(finding, Finding::Peak { settled: true, .. }));
        }
    }
    assert_eq!(settled, 1);
}

#[test]
fn a_gpu_that_cannot_be_seen_keeps_nobody_waiting() {
    let mut ledger = following(&[JOB]);
    look(&mut ledger, 100, &[(7, 900, Owner::Job(JOB))], 0);
    ledger.leave(JOB, Millis(200));
    ledger.lose_sight(0);
    let back = Finding::Returned { job: JOB, attempt: Attempt(1), peak: Some(900 * MIB) };
    assert_eq!(ledger.findings(Millis(210)), [back]);
}

#[test]
fn where_no_process_is_listed_neighbours_are_not_taken_for_ghosts() {
    let mut ledger = following(&[JOB, OTHER]);
    look(&mut ledger, 100, &[], 4000);
    assert!(ledger.is_namespaced());
    ledger.leave(JOB, Millis(200));
    let back = Finding::Returned { job: JOB, attempt: Attempt(1), peak: None };
    assert_eq!(look(&mut ledger, 210, &[], 2000), [back], "the other still holds the rest");
}

/// What the GPU was seen to do for each of two jobs on it.
fn beats(load: Option<u32>, workers: Option<&[Owner]>, jobs: u32) -> Vec<bool> {
    let mut ledger = Ledger::new(1, true);
    for job in 0..jobs {
        ledger.follow(JobId(job), Attempt(1), vec![0], Millis(0));
    }
    let owners: Vec<Owner> = (0..jobs).map(|job| Owner::Job(JobId(job))).collect();
    let held: Vec<(u32, u64)> = (0..jobs).map(|job| (job + 1, 100)).collect();
    let glance = Glance { load, ..glance(&held, 0) };
    let mut told = Vec::new();
    // The first look sees memory move.
    for _ in 0..2 {
        ledger.look(&Seen { gpu: 0, glance: &glance, owners: &owners, workers });
        ledger.findings(Millis(1000));
        told = ledger.beats();
    }
    told.sort_by_key(|beat| beat.job);
    told.into_iter().map(|beat| beat.beats).collect()
}

#[test]
fn a_busy_gpu_is_a_sign_of_life_only_of_those_it_works_for() {
    let first = [Owner::Job(JobId(0))];
    assert_eq!(beats(Some(40), Some(&first), 2), [true, false]);
    assert_eq!(beats(Some(40), None, 2), [true, true]);
    assert_eq!(beats(Some(40), Some(&[Owner::Unknown]), 2), [true, true]);
    assert_eq!(beats(Some(40), Some(&[]), 1), [true]);
    assert_eq!(beats(Some(0), None, 2), [false, false]);
    assert_eq!(beats(None, None, 1), [false]);
}
