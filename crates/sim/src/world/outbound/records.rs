//! What the public reads say of webhooks.

use restante_core::endpoint::{EndpointId, Webhook};
use restante_core::health::Health;
use restante_core::id::WebhookId;
use restante_store::record::{Kind, Notice, Raw, ReplayJob};
use restante_store::{Page, Start};

use crate::world::World;
use crate::world::job::Owned;

impl World {
    /// A webhook that somebody was told of.
    pub(super) fn owned(&self, endpoint: usize) -> Option<Owned<WebhookId>> {
        match self.cast.endpoints[endpoint].id {
            Some(EndpointId::Webhook(id)) => Some(Owned { workspace: self.cast.workspace_of(endpoint), id }),
            Some(EndpointId::Destination(_) | EndpointId::Mailboxes(_)) | None => None,
        }
    }

    /// A webhook as it is shown, if it is there.
    pub(super) fn read_webhook(&self, endpoint: usize) -> Option<(Webhook, Health)> {
        let at = self.owned(endpoint)?;
        let engine = &self.node.as_ref()?.engine;
        let raw = engine.record(Kind::Webhook, at.workspace, at.id.uuid()).expect("reads work")?;
        let health = engine.healths(&[at.id]).expect("reads work").pop()?;
        Some((serde_json::from_str(&raw.body).expect("a record can be read"), health))
    }

    /// Reads the notices about each webhook, and what became of replays and recoveries.
    pub(in crate::world) fn read_webhooks(&mut self) {
        for endpoint in 0..self.cast.endpoints.len() {
            let Some(at) = self.owned(endpoint) else { continue };
            let notices = self.read_records(Kind::Notice, at).into_iter().map(|raw| {
                let notice: Notice = serde_json::from_str(&raw.body).expect("a record can be read");
                (notice.kind, raw.created_at)
            });
            self.reads.notices.insert(EndpointId::Webhook(at.id), notices.collect());
            for raw in self.read_records(Kind::Replay, at) {
                let job: ReplayJob = serde_json::from_str(&raw.body).expect("a record can be read");
                self.reads.replays.insert(raw.uuid, job);
            }
        }
    }

    /// All records of a kind that belong to a webhook, oldest first.
    fn read_records(&self, kind: Kind, at: Owned<WebhookId>) -> Vec<Raw> {
        let (mut found, mut page) = (Vec::new(), Page::newest(100));
        let Some(node) = &self.node else { return found };
        loop {
            let records = node.engine.records(kind, Some(at.workspace), Some(at.id.uuid()), page);
            let paged = records.expect("reads work");
            found.extend(paged.items);
            match paged.next {
                Some(next) => page.start = Start::After(next),
                None => break,
            }
        }
        found.reverse();
        found
    }

    /// Looks at all events, for those that are kept for a short time only can be seen no more in the end.
    pub(in crate::world) fn read_events(&mut self) {
        let now = self.wall();
        let Some(node) = &self.node else { return };
        for known in &self.story.events {
            let workspace = self.cast.workspaces[self.story.calls[known.call].workspace];
            if let Some(event) = node.engine.event(workspace, known.id, now).expect("reads work") {
                self.reads.events.insert(known.id, Some(event));
            }
        }
    }
}
