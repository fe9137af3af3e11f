//! Templates of emails: a part of Jinja, held to limits.
//!
//! A template is code of its author run by the server. `language` lets through what can be bounded; a budget pays for
//! instructions and for each byte made on the way, and the output has a length.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, ErrorKind, Template, UndefinedBehavior, Value};
use restante_core::limits::{EMAIL_TEXT_BYTES_MAX, SUBJECT_CHARS_MAX};
use serde_json::{Map, Value as Json};

mod language;
#[cfg(test)]
mod tests;

/// What a part may cost: one per instruction and per 64 bytes of data. Some 30 ms, and 16 MiB of memory.
const FUEL: u64 = 250_000;
/// Longest rendered subject, in bytes, before its line breaks are collapsed.
const SUBJECT_BYTES_MAX: usize = 4 * SUBJECT_CHARS_MAX;
/// Deepest nesting of scopes while rendering.
const DEPTH_MAX: usize = 64;

/// The parts of a template as its author wrote them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemplateSource<'a> {
    pub subject: Option<&'a str>,
    pub html: Option<&'a str>,
    pub text: Option<&'a str>,
}

/// The parts of an email, made of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// One line.
    pub subject: Option<String>,
    pub html: Option<String>,
    pub text: Option<String>,
}

/// Which part of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Subject,
    Html,
    Text,
}

/// Why a template is none, or gives no email with these props. Every message is for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{} line {line}: {message}", part.name())]
    Syntax { part: Part, line: usize, message: String },
    /// `name` as the template has it, `user.name` too.
    #[error("{} line {line}: {name} is not given; pass it in props or give it a default", part.name())]
    Undefined { part: Part, line: usize, name: String },
    /// What the template does cannot be done with these values.
    #[error("{} line {line}: {message}", part.name())]
    Render { part: Part, line: usize, message: String },
    #[error("{} takes too much work to render", part.name())]
    TooMuchWork { part: Part },
    #[error("{} is longer than {bytes_max} bytes when rendered", part.name())]
    TooLong { part: Part, bytes_max: usize },
}

/// The email that a template gives with these props.
///
/// Values are escaped in HTML, and nowhere else. A variable that is not in `props` is a fault unless it has a default;
/// one that is null is empty. Line breaks in the subject become a space. CPU-bound: up to some 100 ms at the limits.
///
/// # Errors
/// `Fault`, to be answered as it is.
pub fn render(source: &TemplateSource<'_>, props: &Map<String, Json>) -> Result<Rendered, Fault> {
    let props = map(props);
    let part = |part: Part| {
        let Some(source) = part.of(source) else { return Ok(None) };
        render_part(part, source, &props).map(Some)
    };
    Ok(Rendered {
        subject: part(Part::Subject)?.map(|subject| one_line(&subject)),
        html: part(Part::Html)?,
        text: part(Part::Text)?,
    })
}

/// Whether the parts can be rendered at all, at the time they are saved.
///
/// # Errors
/// `Fault::Syntax` for the first part that is wrong, in the order of [`Part::ALL`].
pub fn check(source: &TemplateSource<'_>) -> Result<(), Fault> {
    props_used(source).map(|_| ())
}

/// The variables that the parts take from props, without what is inside them: `user` for `user.name`.
///
/// # Errors
/// As [`check`].
pub fn props_used(source: &TemplateSource<'_>) -> Result<BTreeSet<String>, Fault> {
    let environment = environment();
    let mut used = BTreeSet::new();
    for part in Part::ALL {
        let Some(source) = part.of(source) else { continue };
        used.extend(part.compile(&environment, source)?.undeclared_variables(false));
    }
    // The one function there is.
    used.remove("range");
    Ok(used)
}

impl Part {
    pub const ALL: [Self; 3] = [Self::Subject, Self::Html, Self::Text];

