//! Publishers: what they send, and the door they send it to.

use bytes::Bytes;
use restante_core::id::Tail;
use restante_core::message::{Headers, Received};

use super::job::Job;
use super::{Event, World};
use crate::random::Random;
use crate::story::{MARKER, Publish, Told};
use crate::timeline::Moment;

impl World {
    /// Decides all requests that will ever be sent. Returns when.
    pub(super) fn plan_publishes(&mut self) -> Vec<Moment> {
        let mut random = Random::keyed(&[self.seed, 6]);
        let times = self.plan.times(&mut random, self.plan.publishes, &[]);
        for (marker, at) in times.iter().copied().enumerate() {
            let source = (!random.chance(6)).then(|| random.index(self.cast.sources.len()));
            let received = draw_request(&mut random, marker);
            self.story.publishes.push(Publish { source, received, told: Told::Nothing });
            self.timeline.plan(at, Event::Publish(marker));
        }
        times
    }

    pub(super) fn publish(&mut self, place: usize) {
        let tail = Tail::from_bits(self.random.draw());
        let now = self.wall();
        let is_open = self.node.as_ref().is_some_and(|node| !node.stopping);
        let publish = &mut self.story.publishes[place];
        if !is_open {
            // Nobody listens: the publisher knows that nothing was sent.
            publish.told = Told::Refused;
            return;
        }
        let token =
            publish.source.map_or("tok_guessed".into(), |source| self.cast.sources[source].token.clone());
        self.enqueue(Job::Accept { publish: place, token, now, tail });
    }
}

pub(super) fn draw_request(random: &mut Random, marker: usize) -> Received {
    let marker = marker.to_string();
    let opaque = random.bytes(5).into_iter().map(|byte| byte | 0x80).collect::<Vec<u8>>();
    let mut lines: Vec<(&str, &[u8])> = vec![
        ("Host", b"in.example"),
        ("X-Marker", marker.as_bytes()),
        ("X-Twice", b"1"),
        ("x-other", b""),
        ("X-Twice", b"2"),
        ("X-Opaque", &opaque),
        ("Content-Length", b"1"),
    ];
    if random.chance(30) {
        lines.extend([("Connection", &b"close, X-Hop"[..]), ("X-Hop", b"1"), ("TE", b"trailers")]);
    }
    debug_assert!(lines.iter().any(|(name, _)| name.eq_ignore_ascii_case(MARKER)));
    let length = random.pick(&[0, 1, 40, 700, 9000]);
    Received {
        method: random.pick(&["POST", "POST", "GET", "PUT", "PURGE"]).to_owned(),
        path: random.pick(&["", "/", "/a/../b%2Fc", "//x"]).to_owned(),
        query: random.pick(&[None, None, Some("q=1&q=2"), Some("")]).map(str::to_owned),
        headers: lines.into_iter().collect::<Headers>(),
        body: Bytes::from(random.bytes(length)),
        remote_address: "198.51.100.7".into(),
    }
}
