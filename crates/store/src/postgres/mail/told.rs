//! What becomes known about emails, as events of their workspaces.

use std::sync::Arc;

use restante_core::email::Role;
use restante_core::id::{EmailId, Key, RecipientId, Tail};
use restante_core::message::{Content as Message, Published};
use restante_core::{Attempt, Delivery, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::NewEvent;
use crate::email::told::{About, Happened, To, hard_bounce, of_attempt};
use crate::email::{Details, suppression_draft};
use crate::postgres::Fault;
use crate::postgres::codec::{Stored, role};
use crate::postgres::tx::Tx;

/// Something that is told about an email.
pub(super) struct Telling {
    /// Their rows.
    pub(super) workspace: i64,
    pub(super) email: i64,
    pub(super) event: NewEvent,
    pub(super) now: Timestamp,
}

/// An attempt to a mailbox that was settled: its delivery before and after it.
pub(in crate::postgres) struct Mailed {
    pub(in crate::postgres) stored: Stored,
    pub(in crate::postgres) attempt: Attempt,
    pub(in crate::postgres) life: Delivery,
}

pub(super) struct Recipient {
    role: Role,
    pub(super) email: String,
}

/// What happened to a recipient, in the order of its happening.
pub(super) type Story<'a> = (&'a Stored, Vec<(Happened<'a>, Timestamp)>);

impl Tx {
    /// Stores what is told about emails as events of their workspaces.
    pub(super) async fn tell_all(&mut self, told: Vec<Telling>) -> Result<(), Fault> {
        let (mut workspaces, mut emails, mut events) = (Vec::new(), Vec::new(), Vec::new());
        let mut routed = Vec::with_capacity(told.len());
        for Telling { workspace, email, event, now } in told {
            let NewEvent { event_type, body, tail } = event;
            let content = Message::Event(Published { event_type, body });
            let content = Arc::new(self.node.content_bytes.hold(content));
            let event = self.route(workspace, content, tail, now).await?;
            workspaces.push(workspace);
            emails.push(email);
            events.push(event.receipt.id.key().value());
            routed.push(event);
        }
        if routed.is_empty() {
            return Ok(());
        }
        self.store_events(&routed).await?;
        let insert = "INSERT INTO email_event (workspace, email, event) \
             SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[])";
        self.execute(insert, &[&workspaces, &emails, &events]).await?;
        Ok(())
    }

    /// Tells what attempts to mailboxes came to, and puts mailboxes that do not exist on the list of suppressions.
    pub(in crate::postgres) async fn tell_attempts(&mut self, mailed: &[Mailed]) -> Result<(), Fault> {
        if mailed.is_empty() {
            return Ok(());
        }
        let recipients = self.recipients(mailed.iter().map(|it| &it.stored)).await?;
        let stories: Vec<Story<'_>> =
            mailed.iter().map(|it| (&it.stored, of_attempt(&it.attempt, &it.life))).collect();
        self.tell_recipients(&stories, &recipients).await?;
        self.suppress_bounced(mailed, &recipients).await
    }

    async fn suppress_bounced(
        &mut self,
        mailed: &[Mailed],
        recipients: &FxHashMap<i64, Recipient>,
    ) -> Result<(), Fault> {
        let mut bounced = Vec::new();
        for it in mailed {
            let key = it.stored.row.key;
            if let (Some(failure), Some(to)) = (hard_bounce(&it.attempt.outcome), recipients.get(&key)) {
                let workspace = it.stored.workspace;
                let draft = suppression_draft(self.owner(workspace)?, &to.email, &failure.message, key)?;
                bounced.push((workspace, draft, it.attempt.ended_at));
            }
        }
        // In the order of their names, so that two of these do not wait for each other.
        bounced.sort_by(|(a, one, _), (b, other, _)| (a, &one.name).cmp(&(b, &other.name)));
        for (workspace, draft, at) in bounced {
            // It may be on the list already.
            self.insert_unless_taken(&draft, Some(workspace), None, at).await?;
        }
        Ok(())
    }

    pub(super) async fn tell_recipients(
        &mut self,
        stories: &[Story<'_>],
        recipients: &FxHashMap<i64, Recipient>,
    ) -> Result<(), Fault> {
        let emails = self.details_of(stories.iter().map(|(stored, _)| *stored)).await?;
        let mut told = Vec::new();
        for (stored, happened) in stories {
            let (workspace, email, key) = (stored.workspace, stored.row.message, stored.row.key);
            let (Some(to), Some((tail, details))) = (recipients.get(&key), emails.get(&email)) else {
                continue;
            };
            let owner = self.owner(workspace)?;
            let about =
                About { email: EmailId::new(Key::from_value(email), *tail), workspace: owner, details };
            let id = RecipientId::new(Key::from_value(key), *tail);
            let to = To { id, role: to.role, email: &to.email };
            let now = happened.last().map_or(Timestamp::default(), |(_, at)| *at);
            for (what, at) in happened {
                told.push(Telling { workspace, email, event: about.tell(&to, what, *at)?, now });
            }
        }
        self.tell_all(told).await
    }

    /// Recipients by their deliveries' keys.
    pub(super) async fn recipients<'a>(
        &self,
        deliveries: impl Iterator<Item = &'a Stored> + Send,
    ) -> Result<FxHashMap<i64, Recipient>, Fault> {
        let (workspaces, keys): (Vec<i64>, Vec<i64>) =
            deliveries.map(|it| (it.workspace, it.row.key)).unzip();
        let statement = "SELECT recipient.delivery, role, email FROM unnest($1::bigint[], $2::bigint[]) \
             AS it (workspace, delivery) JOIN recipient ON recipient.workspace = it.workspace \
             AND recipient.delivery = it.delivery";
        let rows = self.query(statement, &[&workspaces, &keys]).await?;
        let read = |row: &tokio_postgres::Row| {
            let role = role(i64::from(row.try_get::<_, i16>(1)?))?;
            Ok((row.try_get(0)?, Recipient { role, email: row.try_get(2)? }))
        };
        rows.iter().map(read).collect()
    }

    /// The random parts of the ids of some deliveries' emails, and what is shown of them, by the emails' keys.
    async fn details_of<'a>(
        &self,
        deliveries: impl Iterator<Item = &'a Stored> + Send,
    ) -> Result<FxHashMap<i64, (Tail, Details)>, Fault> {
        let emails: FxHashSet<(i64, i64)> = deliveries.map(|it| (it.workspace, it.row.message)).collect();
        let (workspaces, keys): (Vec<i64>, Vec<i64>) = emails.into_iter().unzip();
        let statement = "SELECT message.key, tail, headers FROM unnest($1::bigint[], $2::bigint[]) AS it (workspace, key) \
             JOIN message ON message.workspace = it.workspace AND message.key = it.key AND message.key = ANY($2)";
        let rows = self.query(statement, &[&workspaces, &keys]).await?;
        let read = |row: &tokio_postgres::Row| {
            let tail = Tail::from_bits(row.try_get::<_, i64>(1)?.unsigned_abs());
            Ok((row.try_get(0)?, (tail, Details::read(row.try_get(2)?)?)))
        };
        rows.iter().map(read).collect()
    }
}
