//! Test deliveries: one signed request to a webhook, outside of any delivery and of its attempts log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use restante_core::Outcome;
use restante_core::endpoint::{Receiver, Webhook};
use restante_core::id::EventId;
use restante_core::message::{Content, MessageId, Published};

use crate::channel::ChannelConfig;
use crate::channel::http::{HttpChannel, SetupFault};
use crate::clock::Clock;
use crate::dispatcher::attempt::{Opened, outgoing};
use crate::vault::{OpenFault, Vault};

/// Longest a test may take, from name lookup to the end of the response head.
const TEST_TIME: Duration = Duration::from_secs(10);
/// Bytes of the response body that a test shows.
const SHOWN_BYTES: usize = 1024;

/// Makes test deliveries.
pub struct Prober {
    channel: HttpChannel,
    vault: Arc<Vault>,
    clock: Arc<dyn Clock>,
}

/// What a test came to.
pub(crate) struct Probed {
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// The beginning of the response body.
    pub(crate) body: Bytes,
}

impl Prober {
    /// # Errors
    /// `SetupFault` when the channel's certificates cannot be used.
    pub fn new(config: &ChannelConfig, vault: Arc<Vault>, clock: Arc<dyn Clock>) -> Result<Self, SetupFault> {
        Ok(Self { channel: HttpChannel::new(config)?, vault, clock })
    }

    /// Sends one event to a webhook, whether that is paused or not.
    ///
    /// # Errors
    /// `OpenFault`: the webhook's stored secrets are damaged.
    pub(crate) async fn send(
        &self,
        webhook: Webhook,
        id: EventId,
        published: Published,
    ) -> Result<Probed, OpenFault> {
        let receiver = Receiver::Webhook(webhook);
        let opened = Opened::new(&receiver, &self.vault)?;
        let (clock, began) = (&self.clock, self.clock.monotonic());
        let content = Content::Event(published);
        let mut out = outgoing(MessageId::Event(id), &content, &receiver, &opened, clock.now());
        out.timeout = out.timeout.min(TEST_TIME);
        let (outcome, body) = self.channel.send_and_read(out, || clock.now(), SHOWN_BYTES).await;
        Ok(Probed { outcome, took: clock.monotonic().saturating_sub(began), body })
    }
}
