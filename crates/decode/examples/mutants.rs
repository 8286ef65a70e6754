//! What becomes of damaged copies of JPEGs: bits flipped, bytes changed, cut, spliced together, all from a seed.
//!
//! `cargo run --release -p gpulane-decode --example mutants -- FOLDER [COPIES] [SEED]`: how many are refused and accepted, how far the accepted
//! ones are from the picture they were made from, and how many were refused although nothing of the picture changed.

#![allow(clippy::print_stdout)] // a tool for the terminal

use std::collections::BTreeMap;
use std::error::Error;

use gpulane_decode::{Decoder, Finish, Limits, Place};
use gpulane_model::DamagePolicy;

/// Room that grows.
struct Heap(Vec<u8>);

impl Place for Heap {
    fn take(&mut self, bytes: u64) -> Option<&mut [u8]> {
        self.0 = vec![0; usize::try_from(bytes).ok()?];
        Some(&mut self.0)
    }
}

/// Numbers that look like chance, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % most.max(1)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("give a folder of JPEGs")?;
    let copies: usize = words.next().map_or(Ok(2000), |word| word.parse())?;
    let mut dice = Dice(words.next().map_or(Ok(1), |word| word.parse())?);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        files.push((
            path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            std::fs::read(path)?,
        ));
    }
    files.sort();
    let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for _ in 0..copies {
        let (name, file) = &files[dice.below(files.len())];
        let (how, mutant) = mutant(file, &files[dice.below(files.len())].1, &mut dice);
        let whole = decoded(file, DamagePolicy::Warn)?;
        let outcome = match (decoded(&mutant, DamagePolicy::Fail), decoded(&mutant, DamagePolicy::Warn)) {
            (Ok(made), _) => match difference(&made, &whole) {
                Some(0.0) => "accepted, equal",
                Some(mean) if mean <= 3.0 => "accepted, within 3",
                Some(mean) if mean <= 10.0 => "accepted, within 10",
                Some(_) => "ACCEPTED, beyond 10",
                None => "ACCEPTED, other sides",
            },
            (Err(_), Ok(made)) if difference(&made, &whole) == Some(0.0) => "REFUSED, equal",
            (Err(_), Ok(_)) => "refused as damaged",
            (Err(_), Err(_)) => "refused as broken",
        };
        *counts.entry((format!("{how:<7} {name}"), outcome)).or_default() += 1;
    }
    let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
    for ((_, outcome), count) in &counts {
        *totals.entry(outcome).or_default() += count;
    }
    for ((what, outcome), count) in &counts {
        println!("{what:<40} {outcome:<24} {count}");
    }
    for (outcome, count) in totals {
        println!("{outcome:<24} {count}");
    }
    Ok(())
}

fn decoded(file: &[u8], damaged: DamagePolicy) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut heap = Heap(Vec::new());
    Decoder::new("rgb".parse()?, Limits::default()).with_damaged(damaged).decode(
        file,
        Finish::Here,
        &mut heap,
    )?;
    Ok(heap.0)
}

/// The mean of the differences; none where there are more or fewer pixels.
#[allow(clippy::cast_precision_loss)] // a mean
fn difference(one: &[u8], other: &[u8]) -> Option<f64> {
    let sum: u64 = one.iter().zip(other).map(|(one, other)| u64::from(one.abs_diff(*other))).sum();
    (one.len() == other.len()).then(|| sum as f64 / one.len() as f64)
}

fn mutant(file: &[u8], other: &[u8], dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mut copy = file.to_vec();
    match dice.below(5) {
        0 | 1 => {
            let at = dice.below(copy.len());
            copy[at] ^= 1 << dice.below(8);
            ("bit", copy)
        }
        2 => {
            for _ in 0..=dice.below(4) {
                let at = dice.below(copy.len());
                copy[at] = u8::try_from(dice.below(256)).unwrap_or(0);
            }
            ("bytes", copy)
        }
        3 => {
            let (at, many) = (dice.below(copy.len()), 1 + dice.below(64));
            copy.drain(at..(at + many).min(file.len()));
            ("cut", copy)
        }
        _ => {
            copy.truncate(dice.below(copy.len()));
            copy.extend_from_slice(&other[dice.below(other.len())..]);
            ("spliced", copy)
        }
    }
}
