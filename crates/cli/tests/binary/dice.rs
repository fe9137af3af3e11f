//! Chance that can be had again.

/// A sequence of numbers that looks random.
pub(crate) struct Dice(u64);

impl Dice {
    /// With a seed of its own, which is shown.
    pub(crate) fn new() -> Self {
        let seed = u64::from(std::process::id());
        println!("seed {seed}");
        Self::of(seed)
    }

    /// The same for the same seed.
    pub(crate) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
