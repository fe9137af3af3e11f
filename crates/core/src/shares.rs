//! How much of what a node has one lane may take.

/// A number of places that lanes share: leases, or attempts in flight.
///
/// However many lanes there are whose receivers hang, those that deliver find places, and so does a lane that was never
/// tried. Three things see to that. A lane whose receiver has not delivered gets one place and no more as soon as an
/// eighth of all is taken. Lanes that deliver leave a quarter of all to those that have nothing. And the last eighth is
/// only for lanes that deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    all: u32,
}

/// A lane that delivers may have one of so many free places, beyond the first.
const LANE_SHARE: u32 = 8;

impl Shares {
    pub const fn of(all: u32) -> Self {
        Self { all }
    }

    /// How many places a lane may have, those included that it has, while `taken` of all are taken.
    pub fn of_lane(self, taken: u32, delivers: bool) -> u32 {
        let free = self.all.saturating_sub(taken);
        if free == 0 || (!delivers && free < self.all / 8) {
            return 0;
        }
        if !delivers && taken >= self.all / 8 {
            return 1;
        }
        1 + free.saturating_sub(self.all / 4) / LANE_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places that so many lanes get which never give one back, one lane after the other and each as often as it may.
    fn stuck(shares: Shares, lanes: u32, wanted: u32) -> (u32, u32) {
        let (mut taken, mut served) = (0, 0);
        for _ in 0..lanes {
            let mut held = 0;
            while held < wanted && held < shares.of_lane(taken, false) {
                (held, taken) = (held + 1, taken + 1);
            }
            served += u32::from(held > 0);
        }
        (taken, served)
    }

    #[test]
    fn lanes_that_hang_get_a_place_each_and_leave_the_last_to_those_that_deliver() {
        let shares = Shares::of(8_192);
        let (taken, served) = stuck(shares, 3_334, 8);
        assert_eq!((taken, served), (1_024 + 3_206, 3_334), "the first 128 have 8 places each");
        assert_eq!(shares.of_lane(taken, false), 1, "one that was never tried gets one");
        assert!(shares.of_lane(taken, true) > 64);
        let (taken, _) = stuck(shares, 100_000, 8);
        assert_eq!((shares.of_lane(taken, false), shares.of_lane(taken, true)), (0, 1));
    }

    #[test]
    fn lanes_that_deliver_leave_places_to_those_that_have_none() {
        let shares = Shares::of(1_024);
        let mut taken = 0;
        for _ in 0..1_000 {
            let mut held = 0;
            while held < shares.of_lane(taken, true).min(64) && taken < 700 {
                (held, taken) = (held + 1, taken + 1);
            }
        }
        assert_eq!(shares.of_lane(taken, false), 1);
        assert_eq!(shares.of_lane(768, true), 1, "one that has a place already gets no other");
    }

    #[test]
    fn a_lane_alone_may_have_many() {
        assert_eq!(Shares::of(8_192).of_lane(0, false), 769);
        assert_eq!(Shares::of(4).of_lane(0, false), 1, "of few places a lane gets one");
        assert_eq!(Shares::of(4).of_lane(4, true), 0);
    }
}