    /// As in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Html => "html",
            Self::Text => "text",
        }
    }

    const fn bytes_max(self) -> usize {
        match self {
            Self::Subject => SUBJECT_BYTES_MAX,
            Self::Html | Self::Text => EMAIL_TEXT_BYTES_MAX,
        }
    }

    fn of<'a>(self, source: &TemplateSource<'a>) -> Option<&'a str> {
        match self {
            Self::Subject => source.subject,
            Self::Html => source.html,
            Self::Text => source.text,
        }
    }

    fn compile<'a>(
        self,
        environment: &'a Environment<'a>,
        source: &'a str,
    ) -> Result<Template<'a, 'a>, Fault> {
        language::check(source).map_err(|refusal| {
            let language::Refusal { line, message } = refusal;
            Fault::Syntax { part: self, line, message }
        })?;
        environment.template_from_named_str(self.name(), source).map_err(|error| self.fault(&error))
    }

    fn fault(self, error: &minijinja::Error) -> Fault {
        let line = error.line().unwrap_or(1);
        let detail = error.detail().map(str::to_owned);
        let message = detail.clone().unwrap_or_else(|| error.kind().to_string());
        let kind = error.kind();
        if kind == ErrorKind::SyntaxError {
            Fault::Syntax { part: self, line, message }
        } else if kind == ErrorKind::OutOfFuel {
            Fault::TooMuchWork { part: self }
        } else if kind == ErrorKind::WriteFailure {
            Fault::TooLong { part: self, bytes_max: self.bytes_max() }
        } else if kind == ErrorKind::UndefinedError {
            // "`user.name` is undefined"
            let name = detail.as_deref().and_then(|detail| detail.split('`').nth(1)).unwrap_or("a variable");
            Fault::Undefined { part: self, line, name: name.to_owned() }
        } else {
            Fault::Render { part: self, line, message }
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(DEPTH_MAX);
    environment.set_auto_escape_callback(|name| {
        if name == Part::Html.name() { AutoEscape::Html } else { AutoEscape::None }
    });
    environment.set_formatter(|out, state, value| {
        let kind = value.kind();
        if kind == ValueKind::None {
            // A letter with "none" in it helps nobody.
            Ok(())
        } else if matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::Iterable) {
            let message = "a list or a map cannot be shown; loop over it or join it";
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
        } else {
            minijinja::escape_formatter(out, state, value)
        }
    });
    environment
}

fn render_part(part: Part, source: &str, props: &Value) -> Result<String, Fault> {
    let environment = environment();
    let template = part.compile(&environment, source)?;
    let mut output = Limited { bytes: Vec::new(), bytes_max: part.bytes_max() };
    let rendered = template.render_captured_to(props.clone(), &mut output);
    rendered.map_err(|error| part.fault(&error))?;
    Ok(String::from_utf8(output.bytes).expect("a template and its values are text"))
}

/// Takes bytes until there are too many.
struct Limited {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A subject without line breaks and control characters: what is around them is parted by one space.
fn one_line(subject: &str) -> String {
    let is_break = |char: char| char.is_control() || ['\u{2028}', '\u{2029}'].contains(&char);
    let pieces = subject.split(is_break).map(str::trim).filter(|piece| !piece.is_empty());
    pieces.collect::<Vec<_>>().join(" ")
}

fn map(object: &Map<String, Json>) -> Value {
    object.iter().map(|(name, value)| (name.as_str(), convert(value))).collect::<BTreeMap<_, _>>().into()
}

/// A JSON value as templates know it. By hand: serialising would show numbers as the map in which they keep their text.
fn convert(value: &Json) -> Value {
    match value {
        Json::Null => Value::from(()),
        Json::Bool(bool) => Value::from(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Value::from(number),
            (None, Some(number), _) => Value::from(number),
            (None, None, Some(float)) => Value::from(float),
            (None, None, None) => Value::from(number.to_string()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(convert).collect::<Vec<_>>().into(),
        Json::Object(object) => map(object),
    }
}
