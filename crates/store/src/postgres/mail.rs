//! Emails: what sends them, changes them, and tells about them.

mod change;
mod told;
mod turn;

use std::collections::BTreeSet;
use std::sync::Arc;

use restante_core::Timestamp;
use restante_core::email::{Address, Role};
use restante_core::id::{EmailId, Key, WorkspaceId};
use restante_core::message::{Content as Message, Mail, MessageId};
use rustc_hash::FxHashSet;

use super::Fault;
use super::accept::{Birth, Births, NewDelivery};
use super::codec::{int, mail_feed, role_code, small};
use super::columns::{Messages, Place};
use super::config::EndpointEntry;
use super::node::Node;
use super::tx::{Access, Tx};
use crate::email::told::About;
use crate::email::{Frozen, NewEmail, Sending, Sent, kept_key, mailboxes_draft, suppression_key, with_id};
use crate::receipts::write_items;
use crate::record::{Kind, Mode};
use crate::tally::Counted;
use crate::{Changed, Content, Created, Error, Lease};

pub(super) use told::Mailed;
use told::Telling;

/// An email that is about to be stored.
struct Stamped<'a> {
    id: EmailId,
    new: &'a NewEmail,
    content: Arc<Content>,
    /// What is shown of it, as it is stored.
    details: Vec<u8>,
    /// `None`: at once.
    scheduled_at: Option<Timestamp>,
}

/// New rows of `recipient`.
#[derive(Default)]
struct Recipients<'a> {
    delivery: Vec<i64>,
    role: Vec<i16>,
    email: Vec<&'a str>,
    name: Vec<Option<&'a str>>,
    suppressed: Vec<bool>,
}

impl Node {
    /// See [`crate::Store::send`].
    pub(super) async fn send(self: &Arc<Self>, sending: Sending) -> Result<Sent, Error> {
        let sending = Arc::new(sending);
        self.make_mailboxes(&sending).await?;
        self.ask_once_for_slots(self.slotless_mailboxes(&sending)).await?;
        self.write(Access::Messages, move |tx| {
            let sending = Arc::clone(&sending);
            Box::pin(async move { tx.send(&sending).await })
        })
        .await
    }

    /// Makes the endpoints of domains that the workspace has not written to. They are known to all nodes before there is
    /// anything to be sent to them.
    async fn make_mailboxes(self: &Arc<Self>, sending: &Sending) -> Result<(), Error> {
        let (workspace, now) = (sending.workspace, sending.now);
        let missing: Arc<[String]> = {
            let state = self.state();
            let Some(row) = state.config.workspace_rows.get(&workspace) else { return Ok(()) };
            let known = state.config.workspaces.get(row).map(|entry| &entry.mailboxes);
            let is_missing = |domain: &&str| known.is_none_or(|known| !known.contains_key(*domain));
            domains(sending).into_iter().filter(is_missing).map(str::to_owned).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        self.write(Access::Configuration, move |tx| {
            let missing = Arc::clone(&missing);
            Box::pin(async move { tx.make_mailboxes(workspace, &missing, now).await })
        })
        .await
    }

    /// Mailboxes that the emails go to and that this node has no slots of.
    fn slotless_mailboxes(&self, sending: &Sending) -> Vec<i64> {
        let state = self.state();
        let row = state.config.workspace_rows.get(&sending.workspace);
        let Some(entry) = row.and_then(|row| state.config.workspaces.get(row)) else { return Vec::new() };
        let endpoints =
            domains(sending).into_iter().filter_map(|domain| entry.mailboxes.get(domain).copied());
        let slotless = |row: &i64| state.config.endpoints.get(row).is_some_and(EndpointEntry::wants_slots);
        endpoints.filter(slotless).collect()
    }

    /// See [`crate::Store::data_sent`].
    pub(super) async fn data_sent(self: &Arc<Self>, lease: Lease) -> Result<bool, Error> {
        let held = self.state().held(lease).map(|stored| stored.workspace);
        let Some(workspace) = held else { return Ok(false) };
        self.write(Access::Messages, move |tx| Box::pin(tx.data_sent(workspace, lease))).await
    }
}

/// The domains that emails go to.
fn domains(sending: &Sending) -> BTreeSet<&str> {
    let recipients = sending.items.iter().flatten().flat_map(|email| &email.recipients);
    recipients.map(|(_, address)| address.domain()).collect()
}

impl Tx {
    async fn make_mailboxes(
        &mut self,
        workspace: WorkspaceId,
        domains: &[String],
        now: Timestamp,
    ) -> Result<(), Fault> {
        for domain in domains {
            match self.create(&mailboxes_draft(workspace, domain, now)?, now).await? {
                // Another call or another node may have been first.
                Created::Done(_) | Created::NameTaken | Created::ParentGone => {}
                Created::TooMany => return Err(Fault::Damaged(format!("too many mailboxes: {domain}"))),
            }
        }
        Ok(())
    }

