//! The hang zoo: programs that freeze and programs that are only slow (`tests/zoo`), all as jobs of one plan. Every
//! freeze must be caught and named with its place, no living job may be killed; the score is printed.
//!
//! `ZOO_ROUNDS=20` does it twenty times; `./x zoo 20` does so in release.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a test fails by panicking; the score is for a person

#[path = "zoo/animal.rs"]
mod animal;
#[path = "zoo/score.rs"]
mod score;
#[path = "zoo/sight.rs"]
mod sight;

use animal::{Animal, Fate, zoo};
use gpulane_testkit::{Finished, Gpulane, skip};
use score::Score;
use sight::Sight;

/// Without any sign of life for so long a job is suspected.
const LIMIT_S: u32 = 3;
/// How long a living job stays silent: well over the limit.
const SILENCE_S: u32 = 8;
/// When a job is ended that is told and left alone.
const TOLD_S: u32 = 30;
/// Models of the story the project began with.
const MODELS: usize = 13;

#[test]
fn every_freeze_is_caught_and_named_and_nothing_that_lives_is_killed() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return skip("the hang zoo", "its animals are Python programs, and there is no python3");
    }
    let rounds =
        std::env::var("ZOO_ROUNDS").map_or(1, |rounds| rounds.parse().expect("ZOO_ROUNDS is a number"));
    assert!(rounds > 0, "without a visit there is nothing to score");
    let animals = zoo();
    let mut score = Score::default();
    for round in 1..=rounds {
        println!("round {round} of {rounds}: {} animals", animals.len());
        visit(&animals, &mut score);
    }
    score.publish();
    assert!(score.faults.is_empty(), "{}\n{}", score.faults.join("\n"), score.line());
}

/// One run with all animals at once, each with a lane of its own and something waiting for that lane.
fn visit(animals: &[Animal], score: &mut Score) {
    let gpulane = Gpulane::new(env!("CARGO_BIN_EXE_gpulane"));
    gpulane.workspace.file("plan.toml", &plan(animals));
    let lanes = animals.len().to_string();
    let run = ["run", "plan.toml", "--gpus", "none", "--lanes", &lanes, "--run-dir", "r"];
    let finished = gpulane.spawn(&run).wait();
    let sight = Sight::of(&gpulane);
    for animal in animals {
        score.add(animal, &sight);
    }
    check_the_rest(&gpulane, &finished, score);
}

/// What holds for the run as a whole.
fn check_the_rest(gpulane: &Gpulane, finished: &Finished, score: &mut Score) {
    if finished.code != 3 {
        score.faults.push(format!("exit code {}, not 3:\n{}", finished.code, finished.stderr));
    }
    let succeeded = gpulane.jobs_in("job_succeeded");
    let evaluated = succeeded.iter().filter(|job| job.starts_with("fid/")).count();
    if evaluated != MODELS {
        score.faults.push(format!("{evaluated} of {MODELS} models evaluated, each in a process of its own"));
    }
    gpulane.assert_nothing_left();
}

fn plan(animals: &[Animal]) -> String {
    let zoo = animal::folder();
    let library = zoo.join("../../python");
    let mut plan = format!(
        "name = \"zoo\"\n[defaults]\nhang = {{ after = \"{LIMIT_S}s\", action = \"fail\" }}\ngrace = \"1s\"\n\
         env = {{ PYTHONPATH = \"{}\", PYTHONDONTWRITEBYTECODE = \"1\", ZOO_SECONDS = \"{SILENCE_S}\" }}\n",
        library.display()
    );
    for animal in animals {
        plan += &stage(&animal.name, &["python3", animal.path.to_str().unwrap()]);
        let timeout = (animal.fate == Fate::Told).then(|| format!("timeout = \"{TOLD_S}s\"\n"));
        plan += &timeout.unwrap_or_default();
        plan +=
            &animal.result.as_ref().map_or_else(String::new, |result| format!("result = [\"{result}\"]\n"));
    }
    // The work on which `fid_in_threads` freezes, in processes.
    plan += &stage("fid", &["python3", zoo.join("fid_one.py").to_str().unwrap(), "model-{model}"]);
    plan += &matrix("model", MODELS);
    // They wait for lanes: how fast one is used again after a verdict can be seen by them.
    plan += &stage("next", &["sleep", "1"]);
    plan += &matrix("number", 2 * animals.len());
    plan
}

fn stage(name: &str, command: &[&str]) -> String {
    format!("[[stage]]\nname = \"{name}\"\ncommand = {command:?}\n")
}

fn matrix(key: &str, count: usize) -> String {
    format!("[stage.matrix]\n{key} = {:?}\n", (0..count).collect::<Vec<_>>())
}
