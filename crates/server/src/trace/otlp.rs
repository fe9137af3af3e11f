//! OTLP in its binary form: protobuf, of which this needs four kinds of field.
//!
//! The numbers are those of `opentelemetry/proto/trace/v1/trace.proto` and the files it imports. They are frozen, and so
//! few that a library for them would be the larger part.

use super::context::Context;
use super::span::{Attributes, Span, Value};

/// Bit of a link's and a span's flags: the trace is kept.
const SAMPLED: u32 = 1;
/// `Status.code`.
const STATUS_ERROR: u64 = 2;

/// A message of protobuf that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn number(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u32, name: &str, value: &Value) {
        self.message(field, |pair| {
            pair.bytes(1, name.as_bytes());
            pair.message(2, |any| match value {
                Value::Text(text) => any.bytes(1, text.as_bytes()),
                Value::Number(number) => any.number(3, number.cast_unsigned()),
            });
        });
    }

    fn attributes(&mut self, field: u32, attributes: &Attributes) {
        for (name, value) in &attributes.0 {
            self.attribute(field, name, value);
        }
    }

    fn link(&mut self, link: Context) {
        self.bytes(1, &link.trace.to_be_bytes());
        self.bytes(2, &link.span.to_be_bytes());
        if link.sampled {
            self.fixed32(6, SAMPLED);
        }
    }

    fn span(&mut self, span: &Span) {
        self.bytes(1, &span.context.trace.to_be_bytes());
        self.bytes(2, &span.context.span.to_be_bytes());
        if let Some(parent) = span.parent {
            self.bytes(4, &parent.to_be_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.number(6, span.kind as u64);
        self.fixed64(7, span.start);
        self.fixed64(8, span.end.max(span.start));
        self.attributes(9, &span.attributes);
        if let Some(link) = span.link {
            self.message(13, |message| message.link(link));
        }
        if span.failed {
            self.message(15, |status| status.number(3, STATUS_ERROR));
        }
        self.fixed32(16, SAMPLED);
    }
}

/// A `Resource`: who tells.
pub(super) fn resource(attributes: &[(String, String)]) -> Vec<u8> {
    let mut resource = Message::default();
    for (name, value) in attributes {
        resource.attribute(1, name, &Value::Text(value.clone().into()));
    }
    resource.0
}

/// An `ExportTraceServiceRequest` with spans of one [`resource`].
pub(super) fn request(resource: &[u8], spans: &[Span]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |of_resource| {
        of_resource.bytes(1, resource);
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| scope.bytes(1, b"restante"));
            for span in spans {
                of_scope.message(2, |message| message.span(span));
            }
        });
    });
    request.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::span::Kind;

    /// What the published Python package `opentelemetry-proto` makes of the same.
    const GOLDEN: &str = "0aa5020a1c0a1a0a0c736572766963652e6e616d65120a0a0872657374616e74651284020a0a0a0872657374616e7465\
        12b4010a100af7651916cd43dd8448eb211c80319c1208b7ad6b7169203331220800f067aa0ba902b72a0764656c6976\
        65723003390000b49376e2fa184160e3ca9376e2fa184a1a0a0e617474656d70742e726573756c7412080a066661696c\
        65644a150a0e617474656d70742e6e756d626572120318ac024a140a0562656c6f77120b18ffffffffffffffffff016a\
        1c0a100af7651916cd43dd8448eb211c80319c120800000000000000017a021802850101000000123f0a100af7651916\
        cd43dd8448eb211c80319c120800000000000000022a0764656c697665723002390000b49376e2fa18410000b49376e2\
        fa18850101000000";

    #[test]
    fn a_request_is_written_as_another_implementation_writes_it() {
        let mut attributes = Attributes::default();
        attributes.text("attempt.result", "failed");
        attributes.number("attempt.number", 300);
        attributes.number("below", -1);
        let context =
            |span, sampled| Context { trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, span, sampled };
        let failed = Span {
            context: context(0xb7ad_6b71_6920_3331, true),
            parent: Some(0x00f0_67aa_0ba9_02b7),
            name: "deliver".into(),
            kind: Kind::Client,
            start: 1_800_000_000_000_000_000,
            end: 1_800_000_000_001_500_000,
            attributes,
            link: Some(context(1, false)),
            failed: true,
        };
        let plain = Span {
            context: context(2, true),
            parent: None,
            kind: Kind::Server,
            end: 0,
            attributes: Attributes::default(),
            link: None,
            failed: false,
            ..failed.clone()
        };
        let resource = resource(&[("service.name".into(), "restante".into())]);
        let written = data_encoding::HEXLOWER.encode(&request(&resource, &[failed, plain]));
        assert_eq!(written, GOLDEN);
    }
}