    async fn send(&mut self, sending: &Sending) -> Result<Sent, Fault> {
        let Some(workspace) = self.row_of(sending.workspace) else { return Ok(Sent::NoWorkspace) };
        let mut items = Vec::with_capacity(sending.items.len());
        for item in &sending.items {
            items.push(match item {
                Ok(email) => {
                    let key = self.take_keys(sending.now, 1 + fanout(email)).await?;
                    Ok(EmailId::new(key, email.tail))
                }
                Err(told) => Err(told.clone()),
            });
        }
        let key = sending.claim.as_ref().map(|claim| kept_key(sending.mode, claim));
        if let (Some(claim), Some(key)) = (&sending.claim, &key) {
            let until = sending.key_held_until(&self.node.policy);
            let held = self.claim_key(workspace, key, claim, &write_items(&items), until).await?;
            if let Some((same, answer)) = held {
                return Ok(Sent::known(same, &answer, claim)?);
            }
        }
        let mut emails = Vec::with_capacity(items.len());
        for (item, id) in sending.items.iter().zip(&items) {
            if let (Ok(new), Ok(id)) = (item, id) {
                emails.push(self.stamp(*id, new, sending.mode, sending.now)?);
            }
        }
        self.store_emails(workspace, &emails, key.as_deref(), sending.now).await?;
        self.deliver_emails(workspace, &emails, sending.now).await?;
        Ok(Sent::Fresh(items))
    }

