//! `memory = "auto"`: the first job is measured, then the rest is packed; and what takes more than it was given.

use gpulane_model::{Bytes, Known, Memory, Stage};

use crate::scene::{Story, packed, plan, share, stage, starts};

fn auto(name: &str, jobs: u32) -> Stage {
    stage(name, jobs, |stage| stage.memory = Memory::Auto)
}

#[test]
fn until_one_is_measured_each_has_a_gpu_then_they_are_packed_at_once() {
    let (mut run, told) = Story::begin(&plan(vec![auto("train", 13)]), packed(&[24]));
    assert_eq!(told, ["spawn train/0 #1 lane 0 gpus [0] cpus 8"]);
    run.spawned("train/0", 1);
    assert_eq!(run.waiting("train/1"), "needs a GPU to itself, none is empty; next in line");

    let told = run.peak("train/0", 1, 1000, true);
    assert_eq!(starts(&told).len(), 12, "all others beside it: {told:?}");
    assert_eq!(told[0], "spawn train/1 #1 lane 1 gpus [0] cpus 1 with about 1.3 GiB");
    assert_eq!(told[12], "train takes 1000 MiB as train/0 shows, 1.3 GiB reserved");
}

#[test]
fn at_its_first_sign_on_the_gpu_others_start_beside_it_on_a_guess() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 13)]), packed(&[24]));
    run.spawned("train/0", 1);
    let told = run.peak("train/0", 1, 14, false);
    assert_eq!(starts(&told).len(), 5, "4 GiB are guessed for each: {told:?}");
    assert_eq!(told[0], "spawn train/1 #1 lane 1 gpus [0] cpus 1 with about 4 GiB");
    assert_eq!(run.peak("train/0", 1, 900, false), [""; 0], "the guess still holds");
    let told = run.peak("train/0", 1, 1000, true);
    assert_eq!(starts(&told).len(), 7, "now it is known: {told:?}");
}

#[test]
fn who_has_no_room_after_the_measure_waits_again_at_no_cost() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 4)]), packed(&[24]));
    run.spawned("train/0", 1);
    run.peak("train/0", 1, 14, false);
    for job in ["train/1", "train/2", "train/3"] {
        run.spawned(job, 1);
    }
    run.peak("train/1", 1, 14, false);
    let told = run.peak("train/0", 1, 10 << 10, true);
    assert_eq!(
        told,
        ["train takes 10 GiB as train/0 shows, 11.2 GiB reserved", "kill train/3", "kill train/2"],
        "the youngest first, and not the one that is on the GPU already"
    );
    let told = run.signalled("train/3", 1, 9);
    assert!(told[0].contains("made room"), "{told:?}");
    assert_eq!(run.folded.job(run.job("train/3")).failures, 0);
}

#[test]
fn a_guess_that_is_outgrown_is_raised() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 9)]), packed(&[24]));
    run.spawned("train/0", 1);
    run.peak("train/0", 1, 14, false);
    let told = run.peak("train/0", 1, 3 << 10, false);
    assert!(told.iter().any(|line| line.contains("MemoryGuessed")), "{told:?}");
}

#[test]
fn one_that_ends_well_before_it_settles_is_measured_by_its_end() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 3)]), packed(&[24]));
    run.spawned("train/0", 1);
    let told = run.exited_with("train/0", 1, 0, 1000);
    assert_eq!(starts(&told), ["train/1@0", "train/2@1"]);
    assert_eq!(told[2], "train takes 1000 MiB as train/0 shows, 1.3 GiB reserved");
    run.published("train/0", 1);
    let status = &run.folded.job(run.job("train/0")).status;
    let peak = Some(1000 << 20);
    assert_eq!(*status, gpulane_model::JobStatus::Succeeded { seconds: 0.0, peak_vram: peak });
}

#[test]
fn a_failure_measures_nothing() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 3)]), packed(&[24]));
    run.spawned("train/0", 1);
    assert_eq!(starts(&run.exited_with("train/0", 1, 1, 1000)), ["train/1@0"]);
}

