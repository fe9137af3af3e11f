use bytes::Bytes;
use serde::Serialize;

use crate::Timestamp;
use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{
    Email, EmailChange, EmailContent, EmailEvent, ListEmails, Paging, SendEmail, SentBatch, SentEmail,
};

/// Calls about emails: what a workspace sends to mailboxes. A key sees those of its own mode.
#[derive(Clone, Debug)]
pub struct Emails<C> {
    client: C,
}

impl<C: Clone> Emails<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Sends an email. It is stored before this answers, with a delivery for each of its recipients. Retried, under a
    /// key: the same call again gives the email as it is then.
    ///
    /// Refused with `invalid_field` (422) for what cannot be sent, with `domain_not_verified` (403) where the operator
    /// takes mail of verified domains only, and with `idempotency_key_reuse` (422) when the key was used for something
    /// else. Scope `emails:send`.
    pub fn send(&self, email: &SendEmail) -> Pending<C, SentEmail> {
        Pending::new(&self.client, &calls::EMAILS_SEND).body(email)
    }

    /// Sends 1 to 100 emails of at most 40 MiB together, each accepted or not by itself. Retried, under one key.
    ///
    /// That one was not accepted is told in the answer. Refused with `idempotency_key_reuse` (422) when the key was
    /// used for something else. Scope `emails:send`.
    pub fn send_batch(&self, emails: &[SendEmail]) -> Pending<C, SentBatch> {
        Pending::new(&self.client, &calls::EMAILS_SEND_BATCH).body(&Batch { emails })
    }

    /// Lists emails, newest first. Scope `emails:read`.
    pub fn list(&self, wanted: &ListEmails) -> Listing<C, Email> {
        Listing::new(&self.client, &calls::EMAILS_LIST).query(wanted)
    }

    /// Gets an email by its id, `em_…`. Scope `emails:read`.
    pub fn get(&self, id: &str) -> Pending<C, Email> {
        Pending::new(&self.client, &calls::EMAILS_GET).param("id", id)
    }

    /// Gets what an email says: headers, texts, and what is attached. Scope `emails:read`.
    pub fn get_content(&self, id: &str) -> Pending<C, EmailContent> {
        Pending::new(&self.client, &calls::EMAILS_GET_CONTENT).param("id", id)
    }

    /// Gets an email's bytes as they leave, but for what signs them. Scope `emails:read`.
    pub fn get_source(&self, id: &str) -> Pending<C, Bytes> {
        Pending::bytes(&self.client, &calls::EMAILS_GET_SOURCE).param("id", id)
    }

    /// Gets an attachment's bytes. `index` is its place in the email's content, from 0. Scope `emails:read`.
    pub fn get_attachment(&self, id: &str, index: usize) -> Pending<C, Bytes> {
        let call = Pending::bytes(&self.client, &calls::EMAILS_GET_ATTACHMENT);
        call.param("id", id).param("index", &index.to_string())
    }

    /// Lists what webhooks were told about an email, oldest first. Scope `emails:read`.
    pub fn list_events(&self, id: &str, paging: &Paging) -> Listing<C, EmailEvent> {
        Listing::new(&self.client, &calls::EMAILS_LIST_EVENTS).param("id", id).query(paging)
    }

    /// Cancels an email of which no attempt has begun. One that is cancelled already stays as it is. Retried.
    ///
    /// Refused with `not_cancellable` (409) when an attempt has begun. Scope `emails:send`.
    pub fn cancel(&self, id: &str) -> Pending<C, Email> {
        Pending::new(&self.client, &calls::EMAILS_CANCEL).param("id", id)
    }

    /// Gives a scheduled email another time, at most 30 days ahead; a past one sends it at once. Retried.
    ///
    /// Refused with `not_changeable` (409) when it is not scheduled any more. Scope `emails:send`.
    pub fn reschedule(&self, id: &str, scheduled_at: Timestamp) -> Pending<C, Email> {
        let change = EmailChange { scheduled_at: Some(scheduled_at), ..Default::default() };
        Pending::new(&self.client, &calls::EMAILS_RESCHEDULE).param("id", id).body(&change)
    }

    /// Changes a scheduled email: its time, what it says, or both. Retried.
    ///
    /// Refused with `not_changeable` (409) when it is not scheduled any more. Scope `emails:send`.
    pub fn update(&self, id: &str, change: &EmailChange) -> Pending<C, Email> {
        Pending::new(&self.client, &calls::EMAILS_UPDATE).param("id", id).body(change)
    }
}

#[derive(Serialize)]
struct Batch<'a> {
    emails: &'a [SendEmail],
}
