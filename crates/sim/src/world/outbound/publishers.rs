//! Publishers of events: what they say, how often, and under which key.

use restante_core::Timestamp;
use restante_core::event::EventType;
use restante_core::id::Tail;
use restante_core::idempotency::IdempotencyKey;

use super::errand::Errand;
use crate::cast::EVENT_TYPES;
use crate::random::Random;
use crate::story::outbound::{Answered, Call, Content, Item};
use crate::timeline::Moment;
use crate::world::job::Job;
use crate::world::{Event, World};

/// A publisher that has a key waits so long for its answer.
const PATIENCE_MS: u64 = 5_000;
/// How often it calls again.
const TRIES_MAX: u32 = 4;

impl World {
    /// Decides all that will ever be published. Returns when.
    pub(in crate::world) fn plan_calls(&mut self) -> Vec<Moment> {
        let mut random = Random::keyed(&[self.seed, 10]);
        let times = self.plan.times(&mut random, self.plan.contents, &[]);
        for (number, at) in times.iter().copied().enumerate() {
            let content = self.say(&mut random);
            let workspace = random.index(self.cast.workspaces.len());
            let key = (!self.plan.calm && random.chance(75)).then(|| draw_key(&mut random, number));
            self.plan_call(workspace, key.clone(), content, at);
            if key.is_none() {
                continue;
            }
            let together = if random.chance(40) { random.between(1..=3) } else { 0 };
            let later = if random.chance(50) { random.between(1..=2) } else { 0 };
            for repeat in 0..together + later {
                let after_ms = self.draw_repeat(&mut random, repeat < together);
                self.plan_call(workspace, key.clone(), content, at.after(after_ms));
            }
            if random.chance(25) {
                let other = self.say(&mut random);
                let together = random.chance(50);
                let after_ms = self.draw_repeat(&mut random, together);
                self.plan_call(workspace, key, other, at.after(after_ms));
            }
        }
        times
    }

    fn draw_repeat(&self, random: &mut Random, together: bool) -> u64 {
        if together { random.below(4) } else { random.pick(&[5_000, 60_000, self.plan.busy_ms]) }
    }

    /// Thinks of something to publish.
    fn say(&mut self, random: &mut Random) -> usize {
        let is_batch = random.chance(25);
        let count = if is_batch { random.between(1..=4) } else { 1 };
        let items = (0..count).map(|_| Item {
            event_type: EventType::parse(random.pick(&EVENT_TYPES)).expect("a type of ours is one"),
            timestamp: random.chance(30).then(|| Timestamp::from_millis(1_700_000_000_000)),
            padding: random.pick(&[0, 3, 500, 9_000]),
        });
        self.story.contents.push(Content { items: items.collect(), is_batch });
        self.story.contents.len() - 1
    }

    fn plan_call(&mut self, workspace: usize, key: Option<IdempotencyKey>, content: usize, at: Moment) {
        self.timeline.plan(at, Event::Call(self.story.calls.len()));
        let told = Answered::Nothing;
        self.story.calls.push(Call {
            workspace,
            key,
            content,
            asked: None,
            bodies: Vec::new(),
            told,
            tries: 0,
        });
    }

    pub(in crate::world) fn call(&mut self, place: usize) {
        let now = self.wall();
        let is_open = self.node.as_ref().is_some_and(|node| !node.stopping);
        if self.story.calls[place].key.is_some() {
            self.plan_in(PATIENCE_MS, Event::CallAgain(place));
        }
        if !is_open {
            // Nobody listens: the publisher knows that nothing was sent.
            self.story.calls[place].told = Answered::Refused;
            return;
        }
        let turned = self.random.chance(50);
        let content = self.story.calls[place].content;
        let bodies = self.story.contents[content].bodies(content, now, turned);
        let tails = bodies.iter().map(|_| Tail::from_bits(self.random.draw())).collect();
        let call = &mut self.story.calls[place];
        call.asked = Some(self.clocks.now);
        call.bodies = bodies;
        if self.answer_from_late_keys(place) {
            return;
        }
        self.enqueue(Job::Errand(Box::new(Errand::Publish { call: place, now, tails })));
    }

    /// Whoever got no answer calls again.
    pub(in crate::world) fn call_again(&mut self, place: usize) {
        let call = &self.story.calls[place];
        let unheard = matches!(call.told, Answered::Nothing | Answered::Refused);
        if !unheard || call.tries >= TRIES_MAX {
            return;
        }
        let call = Call {
            asked: None,
            bodies: Vec::new(),
            told: Answered::Nothing,
            tries: call.tries + 1,
            ..call.clone()
        };
        self.story.calls.push(call);
        self.call(self.story.calls.len() - 1);
    }
}

/// A key of its own, or one that somebody may have used before.
fn draw_key(random: &mut Random, number: usize) -> IdempotencyKey {
    let number = if random.chance(20) { random.index(number + 1) } else { number };
    IdempotencyKey::parse(format!("key-{number}").as_bytes()).expect("a key of ours is one")
}
