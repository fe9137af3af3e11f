//! `restante emails`: what is sent to mailboxes.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Email, EmailEvent, EmailStatus, ListEmails, Paging};

use super::send::SendEmail;
use super::{Act, Session, words};
use crate::detail::Detail;
use crate::paint::Tone;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, harmless, text};
use crate::times::{Moment, exact, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List emails, newest first
    List {
        /// In any of these states
        #[arg(long, value_delimiter = ',', value_parser = words::email_status())]
        status: Vec<EmailStatus>,
        /// From exactly this address
        #[arg(long, value_name = "ADDRESS")]
        from: Option<String>,
        /// Scheduled for this time or later: a time, or 15m, 2h, 7d from now
        #[arg(long, value_name = "TIME", value_parser = Moment::parse_ahead)]
        scheduled_from: Option<Moment>,
        /// Scheduled for this time or earlier
        #[arg(long, value_name = "TIME", value_parser = Moment::parse_ahead)]
        scheduled_to: Option<Moment>,
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one, with what became of it for each recipient
    Get {
        /// Its id, em_…
        email: String,
    },
    /// List what webhooks were told about one, oldest first
    Events {
        /// Its id, em_…
        email: String,
        #[command(flatten)]
        paged: Paged,
    },
    /// Send one (also: restante send email)
    Send(Box<SendEmail>),
    /// Cancel one of which no attempt has begun
    Cancel {
        /// Its id, em_…
        email: String,
    },
    /// Give a scheduled one another time
    Reschedule {
        /// Its id, em_…
        email: String,
        /// A time, or 15m, 2h, 7d from now; at most 30 days, and a past time sends it at once
        #[arg(value_name = "TIME", value_parser = Moment::parse_ahead)]
        scheduled_at: Moment,
    },
}

impl Act for Action {
    fn act(self, session: &Session) -> anyhow::Result<()> {
        let Session { client, show } = session;
        let emails = client.emails();
        match self {
            Self::List { status, from, scheduled_from, scheduled_to, paged } => {
                let wanted = ListEmails {
                    status,
                    from,
                    scheduled_from: scheduled_from.map(|from| from.on(show.now)),
                    scheduled_to: scheduled_to.map(|to| to.on(show.now)),
                    limit: paged.page_items(),
                    ..ListEmails::default()
                };
                show.list(paged, emails.list(&wanted))
            }
            Self::Get { email } => show.one(&emails.get(&email).wait()?),
            Self::Events { email, paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, emails.list_events(&email, &wanted))
            }
            Self::Send(email) => email.send(session),
            Self::Cancel { email } => show.did("cancelled", &emails.cancel(&email).wait()?),
            Self::Reschedule { email, scheduled_at } => {
                show.one(&emails.reschedule(&email, scheduled_at.on(show.now)).wait()?)
            }
        }
    }
}

impl Shown for Email {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("status"),
        column("transport"),
        column("created"),
        column("scheduled"),
        text("to"),
        text("subject"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let first = self.recipients.first().map_or("-", |recipient| &recipient.email);
        let to = match self.recipients.len() {
            0 | 1 => first.to_owned(),
            several => format!("{first} and {} more", several - 1),
        };
        vec![
            Cell::new(&self.id),
            Cell::state(self.status.as_str()),
            Cell::new(self.transport.as_str()),
            Cell::new(relative(self.created_at, now)),
            Cell::maybe(self.scheduled_at.map(|at| relative(at, now))),
            Cell::new(to),
            Cell::maybe(self.subject.as_deref()),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &["from", "recipients", "thread_id", "broadcast_id", "tags", "metadata"])?;
        detail.field("from", Cell::new(&self.from.email));
        if !self.tags.is_empty() {
            let tags: Vec<String> = self.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
            detail.field("tags", Cell::new(tags.join(", ")));
        }
        if let Some(metadata) = &self.metadata {
            detail.field("metadata", Cell::new(metadata.as_str()));
        }
        detail.heading("Recipients");
        for recipient in &self.recipients {
            let status = recipient.status.as_str();
            let label = detail.paint.tone(Tone::of(status), &format!("{status:<10}"));
            let mut line =
                format!("  {label}  {:<3}  {}", recipient.kind.as_str(), harmless(&recipient.email));
            if let Some(at) = recipient.delivered_at {
                line.push_str(&format!("  {}", exact(at, detail.now)));
            }
            if let Some(error) = &recipient.error {
                line.push_str(&format!("  {}", harmless(error)));
            }
            detail.line(line);
        }
        Ok(())
    }
}

impl Shown for EmailEvent {
    const COLUMNS: &'static [Column] = &[column("id"), column("created"), text("type")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![Cell::new(&self.id), Cell::new(relative(self.created_at, now)), Cell::new(&self.event_type)]
    }
}
