//! `restante trigger`: what well-known senders send, with signatures that verify.

mod samples;
mod sign;

use restante_sdk::Timestamp;
use restante_server::clock::{Clock, SystemClock};
use serde_json::json;

use super::lookup::source_id;
use super::{Session, now};
use crate::connection;
use crate::exit;
use crate::nearest::nearest;
use crate::outgoing::Outgoing;
use crate::output::{self, hinted};
use crate::show::{self, Show};

use samples::{SAMPLES, Sample};

/// What signs unless told otherwise. Everybody knows it: it proves nothing.
const SECRET_DEFAULT: &str = "restante-trigger-secret";

#[derive(Debug, clap::Args)]
pub(crate) struct Trigger {
    /// Whose: github, stripe or slack
    #[arg(required_unless_present = "list")]
    provider: Option<String>,
    /// What: such as push, invoice.paid or event_callback
    #[arg(required_unless_present = "list")]
    event: Option<String>,
    /// Send it to this source: its name or id
    #[arg(long, value_name = "NAME", required_unless_present_any = ["url", "list"], conflicts_with = "url")]
    source: Option<String>,
    /// Send it to this URL
    #[arg(long)]
    url: Option<String>,
    /// What signs
    #[arg(long, default_value = SECRET_DEFAULT)]
    secret: String,
    /// List what there is
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    connection: connection::Flags,
    #[command(flatten)]
    show: show::Flags,
}

impl Trigger {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let clock = SystemClock::start();
        let show = Show::new(self.show, now(&clock));
        let (false, Some(provider), Some(event)) = (self.list, &self.provider, &self.event) else {
            return list(&show);
        };
        let sample = find(provider, event)?;
        let url = match (&self.url, &self.source) {
            (Some(url), _) => url.clone(),
            (None, source) => {
                let Session { client, .. } = Session::open(&self.connection, self.show)?;
                let id = source_id(&client, source.as_deref().unwrap_or_default())?;
                client.sources().get(&id).wait()?.url
            }
        };
        let draw = [clock.draw(), clock.draw()];
        let (body, headers) = sample.request(&self.secret, show.now, draw);
        Outgoing { method: "POST".to_owned(), url, headers, body: body.into_bytes() }.send()?.show(&show)
    }
}

fn list(show: &Show) -> anyhow::Result<()> {
    for Sample { provider, event, .. } in SAMPLES {
        match (show.flags.json, show.flags.quiet) {
            (true, _) => show.json(&json!({"provider": provider, "event": event}))?,
            (false, true) => output::line(event)?,
            (false, false) => output::line(&format!("{provider:<8}{event}"))?,
        }
    }
    Ok(())
}

fn find(provider: &str, event: &str) -> anyhow::Result<&'static Sample> {
    let found = SAMPLES.iter().find(|sample| sample.provider == provider && sample.event == event);
    found.ok_or_else(|| {
        let of_provider: Vec<&str> =
            SAMPLES.iter().filter(|sample| sample.provider == provider).map(|sample| sample.event).collect();
        let near = match of_provider.is_empty() {
            true => nearest(provider, SAMPLES.iter().map(|sample| sample.provider)),
            false => nearest(event, of_provider),
        };
        let hint = match near {
            Some(near) => format!("did you mean {near}?"),
            None => "restante trigger --list shows what there is".to_owned(),
        };
        hinted(format!("there is no sample {provider} {event}"), &hint, exit::USAGE)
    })
}

impl Sample {
    /// Body and headers of one sending.
    fn request(&self, secret: &str, now: Timestamp, draw: [u64; 2]) -> (String, Vec<(String, String)>) {
        let seconds = now.millis().div_euclid(1000);
        let id = uuid(draw);
        let body = self.body.trim_end();
        let body = body.replace("\"{{now}}\"", &seconds.to_string()).replace("{{id}}", &id.replace('-', ""));
        let mut headers = vec![("Content-Type".to_owned(), self.content_type.to_owned())];
        let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
        match self.provider {
            "github" => {
                add("User-Agent", "GitHub-Hookshot/044aadd".to_owned());
                add("Accept", "*/*".to_owned());
                add("X-GitHub-Delivery", id);
                add("X-GitHub-Event", self.event.to_owned());
                add("X-GitHub-Hook-ID", "292430182".to_owned());
                add("X-GitHub-Hook-Installation-Target-ID", "79929171".to_owned());
                add("X-GitHub-Hook-Installation-Target-Type", "repository".to_owned());
                add("X-Hub-Signature-256", sign::github(secret, &body));
            }
            "stripe" => {
                add("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)".to_owned());
                add("Accept", "*/*; q=0.5, application/xml".to_owned());
                add("Cache-Control", "no-cache".to_owned());
                add("Stripe-Signature", sign::stripe(secret, seconds, &body));
            }
            _ => {
                add("User-Agent", "Slackbot 1.0 (+https://api.slack.com/robots)".to_owned());
                add("Accept", "*/*".to_owned());
                add("X-Slack-Request-Timestamp", seconds.to_string());
                add("X-Slack-Signature", sign::slack(secret, seconds, &body));
            }
        }
        (body, headers)
    }
}

/// A UUID of version 4.
fn uuid([high, low]: [u64; 2]) -> String {
    let high = (high & !0xf000) | 0x4000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_what_its_content_type_says_and_is_signed_as_sent() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        for sample in SAMPLES {
            let (body, headers) = sample.request("secret", now, [1, 2]);
            let header =
                |name: &str| headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str());
            assert!(!body.contains("{{"), "{}: {body}", sample.event);
            if sample.content_type.starts_with("application/json") {
                serde_json::from_str::<serde_json::Value>(&body).unwrap();
            }
            match sample.provider {
                "github" => {
                    assert_eq!(header("X-Hub-Signature-256").unwrap(), sign::github("secret", &body));
                    assert_eq!(header("X-GitHub-Event"), Some(sample.event));
                }
                "stripe" => {
                    assert_eq!(
                        header("Stripe-Signature").unwrap(),
                        sign::stripe("secret", 1_796_040_000, &body)
                    );
                    let event: serde_json::Value = serde_json::from_str(&body).unwrap();
                    assert_eq!(event["type"], sample.event);
                }
                _ => assert_eq!(header("X-Slack-Request-Timestamp"), Some("1796040000")),
            }
        }
    }

    #[test]
    fn a_uuid_tells_its_version() {
        assert_eq!(uuid([0, 0]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid([u64::MAX, u64::MAX]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(
            uuid([0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef]),
            "01234567-89ab-4def-8123-456789abcdef"
        );
    }

    #[test]
    fn what_is_close_is_suggested() {
        let told = |provider, event| match find(provider, event) {
            Ok(sample) => sample.event.to_owned(),
            Err(error) => format!("{:#}", error),
        };
        assert_eq!(told("github", "push"), "push");
        assert_eq!(
            told("stripe", "invoice.payed"),
            "there is no sample stripe invoice.payed: did you mean invoice.paid?"
        );
        assert_eq!(told("gihub", "push"), "there is no sample gihub push: did you mean github?");
        assert!(told("shopify", "orders").ends_with("restante trigger --list shows what there is"));
    }
}
