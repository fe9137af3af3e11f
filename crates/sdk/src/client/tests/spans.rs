//! A span for each call, and one for each of its tries.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use http::Method;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::script::Does;
use super::*;

type Fields = BTreeMap<String, String>;

/// Spans as they were made: their names and fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(&'static str, Fields)>>>);

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("restante_sdk")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = Fields::new();
        span.record(&mut Into(&mut fields));
        spans.push((span.metadata().name(), fields));
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        values.record(&mut Into(&mut spans[span.into_u64() as usize - 1].1));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_call_and_each_of_its_tries_have_a_span() {
    let (_server, client, _) = setting([Does::answers(503), Does::answers(200)]);
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), || {
        let call = client.blocking().request(Method::POST, "/v1/events").idempotency_key("k1");
        call.wait().unwrap();
    });
    let fields = |pairs: &[(&str, &str)]| -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let status = "http.response.status_code";
    let expected = [
        (
            "restante.call",
            fields(&[
                ("call.name", "events.publish"),
                ("call.class", "keyed"),
                ("call.key", "k1"),
                ("call.tries", "2"),
                (status, "200"),
            ]),
        ),
        ("restante.try", fields(&[("try.number", "1"), (status, "503")])),
        ("restante.try", fields(&[("try.number", "2"), (status, "200")])),
    ];
    assert_eq!(*spans.0.lock().unwrap(), expected);
}
