//! The simulator's only source of randomness.

use std::ops::RangeInclusive;

/// A stream of well-mixed numbers (splitmix64). Every seed gives a full sequence of its own.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream for one purpose: the same numbers give the same stream, whatever else was drawn meanwhile.
    ///
    /// What happens to one destination must not change what another one draws.
    pub fn keyed(numbers: &[u64]) -> Self {
        let mut mixed = Self::new(0x5eed);
        for number in numbers {
            mixed.state = mixed.draw() ^ number;
        }
        Self::new(mixed.draw())
    }

    /// 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    pub fn between(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// A place in a list of `length` items, which is not empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("the bound was a usize")
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.draw().to_le_bytes()[0]).collect()
    }
}
