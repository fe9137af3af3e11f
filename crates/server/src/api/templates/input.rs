//! What callers may set of a template, and what is valid.

use restante_core::limits::{EMAIL_TEXT_BYTES_MAX, NAME_CHARS_MAX, SUBJECT_CHARS_MAX};
use restante_store::record::{Template, TemplateText};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::rendering;
use crate::api::body::Change;
use crate::api::error::ApiError;
use crate::api::fault::Faults;
use crate::api::name::apply_name;
use crate::mail::template;

#[cfg(test)]
mod tests;

/// Longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 1024;
/// Largest `props` that a template keeps, in bytes of JSON.
const PROPS_BYTES_MAX: usize = 64 * 1024;
/// Slugs that paths have another meaning for.
const RESERVED: [&str; 1] = ["render"];
/// Copies whose slugs are tried.
const COPIES_MAX: usize = 20;

/// A new template.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTemplate {
    name: String,
    /// Lower-case letters, digits and dashes; made of the name unless given.
    slug: Option<String>,
    /// At most 1,024 characters.
    description: Option<String>,
    #[serde(default)]
    subject: String,
    html: Option<String>,
    text: Option<String>,
    /// Values for what a caller leaves out.
    #[schema(value_type = Option<Object>)]
    props: Option<Box<RawValue>>,
    /// Whether to publish it at once.
    #[serde(default)]
    pub(super) publish: bool,
}

/// A change of what a template is called.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplateChange {
    #[schema(value_type = String)]
    #[serde(default)]
    name: Change<String>,
    #[schema(value_type = String)]
    #[serde(default)]
    slug: Change<String>,
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    description: Change<String>,
}

/// What a copy of a template is called.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyInput {
    /// The original's and `(copy)` unless given.
    name: Option<String>,
    /// The original's and `-copy`, `-copy-2` and so on unless given.
    slug: Option<String>,
}

/// What a draft is replaced with. Each part is a template: `{{ name }}` stands for a value of `props`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContentInput {
    subject: String,
    /// `html`, `text` or both.
    html: Option<String>,
    text: Option<String>,
    /// Values for what a caller leaves out.
    #[schema(value_type = Option<Object>)]
    props: Option<Box<RawValue>>,
}

impl NewTemplate {
    /// # Errors
    /// 422 with what is wrong.
    pub(super) fn read(self) -> Result<Template, ApiError> {
        let slug = self.slug.map_or_else(|| slug_of(&self.name), Ok)?;
        let draft =
            ContentInput { subject: self.subject, html: self.html, text: self.text, props: self.props };
        let mut template = Template {
            name: String::new(),
            slug: String::new(),
            description: None,
            draft: draft.parts()?,
            published: None,
        };
        let description = self.description.map_or(Change::Keep, Change::Set);
        let called = TemplateChange { name: Change::Set(self.name), slug: Change::Set(slug), description };
        called.apply(&mut template)?;
        Ok(template)
    }
}

impl TemplateChange {
    /// # Errors
    /// 422 with all that is wrong.
    pub(super) fn apply(self, template: &mut Template) -> Result<(), ApiError> {
        let mut faults = Faults::default();
        apply_name(self.name, &mut template.name, &mut faults);
        match self.slug {
            Change::Keep => {}
            Change::Reset => faults.add("slug", "must not be null"),
            Change::Set(slug) => {
                let message = "must be 1 to 128 lower-case letters, digits and dashes, with a letter or digit at both ends";
                faults.unless(is_slug(&slug), "slug", message);
                faults.unless(
                    !RESERVED.contains(&slug.as_str()),
                    "slug",
                    format!("{slug} is a word of ours"),
                );
                template.slug = slug;
            }
        }
        self.description.apply_nullable(&mut template.description);
        let description = template.description.as_deref().unwrap_or_default();
        let fine = description.chars().count() <= DESCRIPTION_CHARS_MAX;
        faults.unless(fine, "description", format!("must be at most {DESCRIPTION_CHARS_MAX} characters"));
        template.description = template.description.take().filter(|it| !it.is_empty());
        faults.finish()
    }
}

