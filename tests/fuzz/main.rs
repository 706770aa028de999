//! Feeds what strangers send with damaged input, on the tool chain that builds everything else.
//!
//! ```text
//! cargo test --test fuzz                                        a second for each target
//! FUZZ_SECONDS=60 cargo test --release --test fuzz [target]     longer; FUZZ_SEED=7 for another run
//! ```
//!
//! A target is a function of bytes that panics when it finds something, as libFuzzer's are (see
//! `targets.rs`). What differs is who calls it: no nightly compiler and no instrumentation, so new code
//! reached can't be seen. The answer of a target stands in its place: an input that gets an answer that no input
//! got before joins the corpus and is damaged further.
//!
//! A finding is written to `target/fuzz/<target>`, and is to be put into `corpus/<target>` with its mending:
//! all that lies there is tried first in every run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    missing_docs
)]

mod damage;
mod targets;

use std::{
    collections::HashSet,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rand::{SeedableRng, rngs::StdRng};

use damage::damaged;
use targets::{TARGETS, Target};

/// The longest that one input of at most [`LONGEST`] bytes may take, on a busy machine, without optimisation.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The longest input that is tried.
const LONGEST: usize = 64 * 1024;
/// Memory that a whole run may take.
const MOST_MEMORY: u64 = 512 << 20;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn main() {
    // As cargo passes them on: options of the usual harness, and what to run.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let seconds = number("FUZZ_SECONDS").unwrap_or(1);
    let seed = number("FUZZ_SEED").unwrap_or(1);
    for target in TARGETS {
        if wanted.is_empty()
            || wanted
                .iter()
                .any(|part| target.name.contains(part.as_str()))
        {
            run(target, Duration::from_secs(seconds), seed);
        }
    }
    let peak = peak_memory();
    assert!(peak < MOST_MEMORY, "the run took {} MiB", peak >> 20);
}

fn run(target: &Target, time: Duration, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut corpus = seeds(target.name);
    let mut answers = HashSet::new();
    for input in &corpus {
        answers.insert(tried(target, input));
    }
    let (begun, mut runs) = (Instant::now(), 0_u64);
    while begun.elapsed() < time {
        let input = damaged(&corpus, LONGEST, &mut random);
        runs += 1;
        if answers.insert(tried(target, &input)) {
            corpus.push(input);
        }
    }
    println!(
        "{:<18} {runs:>9} inputs, {:>4} different answers, no finding",
        target.name,
        answers.len()
    );
}

/// The target's answer without what varies within one kind of answer. A finding ends the run.
fn tried(target: &Target, input: &[u8]) -> String {
    let begun = Instant::now();
    let answer = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = begun.elapsed();
    let Some(answer) = answer.ok().filter(|_| took < ANSWERS_WITHIN) else {
        panic!(
            "{}: panicked, or took longer than {ANSWERS_WITHIN:?} ({took:?}): {}",
            target.name,
            kept(target, input).display()
        );
    };
    answer
        .chars()
        .filter(|character| !character.is_ascii_digit())
        .take(80)
        .collect()
}

fn kept(target: &Target, input: &[u8]) -> PathBuf {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("target/fuzz");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(target.name);
    fs::write(&path, input).unwrap();
    path
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/fuzz/corpus")
        .join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
        .into_iter()
        .map(|file| fs::read(file).unwrap())
        .collect()
}

/// The most memory that this process ever had, as the kernel counts it.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}
