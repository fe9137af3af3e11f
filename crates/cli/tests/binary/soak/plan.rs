//! How long it lasts, and how often something happens.

use std::time::Duration;

use crate::dice::Dice;

/// Minutes, fractions allowed. The server refuses settings of its own kind that it does not know.
const VARIABLE: &str = "SOAK_MINUTES";
/// Without that.
const LIFE: Duration = Duration::from_secs(24);
/// Between two kills, stops or backups.
const PACE_MIN: Duration = Duration::from_millis(1200);
const PACE_MAX: Duration = Duration::from_secs(30);
/// What is left to chance is the same in every run.
const SEED: u64 = 20;

#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) life: Duration,
    /// Mean time between two kills, stops or backups.
    pace: Duration,
}

impl Plan {
    /// As the environment says.
    pub(super) fn told() -> Self {
        let life = match std::env::var(VARIABLE) {
            Ok(minutes) => Duration::from_secs_f64(60.0 * minutes.parse::<f64>().expect("it is a number")),
            Err(_) => LIFE,
        };
        Self { life, pace: (life / 60).clamp(PACE_MIN, PACE_MAX) }
    }

    /// When kills and stops are over, until the very end.
    pub(super) fn calm_from(&self) -> Duration {
        self.life / 2
    }

    /// How long fate sleeps, drawn anew each time.
    pub(super) fn until_fate(&self, dice: &mut Dice) -> Duration {
        drawn(self.pace, dice)
    }

    /// How long somebody at the API thinks before he changes a setting.
    pub(super) fn until_operator(&self, dice: &mut Dice) -> Duration {
        drawn(self.pace / 4, dice)
    }

    /// The same of one who looks at messages.
    pub(super) fn until_visitor(&self, dice: &mut Dice) -> Duration {
        drawn(self.pace / 10, dice)
    }

    /// Of each of two senders.
    pub(super) fn request_pause(&self) -> Duration {
        Duration::from_millis(180)
    }

    pub(super) fn event_pause(&self) -> Duration {
        Duration::from_millis(300)
    }

    pub(super) fn email_pause(&self) -> Duration {
        Duration::from_millis(600)
    }

    /// Between two looks at the server.
    pub(super) fn watch_pause(&self) -> Duration {
        (self.life / 100).min(Duration::from_secs(2))
    }

    /// For one who has chances of his own.
    pub(super) fn dice(&self, whose: u64) -> Dice {
        Dice::of(SEED + whose)
    }

    pub(super) fn seed(&self) -> u64 {
        SEED
    }
}

/// Between a third and five thirds of the mean.
fn drawn(mean: Duration, dice: &mut Dice) -> Duration {
    let third = u64::try_from(mean.as_millis()).unwrap() / 3;
    Duration::from_millis(third + dice.below(4 * third + 1))
}
