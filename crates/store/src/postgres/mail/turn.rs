//! Deliveries of emails whose turn has come: where they go, and what becomes of those that go nowhere.

use restante_core::message::MessageId;
use restante_core::{Delivery, Timestamp, delivery};
use rustc_hash::FxHashMap;

use super::told::{Recipient, Story};
use crate::email::suppression_key;
use crate::email::told::{Happened, Rejection};
use crate::postgres::Fault;
use crate::postgres::codec::{MESSAGE_COLUMNS, MessageRow, Stored, read_message};
use crate::postgres::tx::Tx;

/// Where a delivery of an email goes.
pub(in crate::postgres) struct Letter {
    pub(in crate::postgres) mailbox: String,
    /// The mailbox gets nothing.
    pub(in crate::postgres) suppressed: bool,
}

impl Tx {
    /// Where those of some locked deliveries go that are emails', by their keys. Emails that may have been changed are
    /// read again.
    pub(in crate::postgres) async fn letters(
        &self,
        due: &mut [(Stored, MessageRow)],
    ) -> Result<FxHashMap<i64, Letter>, Fault> {
        let mut letters = FxHashMap::default();
        if !due.iter().any(|(_, message)| is_email(message)) {
            return Ok(letters);
        }
        self.reread(due).await?;
        let mail = || due.iter().filter(|(_, message)| is_email(message)).map(|(stored, _)| stored);
        let mut recipients = self.recipients(mail()).await?;
        let mailbox = |it: &Stored| Some((it.workspace, recipients.get(&it.row.key)?.email.clone()));
        let mailboxes: Vec<(i64, String)> = mail().filter_map(mailbox).collect();
        let suppressed = self.suppressed(mailboxes.iter().map(|(row, email)| (*row, email.as_str()))).await?;
        for Stored { workspace, row, .. } in mail() {
            if let Some(Recipient { email, .. }) = recipients.remove(&row.key) {
                let suppressed = suppressed.contains(&(*workspace, suppression_key(&email)));
                letters.insert(row.key, Letter { mailbox: email, suppressed });
            }
        }
        Ok(letters)
    }

    /// Reads emails again that waited for a time: a change may have been over between the moment as of which they were
    /// read and the lock.
    async fn reread(&self, due: &mut [(Stored, MessageRow)]) -> Result<(), Fault> {
        let mail = due.iter().filter(|(_, message)| is_email(message));
        let (workspaces, keys): (Vec<i64>, Vec<i64>) =
            mail.map(|(stored, _)| (stored.workspace, stored.row.message)).unzip();
        let statement = format!(
            "SELECT {MESSAGE_COLUMNS} FROM (SELECT DISTINCT * FROM unnest($1::bigint[], $2::bigint[])) AS it (workspace, key) \
             JOIN email ON email.workspace = it.workspace AND email.message = it.key AND email.scheduled_at IS NOT NULL \
             JOIN message ON message.workspace = it.workspace AND message.key = it.key AND message.key = ANY($2)"
        );
        let mut latest = FxHashMap::default();
        for row in self.query(&statement, &[&workspaces, &keys]).await? {
            let message = read_message(&row, 0)?;
            latest.insert(message.id.key().value(), message.content);
        }
        for (stored, message) in due {
            if let Some(content) = latest.get(&stored.row.message) {
                message.content = content.clone();
            }
        }
        Ok(())
    }

    /// Ends locked deliveries to mailboxes that are on the list of suppressions by now.
    pub(in crate::postgres) async fn reject(
        &mut self,
        rejected: &[Stored],
        now: Timestamp,
    ) -> Result<(), Fault> {
        if rejected.is_empty() {
            return Ok(());
        }
        let (workspaces, keys): (Vec<i64>, Vec<i64>) =
            rejected.iter().map(|it| (it.workspace, it.row.key)).unzip();
        let update = "UPDATE recipient SET suppressed = true \
             FROM unnest($1::bigint[], $2::bigint[]) AS it (workspace, delivery) \
             WHERE recipient.workspace = it.workspace AND recipient.delivery = it.delivery";
        self.execute(update, &[&workspaces, &keys]).await?;
        let lives: Vec<(Stored, Delivery)> =
            rejected.iter().map(|it| (it.clone(), delivery::refuse(&it.row.life, now))).collect();
        self.write_lives(&lives).await?;
        let recipients = self.recipients(rejected.iter()).await?;
        let story = |it| (it, vec![(Happened::Rejected(Rejection::Suppressed), now)]);
        let stories: Vec<Story<'_>> = rejected.iter().map(story).collect();
        self.tell_recipients(&stories, &recipients).await?;
        self.tell_deliveries(&lives).await
    }
}

fn is_email(message: &MessageRow) -> bool {
    matches!(message.id, MessageId::Email(_))
}
