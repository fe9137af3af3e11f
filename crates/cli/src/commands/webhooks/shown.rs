//! What is shown of webhooks, their attempts and their replays.

use restante_sdk::Timestamp;
use restante_sdk::wire::{LoggedAttempt, Replay, Webhook};

use crate::commands::endpoint::in_words;
use crate::detail::Detail;
use crate::show::Shown;
use crate::table::{Cell, Column, column, number, text};
use crate::times::{exact, relative, took};

impl Shown for Webhook {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("status"),
        column("failing"),
        column("schedule"),
        column("created"),
        text("events"),
        text("url"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::state(self.status.as_str()),
            Cell::maybe(self.failing_since.map(|at| relative(at, now))),
            Cell::new(in_words(&self.schedule)),
            Cell::new(relative(self.created_at, now)),
            Cell::new(self.events.join(", ")),
            Cell::new(&self.url),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &["filter"])?;
        if let (Some(since), Some(pauses)) = (self.failing_since, self.pauses_at) {
            detail.heading("Failing");
            detail.line(format!(
                "  {} attempts have failed since {}. A failure from {} on pauses it.",
                self.consecutive_failures,
                exact(since, detail.now),
                exact(pauses, detail.now)
            ));
            detail.line(format!("  Once its receiver is mended: restante webhooks test {}", self.id));
        }
        Ok(())
    }
}

impl Shown for LoggedAttempt {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("status"),
        column("answer"),
        number("took"),
        column("began"),
        number("number"),
        column("trigger"),
        text("delivery"),
        text("type"),
        text("reason"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        let status = self.response_status_code.map(|code| code.to_string());
        let kind = self.error_kind.as_ref().map(|kind| kind.as_str().to_owned());
        vec![
            Cell::new(&self.id),
            Cell::state(self.status.as_str()),
            Cell::maybe(status.or(kind)),
            Cell::new(took(self.response_duration_ms)),
            Cell::new(relative(self.attempted_at, now)),
            Cell::new(self.number.to_string()),
            Cell::new(self.trigger.as_str()),
            Cell::new(&self.delivery_id),
            Cell::new(&self.event_type),
            Cell::maybe(self.failure_reason.as_deref()),
        ]
    }
}

impl Shown for Replay {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("kind"),
        column("state"),
        number("total"),
        number("delivered"),
        number("failed"),
        number("skipped"),
        column("asked"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(self.kind.as_str()),
            Cell::state(self.state.as_str()),
            Cell::new(self.total.to_string()),
            Cell::new(self.delivered.to_string()),
            Cell::new(self.failed.to_string()),
            Cell::new(self.skipped.to_string()),
            Cell::new(relative(self.requested_at, now)),
        ]
    }
}
