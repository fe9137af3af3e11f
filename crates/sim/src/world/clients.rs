//! Command-line clients: they come and go, and owners change what they get.

use restante_core::endpoint::{Destination, DestinationKind};

use super::job::{Job, Owned};
use super::{Event, World, note};
use crate::cast::{Client, Listeners};
use crate::random::Random;
use crate::timeline::Moment;

/// Most destinations of a world with clients are for them.
const TUNNEL_PERCENT: u64 = 70;
/// A client whose node is gone comes back within this time, if it does.
const BACK_MS: u64 = 10_000;

impl World {
    /// Decides whether a new destination is reached through clients.
    pub(super) fn draw_tunnel(&self, place: usize, setting: &mut Destination) {
        let mut random = Random::keyed(&[self.seed, 11, place as u64]);
        if self.plan.tunnels && random.chance(TUNNEL_PERCENT) {
            setting.kind = DestinationKind::Cli;
        }
    }

    /// A client comes or goes, or its source's owner changes what clients get.
    pub(super) fn act_as_client(&mut self) {
        if !self.faulty || self.node.as_ref().is_none_or(|node| node.stopping) {
            return;
        }
        let source = self.random.index(self.cast.sources.len());
        match self.random.below(10) {
            0..4 => self.connect(source),
            4..7 => self.disconnect(source),
            _ => {
                let pending = self.random.chance(50);
                self.take_pending(source, pending);
            }
        }
    }

    fn connect(&mut self, source: usize) {
        let seats = self.random.pick(&[1, 64]);
        let client = Client { came: self.clocks.now, since: self.wall(), seats };
        note!(self, "a client with {seats} seats comes to s{source}");
        self.cast.sources[source].clients.push(client);
        self.change_listening(source);
    }

    fn disconnect(&mut self, source: usize) {
        let clients = &mut self.cast.sources[source].clients;
        if clients.is_empty() {
            return;
        }
        let gone = self.random.index(clients.len());
        clients.remove(gone);
        note!(self, "a client of s{source} goes");
        self.change_listening(source);
    }

    /// Has the store told who listens.
    fn change_listening(&mut self, source: usize) {
        let now = self.clocks.now;
        let it = &mut self.cast.sources[source];
        // What the store was told last, unless it hears this first.
        let known = it.listening.latest().or(*it.listening.last());
        let is_set = self.clocks.has_jumped(Moment::default(), now);
        let listeners = it.clients.first().map(|first| Listeners {
            most: first.came,
            // Where the clock was set, whoever came after the first may get what that one got.
            least: known.filter(|_| is_set).map_or(first.came, |known| known.least),
        });
        let entry = it.listening.asked(now, listeners);
        self.enqueue(Job::Listen { source, entry });
    }

    pub(super) fn tell_listening(&mut self, source: usize, entry: usize) {
        note!(self, "who listens to s{source}: {:?}", self.cast.sources[source].heard());
        self.cast.sources[source].listening.done(entry, self.clocks.now);
    }

    pub(super) fn take_pending(&mut self, source: usize, pending: bool) {
        let (asked, now) = (self.clocks.now, self.wall());
        let it = &mut self.cast.sources[source];
        let at = Owned { workspace: self.cast.workspaces[it.workspace], id: it.id };
        let entry = it.takes_pending.asked(asked, pending);
        self.enqueue(Job::TakePending { source, entry, at, pending, now });
    }

    /// The node is gone, and with it all connections. Some come again.
    pub(super) fn cut_clients(&mut self) {
        for source in 0..self.cast.sources.len() {
            let now = self.clocks.now;
            let it = &mut self.cast.sources[source];
            let entry = it.listening.asked(now, None);
            it.listening.done(entry, now);
            for _ in std::mem::take(&mut it.clients) {
                if self.random.chance(50) {
                    let ms = self.random.below(BACK_MS);
                    self.plan_in(ms, Event::Client);
                }
            }
        }
    }

    /// In the end everybody has a client, and most get what waits.
    pub(super) fn bring_clients(&mut self) {
        if !self.plan.tunnels {
            return;
        }
        for source in 0..self.cast.sources.len() {
            if self.cast.sources[source].clients.is_empty() {
                self.connect(source);
            }
            if self.random.chance(70) {
                self.take_pending(source, true);
            }
        }
    }
}
