//! The shapes in which callers write emails, and how they are read.

use std::collections::BTreeMap;
use std::fmt;

use data_encoding::BASE64_NOPAD;
use restante_core::email::fingerprint::Template;
use restante_core::email::form::{self, Content};
use restante_core::email::{Address, Attachment, Email, Scheduled};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::error::{ApiError, Detail};

/// An email to be sent. It has a template, or `html`, `text` or both.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmailInput {
    pub(crate) from: One,
    /// At most 50; so are `cc` and `bcc`.
    #[serde(default)]
    pub(crate) to: Many,
    #[serde(default)]
    pub(crate) cc: Many,
    /// They are in no header.
    #[serde(default)]
    pub(crate) bcc: Many,
    #[serde(default)]
    pub(crate) reply_to: Many,
    /// At most 998 characters.
    pub(crate) subject: Option<String>,
    /// At most 512 KiB; so is `text`.
    pub(crate) html: Option<String>,
    pub(crate) text: Option<String>,
    /// Further header lines.
    pub(crate) headers: Option<BTreeMap<String, String>>,
    /// At most 20.
    pub(crate) attachments: Option<Vec<AttachmentInput>>,
    pub(crate) tags: Option<BTreeMap<String, String>>,
    /// A JSON object of yours, shown again and told to webhooks.
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<Box<RawValue>>,
    /// Not before this, at most 30 days ahead; at once if it is past.
    #[schema(format = DateTime)]
    pub(crate) scheduled_at: Option<String>,
    pub(crate) template: Option<TemplateInput>,
}

/// A file that goes with an email.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AttachmentInput {
    filename: String,
    /// Base64, with or without line breaks and padding.
    content: String,
    /// Told by the end of `filename` unless given.
    content_type: Option<String>,
    /// The file is shown inside the HTML, under `cid:` and this.
    content_id: Option<String>,
}

/// What an email is made from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateInput {
    /// Its id or slug.
    pub(crate) id: String,
    /// The published one unless given.
    pub(crate) version: Option<u32>,
    /// A JSON object: values for what the template names.
    #[schema(value_type = Option<Object>)]
    pub(crate) props: Option<Box<RawValue>>,
}

/// An email that was read, and what is still to be filled in.
pub(crate) struct Read {
    pub(crate) email: Email,
    pub(crate) template: Option<TemplateInput>,
}

impl EmailInput {
    /// Reads an email and checks it by itself.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(crate) fn read(self) -> Result<Read, ApiError> {
        let mut faults = Vec::new();
        let mut fault = |param: String, message: String| faults.push(Detail { param, message });
        let from = self.from.read("from", &mut fault);
        let [to, cc, bcc, reply_to] =
            [("to", self.to), ("cc", self.cc), ("bcc", self.bcc), ("reply_to", self.reply_to)]
                .map(|(param, list)| list.read(param, &mut fault));
        let attachments = self.attachments.unwrap_or_default().into_iter().enumerate();
        let attachments = attachments.filter_map(|(index, it)| it.read(index, &mut fault)).collect();
        let metadata = self.metadata.and_then(|it| match form::metadata(it.get()) {
            Ok(metadata) => Some(metadata),
            Err(it) => {
                fault(it.param, it.message);
                None
            }
        });
        let scheduled_at = self.scheduled_at.and_then(|text| match Scheduled::parse(&text) {
            Ok(scheduled) => Some(scheduled),
            Err(it) => {
                fault("scheduled_at".into(), it.to_string());
                None
            }
        });
        let Some(from) = from.filter(|_| faults.is_empty()) else {
            return Err(ApiError::many("invalid_field", faults));
        };
        let email = Email {
            from,
            to,
            cc,
            bcc,
            reply_to,
            subject: self.subject,
            html: self.html,
            text: self.text,
            headers: self.headers.unwrap_or_default().into_iter().collect(),
            attachments,
            tags: self.tags.unwrap_or_default(),
            metadata,
            scheduled_at,
        };
        if self.template.is_some() && (email.html.is_some() || email.text.is_some()) {
            let message = "an email has a template, or html and text of its own";
            return Err(ApiError::invalid("invalid_field", message).on("template"));
        }
        check(&email, if self.template.is_some() { Content::Template } else { Content::Own })?;
        Ok(Read { email, template: self.template })
    }
}

/// # Errors
/// 422 with all that is wrong.
pub(crate) fn check(email: &Email, content: Content) -> Result<(), ApiError> {
    form::check(email, content).map_err(|faults| {
        let detail = |it: form::Fault| Detail { param: it.param, message: it.message };
        ApiError::many("invalid_field", faults.into_iter().map(detail).collect())
    })
}

