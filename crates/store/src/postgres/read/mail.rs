//! Reads of emails.

use std::collections::{HashMap, HashSet};

use restante_core::Timestamp;
use restante_core::email::Standing;
use restante_core::id::{EmailId, Key, RecipientId, WorkspaceId};

use super::lists::empty;
use super::lists::walk::{Among, Keyed, List, Walk};
use super::views::MessageView;
use super::{Reader, by_key, keys_of, vanished};
use crate::email::{Details, Mailbox, Sent, kept_key};
use crate::postgres::Fault;
use crate::postgres::codec::{EMAIL, EVENT, mail_feed, read_delivery, role};
use crate::postgres::config::workspace_row;
use crate::postgres::publish::held;
use crate::postgres::scan::{Table, by_keys, deliveries_by_keys};
use crate::postgres::sql::Sql;
use crate::record::Mode;
use crate::row::{self, EmailFilter};
use crate::{KeyClaim, Page, Paged};

/// See [`crate::Store::known_send`].
pub(in crate::postgres) async fn known_send(
    sql: &Sql,
    workspace: WorkspaceId,
    mode: Mode,
    claim: &KeyClaim,
) -> Result<Option<Sent>, Fault> {
    let Some(owner) = workspace_row(sql, workspace).await? else { return Ok(None) };
    let held = held(sql, owner, &kept_key(mode, claim), claim).await?;
    Ok(held.map(|(same, answer)| Sent::known(same, &answer, claim)).transpose()?)
}

