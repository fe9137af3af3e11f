//! From a parcel with an email to a conversation with a mail server, and back to an outcome.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use restante_core::email::Address;
use restante_core::id::WorkspaceId;
use restante_core::message::Mail;
use restante_core::outcome::{Failure, MESSAGE_CHARS_MAX};
use restante_core::{FailureKind, Outcome, Timestamp, smtp};
use restante_store::record::{Domain, Record};
use restante_store::{Lease, Parcel, Store};
use rustc_hash::FxHashMap;

use crate::channel::smtp::{DataSent, Envelope, Sent, Smtp};
use crate::clock::Clock;
use crate::mail::dkim::{Key, Signer};
use crate::mail::verified::verified_domain;
use crate::vault::{Purpose, Vault};

/// How long a domain's key is used before its record is read again.
const DOMAIN_KEPT: Duration = Duration::from_secs(10);
/// Domains whose keys are kept open at once on one thread.
const DOMAINS_MAX: usize = 1_000;

/// Makes the attempts of emails on one runtime thread.
pub(super) struct Postman {
    /// `None`: nothing leaves.
    pub(super) smtp: Option<Smtp>,
    /// What may have arrived is sent again.
    pub(super) resend_uncertain: bool,
    pub(super) store: Arc<dyn Store>,
    pub(super) vault: Arc<Vault>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) domains: Mutex<FxHashMap<(WorkspaceId, String), Known>>,
}

/// A domain as it was when it was last read.
pub(super) struct Known {
    read_at: Duration,
    signing: Option<Arc<Signing>>,
}

struct Signing {
    domain: String,
    selector: String,
    key: Key,
}

/// Notes in the store that an attempt's mail may arrive from now on.
struct Note<'a> {
    store: &'a dyn Store,
    lease: Lease,
}

#[async_trait]
impl DataSent for Note<'_> {
    async fn data_sent(&self) -> Result<(), String> {
        match self.store.data_sent(self.lease).await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the attempt is another's by now".into()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Postman {
    /// Makes one attempt that starts at `at`.
    pub(super) async fn send(
        &self,
        parcel: &Parcel,
        mail: &Mail,
        timeout: Duration,
        at: Timestamp,
    ) -> Outcome {
        let Some(smtp) = self.smtp.as_ref().filter(|_| !mail.test) else {
            // Captured: it is kept and shown, and goes nowhere.
            return Outcome::Delivered { status: None };
        };
        let Some(to) = parcel.mailbox.as_deref() else {
            tracing::error!(delivery.id = %parcel.lease.delivery, "a delivery has no mailbox");
            return Outcome::Lost;
        };
        let to = Address { email: to.to_owned(), name: None };
        let sender = Address { email: mail.sender.clone(), name: None };
        let message = match self.signed(parcel.endpoint.workspace, sender.domain(), mail, at).await {
            Ok(message) => message,
            Err(error) => {
                tracing::error!(error.message = %error, "an email cannot be signed");
                return Outcome::Lost;
            }
        };
        let envelope = Envelope {
            utf8: to.needs_utf8() || sender.needs_utf8(),
            domain: to.domain().to_owned(),
            from: sender.email,
            to: to.email,
            message,
        };
        let note = Note { store: self.store.as_ref(), lease: parcel.lease };
        self.judge(smtp.send(&envelope, timeout, &note).await)
    }

    fn judge(&self, sent: Sent) -> Outcome {
        match sent {
            Sent::Accepted(reply) => Outcome::Delivered { status: Some(reply.code) },
            Sent::Deferred { reply: Some(reply), .. } => Outcome::Failed(said(&reply)),
            Sent::Deferred { reply: None, kind, message } => Outcome::failed(kind, message),
            Sent::Refused { reply, .. } => Outcome::Refused(said(&reply)),
            Sent::Uncertain { message } => {
                let failure = Failure::new(FailureKind::Network, message);
                if self.resend_uncertain { Outcome::Failed(failure) } else { Outcome::Uncertain(failure) }
            }
        }
    }

    /// The message with its signature in front, if its sender's domain has a key that the world can know.
    async fn signed(
        &self,
        workspace: WorkspaceId,
        domain: &str,
        mail: &Mail,
        at: Timestamp,
    ) -> Result<Bytes, restante_store::Error> {
        let Some(signing) = self.signing(workspace, domain).await? else { return Ok(mail.mime.clone()) };
        let signer = Signer { domain: &signing.domain, selector: &signing.selector, key: &signing.key };
        let header = signer.sign(&mail.mime, at);
        let mut message = BytesMut::with_capacity(header.len() + mail.mime.len());
        message.extend_from_slice(header.as_bytes());
        message.extend_from_slice(&mail.mime);
        Ok(message.freeze())
    }

    async fn signing(
        &self,
        workspace: WorkspaceId,
        domain: &str,
    ) -> Result<Option<Arc<Signing>>, restante_store::Error> {
        let now = self.clock.monotonic();
        let place = (workspace, domain.to_owned());
        {
            let known = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.get(&place).filter(|it| now.saturating_sub(it.read_at) < DOMAIN_KEPT) {
                return Ok(known.signing.clone());
            }
        }
        let record = verified_domain(self.store.as_ref(), workspace, domain).await?;
        let signing = record.and_then(|record| self.open(record)).map(Arc::new);
        let mut known = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= DOMAINS_MAX {
            known.clear();
        }
        known.insert(place, Known { read_at: now, signing: signing.clone() });
        Ok(signing)
    }

    fn open(&self, record: Record<Domain>) -> Option<Signing> {
        let opened = self.vault.open(Purpose::DomainKey, &record.body.private_key).ok();
        let key = opened.and_then(|pem| Key::read(&pem).ok());
        if key.is_none() {
            tracing::error!(domain.id = %record.id, "the key of a domain cannot be opened; its mail is not signed");
        }
        Some(Signing { domain: record.body.name, selector: record.body.selector, key: key? })
    }
}

/// What a server said, as a failure.
fn said(reply: &smtp::Reply) -> Failure {
    // X.0.0 tells nobody anything, and may be ours.
    let enhanced = reply.enhanced.filter(|(_, subject, detail)| (*subject, *detail) != (0, 0));
    let enhanced = enhanced.map_or_else(String::new, |(a, b, c)| format!(" {a}.{b}.{c}"));
    let line = format!("{}{enhanced} {}", reply.code, reply.text);
    Failure {
        kind: FailureKind::Smtp,
        status: Some(reply.code),
        enhanced: reply.enhanced,
        message: line.trim_end().chars().take(MESSAGE_CHARS_MAX).collect(),
        retry_after: None,
    }
}
