//! Receivers: what they are like, and what they make of a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use restante_core::{FailureKind, Outcome, Timestamp};
use restante_server::channel::http::retry_after;

use crate::random::Random;
use crate::timeline::Moment;

/// Addresses that no attempt may ever be connected to.
const FORBIDDEN: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(100, 64, 3, 3)),
    IpAddr::V6(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
];

/// What a receiver does with requests for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    Healthy,
    /// Answers with this status.
    Answers(u16),
    /// Accepts no connection.
    Refuses,
    /// Takes the request and never answers.
    Hangs,
    /// Breaks the connection in so many of 100 cases, else is healthy.
    Flaky(u64),
    /// Answers 429, with `Retry-After` in seconds or without.
    Throttles(Option<u64>),
    /// Answers 503 with `Retry-After` in seconds.
    Away(u64),
    /// Answers well after so many milliseconds.
    Slow(u64),
}

/// Somebody who receives, at a name of its own.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// What its name resolves to.
    pub address: IpAddr,
    pub is_forbidden: bool,
    /// From when on it is in which mood, in the order of time.
    moods: Vec<(Moment, Mood)>,
}

/// What an attempt will come to, unless the node dies first.
#[derive(Clone, Debug)]
pub struct Fate {
    /// When the request is there, after the start. `None`: there is no connection.
    pub arrives_ms: Option<u64>,
    pub takes_ms: u64,
    pub reply: Reply,
}

/// How an attempt ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Status { status: u16, retry_after_seconds: Option<u64> },
    Broken(FailureKind),
}

impl Receiver {
    /// A receiver in changing moods during `busy_ms`. `quick`: it never takes longer than its load allows, for what
    /// is behind with its own work starts it in no certain order.
    pub fn moody(seed: u64, number: u64, busy_ms: u64, quick: bool) -> Self {
        let mut random = Random::keyed(&[seed, number, 1]);
        let mut moods = Vec::new();
        let mut from = Moment::default();
        while from.0 < busy_ms {
            let mood = draw_mood(&mut random);
            let is_slow = matches!(mood, Mood::Hangs | Mood::Slow(_));
            moods.push((from, if quick && is_slow { Mood::Healthy } else { mood }));
            from = from.after(random.between(busy_ms / 8 + 1..=busy_ms / 2 + 1));
        }
        Self { address: public(number), is_forbidden: false, moods }
    }

    /// A receiver that is always in one mood.
    pub fn always(number: u64, mood: Mood) -> Self {
        Self { address: public(number), is_forbidden: false, moods: vec![(Moment::default(), mood)] }
    }

    /// A service that nobody outside may reach.
    pub fn forbidden(random: &mut Random) -> Self {
        let moods = vec![(Moment::default(), Mood::Healthy)];
        Self { address: random.pick(&FORBIDDEN), is_forbidden: true, moods }
    }

    /// From `moment` on all is well.
    pub fn recover(&mut self, moment: Moment) {
        self.moods.push((moment, Mood::Healthy));
    }

    pub fn mood(&self, at: Moment) -> Mood {
        let current = self.moods.iter().rev().find(|(from, _)| *from <= at);
        current.map_or(Mood::Healthy, |(_, mood)| *mood)
    }
}

fn public(number: u64) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(93, 184, 216, 0)) + number as u32 % 200 + 1))
}

fn draw_mood(random: &mut Random) -> Mood {
    match random.below(14) {
        0..5 => Mood::Healthy,
        5 => Mood::Answers(random.pick(&[500, 502, 503])),
        6 => Mood::Answers(random.pick(&[301, 302, 400, 404, 410])),
        7 => Mood::Refuses,
        8 | 9 => Mood::Hangs,
        10 => Mood::Flaky(random.between(20..=80)),
        11 => Mood::Throttles(random.pick(&[None, Some(0), Some(7), Some(90), Some(3000)])),
        12 => Mood::Away(random.pick(&[3, 120, 1200])),
        _ => Mood::Slow(random.between(500..=20_000)),
    }
}

impl Fate {
    /// What an attempt comes to in a mood. `random` is the attempt's own.
    pub fn of(mood: Mood, timeout: Duration, random: &mut Random) -> Self {
        let timeout_ms = timeout.as_millis() as u64;
        let latency_ms = random.between(1..=120);
        let status = |status, retry_after_seconds| Reply::Status { status, retry_after_seconds };
        let (reply, takes_ms) = match mood {
            Mood::Healthy => (status(random.pick(&[200, 200, 200, 202, 204]), None), latency_ms * 2),
            Mood::Answers(code) => (status(code, None), latency_ms * 2),
            Mood::Refuses => return Self::refused(FailureKind::Connect),
            Mood::Hangs => (Reply::Broken(FailureKind::Timeout), timeout_ms),
            Mood::Flaky(percent) if random.chance(percent) => {
                (Reply::Broken(FailureKind::Network), latency_ms * 2)
            }
            Mood::Flaky(_) => (status(200, None), latency_ms * 2),
            Mood::Throttles(seconds) => (status(429, seconds), latency_ms * 2),
            Mood::Away(seconds) => (status(503, Some(seconds)), latency_ms * 2),
            Mood::Slow(ms) => (status(200, None), ms.max(latency_ms)),
        };
        if takes_ms >= timeout_ms {
            let reply = Reply::Broken(FailureKind::Timeout);
            return Self { arrives_ms: Some(latency_ms), takes_ms: timeout_ms, reply };
        }
        Self { arrives_ms: Some(latency_ms), takes_ms, reply }
    }

    /// No connection was made.
    pub fn refused(kind: FailureKind) -> Self {
        Self { arrives_ms: None, takes_ms: 2, reply: Reply::Broken(kind) }
    }
}

impl Reply {
    /// What the channel makes of it when the wall clock says `now`.
    pub fn outcome(&self, now: Timestamp) -> Outcome {
        match self {
            Self::Status { status, retry_after_seconds } => {
                let wish = retry_after_seconds.map(|seconds| seconds.to_string());
                Outcome::of_status(*status, wish.and_then(|wish| retry_after(wish.as_bytes(), now)))
            }
            Self::Broken(kind) => Outcome::failed(*kind, "simulated"),
        }
    }
}
