//! Mails notices to the owners of their workspaces, each once.
//!
//! A notice is written in the transaction that made it necessary. Its mail is sent under a key of the notice's own, so
//! that neither a crash between the two nor another node doubles it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use restante_core::Timestamp;
use restante_core::email::{Address, Email};
use restante_core::endpoint::Webhook;
use restante_core::id::{Tail, WebhookId};
use restante_core::idempotency::{Fingerprint, IdempotencyKey};
use restante_store::email::{NewEmail, Sending, Sent};
use restante_store::record::{Mode, Notice, NoticeKind, Record, Workspace, Written};
use restante_store::{Error, KeyClaim, Page, Start, Store};

use crate::api::freeze::{freeze, recipients};
use crate::clock::Clock;

/// How often it is looked for notices that nobody was mailed about.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Notices older than this are not news any more.
const NEWS: Duration = Duration::from_secs(24 * 3600);
/// Notices looked at in one read.
const PAGE: usize = 100;

/// What notices are mailed with.
pub(crate) struct Notifier {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) from: Address,
    pub(crate) public_url: String,
}

impl Notifier {
    /// Mails notices, for as long as the server runs.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.mail_all().await {
                tracing::warn!(error.message = %error, "notices cannot be mailed yet");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn mail_all(&self) -> Result<(), Error> {
        let mut page = Page::newest(PAGE);
        let oldest = self.clock.now() - NEWS;
        loop {
            let notices = self.store.list::<Notice>(None, None, page).await?;
            for notice in &notices.items {
                if notice.created_at < oldest {
                    return Ok(());
                }
                if notice.body.mailed_at.is_none() {
                    self.mail(notice).await?;
                }
            }
            match notices.next {
                Some(next) => page.start = Start::After(next),
                None => return Ok(()),
            }
        }
    }

    async fn mail(&self, notice: &Record<Notice>) -> Result<(), Error> {
        let workspace: Option<Record<Workspace>> =
            self.store.get(notice.workspace, restante_core::Id::from_uuid(notice.workspace.uuid())).await?;
        let owners = workspace.map(|it| it.body.owners).unwrap_or_default();
        let to: Vec<Address> = owners.iter().filter_map(|owner| Address::parse(owner).ok()).collect();
        if to.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let Some(new) = self.email(notice, to, now).await? else { return Ok(()) };
        let id = notice.id.to_string();
        let Ok(key) = IdempotencyKey::parse(id.as_bytes()) else { return Ok(()) };
        let fingerprint = Fingerprint::builder("notices.mail").field("notice", Some(&id)).finish();
        let claim = Some(KeyClaim { key, fingerprint });
        let sending =
            Sending { workspace: notice.workspace, mode: Mode::Live, items: vec![Ok(new)], claim, now };
        match self.store.send(sending).await? {
            Sent::Fresh(_) | Sent::Replayed(_) => {}
            Sent::KeyReused | Sent::NoWorkspace => return Ok(()),
        }
        let mut mailed = notice.clone();
        mailed.body.mailed_at = Some(now);
        match self.store.put(mailed, now).await? {
            // Whoever else wrote it down was faster.
            Written::Done(_) | Written::Stale | Written::NotFound | Written::NameTaken | Written::TooMany => {
                Ok(())
            }
        }
    }

    async fn email(
        &self,
        notice: &Record<Notice>,
        to: Vec<Address>,
        now: Timestamp,
    ) -> Result<Option<NewEmail>, Error> {
        let webhook = notice.parent.map(WebhookId::from_uuid);
        let record: Option<Record<Webhook>> = match webhook {
            Some(id) => self.store.get(notice.workspace, id).await?,
            None => None,
        };
        let (Some(webhook), Some(record)) = (webhook, record) else { return Ok(None) };
        let (subject, text) = words(notice.body.kind, webhook, &record.body.url, &self.public_url);
        let email = Email {
            from: self.from.clone(),
            to,
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: Some(subject),
            html: None,
            text: Some(text),
            headers: vec![("Auto-Submitted".into(), "auto-generated".into())],
            attachments: Vec::new(),
            tags: BTreeMap::new(),
            metadata: None,
            scheduled_at: None,
        };
        let recipients = recipients(&email);
        match freeze(email, None, now).await {
            Ok(frozen) => {
                let tail = Tail::from_bits(self.clock.draw());
                Ok(Some(NewEmail { frozen, recipients, scheduled_at: None, tail }))
            }
            Err(error) => {
                tracing::error!(error.cause = ?error, notice.id = %notice.id, "a notice cannot be written as an email");
                Ok(None)
            }
        }
    }
}

