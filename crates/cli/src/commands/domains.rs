//! `restante domains`: domains that mail is sent from.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Domain, DomainStatus, NewDomain, Paging};

use super::{Act, Session};
use crate::confirm::Yes;
use crate::detail::Detail;
use crate::exit;
use crate::output::Ended;
use crate::paint::Tone;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, harmless, text};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List domains, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one, with the records to set
    Get {
        /// Its id, dom_…
        domain: String,
    },
    /// Add one, and get the records to set
    Create {
        /// As example.com
        name: String,
    },
    /// Look its records up in the DNS
    Verify {
        /// Its id, dom_…
        domain: String,
    },
    /// Delete one: its key is gone for good
    Delete {
        /// Its id, dom_…
        domain: String,
        #[command(flatten)]
        yes: Yes,
    },
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let domains = client.domains();
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, domains.list(&wanted))
            }
            Self::Get { domain } => show.one(&domains.get(&domain).wait()?),
            Self::Create { name } => {
                let made = domains.create(&NewDomain::new(name)).wait()?;
                show.one(&made)?;
                show.say(&format!("set these records, then: restante domains verify {}", made.id));
                Ok(())
            }
            Self::Verify { domain } => {
                let found = domains.verify(&domain).wait()?;
                show.one(&found)?;
                if found.sending.status == DomainStatus::Verified {
                    return Ok(());
                }
                Err(Ended { code: exit::RUNTIME }.into())
            }
            Self::Delete { domain, yes } => {
                yes.confirm(&format!("delete the domain {domain}, with its key"))?;
                domains.delete(&domain).wait()?;
                show.gone("deleted", &domain)
            }
        }
    }
}

impl Shown for Domain {
    const COLUMNS: &'static [Column] =
        &[column("id"), column("status"), column("sends"), column("created"), text("name")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::state(self.sending.status.as_str()),
            Cell::new(if self.sending.can_send { "yes" } else { "no" }),
            Cell::new(relative(self.created_at, now)),
            Cell::new(&self.name),
        ]
    }

    fn detail(&self, detail: &mut Detail) -> anyhow::Result<()> {
        detail.fields(self, &["sending", "records"])?;
        detail.fields(&self.sending, &[])?;
        for record in &self.records {
            let status = record.status.as_str();
            let status = detail.paint.tone(Tone::of(status), status);
            detail.heading(&format!("{} record, {}", record.kind, record.purpose));
            detail.line(format!("  status  {status}"));
            detail.line(format!("  name    {}", harmless(&record.name)));
            detail.line(format!("  value   {}", harmless(&record.value)));
        }
        Ok(())
    }
}
