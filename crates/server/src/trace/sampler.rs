//! Which traces are kept.

use super::context::Context;

/// How many of a trace id's last bits are random: those of a UUIDv7 of ours, and of what others make.
const RANDOM_BITS: u32 = 53;

/// `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// A span on which a caller's hangs is kept if and only if that one is.
    pub(super) parent_based: bool,
    /// The share of the others, 0 to 1.
    pub(super) ratio: f64,
}

impl Sampler {
    /// Whether spans of a trace are kept. Who asks with the same trace gets the same answer, on every node.
    pub(super) fn keeps(self, trace: u128, parent: Option<Context>) -> bool {
        match parent {
            Some(parent) if self.parent_based => parent.sampled,
            Some(_) | None => {
                let drawn = (trace & ((1 << RANDOM_BITS) - 1)) as f64;
                drawn < self.ratio * (1_u64 << RANDOM_BITS) as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_keeps_that_share_and_its_ends_keep_all_and_nothing() {
        let keeps =
            |ratio, random: u128| Sampler { parent_based: true, ratio }.keeps((1 << 100) | random, None);
        let last = (1 << RANDOM_BITS) - 1;
        assert!(keeps(1.0, 0) && keeps(1.0, last));
        assert!(!keeps(0.0, 0) && !keeps(0.0, last));
        assert!(keeps(0.25, last / 4) && !keeps(0.25, last / 4 + 1));
    }

    #[test]
    fn a_parent_decides_only_where_the_sampler_says_so() {
        let parent = |sampled| Some(Context { trace: 1, span: 1, sampled });
        for (parent_based, ratio, sampled, expected) in [
            (true, 0.0, true, true),
            (true, 1.0, false, false),
            (false, 0.0, true, false),
            (false, 1.0, false, true),
        ] {
            assert_eq!(Sampler { parent_based, ratio }.keeps(1, parent(sampled)), expected);
        }
    }
}