/// Subject and text of a notice's mail.
fn words(kind: NoticeKind, webhook: WebhookId, url: &str, public_url: &str) -> (String, String) {
    match kind {
        NoticeKind::WebhookDegraded => (
            format!("Webhook degraded: {url}"),
            format!(
                "The webhook {webhook} keeps failing.\n\n    {url}\n\nIt still gets every event, and each is tried again \
                 on its schedule. If it goes on failing, the webhook will be paused: then events are skipped until \
                 somebody makes it active again.\n\nIts attempts: {public_url}/v1/webhooks/{webhook}/attempts\n"
            ),
        ),
        NoticeKind::WebhookPaused => (
            format!("Webhook paused: {url}"),
            format!(
                "The webhook {webhook} failed for so long that it was paused.\n\n    {url}\n\nIt gets nothing until \
                 somebody makes it active again (PATCH {public_url}/v1/webhooks/{webhook} with {{\"status\": \
                 \"active\"}}). What failed can be replayed then, and what was skipped recovered.\n"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use restante_store::Policy;
    use restante_store::row::EmailFilter;
    use restante_store::sqlite::Sqlite;

    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_notice_says_what_happened_and_what_to_do() {
        let id = WebhookId::from_uuid(7);
        let (subject, text) =
            words(NoticeKind::WebhookPaused, id, "https://a.example/h", "https://us.example");
        assert_eq!(subject, "Webhook paused: https://a.example/h");
        assert!(
            text.contains(&format!(
                "PATCH https://us.example/v1/webhooks/{id} with {{\"status\": \"active\"}}"
            ))
        );
        let (subject, text) =
            words(NoticeKind::WebhookDegraded, id, "https://a.example/h", "https://us.example");
        assert_eq!(subject, "Webhook degraded: https://a.example/h");
        assert!(text.contains(&format!("https://us.example/v1/webhooks/{id}/attempts")));
    }

    #[tokio::test]
    async fn an_owner_is_mailed_once() {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(directory.path(), Policy::default()).unwrap());
        let now = Timestamp::from_millis(1_796_000_000_000);
        let clock = Arc::new(ManualClock::new(now, 7));
        let tail = |n| Tail::from_bits(n);
        let owners = vec!["ops@a.example".to_owned()];
        let made = store.make(None, None, Workspace::new("w".into(), owners), tail(1), now).await.unwrap();
        let Written::Done(workspace) = made else { panic!("{made:?}") };
        let webhook: Webhook = serde_json::from_str(
            r#"{"url":"https://b.example/in","description":null,"events":["*"],"secrets":[],"paused":false,
            "schedule":{"kind":"standard"},"headers":[],"max_in_flight":1,"rate_per_second":null,"timeout_seconds":15}"#,
        )
        .unwrap();
        let made = store.make(Some(workspace.id), None, webhook, tail(2), now).await.unwrap();
        let Written::Done(webhook) = made else { panic!("{made:?}") };
        let notice = Notice { kind: NoticeKind::WebhookDegraded, mailed_at: None };
        let parent = Some(webhook.id.uuid());
        store.make(Some(workspace.id), parent, notice, tail(3), now).await.unwrap();

        let notifier = || Notifier {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            from: Address::parse("Restante <restante@us.example>").unwrap(),
            public_url: "https://us.example".into(),
        };
        // Twice, and by another node that has not read yet that it was done.
        for _ in 0..2 {
            notifier().mail_all().await.unwrap();
        }
        let page = Page::newest(10);
        let mails = store.emails(workspace.id, EmailFilter::default(), page, now).await.unwrap().items;
        assert_eq!(mails.len(), 1);
        assert_eq!(mails[0].recipients[0].mailbox.email, "ops@a.example");
        assert_eq!(mails[0].details.subject.as_deref(), Some("Webhook degraded: https://b.example/in"));
        let notices = store.list::<Notice>(Some(workspace.id), None, page).await.unwrap().items;
        assert_eq!(notices[0].body.mailed_at, Some(now));

        let mut unread = notices[0].clone();
        unread.body.mailed_at = None;
        store.put(unread, now).await.unwrap();
        notifier().mail_all().await.unwrap();
        let mails = store.emails(workspace.id, EmailFilter::default(), page, now).await.unwrap().items;
        assert_eq!(mails.len(), 1, "its key is held");
    }
}
