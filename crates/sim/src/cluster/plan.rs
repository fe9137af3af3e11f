//! How a seed's cluster is: how many nodes, how long, how bad.

use restante_core::retry::Schedule;

use crate::random::Random;
use crate::receiver::Mood;
use crate::timeline::Moment;

/// The measures of one run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) hosts: usize,
    pub(super) endpoints: Vec<EndpointPlan>,
    /// How long there are requests, faults and people.
    pub(super) busy_ms: u64,
    pub(super) publishes: Vec<Moment>,
    pub(super) cancels: Vec<Moment>,
    pub(super) changes: Vec<Moment>,
    pub(super) faults: Vec<(Moment, Trouble)>,
    /// Of 100 COMMITs, the answers of so many are lost.
    pub(super) lost_commit_percent: u64,
    /// Of 100 ways over a link, so many are slow.
    pub(super) slow_percent: u64,
    /// How far each node's wall clock, and the database's, is ahead or behind.
    pub(super) skews_ms: Vec<i64>,
    pub(super) database_skew_ms: i64,
}

#[derive(Clone, Debug)]
pub(super) struct EndpointPlan {
    pub(super) schedule: Schedule,
    pub(super) max_in_flight: u32,
    pub(super) rate_per_second: Option<f64>,
    pub(super) timeout_seconds: u32,
    /// From when on it is in which mood.
    pub(super) moods: Vec<(Moment, Mood)>,
}

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It loses all it has in memory. `power`: nobody closes its connections.
    Kill {
        host: usize,
        power: bool,
        away_ms: u64,
    },
    Freeze {
        host: usize,
        ms: u64,
    },
    Cut {
        host: usize,
        ms: u64,
    },
    HalfOpen {
        host: usize,
        ms: u64,
    },
    /// Its heartbeats do not come through, all else does.
    Mute {
        host: usize,
        ms: u64,
    },
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::keyed(&[seed, 101]);
        let busy_ms = random.pick(&[30_000, 60_000, 100_000]);
        let hosts = random.index(3) + 2;
        let endpoints = (0..random.index(3) + 2).map(|_| EndpointPlan::draw(&mut random, busy_ms)).collect();
        let skew = |random: &mut Random| random.between(0..=60).cast_signed() - 30;
        let faults = draw_faults(&mut random, hosts, busy_ms);
        let troubled: Vec<Moment> = faults.iter().map(|(at, _)| *at).collect();
        let publishes = times(&mut random, 8..=30, busy_ms, &troubled);
        let near: Vec<Moment> = publishes.iter().chain(&troubled).copied().collect();
        Self {
            hosts,
            endpoints,
            busy_ms,
            cancels: times(&mut random, 0..=30, busy_ms, &near),
            changes: times(&mut random, 0..=8, busy_ms, &near),
            publishes,
            faults,
            slow_percent: random.pick(&[0, 0, 2, 6]),
            lost_commit_percent: random.pick(&[0, 2, 6]),
            skews_ms: (0..hosts).map(|_| skew(&mut random)).collect(),
            database_skew_ms: random.pick(&[-4_000, -20, 0, 20, 4_000]),
        }
    }
}

impl EndpointPlan {
    fn draw(random: &mut Random, busy_ms: u64) -> Self {
        let waits: &[f64] = if random.chance(50) { &[0.0, 0.25, 2.0] } else { &[1.0, 5.0, 20.0] };
        let limited = random.chance(50);
        Self {
            schedule: Schedule::Custom {
                waits_seconds: (0..random.between(1..=5)).map(|_| random.pick(waits)).collect(),
                jitter: random.pick(&[0.0, 0.1]),
            },
            max_in_flight: if limited { random.pick(&[1, 2, 3]) } else { 64 },
            rate_per_second: if random.chance(35) { Some(random.pick(&[0.1, 0.5, 4.0, 4.0])) } else { None },
            timeout_seconds: random.pick(&[1, 5, 30, 30]),
            moods: draw_moods(random, busy_ms),
        }
    }

    pub(super) fn mood(&self, at: Moment) -> Mood {
        self.moods.iter().rev().find(|(from, _)| *from <= at).map_or(Mood::Healthy, |(_, mood)| *mood)
    }
}

fn draw_moods(random: &mut Random, busy_ms: u64) -> Vec<(Moment, Mood)> {
    let (mut moods, mut from) = (Vec::new(), Moment::default());
    while from.0 < busy_ms {
        let mood = match random.below(10) {
            0..3 => Mood::Healthy,
            3 => Mood::Answers(503),
            4 => Mood::Refuses,
            5 | 6 => Mood::Hangs,
            7 => Mood::Flaky(50),
            _ => Mood::Slow(random.between(500..=14_000)),
        };
        moods.push((from, mood));
        from = from.after(random.between(busy_ms / 6..=busy_ms / 2));
    }
    moods.push((Moment(busy_ms), Mood::Healthy));
    moods
}

fn times(
    random: &mut Random,
    count: std::ops::RangeInclusive<u64>,
    busy_ms: u64,
    near: &[Moment],
) -> Vec<Moment> {
    let mut times: Vec<Moment> = Vec::new();
    let together_percent = random.pick(&[40, 85]);
    for _ in 0..random.between(count) {
        // What happens at once meets in the middle of transactions.
        let at = match times.last() {
            Some(last) if random.chance(together_percent) => {
                Moment((last.0 + random.below(40)).min(busy_ms - 1))
            }
            _ if !near.is_empty() && random.chance(60) => {
                let after_ms = random.pick(&[30, 2_000, 20_000]);
                Moment((random.pick(near).0 + random.below(after_ms)).min(busy_ms - 1))
            }
            _ => Moment(random.below(busy_ms)),
        };
        times.push(at);
    }
    times
}

fn draw_faults(random: &mut Random, hosts: usize, busy_ms: u64) -> Vec<(Moment, Trouble)> {
    let mut faults = Vec::new();
    for _ in 0..random.pick(&[0, 2, 5, 9]) {
        let host = random.index(hosts);
        let ms = random.pick(&[700, 13_500, 17_000, 24_000, 40_000, 60_000]) + random.below(2_000);
        let trouble = match random.below(10) {
            0..3 => {
                let away_ms = random.pick(&[200, 3_000, 40_000]);
                Trouble::Kill { host, power: random.chance(40), away_ms }
            }
            3..5 => Trouble::Freeze { host, ms },
            5 => Trouble::Cut { host, ms },
            6 | 7 => Trouble::Mute { host, ms },
            _ => Trouble::HalfOpen { host, ms },
        };
        faults.push((Moment(random.below(busy_ms)), trouble));
    }
    faults
}