#[test]
fn what_an_earlier_run_tells_is_used_from_the_start() {
    let plan = plan(vec![auto("train", 4)]);
    let known = [Known { peak: Some(Bytes(10 << 30)), seconds: None }];
    let past = gpulane_model::RunState::new(&plan);
    let (run, told) = Story::resume_with(&plan, packed(&[24]), past, |core| core.with_known(&known));
    assert_eq!(starts(&told), ["train/0@0", "train/1@1"]);
    assert_eq!(told[2], "train takes 10 GiB as an earlier run shows, 11.2 GiB reserved");

    let (_, told) = Story::resume_with(&plan, packed(&[24]), run.folded, |core| core.with_known(&known));
    assert_eq!(told.len(), 2, "the journal has it; it is not said again: {told:?}");
}

#[test]
fn the_reservation_is_never_more_than_a_gpu_has() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 4)]), packed(&[24]));
    run.spawned("train/0", 1);
    let told = run.peak("train/0", 1, 23 << 10, true);
    assert_eq!(told, ["train takes 23 GiB as train/0 shows, 24 GiB reserved"]);
    run.exited("train/0", 1, 0);
    assert_eq!(run.waiting("train/2"), "needs a GPU to itself, none is empty; next in line");
}

#[test]
fn a_stage_that_grows_books_more_for_all_of_it() {
    let (mut run, _) = Story::begin(&plan(vec![auto("train", 9)]), packed(&[8]));
    run.spawned("train/0", 1);
    let told = run.peak("train/0", 1, 1024, true);
    assert_eq!(starts(&told).len(), 4, "1.4 GiB each: {told:?}");
    run.spawned("train/1", 1);
    assert_eq!(run.peak("train/1", 1, 1040, true), [""; 0], "2 % are not worth a word");
    assert_eq!(
        run.peak("train/1", 1, 2048, true),
        ["train/1 holds 2 GiB of 1.4 GiB reserved", "train takes 2 GiB as train/1 shows, 2.5 GiB reserved"]
    );
    assert_eq!(run.peak("train/1", 1, 2060, false), [""; 0], "said once");
    // Five of them have now booked more than there is: nobody joins until that fits.
    assert_eq!(starts(&run.succeed("train/0")), [""; 0]);
    assert_eq!(starts(&run.succeed("train/1")), [""; 0]);
    assert_eq!(starts(&run.succeed("train/2")), ["train/5@0"]);
}

#[test]
fn what_takes_more_than_its_author_wrote_is_noticed_and_the_rest_keeps_what_he_wrote() {
    let (mut run, told) = Story::begin(&plan(vec![share("train", 9, 4)]), packed(&[12]));
    assert_eq!(starts(&told).len(), 3);
    run.spawned("train/0", 1);
    assert_eq!(run.peak("train/0", 1, 6 << 10, true), ["train/0 holds 6 GiB of 4 GiB reserved"]);
    assert_eq!(starts(&run.succeed("train/1")), [""; 0], "6.9 and 4 are taken");
    let told = run.succeed("train/0");
    assert_eq!(starts(&told), ["train/3@0", "train/4@1"]);
    assert!(told[0].ends_with("with 4 GiB"), "{told:?}");
}

#[test]
fn each_stage_is_measured_by_itself() {
    let (mut run, told) = Story::begin(&plan(vec![auto("a", 3), auto("b", 3)]), packed(&[24, 24]));
    assert_eq!(starts(&told), ["a/0@0", "a/1@48"]);
    run.spawned("a/0", 1);
    let told = run.peak("a/0", 1, 4 << 10, true);
    assert_eq!(starts(&told), ["a/2@49"], "GPU 0 comes free for b/0, which nothing is known of");
    assert_eq!(starts(&run.succeed("a/0")), ["b/0@0"]);
}

#[test]
fn what_was_measured_on_a_larger_gpu_is_cut_to_what_there_is() {
    let plan = plan(vec![auto("train", 2)]);
    let (mut run, _) = Story::begin(&plan, packed(&[80]));
    run.spawned("train/0", 1);
    run.peak("train/0", 1, 30 << 10, true);
    run.interrupted(true);
    run.signalled("train/0", 1, 9);
    run.signalled("train/1", 1, 9);
    let (_, told) = Story::resume(&plan, packed(&[24]), run.folded);
    assert_eq!(told, ["spawn train/0 #2 lane 0 gpus [0] cpus 8"], "rather tried than waited for");

    let known = [Known { peak: Some(Bytes(30 << 30)), seconds: None }];
    let past = gpulane_model::RunState::new(&plan);
    let (_, told) = Story::resume_with(&plan, packed(&[24]), past, |core| core.with_known(&known));
    assert_eq!(starts(&told), ["train/0@0"]);
}
