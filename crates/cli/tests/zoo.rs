//! The hang zoo: programs that freeze and programs that are only slow (`tests/zoo`), all as jobs of one plan. Every
//! freeze must be named with its place, ended where a proof holds and told where none does; no living job may be ended, though
//! none may wait for longer than `outside` says. The score is printed.
//!
//! `ZOO_ROUNDS=20` does it twenty times; `./x zoo 20` does so in release.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a test fails by panicking; the score is for a person

#[path = "zoo/animal.rs"]
mod animal;
#[path = "zoo/score.rs"]
mod score;
#[path = "zoo/sender.rs"]
mod sender;
#[path = "zoo/sight.rs"]
mod sight;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use animal::{Animal, Fate, zoo};
use gpulane_testkit::{Finished, Gpulane, skip};
use score::Score;
use sender::sender;
use sight::Sight;

/// Without any sign of life for so long a job is suspected.
const LIMIT_S: u32 = 3;
/// How long a living job stays silent: well over the limit.
const SILENCE_S: u32 = 8;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(150);
/// Milliseconds between what somebody outside sends: evenly, and at odd times, never for longer than `outside`.
const EVENLY: [u64; 1] = [300];
const AT_ODD_TIMES: [u64; 8] = [500, 2500, 1000, 2000, 700, 2500, 1500, 500];
/// Models of the story the project began with.
const MODELS: usize = 13;
/// Jobs that wait for lanes.
const WAITING: usize = 100;

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
    let lanes = lanes(animals).to_string();
    let run = ["run", "plan.toml", "--gpus", "none", "--lanes", &lanes, "--run-dir", "r"];
    let live = gpulane.spawn(&run);
    let begun = Instant::now();
    while !is_settled(&gpulane, animals) && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(200));
    }
    gpulane.call(&["cancel", "r"]);
    let finished = live.wait();
    let sight = Sight::of(&gpulane);
    for animal in animals {
        score.add(animal, &sight);
    }
    check_the_rest(&gpulane, &finished, score);
}

/// Whether nothing is left but those that are told and left alone, and all of them were.
fn is_settled(gpulane: &Gpulane, animals: &[Animal]) -> bool {
    let told: Vec<String> = gpulane.jobs_in("hang_suspected");
    let started: HashSet<String> = gpulane.jobs_in("job_started").into_iter().collect();
    let ended = ["job_succeeded", "job_failed"].into_iter().flat_map(|event| gpulane.jobs_in(event));
    let ended: HashSet<String> = ended.collect();
    let waits = animals.iter().filter(|animal| animal.fate == Fate::Tell);
    let waits: HashSet<String> = waits.map(|animal| format!("{}/main", animal.name)).collect();
    started.len() == jobs(animals)
        && started.difference(&ended).all(|job| waits.contains(job) && told.contains(job))
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

/// Jobs of the plan.
fn jobs(animals: &[Animal]) -> usize {
    lanes(animals) + MODELS + WAITING
}

/// One for each animal, and for the double of each that is only told.
fn lanes(animals: &[Animal]) -> usize {
    animals.len() + animals.iter().filter(|animal| animal.fate == Fate::Tell).count()
}

fn plan(animals: &[Animal]) -> String {
    let zoo = animal::folder();
    let library = zoo.join("../../python");
    let (even, odd) = (sender(&EVENLY, 20_000), sender(&AT_ODD_TIMES, 100));
    let mut plan = format!(
        "name = \"zoo\"\n[defaults]\nhang = {{ after = \"{LIMIT_S}s\", action = \"fail\" }}\ngrace = \"1s\"\n\
         env = {{ PYTHONPATH = \"{}\", PYTHONDONTWRITEBYTECODE = \"1\", ZOO_SECONDS = \"{SILENCE_S}\", \
         ZOO_EVEN = \"{even}\", ZOO_ODD = \"{odd}\" }}\n",
        library.display()
    );
    for animal in animals {
        let python = |animal: &Animal| stage(&animal.name, &["python3", animal.path.to_str().unwrap()]);
        plan += &python(animal);
        plan += &match animal.fate {
            Fate::Tell => python(&animal.double()) + &outside(),
            Fate::Lives => outside(),
            _ => String::new(),
        };
        plan +=
            &animal.result.as_ref().map_or_else(String::new, |result| format!("result = [\"{result}\"]\n"));
    }
    // The work on which `fid_in_threads` freezes, in processes.
    plan += &stage("fid", &["python3", zoo.join("fid_one.py").to_str().unwrap(), "model-{model}"]);
    plan += &matrix("model", MODELS);
    // They wait for lanes: how fast one is used again after a verdict can be seen by them.
    plan += &stage("next", &["sleep", "1"]);
    plan += &matrix("number", WAITING);
    plan
}

/// Three times the limit, and longer than any living animal waits.
fn outside() -> String {
    format!("hang = {{ after = \"{LIMIT_S}s\", outside = \"{}s\", action = \"fail\" }}\n", 3 * LIMIT_S)
}

fn stage(name: &str, command: &[&str]) -> String {
    format!("[[stage]]\nname = \"{name}\"\ncommand = {command:?}\n")
}

fn matrix(key: &str, count: usize) -> String {
    format!("[stage.matrix]\n{key} = {:?}\n", (0..count).collect::<Vec<_>>())
}