    fn stamp<'a>(
        &self,
        id: EmailId,
        new: &'a NewEmail,
        mode: Mode,
        now: Timestamp,
    ) -> Result<Stamped<'a>, Fault> {
        let Frozen { sender, mime, id_at, details } = &new.frozen;
        let (sender, test) = (sender.clone(), mode == Mode::Test);
        let mail = Mail { sender, test, mime: with_id(mime, *id_at, id) };
        let content = Arc::new(self.node.content_bytes.hold(Message::Email(mail)));
        let scheduled_at = new.scheduled_at.filter(|at| *at > now);
        Ok(Stamped { id, new, content, details: details.write()?, scheduled_at })
    }

    /// Stores emails without their recipients.
    async fn store_emails(
        &mut self,
        workspace: i64,
        emails: &[Stamped<'_>],
        key: Option<&str>,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let mut messages = Messages::default();
        let (mut keys, mut tests, mut senders, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for Stamped { id, new, content, details, scheduled_at } in emails {
            let (key, tail, feed) = (id.key(), id.tail(), mail_feed(workspace));
            let place = Place { workspace, key, tail, feed, fanout: fanout(new), now };
            messages.push_email(place, content, details);
            keys.push(key.value());
            tests.push(matches!(&content.message, Message::Email(mail) if mail.test));
            senders.push(new.frozen.details.from.email.as_str());
            times.push(scheduled_at.map(Timestamp::millis));
            self.staged.counted.push(Counted::Accepted { workspace, source: None, at: now });
            self.tell_workspace(workspace, Changed::Email(*id));
        }
        if emails.is_empty() {
            return Ok(());
        }
        self.execute(Messages::INSERT, &messages.params()).await?;
        let insert = "INSERT INTO email (workspace, message, test, sender, scheduled_at, key) \
             SELECT $1, it.message, it.test, it.sender, it.scheduled_at, $2 \
             FROM unnest($3::bigint[], $4::boolean[], $5::text[], $6::bigint[]) AS it (message, test, sender, scheduled_at)";
        self.execute(insert, &[&workspace, &key, &keys, &tests, &senders, &times]).await?;
        Ok(())
    }

    /// Begins the deliveries of emails that were just stored: they have the keys right behind those of their emails.
    async fn deliver_emails(
        &mut self,
        workspace: i64,
        emails: &[Stamped<'_>],
        now: Timestamp,
    ) -> Result<(), Fault> {
        let addresses = emails.iter().flat_map(|it| &it.new.recipients);
        let mailboxes = addresses.map(|(_, address)| (workspace, address.email.as_str()));
        let suppressed = self.suppressed(mailboxes).await?;
        let owner = self.owner(workspace)?;
        let (mut births, mut recipients, mut told) = (Births::default(), Recipients::default(), Vec::new());
        for Stamped { id, new, content, scheduled_at, .. } in emails {
            let mut refused = Vec::with_capacity(new.recipients.len());
            for (index, (role, address)) in (1..).zip(&new.recipients) {
                let (key, message) = (id.key().plus(index), id.key());
                let endpoint = self.mailboxes_of(workspace, address.domain())?;
                let is_refused = suppressed.contains(&(workspace, suppression_key(&address.email)));
                refused.push(is_refused);
                recipients.push(key, *role, address, is_refused);
                let birth = match scheduled_at {
                    _ if is_refused => Birth::Refused,
                    None => self.birth(endpoint, now),
                    Some(_) => Birth::Due,
                };
                let due_at = scheduled_at.unwrap_or(now);
                let new =
                    NewDelivery { workspace, key, message, endpoint, now, due_at, birth, retry_of: None };
                let stored = self.begin_delivery(&new, &mut births)?;
                if birth == Birth::Leased {
                    self.hand_over(stored, MessageId::Email(*id), content, Some(&address.email), now, now)?;
                }
            }
            let about = About { email: *id, workspace: owner, details: &new.frozen.details };
            let events = about.tell_accepted(&new.recipients, &refused, *scheduled_at, now)?;
            let email = id.key().value();
            told.extend(events.into_iter().map(|event| Telling { workspace, email, event, now }));
        }
        self.write_births(&births).await?;
        self.insert_recipients(workspace, &recipients).await?;
        self.tell_all(told).await
    }

    async fn insert_recipients(&self, workspace: i64, rows: &Recipients<'_>) -> Result<(), Fault> {
        let insert = "INSERT INTO recipient (workspace, delivery, role, email, name, suppressed) \
             SELECT $1, it.* FROM unnest($2::bigint[], $3::smallint[], $4::text[], $5::text[], $6::boolean[]) AS it";
        let Recipients { delivery, role, email, name, suppressed } = rows;
        self.execute(insert, &[&workspace, delivery, role, email, name, suppressed]).await?;
        Ok(())
    }

    /// The endpoint of a domain's mailboxes.
    fn mailboxes_of(&self, workspace: i64, domain: &str) -> Result<i64, Fault> {
        let state = self.node.state();
        let entry = state.config.workspaces.get(&workspace);
        let known = entry.and_then(|entry| entry.mailboxes.get(domain)).copied();
        known.ok_or_else(|| Fault::Damaged(format!("mailboxes of {domain} are not known")))
    }

    fn owner(&self, workspace: i64) -> Result<WorkspaceId, Fault> {
        let owner = self.node.state().config.workspaces.get(&workspace).map(|entry| entry.id);
        owner.ok_or_else(|| Fault::Damaged(format!("no workspace {workspace}")))
    }

    /// Those of some mailboxes that get nothing: workspaces, and addresses as they are compared.
    async fn suppressed(
        &self,
        mailboxes: impl Iterator<Item = (i64, &str)> + Send,
    ) -> Result<FxHashSet<(i64, String)>, Fault> {
        let (workspaces, names): (Vec<i64>, Vec<String>) =
            mailboxes.map(|(workspace, email)| (workspace, suppression_key(email))).unzip();
        let statement = "SELECT record.workspace, record.name FROM unnest($2::bigint[], $3::text[]) AS it (workspace, name) \
             JOIN record ON record.kind = $1 AND record.workspace = it.workspace AND record.name = it.name \
             AND record.deleted_at IS NULL";
        let rows = self.query(statement, &[&(Kind::Suppression as i16), &workspaces, &names]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    async fn data_sent(&mut self, workspace: i64, lease: Lease) -> Result<bool, Fault> {
        let number = int(lease.attempt);
        let update = "UPDATE delivery SET data_sent = $4 WHERE workspace = $1 AND key = $2 AND state = 1 \
             AND node = $3 AND made = $4";
        let key = lease.delivery.key().value();
        Ok(self.execute(update, &[&workspace, &key, &self.me, &number]).await? == 1)
    }
}

impl<'a> Recipients<'a> {
    fn push(&mut self, delivery: Key, role: Role, address: &'a Address, suppressed: bool) {
        self.delivery.push(delivery.value());
        self.role.push(small(role_code(role)));
        self.email.push(&address.email);
        self.name.push(address.name.as_deref());
        self.suppressed.push(suppressed);
    }
}

fn fanout(email: &NewEmail) -> u32 {
    u32::try_from(email.recipients.len()).unwrap_or(u32::MAX)
}
