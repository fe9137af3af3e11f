//! The DNS records that a domain sets so that receivers trust its mail, and whether it has set them.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

mod dns;
#[cfg(test)]
mod tests;

pub use dns::SystemLookup;

/// A record to set. Serialises as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The whole name, without a dot at its end.
    pub name: String,
    pub value: String,
    /// Of MX records only.
    pub priority: Option<u16>,
    pub purpose: Purpose,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    Txt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The public key. With it the domain is verified; the others are advice.
    Dkim,
    /// Which hosts send for the domain (RFC 7208). The envelope's sender is the From address, so it is the domain's own.
    Spf,
    /// What receivers do with mail that is neither signed nor from these hosts (RFC 7489).
    Dmarc,
}

/// What the last lookup said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No record of this purpose is there, or nobody has looked.
    Pending,
    Verified,
    /// A record of this purpose is there and says something else, or there are several.
    Failed,
}

/// What the records of a domain depend on.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// In A-labels.
    pub domain: &'a str,
    pub selector: &'a str,
    /// The text of [`Key::record`](super::dkim::Key::record).
    pub dkim: &'a str,
    /// The mechanisms of SPF that name the hosts which send, as `include:spf.relay.example` or `a mx`.
    pub senders: &'a str,
}

/// The records to set, none of them looked up yet.
pub fn wanted(setup: Setup<'_>) -> Vec<Record> {
    let Setup { domain, selector, dkim, senders } = setup;
    let record = |purpose, name: String, value: String| Record {
        kind: Kind::Txt,
        name,
        value,
        priority: None,
        purpose,
        status: Status::Pending,
    };
    vec![
        record(Purpose::Dkim, format!("{selector}._domainkey.{domain}"), dkim.to_owned()),
        record(Purpose::Spf, domain.to_owned(), format!("v=spf1 {senders} ~all")),
        record(Purpose::Dmarc, format!("_dmarc.{domain}"), "v=DMARC1; p=none".to_owned()),
    ]
}

/// Asks the DNS.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// The TXT records of a name, each with its strings joined; empty when it has none or does not exist.
    ///
    /// # Errors
    /// `LookupFault` when there was no answer: what was known before still holds.
    async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault>;
}

/// Why the DNS gave no answer, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LookupFault(pub String);

/// Looks every record up and notes its status.
///
/// # Errors
/// The first `LookupFault`. A record that could not be looked up keeps its status: a name server that is down for a
/// minute takes no domain its verification. The others have their new one.
pub async fn check(records: &mut [Record], lookup: &dyn Lookup) -> Result<(), LookupFault> {
    let mut outcome = Ok(());
    for record in records {
        match lookup.txt(&record.name).await {
            Ok(found) => record.status = status(record, &found),
            Err(fault) => outcome = outcome.and(Err(fault)),
        }
    }
    outcome
}

fn status(record: &Record, found: &[String]) -> Status {
    let mut of_purpose = found.iter().filter(|text| match record.purpose {
        // Nothing else belongs at the name of a key.
        Purpose::Dkim => !text.trim().is_empty(),
        Purpose::Spf => is_spf(text),
        Purpose::Dmarc => is_dmarc(text),
    });
    let agrees = |text: &str| match record.purpose {
        Purpose::Dkim => same_key(&record.value, text),
        Purpose::Spf => has_senders(&record.value, text),
        Purpose::Dmarc => has_policy(text),
    };
    match (of_purpose.next(), of_purpose.next()) {
        (None, _) => Status::Pending,
        (Some(text), None) if agrees(text) => Status::Verified,
        (Some(_), _) => Status::Failed,
    }
}

fn same_key(wanted: &str, found: &str) -> bool {
    let is_ours = |name: &str, value: &str| tag(found, name).is_none_or(|it| it.eq_ignore_ascii_case(value));
    let key = tag(found, "p");
    key.is_some() && key == tag(wanted, "p") && is_ours("v", "DKIM1") && is_ours("k", "rsa")
}

/// The value of a tag (RFC 6376, 3.2), without the white space that may be anywhere in it.
fn tag(record: &str, name: &str) -> Option<String> {
    let mut tags = record.split(';').filter_map(|tag| tag.split_once('='));
    let value = tags.find(|(found, _)| found.trim() == name)?.1;
    Some(value.split_ascii_whitespace().collect())
}

fn is_spf(text: &str) -> bool {
    text.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case("v=spf1"))
}

fn has_senders(wanted: &str, found: &str) -> bool {
    let mechanisms = |text: &str| -> Vec<String> {
        let words = text.split_ascii_whitespace().skip(1);
        words.map(|word| word.strip_prefix('+').unwrap_or(word).to_ascii_lowercase()).collect()
    };
    let found = mechanisms(found);
    // What happens to all others is the domain's own business.
    mechanisms(wanted).iter().filter(|it| !it.ends_with("all")).all(|it| found.contains(it))
}

fn is_dmarc(text: &str) -> bool {
    text.split(';').next().is_some_and(|first| tag(first, "v").as_deref() == Some("DMARC1"))
}

fn has_policy(found: &str) -> bool {
    let policies = ["none", "quarantine", "reject"];
    tag(found, "p").is_some_and(|found| policies.iter().any(|it| found.eq_ignore_ascii_case(it)))
}
