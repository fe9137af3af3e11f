//! When a link is tried again, and when it is given up: rules only.

use std::time::Duration;

const WAIT_MIN: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(30);
const PING_EVERY: Duration = Duration::from_secs(30);
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long a link may be silent when there is reason to doubt it.
const DOUBT_TIME: Duration = Duration::from_secs(5);
/// How far wall clock and monotonic clock may drift apart between two looks.
const DRIFT_MAX: Duration = Duration::from_secs(5);

/// How long to wait for the next try.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after a try that failed, or a connection that ended. `draw` are random bits.
    ///
    /// 0.5, 1, 2, 4, 8, 16, 30, 30 … s, between half and all of it. A connection on which the server was heard begins
    /// anew: one that is only taken and dropped, as by a proxy without a server behind it, does not.
    pub(crate) fn wait(&mut self, heard: bool, draw: u64) -> Duration {
        if heard {
            self.failures = 0;
        }
        let whole = WAIT_MIN.saturating_mul(1 << self.failures.min(16)).min(WAIT_MAX);
        self.failures = self.failures.saturating_add(1);
        let half = whole / 2;
        let spread = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        half + Duration::from_millis(draw % spread)
    }
}

/// Whether the other side still speaks. Times are monotonic.
#[derive(Debug)]
pub(crate) struct Pulse {
    heard: Duration,
    ping_at: Duration,
    give_up_at: Duration,
}

/// What is to be done for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    Nothing,
    Ping,
    GiveUp,
}

impl Pulse {
    pub(crate) fn new(now: Duration) -> Self {
        Self { heard: now, ping_at: now + PING_EVERY, give_up_at: now + SILENCE_MAX }
    }

    /// Something came.
    pub(crate) fn heard(&mut self, now: Duration) {
        self.heard = now;
        self.give_up_at = now + SILENCE_MAX;
    }

    /// There is reason to doubt: ask at once, and do not wait long.
    pub(crate) fn doubt(&mut self, now: Duration) {
        self.ping_at = now;
        self.give_up_at = now + DOUBT_TIME;
    }

    /// What is due. A ping that is due is taken for sent.
    pub(crate) fn beat(&mut self, now: Duration) -> Beat {
        if now >= self.give_up_at {
            return Beat::GiveUp;
        }
        if now >= self.ping_at {
            self.ping_at = now + PING_EVERY;
            return Beat::Ping;
        }
        Beat::Nothing
    }

    /// How long nothing has come.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.heard)
    }
}

/// Notices that the machine slept: the wall clock ran on, the monotonic one did not.
#[derive(Debug)]
pub(crate) struct Sleep {
    wall_ms: i64,
    monotonic: Duration,
}

impl Sleep {
    pub(crate) fn new(wall_ms: i64, monotonic: Duration) -> Self {
        Self { wall_ms, monotonic }
    }

    /// How long it slept since the last look. A clock that was set forward looks the same, and does no harm.
    pub(crate) fn look(&mut self, wall_ms: i64, monotonic: Duration) -> Option<Duration> {
        let walked = u64::try_from(wall_ms.saturating_sub(self.wall_ms)).unwrap_or(0);
        let ran = monotonic.saturating_sub(self.monotonic);
        *self = Self { wall_ms, monotonic };
        let slept = Duration::from_millis(walked).saturating_sub(ran);
        (slept >= DRIFT_MAX).then_some(slept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn waits_grow_from_half_a_second_to_thirty() {
        let mut most = Backoff::default();
        let waits: Vec<u128> = [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]
            .map(|draw| most.wait(false, draw).as_millis())
            .to_vec();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        let mut least = Backoff::default();
        let waits: Vec<u128> = (0..8).map(|_| least.wait(false, 0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
        let mut many = Backoff { failures: u32::MAX };
        assert!(many.wait(false, u64::MAX) <= WAIT_MAX);
    }

    #[test]
    fn a_connection_on_which_the_server_spoke_begins_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..4 {
            backoff.wait(false, 0);
        }
        assert_eq!(backoff.wait(false, 0), seconds(4));
        assert_eq!(backoff.wait(true, 0), Duration::from_millis(250));
        assert_eq!(backoff.wait(false, 0), Duration::from_millis(500));
    }

    #[test]
    fn a_silent_link_is_asked_twice_and_given_up() {
        let mut pulse = Pulse::new(seconds(100));
        let beats: Vec<Beat> = [100, 129, 130, 131, 159].map(|at| pulse.beat(seconds(at))).to_vec();
        assert_eq!(beats, [Beat::Nothing, Beat::Nothing, Beat::Ping, Beat::Nothing, Beat::Nothing]);
        assert_eq!(pulse.beat(seconds(160)), Beat::GiveUp);
        assert_eq!(pulse.silence(seconds(160)), seconds(60));
        pulse.heard(seconds(159));
        assert_eq!(pulse.beat(seconds(160)), Beat::Ping);
        assert_eq!(pulse.beat(seconds(218)), Beat::Ping);
        assert_eq!(pulse.beat(seconds(219)), Beat::GiveUp);
    }

    #[test]
    fn after_a_sleep_it_is_asked_at_once_and_given_up_soon() {
        let mut pulse = Pulse::new(seconds(0));
        pulse.doubt(seconds(10));
        assert_eq!(pulse.beat(seconds(10)), Beat::Ping);
        assert_eq!(pulse.beat(seconds(14)), Beat::Nothing);
        assert_eq!(pulse.beat(seconds(15)), Beat::GiveUp);
        pulse.heard(seconds(14));
        assert_eq!(pulse.beat(seconds(15)), Beat::Nothing);
    }

    #[test]
    fn a_sleep_is_a_wall_clock_that_ran_on_alone() {
        let mut sleep = Sleep::new(1_000_000, seconds(50));
        assert_eq!(sleep.look(1_001_000, seconds(51)), None);
        assert_eq!(sleep.look(1_006_500, seconds(52)), None, "4.5 s are a clock that is set");
        assert_eq!(sleep.look(1_607_500, seconds(53)), Some(seconds(600)));
        assert_eq!(sleep.look(1_000, seconds(54)), None, "set back");
        assert_eq!(sleep.look(2_000, seconds(55)), None);
    }
}