impl Read {
    /// The template as the call names it.
    pub(crate) fn named(&self) -> Option<Template<'_>> {
        self.template.as_ref().map(TemplateInput::named)
    }
}

impl TemplateInput {
    pub(crate) fn named(&self) -> Template<'_> {
        Template { id: &self.id, version: self.version, props: self.props.as_deref().map(RawValue::get) }
    }
}

impl AttachmentInput {
    fn read(self, index: usize, fault: &mut impl FnMut(String, String)) -> Option<Attachment> {
        let Some(content) = base64(&self.content) else {
            fault(format!("attachments[{index}].content"), "not base64".into());
            return None;
        };
        let content_type = self.content_type.unwrap_or_else(|| type_of(&self.filename).to_owned());
        Some(Attachment {
            filename: self.filename,
            content: content.into(),
            content_type,
            content_id: self.content_id,
        })
    }
}

/// Reads base64 of either alphabet, with or without padding and white space.
fn base64(text: &str) -> Option<Vec<u8>> {
    let plain = |byte: u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => other,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(plain).collect();
    let end = digits.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    if digits.len() - end > 2 {
        return None;
    }
    BASE64_NOPAD.decode(&digits[..end]).ok()
}

/// The type that a file's name tells.
fn type_of(filename: &str) -> &'static str {
    const TYPES: [(&str, &str); 18] = [
        ("pdf", "application/pdf"),
        ("txt", "text/plain"),
        ("csv", "text/csv"),
        ("html", "text/html"),
        ("json", "application/json"),
        ("xml", "application/xml"),
        ("zip", "application/zip"),
        ("gz", "application/gzip"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("svg", "image/svg+xml"),
        ("ics", "text/calendar"),
        ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("mp4", "video/mp4"),
    ];
    let end = filename.rsplit_once('.').map_or("", |(_, end)| end);
    let known = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(end));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

/// An address: `"a@example.com"`, `"Name <a@example.com>"`, or an object.
#[derive(Debug, Clone)]
pub(crate) enum One {
    Text(String),
    Parts { email: String, name: Option<String> },
}

/// Addresses: one, or a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Many {
    addresses: Vec<One>,
    /// It was written as a list: a fault names the place in it.
    listed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    email: String,
    name: Option<String>,
}

impl One {
    pub(crate) fn parse(&self) -> Result<Address, restante_core::email::address::Fault> {
        match self {
            Self::Text(text) => Address::parse(text),
            Self::Parts { email, name } => Address::from_parts(email, name.as_deref()),
        }
    }

    pub(crate) fn read(&self, param: &str, fault: &mut impl FnMut(String, String)) -> Option<Address> {
        match self.parse() {
            Ok(address) => Some(address),
            Err(it) => {
                fault(param.to_owned(), it.to_string());
                None
            }
        }
    }
}

impl Many {
    pub(crate) fn read(&self, param: &str, fault: &mut impl FnMut(String, String)) -> Vec<Address> {
        let place = |index: usize| if self.listed { format!("{param}[{index}]") } else { param.to_owned() };
        let addresses = self.addresses.iter().enumerate();
        addresses.filter_map(|(index, one)| one.read(&place(index), fault)).collect()
    }
}

impl<'de> Deserialize<'de> for One {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneVisitor;
        impl<'de> Visitor<'de> for OneVisitor {
            type Value = One;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address: a text or {email, name}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<One, E> {
                Ok(One::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<One, A::Error> {
                let Parts { email, name } = Parts::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(One::Parts { email, name })
            }
        }
        deserializer.deserialize_any(OneVisitor)
    }
}

impl<'de> Deserialize<'de> for Many {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ManyVisitor;
        impl<'de> Visitor<'de> for ManyVisitor {
            type Value = Many;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an address, a list of addresses or null")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Many, E> {
                Ok(Many::default())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Many, E> {
                Ok(Many { addresses: vec![One::Text(text.to_owned())], listed: false })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Many, A::Error> {
                let one = One::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Many { addresses: vec![one], listed: false })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Many, A::Error> {
                let mut addresses = Vec::new();
                while let Some(one) = list.next_element()? {
                    addresses.push(one);
                }
                Ok(Many { addresses, listed: true })
            }
        }
        deserializer.deserialize_any(ManyVisitor)
    }
}

macro_rules! address_schema {
    ($($name:ident = $text:literal),*) => { $(
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
                    .description(Some($text))
                    .into()
            }
        }
        impl ToSchema for $name {}
    )* };
}

address_schema! {
    One = "An address: \"a@example.com\", \"Name <a@example.com>\" or {email, name}",
    Many = "An address, or a list of them"
}

#[cfg(test)]
mod tests;
