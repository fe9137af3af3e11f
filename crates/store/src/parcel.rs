//! What is leased, and where it goes.

use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::endpoint::EndpointId;
use restante_core::id::DeliveryId;
use restante_core::message::{self, MessageId};

use crate::Lease;
use crate::endpoint::{Endpoint, Held};

/// A leased delivery with all that an attempt needs.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub lease: Lease,
    pub message: MessageId,
    pub endpoint: Arc<Endpoint>,
    pub content: Arc<Content>,
    /// When its attempt was to begin.
    pub due_at: Timestamp,
    /// Since when it is leased; never before the end of the attempt before.
    pub claimed_at: Timestamp,
    /// Of an email: the mailbox this copy goes to.
    pub mailbox: Option<Arc<str>>,
    /// From then on its request is gone and no attempt may start; `None`: it does not expire while it is pending.
    pub expires_at: Option<Timestamp>,
}

/// A message's content in memory, counted against the node's bound as long as anybody holds it.
#[derive(Debug)]
pub struct Content {
    pub message: message::Content,
    pub(crate) held: Held,
}

/// Where leased deliveries go. The store calls it after the commit that leased them, never before.
pub trait Dispatch: Send + Sync + 'static {
    /// Takes over leased deliveries. Must not block: it runs where commits are made.
    fn dispatch(&self, parcels: Vec<Parcel>);
    /// Gives back what has not dialled yet. Runs before whoever asked for it is answered, so that no attempt
    /// starts after a cancel, a pause or a deletion was acknowledged.
    fn withdraw(&self, what: Withdraw);
    /// An endpoint may have more attempts in flight than before.
    fn widen(&self, _endpoint: EndpointId) {}
}

/// What is to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdraw {
    Delivery {
        endpoint: EndpointId,
        delivery: DeliveryId,
    },
    Endpoint(EndpointId),
    /// Everything: the node's leases may be another's by now.
    All,
}
