//! Faults by seed.

use std::time::Duration;

use super::{Fault, Moment};
use crate::testbed::wire::Side;

/// After how many frames of one side a fault comes at the latest. Each connection draws one of these: to begin a
/// session takes some fifteen frames of the server, a page of a list some hundred.
const FRAMES_MAX: [u64; 3] = [64, 512, 4096];
const STALL_MS_MAX: u64 = 2_000;

/// The faults of one connection: the seed and the connection's number decide, and nothing else does.
#[derive(Debug)]
pub(super) struct Chaos {
    state: u64,
    next: Planned,
}

/// A fault, and how many frames of one side are left until it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Planned {
    from: Side,
    left: u64,
    moment: Moment,
    fault: Fault,
}

impl Chaos {
    pub(super) fn new(seed: u64, connection: u64) -> Self {
        let mut state = seed ^ connection.wrapping_mul(0xd134_2543_de82_ef95);
        let next = draw(&mut state);
        Self { state, next }
    }

    /// Counts a frame, and gives what comes with it.
    pub(super) fn count(&mut self, from: Side) -> Option<(Moment, Fault)> {
        if from == self.next.from {
            self.next.left -= 1;
        }
        if self.next.left > 0 {
            return None;
        }
        let Planned { moment, fault, .. } = self.next;
        self.next = draw(&mut self.state);
        Some((moment, fault))
    }
}

fn draw(state: &mut u64) -> Planned {
    let mut below = |bound: u64| below(state, bound);
    let side = [Side::Client, Side::Server];
    let [from, blind] = [side[below(2)], side[below(2)]];
    let moment = [Moment::Before, Moment::After][below(2)];
    let frames = FRAMES_MAX[below(3)];
    let left = 1 + below(frames) as u64;
    let stall = Duration::from_millis(1 + below(STALL_MS_MAX) as u64);
    let fault = [Fault::Cut, Fault::Cut, Fault::HalfOpen { blind }, Fault::Silence, Fault::Stall(stall)];
    Planned { from, left, moment, fault: fault[below(5)] }
}

/// SplitMix64 (Steele, Lea, Flood, 2014), taken modulo a bound that is small.
fn below(state: &mut u64, bound: u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    usize::try_from(bits % bound).unwrap()
}

#[cfg(test)]
mod tests {
    use super::{Chaos, Fault, Moment, Side};

    /// The first faults of a connection: after how many frames, when the sides speak in turn.
    fn story(seed: u64, connection: u64) -> Vec<(u64, Moment, Fault)> {
        let mut chaos = Chaos::new(seed, connection);
        let frames =
            (0..20_000_u64).map(|number| (number, [Side::Client, Side::Server][number as usize % 2]));
        frames
            .filter_map(|(number, from)| chaos.count(from).map(|(moment, fault)| (number, moment, fault)))
            .collect()
    }

    #[test]
    fn seed_and_number_decide_all() {
        assert_eq!(story(7, 3), story(7, 3));
        assert_ne!(story(7, 3), story(7, 4));
        assert_ne!(story(7, 3), story(8, 3));
    }

    #[test]
    fn every_fault_comes() {
        let all: Vec<_> = (0..50).flat_map(|connection| story(1, connection)).collect();
        let comes = |wanted: fn(&(u64, Moment, Fault)) -> bool| assert!(all.iter().any(wanted));
        comes(|it| (it.1, it.2) == (Moment::Before, Fault::Cut));
        comes(|it| (it.1, it.2) == (Moment::After, Fault::Cut));
        comes(|it| it.2 == Fault::HalfOpen { blind: Side::Client });
        comes(|it| it.2 == Fault::HalfOpen { blind: Side::Server });
        comes(|it| it.2 == Fault::Silence);
        comes(|it| matches!(it.2, Fault::Stall(_)));
        comes(|it| it.0 < 60);
        comes(|it| it.0 > 2_000);
    }
}
