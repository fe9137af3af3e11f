//! What a world needs to send emails.

use std::collections::BTreeMap;

use restante_core::email::{Address, Role};
use restante_core::id::EmailId;
use restante_core::{State, Timestamp};

use super::World;
use crate::email::{Details, Frozen, Mailbox, NewEmail, Sending, Sent};
use crate::record::{Mode, Suppression, SuppressionReason};
use crate::row;

impl World {
    /// The bytes of an email with this subject.
    pub fn frozen(&self, subject: &str) -> Frozen {
        let place = "em_00000000000000000000000000";
        let mime = format!("Subject: {subject}\r\nMessage-ID: <{place}@from.example>\r\n\r\nhello\r\n");
        let details = Details {
            from: Mailbox { email: "s@from.example".into(), name: None },
            reply_to: Vec::new(),
            subject: Some(subject.into()),
            headers: Vec::new(),
            tags: BTreeMap::new(),
            metadata: None,
            template: None,
            has_html: false,
            has_text: true,
            attachments: 0,
        };
        let id_at = mime.find(place).unwrap();
        Frozen { sender: "s@from.example".into(), mime: mime.into(), id_at, details }
    }

    /// What a call looks like that sends one email.
    pub fn sending(&mut self, recipients: &[(Role, &str)]) -> Sending {
        let address = |email: &str| Address { email: email.into(), name: None };
        let recipients = recipients.iter().map(|(role, email)| (*role, address(email))).collect();
        let email = NewEmail { frozen: self.frozen("x"), recipients, scheduled_at: None, tail: self.tail() };
        let items = vec![Ok(email)];
        Sending { workspace: self.workspace, mode: Mode::Live, items, claim: None, now: self.now }
    }

    pub async fn send_this(&self, sending: Sending) -> EmailId {
        match self.store.send(sending).await.unwrap() {
            Sent::Fresh(items) => items.into_iter().next().unwrap().unwrap(),
            other @ (Sent::Replayed(_) | Sent::KeyReused | Sent::NoWorkspace) => panic!("{other:?}"),
        }
    }

    pub async fn mail_to(&mut self, recipients: &[(Role, &str)]) -> EmailId {
        let sending = self.sending(recipients);
        self.send_this(sending).await
    }

    /// An email to `a@one.example` that waits for a time.
    pub async fn mail_at(&mut self, at: Timestamp) -> EmailId {
        let mut sending = self.sending(&[(Role::To, "a@one.example")]);
        for item in sending.items.iter_mut().flatten() {
            item.scheduled_at = Some(at);
        }
        self.send_this(sending).await
    }

    pub async fn email(&self, id: EmailId) -> row::Email {
        self.store.email(self.workspace, id, self.now).await.unwrap().unwrap()
    }

    /// The state of an email's only delivery.
    pub async fn delivery_state_of(&self, id: EmailId) -> State {
        self.email(id).await.recipients[0].standing.delivery.state
    }

    /// The types of what webhooks were told about an email, in the order of its telling.
    pub async fn told(&self, id: EmailId) -> Vec<String> {
        let events = self.store.email_events(self.workspace, id, self.now).await.unwrap().unwrap();
        events.iter().map(|event| event.event_type.to_string()).collect()
    }

    pub async fn suppress(&mut self, email: &str) {
        let body = Suppression { email: email.into(), reason: SuppressionReason::Manual, detail: None };
        self.make(Some(self.workspace), None, body).await;
    }

    /// Takes over what dead nodes had, however it is found.
    pub async fn take_over_all(&self) -> usize {
        self.store.take_over(self.now).await.unwrap()
    }
}
