//! What happened, line by line, and a hash of it.

use std::fmt::{self, Write as _};

use crate::timeline::Moment;

/// The lines of one run. Two runs of a seed give the same.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Vec<String>,
}

impl Trace {
    pub fn note(&mut self, at: Moment, what: fmt::Arguments<'_>) {
        let mut line = format!("{:>12.3} s  ", at.monotonic().as_secs_f64());
        // Writing to a string cannot fail.
        let _ = line.write_fmt(what);
        self.lines.push(line);
    }

    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// FNV-1a over all lines.
    pub fn hash(&self) -> u64 {
        let bytes = self.lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }

    /// The lines that mention one of some words.
    pub fn about(&self, words: &[String]) -> Vec<&str> {
        let mentions = |line: &&String| words.iter().any(|word| line.contains(word.as_str()));
        self.lines.iter().filter(mentions).map(String::as_str).collect()
    }
}
