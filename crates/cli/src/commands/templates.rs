//! `restante templates`: what emails are made from.

use clap::Subcommand;
use restante_sdk::Timestamp;
use restante_sdk::wire::{Paging, PreviewTemplate, Template, TemplatePreview};

use super::{Act, Session};
use crate::input;
use crate::output;
use crate::show::{Paged, Shown};
use crate::table::{Cell, Column, column, harmless, number, text};
use crate::times::relative;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List templates, newest first
    List {
        #[command(flatten)]
        paged: Paged,
    },
    /// Show one, with its draft
    Get {
        /// Its slug or id
        template: String,
    },
    /// Render its draft
    Preview {
        /// Its slug or id
        template: String,
        /// Values for what it names: a JSON object, @FILE or -
        #[arg(long, value_name = "JSON")]
        props: Option<String>,
        /// Only this part
        #[arg(long, value_enum)]
        part: Option<Part>,
    },
}

/// A part of a rendered template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Subject,
    Text,
    Html,
}

impl Act for Action {
    fn act(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let templates = client.templates();
        match self {
            Self::List { paged } => {
                let wanted = Paging { limit: paged.page_items(), ..Paging::default() };
                show.list(paged, templates.list(&wanted))
            }
            Self::Get { template } => show.one(&templates.get(&template).wait()?),
            Self::Preview { template, props, part } => {
                let props = props.map(|given| input::json("--props", &given)).transpose()?;
                let preview = templates.preview(&template, &PreviewTemplate { props }).wait()?;
                if show.flags.json { show.json(&preview) } else { rendered(&preview, part) }
            }
        }
    }
}

/// One part as it is, or all of them with their names.
fn rendered(preview: &TemplatePreview, part: Option<Part>) -> anyhow::Result<()> {
    let parts = [
        (Part::Subject, "subject", &preview.subject),
        (Part::Text, "text", &preview.text),
        (Part::Html, "html", &preview.html),
    ];
    for (which, name, text) in parts {
        match (part, text) {
            (Some(wanted), Some(text)) if wanted == which => output::line(text)?,
            (None, Some(text)) => {
                let lines: Vec<String> = text.lines().map(harmless).collect();
                output::line(&format!("{name}:\n{}\n", lines.join("\n")))?;
            }
            (_, _) => {}
        }
    }
    Ok(())
}

impl Shown for Template {
    const COLUMNS: &'static [Column] = &[
        column("id"),
        column("slug"),
        column("status"),
        number("version"),
        column("updated"),
        text("subject"),
    ];

    fn id(&self) -> &str {
        &self.id
    }

    fn row(&self, now: Timestamp) -> Vec<Cell> {
        vec![
            Cell::new(&self.id),
            Cell::new(&self.slug),
            Cell::state(self.status.as_str()),
            Cell::maybe(self.published_version.map(|version| version.to_string())),
            Cell::new(relative(self.updated_at, now)),
            Cell::new(&self.subject),
        ]
    }
}
