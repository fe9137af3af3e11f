//! All there is to one thing, for people.

use std::fmt;

use restante_sdk::Timestamp;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::paint::{Paint, Tone};
use crate::table::{Cell, harmless};
use crate::times::exact;

/// Lines about one thing, being written.
pub(crate) struct Detail {
    pub(crate) paint: Paint,
    pub(crate) now: Timestamp,
    lines: Vec<String>,
    /// Fields that wait to be aligned with each other.
    fields: Vec<(String, Cell)>,
}

impl Detail {
    pub(crate) fn new(paint: Paint, now: Timestamp) -> Self {
        Self { paint, now, lines: Vec::new(), fields: Vec::new() }
    }

    /// All fields in the order of the API, but for these.
    ///
    /// # Errors
    /// The thing cannot be written as JSON.
    pub(crate) fn fields(
        &mut self,
        thing: &(impl Serialize + ?Sized),
        without: &[&str],
    ) -> anyhow::Result<()> {
        let Members(members) = serde_json::from_str(&serde_json::to_string(thing)?)?;
        for (name, value) in members {
            if name != "object" && !without.contains(&name.as_str()) {
                let cell = self.cell(&name, &value);
                self.field(&name, cell);
            }
        }
        Ok(())
    }

    pub(crate) fn field(&mut self, name: &str, cell: Cell) {
        self.fields.push((name.to_owned(), cell));
    }

    /// Begins a part of its own.
    pub(crate) fn heading(&mut self, text: &str) {
        self.settle();
        self.lines.push(String::new());
        self.lines.push(self.paint.bold(&harmless(text)));
    }

    /// A line as it is: it must be harmless.
    pub(crate) fn line(&mut self, text: String) {
        self.settle();
        self.lines.push(text);
    }

    pub(crate) fn finish(mut self) -> String {
        self.settle();
        self.lines.join("\n")
    }

    fn settle(&mut self) {
        let width = self.fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, cell) in std::mem::take(&mut self.fields) {
            let label = self.paint.tone(Tone::Dim, &format!("{name:width$}"));
            self.lines.push(format!("{label}  {}", self.paint.tone(cell.tone, &cell.text)));
        }
    }

    /// What a field says, for people.
    fn cell(&self, name: &str, value: &RawValue) -> Cell {
        let plain = serde_json::from_str(value.get()).unwrap_or(Value::Null);
        match plain {
            Value::Null => Cell::maybe(None::<&str>),
            Value::Bool(on) => Cell::new(if on { "yes" } else { "no" }),
            Value::String(text)
                if name.ends_with("_at") || ["since", "until", "timestamp"].contains(&name) =>
            {
                Cell::new(Timestamp::parse(&text).map_or(text, |at| exact(at, self.now)))
            }
            Value::String(text) if ["state", "status", "mode"].contains(&name) => Cell::state(&text),
            Value::String(text) => Cell::new(text),
            Value::Array(items) if items.is_empty() => Cell::maybe(None::<&str>),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                Cell::new(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
            }
            Value::Number(_) | Value::Array(_) | Value::Object(_) => Cell::new(value.get()),
        }
    }
}

/// The members of an object, in their order.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Thing {
        object: &'static str,
        id: &'static str,
        state: &'static str,
        paused: bool,
        since: Timestamp,
        created_at: Option<Timestamp>,
        events: Vec<&'static str>,
        schedule: Value,
        rate: f64,
    }

    #[test]
    fn fields_stand_in_the_order_of_the_api() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").unwrap();
        let thing = Thing {
            object: "thing",
            id: "th_1\u{1b}",
            state: "failed",
            paused: true,
            since: Timestamp::parse("2026-11-30T11:00:00Z").unwrap(),
            created_at: None,
            events: vec!["a.*", "b"],
            schedule: serde_json::json!({"kind": "standard"}),
            rate: 0.5,
        };
        let mut detail = Detail::new(Paint::plain(), now);
        detail.fields(&thing, &["rate"]).unwrap();
        detail.heading("More");
        detail.line("  of it".to_owned());
        let expected = "id          th_1\\u{1b}\n\
                        state       failed\n\
                        paused      yes\n\
                        since       2026-11-30 11:00:00 UTC (1 h ago)\n\
                        created_at  -\n\
                        events      a.*, b\n\
                        schedule    {\"kind\":\"standard\"}\n\
                        \n\
                        More\n  of it";
        assert_eq!(detail.finish(), expected);
    }
}
