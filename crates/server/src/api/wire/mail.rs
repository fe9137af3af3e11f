//! The shapes of what emails are made from, where they come from, and whom they do not go to.

use restante_core::Timestamp;
use restante_core::id::{DomainId, SuppressionId, TemplateId, TemplateVersionId};
use restante_store::record::{self, Record, SuppressionReason, TemplateText};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::mail::records;
use crate::mail::template::Rendered;

/// What emails are made from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Template {
    #[schema(example = "template")]
    object: &'static str,
    #[schema(value_type = String)]
    id: TemplateId,
    name: String,
    /// Unique in the workspace; stands for the id wherever that is wanted.
    slug: String,
    description: Option<String>,
    /// `draft` until it is first published, then `published`.
    status: &'static str,
    /// The version that is sent; null: none yet.
    published_version: Option<u32>,
    /// The newest version. A draft counts: it has the number that it gets when it is published.
    latest_version: u32,
    /// Of the draft.
    subject: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The draft, or the version it was published as; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    latest: Option<TemplateVersion>,
}

impl Template {
    pub(crate) fn new(record: Record<record::Template>, latest: TemplateVersion) -> Self {
        let template = record.body;
        Self {
            object: "template",
            id: record.id,
            name: template.name,
            slug: template.slug,
            description: template.description,
            status: if template.published.is_some() { "published" } else { "draft" },
            published_version: template.published,
            latest_version: latest.version,
            subject: template.draft.subject,
            created_at: record.created_at,
            updated_at: record.updated_at,
            latest: Some(latest),
        }
    }

    /// As lists show it.
    pub(crate) fn in_list(self) -> Self {
        Self { latest: None, ..self }
    }
}

/// A template as it was published once, or its draft.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplateVersion {
    #[schema(example = "template_version")]
    object: &'static str,
    #[schema(value_type = String)]
    id: TemplateVersionId,
    #[schema(value_type = String)]
    template_id: TemplateId,
    version: u32,
    /// `draft` or `published`.
    state: &'static str,
    subject: String,
    html: Option<String>,
    text: Option<String>,
    /// Values for what a caller leaves out.
    #[schema(value_type = Object)]
    props: Map<String, Value>,
    #[schema(value_type = Option<String>, format = DateTime)]
    published_at: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl TemplateVersion {
    pub(crate) fn published(record: Record<record::TemplateVersion>) -> Self {
        let template = TemplateId::from_uuid(record.parent.unwrap_or_default());
        let TemplateText { subject, html, text, props } = record.body.text;
        Self {
            object: "template_version",
            id: record.id,
            template_id: template,
            version: record.body.version,
            state: "published",
            subject,
            html,
            text,
            props,
            published_at: Some(record.created_at),
            created_at: record.created_at,
        }
    }

    /// The draft of a template, which would become this version. Its id is made of the template's: it has none yet.
    pub(crate) fn draft(template: &Record<record::Template>, version: u32) -> Self {
        let TemplateText { subject, html, text, props } = template.body.draft.clone();
        Self {
            object: "template_version",
            id: TemplateVersionId::from_uuid(template.id.uuid()),
            template_id: template.id,
            version,
            state: "draft",
            subject,
            html,
            text,
            props,
            published_at: None,
            created_at: template.updated_at,
        }
    }
}

/// What a template gives with some props.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TemplatePreview {
    #[schema(example = "template_preview")]
    object: &'static str,
    subject: Option<String>,
    html: Option<String>,
    text: Option<String>,
}

impl From<Rendered> for TemplatePreview {
    fn from(rendered: Rendered) -> Self {
        let Rendered { subject, html, text } = rendered;
        Self { object: "template_preview", subject, html, text }
    }
}

/// A domain that mail is sent from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Domain {
    #[schema(example = "domain")]
    object: &'static str,
    #[schema(value_type = String)]
    id: DomainId,
    /// In lower case and as A-labels.
    name: String,
    sending: DomainSending,
    /// What is to be set in the DNS.
    records: Vec<DomainRecord>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// Whether mail can be sent from a domain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DomainSending {
    /// `pending` until it was looked up, `verified`: its key is in the DNS and its mail is signed, or `failed`: its key
    /// was not found there.
    status: &'static str,
    can_send: bool,
    /// When the records were last looked up.
    #[schema(value_type = Option<String>, format = DateTime)]
    checked_at: Option<Timestamp>,
    /// What was wrong then.
    error: Option<String>,
    note: Option<&'static str>,
}

/// A record to set in the DNS.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DomainRecord {
    /// `TXT`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    kind: records::Kind,
    /// The whole name, without a dot at its end.
    name: String,
    value: String,
    /// Of MX records only.
    priority: Option<u16>,
    /// `dkim`: with it the domain is verified; `spf` and `dmarc` are advice.
    #[schema(value_type = String)]
    purpose: records::Purpose,
    /// `pending`: it was not looked up or is not there, `verified`, or `failed`: it says something else. What is said of
    /// `spf` and `dmarc` is only in the answer to a verification.
    #[schema(value_type = String)]
    status: records::Status,
}

impl Domain {
    /// `unsigned`: mail is also taken from domains that are not verified.
    pub(crate) fn new(record: Record<record::Domain>, wanted: Vec<records::Record>, unsigned: bool) -> Self {
        let domain = record.body;
        let verified = domain.verified_at.is_some();
        let status = match domain.error {
            _ if verified => "verified",
            Some(_) => "failed",
            None => "pending",
        };
        let note = match (verified, unsigned) {
            (true, _) => None,
            (false, true) => Some("its mail is sent, but not signed until the domain is verified"),
            (false, false) => Some("no mail is taken from it until the domain is verified"),
        };
        Self {
            object: "domain",
            id: record.id,
            name: domain.name,
            sending: DomainSending {
                status,
                can_send: verified || unsigned,
                checked_at: domain.checked_at,
                error: domain.error,
                note,
            },
            records: wanted.into_iter().map(DomainRecord::from).collect(),
            created_at: record.created_at,
            updated_at: record.updated_at,
        }
    }
}

impl From<records::Record> for DomainRecord {
    fn from(record: records::Record) -> Self {
        let records::Record { kind, name, value, priority, purpose, status } = record;
        Self { kind, name, value, priority, purpose, status }
    }
}

/// A mailbox that gets nothing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Suppression {
    #[schema(example = "suppression")]
    object: &'static str,
    #[schema(value_type = String)]
    id: SuppressionId,
    email: String,
    /// `hard_bounce`: a mail server said that there is no such mailbox; `manual`: somebody put it there.
    #[schema(value_type = String)]
    reason: SuppressionReason,
    /// What the mail server said.
    detail: Option<String>,
    #[schema(example = true)]
    removable: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Record<record::Suppression>> for Suppression {
    fn from(record: Record<record::Suppression>) -> Self {
        Self {
            object: "suppression",
            id: record.id,
            email: record.body.email,
            reason: record.body.reason,
            detail: record.body.detail,
            removable: true,
            created_at: record.created_at,
        }
    }
}