impl CopyInput {
    /// Copies of a template, the one to be made if its slug is free first.
    ///
    /// # Errors
    /// 422 with all that is wrong.
    pub(super) fn copies(self, original: &Template) -> Result<Vec<Template>, ApiError> {
        let name = self.name.unwrap_or_else(|| with_end(&original.name, " (copy)"));
        let slugs = match self.slug {
            Some(slug) => vec![slug],
            None => {
                let end = |number| if number == 1 { "-copy".to_owned() } else { format!("-copy-{number}") };
                (1..=COPIES_MAX).map(|number| with_end(&original.slug, &end(number))).collect()
            }
        };
        let copy = |slug| {
            let mut copy = Template { published: None, ..original.clone() };
            let called = TemplateChange {
                name: Change::Set(name.clone()),
                slug: Change::Set(slug),
                ..Default::default()
            };
            called.apply(&mut copy).map(|()| copy)
        };
        slugs.into_iter().map(copy).collect()
    }
}

impl ContentInput {
    /// # Errors
    /// 422 with what is wrong; `template_syntax` says the part and the line.
    pub(super) fn read(self) -> Result<TemplateText, ApiError> {
        let text = self.parts()?;
        check_publishable(&text)?;
        Ok(text)
    }

    fn parts(self) -> Result<TemplateText, ApiError> {
        let mut faults = Faults::default();
        let fine = self.subject.chars().count() <= SUBJECT_CHARS_MAX;
        faults.unless(fine, "subject", format!("must be at most {SUBJECT_CHARS_MAX} characters"));
        for (param, part) in [("html", &self.html), ("text", &self.text)] {
            let part = part.as_deref().unwrap_or_default();
            let fine = part.len() <= EMAIL_TEXT_BYTES_MAX;
            faults.unless(fine, param, format!("must be at most {EMAIL_TEXT_BYTES_MAX} bytes"));
            faults.unless(!part.contains('\0'), param, "must not have NUL characters");
        }
        let fine = self.props.as_ref().is_none_or(|props| props.get().len() <= PROPS_BYTES_MAX);
        faults.unless(fine, "props", format!("must be at most {PROPS_BYTES_MAX} bytes"));
        faults.finish()?;
        let props = props(self.props.as_deref())
            .map_err(|message| ApiError::invalid("invalid_field", message).on("props"))?;
        let text = TemplateText { subject: self.subject, html: self.html, text: self.text, props };
        template::check(&rendering::source(&text)).map_err(|fault| rendering::fault(&fault, "props"))?;
        Ok(text)
    }
}

/// # Errors
/// 422 when an email cannot be made of it.
pub(super) fn check_publishable(text: &TemplateText) -> Result<(), ApiError> {
    if text.html.is_none() && text.text.is_none() {
        let message = "a template needs html, text or both to make emails of it";
        return Err(ApiError::invalid("invalid_field", message).on("html"));
    }
    Ok(())
}

/// Reads props; none are an empty object.
///
/// # Errors
/// What they must be.
pub(super) fn props(json: Option<&RawValue>) -> Result<Map<String, Value>, &'static str> {
    match json.map(|json| serde_json::from_str(json.get())) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(props))) => Ok(props),
        Some(Ok(_) | Err(_)) => Err("must be a JSON object"),
    }
}

fn is_slug(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = text.bytes().all(|byte| is_word(byte) || byte == b'-');
    let ends = text.bytes().next().is_some_and(is_word) && text.bytes().last().is_some_and(is_word);
    inner && ends && text.len() <= NAME_CHARS_MAX
}

/// The slug that a name gives: its letters and digits, and a dash for whatever is between them.
fn slug_of(name: &str) -> Result<String, ApiError> {
    let words = name.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    slug.truncate(NAME_CHARS_MAX);
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() && !name.is_empty() {
        let message = "is required with a name that has no Latin letters and no digits";
        return Err(ApiError::invalid("missing_field", format!("slug {message}")).on("slug"));
    }
    Ok(if RESERVED.contains(&slug) { format!("{slug}-1") } else { slug.to_owned() })
}

/// A name with something behind it, cut so that it is none too long.
fn with_end(name: &str, end: &str) -> String {
    let kept: String = name.chars().take(NAME_CHARS_MAX - end.len()).collect();
    format!("{}{end}", kept.trim_end())
}
