//! The end: faults stop, people put everything right, and the read side is asked what became of it all.

use std::collections::BTreeSet;

use restante_core::id::WorkspaceId;
use restante_core::message::MessageId;

use super::{Event, World, note};
use crate::cast::{places, url};

impl World {
    /// No more faults; receivers recover; what is held back may go.
    pub(super) fn heal(&mut self) {
        self.faulty = false;
        if self.node.as_ref().is_none_or(|node| node.stopping) {
            return self.plan_in(500, Event::Heal);
        }
        note!(self, "all is well from now on");
        let now = self.clocks.now;
        self.healed = Some(now);
        if !self.plan.calm {
            for receiver in &mut self.cast.receivers {
                receiver.recover(now);
            }
        }
        self.bring_clients();
        for place in 0..self.cast.endpoints.len() {
            self.mend(place);
            self.change(place, |world, place, setting| {
                setting.paused = false;
                setting.rate_per_second = None;
                setting.max_in_flight = setting.max_in_flight.max(8);
                let is_forbidden =
                    places(&setting.url).is_none_or(|(it, _)| world.cast.receivers[it].is_forbidden);
                if is_forbidden {
                    setting.url = url(0, place);
                }
            });
        }
    }

    /// Asks the read side about every message that anybody knows.
    pub(super) fn read_all(&mut self) {
        let now = self.wall();
        let Some(node) = &self.node else { return self.story.broken.push("no node at the end".into()) };
        let told = self.story.requests.iter().map(|it| (it.id, self.cast.workspace_of_source(it.source)));
        let told = told.map(|(id, owner)| (MessageId::Request(id), owner));
        let events = self.story.events.iter().map(|it| (it.id, self.story.calls[it.call].workspace));
        let events = events.map(|(id, owner)| (MessageId::Event(id), self.cast.workspaces[owner]));
        let seen = self.story.dialled.iter().map(|it| (it.message, self.cast.workspace_of(it.endpoint)));
        let known: BTreeSet<(MessageId, WorkspaceId)> = told.chain(events).chain(seen).collect();
        for (id, owner) in known {
            for workspace in &self.cast.workspaces {
                let is_shown = match id {
                    MessageId::Request(id) => {
                        let shown = node.engine.request(*workspace, id, now).expect("reads work");
                        let is_shown = shown.is_some();
                        if *workspace == owner {
                            self.reads.requests.insert(id, shown);
                        }
                        is_shown
                    }
                    MessageId::Event(id) => {
                        let shown = node.engine.event(*workspace, id, now).expect("reads work");
                        let is_shown = shown.is_some();
                        if *workspace == owner {
                            self.reads.keep_event(id, shown);
                        }
                        is_shown
                    }
                    // Nobody in this world sends any.
                    MessageId::Email(_) => false,
                };
                if *workspace != owner && is_shown {
                    self.story.broken.push(format!("{id} of {owner} is shown to {workspace}"));
                }
            }
        }
        self.read_webhooks();
    }
}
