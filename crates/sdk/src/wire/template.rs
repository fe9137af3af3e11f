//! What emails are made from.

use serde::{Deserialize, Serialize};

use super::word::words;
use super::{Change, Json};
use crate::Timestamp;

words! {
    /// Whether a template, or a version of one, is published.
    TemplateState {
        /// Not yet: no email is made of it.
        Draft = "draft",
        /// Emails are made of it.
        Published = "published",
    }
}

/// What emails are made from: a draft that is worked on, and versions that were published of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Template {
    /// `template`.
    pub object: String,
    /// `tpl_…`.
    pub id: String,
    /// For people.
    pub name: String,
    /// Unique in the workspace; stands for the id wherever that is wanted.
    pub slug: String,
    /// For people.
    pub description: Option<String>,
    /// `draft` until it is first published.
    pub status: TemplateState,
    /// The version that is sent; `None`: none yet.
    pub published_version: Option<u32>,
    /// The newest version. A draft counts: it has the number that it gets when it is published.
    pub latest_version: u32,
    /// Of the draft.
    pub subject: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The draft, or the version it was published as. `None` in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<TemplateVersion>,
}

/// A template as it was published once, or its draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplateVersion {
    /// `template_version`.
    pub object: String,
    /// `tpv_…`. That of a draft is made of the template's.
    pub id: String,
    /// `tpl_…`.
    pub template_id: String,
    /// From 1.
    pub version: u32,
    /// Whether it is published.
    pub state: TemplateState,
    /// A template itself; so are `html` and `text`.
    pub subject: String,
    /// One of `html` and `text` is there in what is published.
    pub html: Option<String>,
    /// The plain part.
    pub text: Option<String>,
    /// A JSON object: values for what a caller leaves out.
    pub props: Json,
    /// `None` for a draft.
    pub published_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What a template gives with some props.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TemplatePreview {
    /// `template_preview`.
    pub object: String,
    /// Rendered; `None`: there was none to render.
    pub subject: Option<String>,
    /// Rendered, with values escaped; `None`: there was none to render.
    pub html: Option<String>,
    /// Rendered; `None`: there was none to render.
    pub text: Option<String>,
}

/// A template to be made.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct NewTemplate {
    /// 1 to 128 characters.
    pub name: String,
    /// Lower-case letters, digits and dashes, unique in the workspace; made of the name unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// At most 1,024 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// At most 998 characters. It, `html` and `text` are templates: `{{ name }}` stands for a value of `props`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// At most 512 KiB. To be published a template has `html`, `text` or both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON object of at most 64 KiB: values for what a caller leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
    /// Whether to publish it at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub publish: bool,
}

impl NewTemplate {
    /// An empty draft of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A change of what a template is called.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TemplateChange {
    /// 1 to 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Lower-case letters, digits and dashes, unique in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// At most 1,024 characters; reset: none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub description: Change<String>,
}

/// What a copy of a template is called.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct CopyTemplate {
    /// The original's and `(copy)` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The original's and `-copy`, `-copy-2` and so on unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
}

/// What a draft is replaced with. Each part is a template: `{{ name }}` stands for a value of `props`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct TemplateContent {
    /// At most 998 characters.
    pub subject: String,
    /// At most 512 KiB; there is `html`, `text` or both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON object of at most 64 KiB: values for what a caller leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
}

/// What a draft is rendered with.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct PreviewTemplate {
    /// A JSON object; what it leaves out is taken from the draft's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
}

/// Parts of a template that are rendered without being stored.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct RenderTemplate {
    /// At most 998 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// At most 512 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub props: Option<Json>,
}
