//! `restante workspace`: the workspace of the key.

use clap::{Subcommand, ValueEnum as _};
use restante_sdk::Timestamp;
use restante_sdk::wire::{Quotas, Workspace, WorkspaceChange};

use super::sources::change;
use super::{Act, Session};
use crate::show::Shown;
use crate::table::{Cell, Column, column, number, text};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show it
    Get,
    /// Change it
    Update {
        /// A new name
        #[arg(long)]
        name: Option<String>,
        /// A mail address that is told about trouble; replaces all
        #[arg(long = "owner", value_name = "ADDRESS")]
        owners: Vec<String>,
        /// Most days that its sources may keep requests; only for the scope admin
        #[arg(long, value_name = "DAYS")]
        retention_days_max: Option<u32>,
        /// How many of one kind there may be: sources, webhooks, domains or templates, as sources=10; replaces all, and only
        /// for the scope admin
        #[arg(long = "quota", value_name = "KIND=NUMBER", value_parser = quota)]
        quotas: Vec<(Counted, u32)>,
        /// Take back to its default
        #[arg(long, value_name = "SETTING")]
        reset: Vec<Reset>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reset {
    Owners,
    RetentionDaysMax,
    Quotas,
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Counted {
    Sources,
    Webhooks,
    Domains,
    Templates,
}

fn quota(text: &str) -> Result<(Counted, u32), String> {
    let wrong = || "expected sources, webhooks, domains or templates, an equals sign and a number".to_owned();
    let (kind, number) = text.split_once('=').ok_or_else(wrong)?;
    Ok((Counted::from_str(kind, false).map_err(|_| wrong())?, number.parse().map_err(|_| wrong())?))
}

fn together(quotas: &[(Counted, u32)]) -> Option<Quotas> {
    let mut all = Quotas::default();
    for (kind, number) in quotas {
        let quota = match kind {
            Counted::Sources => &mut all.sources,
            Counted::Webhooks => &mut all.webhooks,
            Counted::Domains => &mut all.domains,
            Counted::Templates => &mut all.templates,
        };
        *quota = Some(*number);
    }
    (!quotas.is_empty()).then_some(all)
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        match self {
            Self::Get => show.one(&client.workspace().get().wait()?),
            Self::Update { name, owners, retention_days_max, quotas, reset } => {
                let owners = (!owners.is_empty()).then_some(owners);
                let change = WorkspaceChange {
                    name,
                    owners: change(owners, reset.contains(&Reset::Owners)),
                    retention_days_max: change(retention_days_max, reset.contains(&Reset::RetentionDaysMax)),
                    quotas: change(together(&quotas), reset.contains(&Reset::Quotas)),
                };
                show.one(&client.workspace().update(&change).wait()?)
            }
        }
    }
}

impl Shown for Workspace {
    const COLUMNS: &'static [Column] = &[column("id"), number("credits"), column("name"), text("owners")];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, _: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::maybe(self.credits.map(|credits| credits.to_string())),
            Cell::new(&self.name),
            Cell::new(self.owners.join(", ")),
        ]
    }
}
