//! The end: faults stop, people put everything right, and the read side is asked what became of it all.

use std::collections::BTreeSet;

use restante_core::id::{RequestId, WorkspaceId};

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
        for place in 0..self.cast.destinations.len() {
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

    /// Asks the read side about every request that anybody knows.
    pub(super) fn read_all(&mut self) {
        let now = self.wall();
        let Some(node) = &self.node else { return self.story.broken.push("no node at the end".into()) };
        let told = self.story.requests.iter().map(|it| (it.id, self.cast.workspace_of_source(it.source)));
        let seen = self.story.dialled.iter().map(|it| (it.request, self.cast.workspace_of(it.destination)));
        let known: BTreeSet<(RequestId, WorkspaceId)> = told.chain(seen).collect();
        for (id, owner) in known {
            for workspace in &self.cast.workspaces {
                let shown = node.engine.request(*workspace, id, now).expect("reads work");
                if *workspace == owner {
                    self.reads.requests.insert(id, shown);
                } else if shown.is_some() {
                    self.story.broken.push(format!("{id} of {owner} is shown to {workspace}"));
                }
            }
        }
    }
}
