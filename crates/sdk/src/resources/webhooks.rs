use super::DRY_RUN;
use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{
    Delivery, ListAttempts, ListWebhookDeliveries, ListWebhooks, LoggedAttempt, NewSecret, NewWebhook,
    Paging, Recovery, Replay, ReplayPreview, TestWebhook, Webhook, WebhookChange, WebhookTest, Window,
};

/// Calls about webhooks: customers' endpoints, subscribed to event types.
#[derive(Clone, Debug)]
pub struct Webhooks<C> {
    client: C,
}

impl<C: Clone> Webhooks<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Makes a webhook. Its signing secret is shown only in this answer. Not retried: two would remain.
    ///
    /// Refused with `limit_reached` (409) when the workspace has 1,000. Scope `webhooks:write`.
    pub fn create(&self, webhook: &NewWebhook) -> Pending<C, Webhook> {
        Pending::new(&self.client, &calls::WEBHOOKS_CREATE).body(webhook)
    }

    /// Lists webhooks. Scope `webhooks:read`.
    pub fn list(&self, wanted: &ListWebhooks) -> Listing<C, Webhook> {
        Listing::new(&self.client, &calls::WEBHOOKS_LIST).query(wanted)
    }

    /// Gets a webhook by its id, `whk_…`. Scope `webhooks:read`.
    pub fn get(&self, id: &str) -> Pending<C, Webhook> {
        Pending::new(&self.client, &calls::WEBHOOKS_GET).param("id", id)
    }

    /// Changes a webhook. Retried.
    ///
    /// Scope `webhooks:write`.
    pub fn update(&self, id: &str, change: &WebhookChange) -> Pending<C, Webhook> {
        Pending::new(&self.client, &calls::WEBHOOKS_UPDATE).param("id", id).body(change)
    }

    /// Deletes a webhook: its pending deliveries are cancelled, and replays of it end. Not retried: a second call would
    /// find nothing (404).
    ///
    /// Scope `webhooks:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::WEBHOOKS_DELETE).param("id", id)
    }

    /// Gives a webhook a new signing secret, which is shown only here. The old one goes on signing beside it for 24
    /// hours. Not retried: the secret of the first call would be lost.
    ///
    /// Refused with `too_many_secrets` (409) when five sign already. Scope `webhooks:write`.
    pub fn rotate_secret(&self, id: &str) -> Pending<C, NewSecret> {
        Pending::new(&self.client, &calls::WEBHOOKS_ROTATE_SECRET).param("id", id)
    }

    /// Sends a test event at once, signed, also to a paused webhook, and waits up to 10 s for what comes of it. That
    /// the receiver cannot be reached is no error but the result. Not retried: it would be sent twice.
    ///
    /// Scope `webhooks:write`.
    pub fn test(&self, id: &str, test: &TestWebhook) -> Pending<C, WebhookTest> {
        Pending::new(&self.client, &calls::WEBHOOKS_TEST).param("id", id).body(test)
    }

    /// Lists a webhook's deliveries, newest first, without attempts. Scope `deliveries:read`.
    pub fn list_deliveries(&self, id: &str, wanted: &ListWebhookDeliveries) -> Listing<C, Delivery> {
        Listing::new(&self.client, &calls::WEBHOOKS_LIST_DELIVERIES).param("id", id).query(wanted)
    }

    /// Lists a webhook's attempts of the last three days, newest first, the running ones included.
    ///
    /// Scope `webhooks:read`.
    pub fn list_attempts(&self, id: &str, wanted: &ListAttempts) -> Listing<C, LoggedAttempt> {
        Listing::new(&self.client, &calls::WEBHOOKS_LIST_ATTEMPTS).param("id", id).query(wanted)
    }

    /// Replays a webhook's failures in the background: one more attempt for each event that has a failed attempt in the
    /// window and was not delivered, the oldest 10,000 of them. On a paused webhook it does nothing. Not retried: it
    /// counts against the quota.
    ///
    /// Refused with `webhook_replay_quota_exceeded` (429) after 20 of a workspace in a UTC day. Scope `webhooks:write`.
    pub fn replay(&self, id: &str, window: &Window) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::WEBHOOKS_REPLAY).param("id", id).body(window)
    }

    /// Counts what [`replay`](Self::replay) would send again, and does nothing. Free of the quota.
    ///
    /// Scope `webhooks:write`.
    pub fn replay_preview(&self, id: &str, window: &Window) -> Pending<C, ReplayPreview> {
        Pending::new(&self.client, &calls::WEBHOOKS_REPLAY).param("id", id).query(&DRY_RUN).body(window)
    }

    /// Lists a webhook's replays and recoveries and how far they are, newest first. Scope `webhooks:read`.
    pub fn list_replays(&self, id: &str, paging: &Paging) -> Listing<C, Replay> {
        Listing::new(&self.client, &calls::WEBHOOKS_LIST_REPLAYS).param("id", id).query(paging)
    }

    /// Makes one more attempt of a delivery (`dlv_…`), whatever its state, once none is in flight. Not retried: it
    /// would be delivered twice.
    ///
    /// Refused with `webhook_paused` (409). Scope `webhooks:write`.
    pub fn replay_delivery(&self, id: &str, delivery_id: &str) -> Pending<C, Delivery> {
        Pending::new(&self.client, &calls::WEBHOOKS_REPLAY_DELIVERY)
            .param("id", id)
            .param("delivery_id", delivery_id)
    }

    /// Delivers what was skipped while the webhook was paused, on the webhook's schedule: what a replay cannot reach.
    /// The window is by the time of acceptance. Not retried.
    ///
    /// Refused with `webhook_paused` (409). Scope `webhooks:write`.
    pub fn recover(&self, id: &str, window: &Window) -> Pending<C, Recovery> {
        Pending::new(&self.client, &calls::WEBHOOKS_RECOVER).param("id", id).body(window)
    }
}
