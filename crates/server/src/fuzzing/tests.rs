use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Inputs that a target has at least.
const INPUTS_MIN: usize = 3;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The committed inputs of a target, past crashes among them.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = fuzz().join("corpus").join(target);
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let mut inputs: Vec<(String, Vec<u8>)> =
        files.map(|file| (file.display().to_string(), fs::read(&file).unwrap())).collect();
    inputs.sort();
    inputs
}

#[test]
fn the_promises_hold_for_the_corpus() {
    for (target, promise) in TARGETS {
        let inputs = corpus(target);
        assert!(inputs.len() >= INPUTS_MIN, "{target} has a corpus");
        for (file, input) in inputs {
            // Shown when the next line panics.
            println!("{file}");
            promise(&input);
        }
    }
}

#[test]
fn every_promise_has_a_fuzzer() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let mut named: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""))
        .collect();
    named.sort_unstable();
    assert_eq!(named, TARGETS.map(|(name, _)| name));
    for name in named {
        let fuzzer = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(fuzzer.contains(&format!("check(\"{name}\", ")), "{name}");
    }
}

/// A small change of an input.
#[derive(Clone, Debug)]
enum Change {
    Turn(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    /// What another input has from there on.
    Cross(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Change::Turn(at, byte)),
        (index(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (index(), index()).prop_map(|(from, to)| Change::Remove(from, to)),
        (index(), index(), index()).prop_map(|(at, other, from)| Change::Cross(at, other, from)),
    ]
}

fn changed(corpus: &[(String, Vec<u8>)], start: Index, changes: &[Change]) -> Vec<u8> {
    let (_, mut input) = start.get(corpus).clone();
    for change in changes {
        let length = input.len();
        match change {
            Change::Turn(at, byte) if length > 0 => input[at.index(length)] ^= byte,
            Change::Turn(..) => {}
            Change::Insert(at, bytes) => {
                let at = at.index(length + 1);
                input.splice(at..at, bytes.iter().copied());
            }
            Change::Remove(from, to) => {
                let (from, to) = (from.index(length + 1), to.index(length + 1));
                input.drain(from.min(to)..from.max(to));
            }
            Change::Cross(at, other, from) => {
                let (_, other) = other.get(corpus);
                input.truncate(at.index(length + 1));
                input.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
    }
    input
}

/// Runs a target on changed inputs.
fn try_changed(target: &str) {
    let corpus = corpus(target);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(start: Index, changes in prop::collection::vec(change(), 1..6))| {
        check(target, &changed(&corpus, start, &changes));
    });
}

macro_rules! try_changed {
    ($($target:ident),+) => {
        mod the_promise_holds_near_the_corpus_of {
            $(
                #[test]
                fn $target() {
                    super::try_changed(stringify!($target));
                }
            )+
        }
    };
}
try_changed!(address, cursor, intake, mime, retry_after, signature, smtp_reply, tunnel_frame);
