//! Log lines as JSON, one object each, fields beside each other.
//!
//! The library's own JSON format builds every line through a serializer; at one line for each attempt that was a
//! seventh of the cost of a delivery.

use std::fmt::{self, Write};

use restante_server::clock::{Clock, SystemClock};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// The format of log lines for machines: `timestamp`, `level`, `target`, `message`, then the fields.
pub(crate) struct JsonLines(pub(crate) SystemClock);

/// Room for a line of an attempt.
const LINE_BYTES: usize = 1024;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Built in one place and handed over whole: the writer costs a call through a pointer each time.
        let mut line = String::with_capacity(LINE_BYTES);
        let metadata = event.metadata();
        write!(line, "{{\"timestamp\":\"{}", self.0.now())?;
        line.push_str("\",\"level\":\"");
        line.push_str(metadata.level().as_str());
        line.push_str("\",\"target\":\"");
        line.push_str(metadata.target());
        line.push('"');
        let mut fields = Fields { line, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        fields.line.push_str("}\n");
        writer.write_str(&fields.line)
    }
}

struct Fields {
    line: String,
    /// The first error: a visitor has no other way to tell.
    result: fmt::Result,
}

impl Fields {
    fn name(&mut self, field: &Field) {
        self.line.push_str(",\"");
        self.line.push_str(field.name());
        self.line.push_str("\":");
    }

    fn bare(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        self.name(field);
        self.result = self.result.and_then(|()| self.line.write_fmt(value));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.name(field);
        self.line.push('"');
        self.result = self.result.and_then(|()| write!(Escaped(&mut self.line), "{value:?}"));
        self.line.push('"');
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.name(field);
        self.line.push('"');
        escape(value, &mut self.line);
        self.line.push('"');
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.bare(field, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.bare(field, format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.name(field);
        self.line.push_str(if value { "true" } else { "false" });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.bare(field, format_args!("{value}"));
        } else {
            self.name(field);
            self.line.push_str("null");
        }
    }
}

/// Escapes what JSON does not allow in a string.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(text, self.0);
        Ok(())
    }
}

fn escape(text: &str, line: &mut String) {
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Nearly always there is nothing to escape, and to look at all bytes at once is faster than to find the first.
    if !text.bytes().fold(false, |found, byte| found | is_special(byte)) {
        return line.push_str(text);
    }
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_special) {
        line.push_str(&rest[..at]);
        // A control character, a quote or a backslash is one byte.
        let byte = rest.as_bytes()[at];
        line.push_str("\\u00");
        line.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
        rest = &rest[at + 1..];
    }
    line.push_str(rest);
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Gathered(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Gathered {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whatever_is_logged_is_one_line_of_json() {
        let gathered = Gathered::default();
        let writer = gathered.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(JsonLines(SystemClock::start()))
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(
                delivery.id = %"dlv_1",
                text = "quote \" backslash \\ line\nbreak \u{1b} ümlaut",
                number = 7_u64,
                less = -7,
                share = 0.5,
                odd = f64::NAN,
                yes = true,
                absent = Option::<u16>::None,
                debug = ?Some("x"),
                "a message with \"quotes\""
            );
        });
        let lines = String::from_utf8(gathered.0.lock().unwrap().clone()).unwrap();
        assert_eq!(lines.matches('\n').count(), 1);
        let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
        assert_eq!(line["message"], "a message with \"quotes\"");
        assert_eq!(line["text"], "quote \" backslash \\ line\nbreak \u{1b} ümlaut");
        assert_eq!((&line["level"], &line["delivery.id"]), (&"INFO".into(), &"dlv_1".into()));
        assert_eq!((&line["number"], &line["less"], &line["share"]), (&7.into(), &(-7).into(), &0.5.into()));
        assert_eq!((&line["odd"], &line["yes"]), (&serde_json::Value::Null, &true.into()));
        assert_eq!(line["debug"], "Some(\"x\")");
        assert!(line.get("absent").is_none() && line["timestamp"].is_string());
    }
}