impl Reader<'_> {
    pub(in crate::postgres) async fn email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<row::Email>, Fault> {
        let Some((owner, view)) = self.visible_email(workspace, id).await? else { return Ok(None) };
        Ok(self.email_rows(owner, &[view]).await?.pop())
    }

    pub(in crate::postgres) async fn email_mime(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let Some((owner, view)) = self.visible_email(workspace, id).await? else { return Ok(None) };
        let statement = "SELECT body FROM message WHERE workspace = $1 AND key = $2";
        let row = self.sql.first(statement, &[&owner, &view.key]).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    pub(in crate::postgres) async fn emails(
        &mut self,
        workspace: WorkspaceId,
        filter: &EmailFilter,
        page: Page,
    ) -> Result<Paged<row::Email>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(empty(page)) };
        let among = Among::Scopes(vec![mail_feed(owner)]);
        let walk = Walk::new(self.sql, Table::Message, owner, among, None, None).await?;
        self.walk(&walk, filter, page).await
    }

    /// What was told about an email, oldest first.
    pub(in crate::postgres) async fn email_events(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<Vec<row::Event>>, Fault> {
        let Some((owner, view)) = self.visible_email(workspace, id).await? else { return Ok(None) };
        let statement = "SELECT event FROM email_event WHERE workspace = $1 AND email = $2 ORDER BY event";
        let rows = self.sql.query(statement, &[&owner, &view.key]).await?;
        let keys = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>, Fault>>()?;
        let mut views = self.visible(owner, &keys).await?;
        views.retain(|view| view.kind == EVENT);
        Ok(Some(self.event_rows(owner, &views).await?))
    }

    async fn visible_email(
        &mut self,
        workspace: WorkspaceId,
        id: EmailId,
    ) -> Result<Option<(i64, MessageView)>, Fault> {
        let Some(owner) = workspace_row(self.sql, workspace).await? else { return Ok(None) };
        let view = self.visible_one(owner, id.key().value()).await?;
        Ok(view.filter(|it| it.kind == EMAIL && it.tail == id.tail()).map(|view| (owner, view)))
    }

    /// Those of some emails whose own row is as wanted.
    async fn wanted(
        &self,
        owner: i64,
        views: &[MessageView],
        filter: &EmailFilter,
    ) -> Result<HashSet<i64>, Fault> {
        let statement = format!(
            "SELECT email.message, email.test, email.sender, email.scheduled_at FROM {}",
            by_keys("email", "message")
        );
        let mut wanted = HashSet::new();
        for row in self.sql.query(&statement, &[&owner, &keys_of(views)]).await? {
            let scheduled_at = row.try_get::<_, Option<i64>>(3)?.map(Timestamp::from_millis);
            if filter.is_met(row.try_get(1)?, row.try_get(2)?, scheduled_at) {
                wanted.insert(row.try_get(0)?);
            }
        }
        Ok(wanted)
    }

    /// Emails with their recipients, in the order of the views.
    async fn email_rows(&self, owner: i64, views: &[MessageView]) -> Result<Vec<row::Email>, Fault> {
        let statement = format!(
            "SELECT message.key, message.headers, email.test, email.scheduled_at, email.cancelled_at FROM {} \
             CROSS JOIN LATERAL (SELECT * FROM email WHERE email.workspace = $1 AND email.message = message.key OFFSET 0) \
             AS email",
            by_keys("message", "key")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys_of(views)]).await?;
        let rows = by_key(&rows)?;
        let mut recipients = self.recipients_of(owner, views).await?;
        let mut emails = Vec::with_capacity(views.len());
        for view in views {
            let row = rows.get(&view.key).ok_or_else(vanished)?;
            let time =
                |column| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(column)?.map(Timestamp::from_millis));
            emails.push(row::Email {
                id: EmailId::new(Key::from_value(view.key), view.tail),
                test: row.try_get(2)?,
                details: Details::read(row.try_get(1)?)?,
                scheduled_at: time(3)?,
                cancelled_at: time(4)?,
                created_at: Timestamp::from_millis(view.received_at),
                recipients: recipients.remove(&view.key).unwrap_or_default(),
            });
        }
        Ok(emails)
    }

    /// Recipients of emails, by the emails' keys.
    async fn recipients_of(
        &self,
        owner: i64,
        views: &[MessageView],
    ) -> Result<HashMap<i64, Vec<row::Recipient>>, Fault> {
        let tails: HashMap<i64, _> = views.iter().map(|view| (view.key, view.tail)).collect();
        let keys: Vec<i64> = views.iter().flat_map(|view| view.key + 1..=view.key + view.fanout).collect();
        let statement = format!(
            "SELECT recipient.delivery, recipient.role, recipient.email, recipient.name, recipient.suppressed FROM {}",
            by_keys("recipient", "delivery")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys]).await?;
        let rows = by_key(&rows)?;
        let mut errors = self.errors_of(owner, &keys).await?;
        let deliveries = self.sql.query(&deliveries_by_keys(), &[&owner, &keys]).await?;
        let mut deliveries = deliveries.iter().map(read_delivery).collect::<Result<Vec<_>, _>>()?;
        deliveries.sort_unstable_by_key(|it| it.row.key);
        let mut found: HashMap<i64, Vec<row::Recipient>> = HashMap::new();
        for it in deliveries {
            let key = it.row.key;
            let (Some(row), Some(tail)) = (rows.get(&key), tails.get(&it.row.message)) else { continue };
            found.entry(it.row.message).or_default().push(row::Recipient {
                id: RecipientId::new(Key::from_value(key), *tail),
                role: role(i64::from(row.try_get::<_, i16>(1)?))?,
                mailbox: Mailbox { email: row.try_get(2)?, name: row.try_get(3)? },
                standing: Standing { delivery: it.row.life, suppressed: row.try_get(4)? },
                error: errors.remove(&key),
            });
        }
        Ok(found)
    }

    /// The addresses that deliveries of emails go to, by the deliveries' keys.
    pub(super) async fn mailboxes_of(&self, owner: i64, keys: &[i64]) -> Result<HashMap<i64, String>, Fault> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let statement =
            format!("SELECT recipient.delivery, recipient.email FROM {}", by_keys("recipient", "delivery"));
        let rows = self.sql.query(&statement, &[&owner, &keys]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// What the latest attempts that failed were told, by their deliveries' keys.
    async fn errors_of(&self, owner: i64, keys: &[i64]) -> Result<HashMap<i64, String>, Fault> {
        let statement = format!(
            "SELECT DISTINCT ON (attempt.delivery) attempt.delivery, attempt.message FROM {} \
             WHERE attempt.message IS NOT NULL ORDER BY attempt.delivery, attempt.number DESC",
            by_keys("attempt", "delivery")
        );
        let rows = self.sql.query(&statement, &[&owner, &keys]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

impl List for EmailFilter {
    type Match = row::Email;

    async fn matches(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        keys: &[i64],
    ) -> Result<Vec<row::Email>, Fault> {
        let mut views = reader.visible(owner, keys).await?;
        views.retain(|view| view.kind == EMAIL);
        let wanted = reader.wanted(owner, &views, self).await?;
        views.retain(|view| wanted.contains(&view.key));
        let mut emails = reader.email_rows(owner, &views).await?;
        emails.retain(|email| self.is_met_by(email, reader.now));
        Ok(emails)
    }
}

impl Keyed for row::Email {
    fn key(&self) -> Key {
        self.id.key()
    }
}
