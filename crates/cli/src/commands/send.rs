//! `restante send`: a request to a source, an event to webhooks, an email to mailboxes.

mod email;

use clap::Subcommand;
use restante_sdk::wire::PublishEvent;

use super::lookup::source_id;
use super::{Act, Session};
use crate::input;
use crate::outgoing::Outgoing;
use crate::output;
use crate::times::Moment;

pub(crate) use email::SendEmail;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Send a request to a source's URL, as an outsider does
    Request {
        /// Its name or id
        source: String,
        /// The body: a text, @FILE, or - for standard input
        #[arg(long, short, default_value = "")]
        data: String,
        /// A header
        #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = input::header)]
        headers: Vec<(String, String)>,
        /// The method
        #[arg(long, short = 'X', default_value = "POST")]
        method: String,
        /// What follows the URL: /path?query
        #[arg(long, default_value = "")]
        path: String,
    },
    /// Publish an event to the webhooks that are subscribed to its type
    Event(Publish),
    /// Send an email
    Email(Box<SendEmail>),
}

/// An event to publish.
#[derive(Debug, clap::Args)]
pub(crate) struct Publish {
    /// Its type: lower-case segments with dots between them, such as order.paid
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// Its data: JSON, @FILE, or - for standard input
    #[arg(long, short, value_name = "JSON", default_value = "{}")]
    data: String,
    /// When it happened [default: now]
    #[arg(long, value_name = "TIME", value_parser = Moment::parse)]
    timestamp: Option<Moment>,
    /// The same key again publishes nothing and tells what became of the first
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Act for Action {
    fn act(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Self::Request { source, data, headers, method, path } => {
                let Session { client, show } = session;
                let source = client.sources().get(&source_id(client, &source)?).wait()?;
                let body = input::bytes(&data)?;
                let mut url = source.url;
                if !path.is_empty() && !path.starts_with(['/', '?']) {
                    url.push('/');
                }
                url.push_str(&path);
                let headers = with_content_type(headers, &body);
                Outgoing { method, url, headers, body }.send()?.show(show)
            }
            Self::Event(publish) => publish.publish(session),
            Self::Email(email) => email.send(session),
        }
    }
}

/// JSON says that it is, unless the caller says what it is.
fn with_content_type(mut headers: Vec<(String, String)>, body: &[u8]) -> Vec<(String, String)> {
    let given = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !given && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() {
        headers.insert(0, ("Content-Type".to_owned(), "application/json".to_owned()));
    }
    headers
}

impl Publish {
    pub(super) fn publish(self, Session { client, show }: &Session) -> anyhow::Result<()> {
        let event = PublishEvent {
            event_type: self.event_type,
            data: input::json("--data", &self.data)?,
            timestamp: self.timestamp.map(|timestamp| timestamp.on(show.now)),
        };
        let mut call = client.events().publish(&event);
        if let Some(key) = self.idempotency_key {
            call = call.idempotency_key(key);
        }
        let published = call.wait()?;
        match (show.flags.json, show.flags.quiet) {
            (true, _) => show.json(&published),
            (false, true) => output::line(&published.id),
            (false, false) => {
                let what = if published.replayed { "was published before as" } else { "published" };
                output::line(&format!("{what} {}, to {} webhooks", published.id, published.deliveries))?;
                show.say(&format!("restante events get {} shows what becomes of it", published.id));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_says_that_it_is_unless_told_otherwise() {
        let names = |headers: &[(&str, &str)], body: &[u8]| {
            let headers =
                headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            with_content_type(headers, body)
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[], b"{\"a\":1}"), ["Content-Type=application/json"]);
        assert_eq!(names(&[("content-type", "text/plain")], b"1"), ["content-type=text/plain"]);
        assert_eq!(names(&[], b"hello"), [""; 0]);
    }
}
