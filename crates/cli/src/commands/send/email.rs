//! `restante send email`.

use std::path::PathBuf;

use anyhow::Context;
use restante_sdk::wire::{self, Attachment, Mailbox, UseTemplate};

use crate::commands::Session;
use crate::exit;
use crate::input;
use crate::output::{self, hinted};
use crate::times::Moment;

/// An email to send.
#[derive(Debug, clap::Args)]
pub(crate) struct SendEmail {
    /// The sender: ada@example.com or 'Ada <ada@example.com>'
    #[arg(long, value_name = "ADDRESS")]
    from: String,
    /// To whom; may be given several times
    #[arg(long, value_name = "ADDRESS", required = true)]
    to: Vec<String>,
    /// Who gets a copy that all see
    #[arg(long, value_name = "ADDRESS")]
    cc: Vec<String>,
    /// Who gets a copy that nobody sees
    #[arg(long, value_name = "ADDRESS")]
    bcc: Vec<String>,
    /// Where answers go [default: to the sender]
    #[arg(long, value_name = "ADDRESS")]
    reply_to: Vec<String>,
    /// As people read it
    #[arg(long)]
    subject: Option<String>,
    /// What it says: a text, @FILE, or - for standard input
    #[arg(long, conflicts_with = "template")]
    text: Option<String>,
    /// What it says, as HTML: a text, @FILE, or -
    #[arg(long, conflicts_with = "template")]
    html: Option<String>,
    /// A file that goes with it
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// A further header line
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = input::header)]
    headers: Vec<(String, String)>,
    /// A tag of yours
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = input::pair)]
    tags: Vec<(String, String)>,
    /// JSON of yours, shown again and told to webhooks: an object, @FILE or -
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Not before: a time, or 15m, 2h, 7d from now; at most 30 days
    #[arg(long, value_name = "TIME", value_parser = Moment::parse_ahead)]
    scheduled_at: Option<Moment>,
    /// The template it is made from: its slug or id
    #[arg(long)]
    template: Option<String>,
    /// Values for what the template names: a JSON object, @FILE or -
    #[arg(long, value_name = "JSON", requires = "template")]
    props: Option<String>,
    /// The same key again sends nothing and tells what became of the first
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl SendEmail {
    pub(crate) fn send(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let key = self.idempotency_key.clone();
        let scheduled_at = self.scheduled_at.map(|at| at.on(show.now));
        let email = wire::SendEmail { scheduled_at, ..self.email()? };
        let mut call = client.emails().send(&email);
        if let Some(key) = key {
            call = call.idempotency_key(key);
        }
        let sent = call.wait()?;
        match (show.flags.json, show.flags.quiet) {
            (true, _) => show.json(&sent),
            (false, true) => output::line(sent.id()),
            (false, false) => {
                let what = if sent.replayed() { "was accepted before as" } else { "accepted" };
                output::line(&format!("{what} {}: {}", sent.id(), sent.status()))?;
                if sent.email().is_some_and(|email| email.transport == wire::Transport::Capture) {
                    show.say("mail is captured here: it is kept and shown, and goes nowhere");
                }
                show.say(&format!("restante emails get {} shows what becomes of it", sent.id()));
                Ok(())
            }
        }
    }

    fn email(self) -> anyhow::Result<wire::SendEmail> {
        if self.text.is_none() && self.html.is_none() && self.template.is_none() {
            let hint = "--text 'Hello', --html @letter.html, or --template SLUG";
            return Err(hinted("the email says nothing", hint, exit::USAGE));
        }
        let all = |addresses: Vec<String>| addresses.into_iter().map(Mailbox::from).collect();
        let text = |given: Option<String>| given.map(|given| input::text(&given)).transpose();
        let json =
            |flag: &str, given: Option<String>| given.map(|given| input::json(flag, &given)).transpose();
        let template = match self.template {
            Some(id) => Some(UseTemplate { id, version: None, props: json("--props", self.props)? }),
            None => None,
        };
        let attachments: anyhow::Result<Vec<Attachment>> = self.files.into_iter().map(attachment).collect();
        Ok(wire::SendEmail {
            from: self.from.into(),
            to: all(self.to),
            cc: all(self.cc),
            bcc: all(self.bcc),
            reply_to: all(self.reply_to),
            subject: self.subject,
            html: text(self.html)?,
            text: text(self.text)?,
            headers: self.headers.into_iter().collect(),
            attachments: attachments?,
            tags: self.tags.into_iter().collect(),
            metadata: json("--metadata", self.metadata)?,
            scheduled_at: None,
            template,
        })
    }
}

fn attachment(path: PathBuf) -> anyhow::Result<Attachment> {
    let bytes = std::fs::read(&path).map_err(|error| {
        hinted(
            format!("cannot read {}: {error}", path.display()),
            "--file names a readable file",
            exit::USAGE,
        )
    })?;
    let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
    Ok(Attachment::new(name, bytes))
}
