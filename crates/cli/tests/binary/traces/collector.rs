//! A collector of traces on a real socket, which reads protobuf by the published numbers of its fields.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// For spans to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(super) struct Collector {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    exports: Vec<Export>,
}

/// One call of an exporter.
#[derive(Clone)]
pub(super) struct Export {
    pub(super) path: String,
    pub(super) content_type: String,
    pub(super) authorization: String,
    pub(super) body: Bytes,
}

/// A span as it was told. Numbers of traces and spans are in hexadecimal.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty: it is a trace's first.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) kind: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: BTreeMap<String, String>,
    /// Trace and span.
    pub(super) links: Vec<(String, String)>,
    pub(super) status: u64,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let shared = collector.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().connections += 1;
                let collector = shared.clone();
                let service = service_fn(move |request| {
                    let collector = collector.clone();
                    async move { Ok::<_, Infallible>(collector.take(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        collector
    }

    async fn take(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let text = |name| request.headers().get(name).map_or("", |it| it.to_str().unwrap()).to_owned();
        let (content_type, authorization) = (text("content-type"), text("authorization"));
        let path = request.uri().to_string();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        self.lock().exports.push(Export { path, content_type, authorization, body });
        Response::new(Full::default())
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.lock().connections
    }

    pub(super) fn exports(&self) -> Vec<Export> {
        self.lock().exports.clone()
    }

    /// The spans of a trace once there are so many, earliest first.
    pub(super) async fn trace(&self, trace: &str, count: usize) -> Vec<Span> {
        let waiting = async {
            loop {
                let spans: Vec<Span> = self.spans().into_iter().filter(|span| span.trace == trace).collect();
                if spans.len() >= count {
                    return spans;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_| {
            panic!("{count} spans of {trace} wanted, these are there: {:#?}", self.spans())
        })
    }

    /// All spans, earliest first.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = self.exports().iter().flat_map(|export| spans(&export.body)).collect();
        spans.sort_by_key(|span| (span.start, span.end));
        spans
    }

    /// What is said of who told.
    pub(super) fn resource(&self) -> BTreeMap<String, String> {
        let body = self.exports()[0].body.clone();
        let of_resource = inner(&body, 1).remove(0);
        attributes(inner(of_resource, 1)[0], 1)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A field of a message of protobuf.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number without an end");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(taken(&mut bytes, 8).try_into().unwrap())),
            5 => Field::Number(u32::from_le_bytes(taken(&mut bytes, 4).try_into().unwrap()).into()),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                Field::Bytes(taken(&mut bytes, length))
            }
            wire => panic!("a field of kind {wire}"),
        };
        fields.push((key >> 3, field));
    }
    fields
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

/// The values of all fields with a number that are no numbers themselves.
fn inner(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let wanted = fields(bytes).into_iter().filter(|(it, _)| *it == number);
    wanted.filter_map(|(_, field)| if let Field::Bytes(bytes) = field { Some(bytes) } else { None }).collect()
}

fn number(bytes: &[u8], number: u64) -> u64 {
    let mut wanted = fields(bytes).into_iter().filter(|(it, _)| *it == number);
    wanted.find_map(|(_, field)| if let Field::Number(it) = field { Some(it) } else { None }).unwrap_or(0)
}

fn text(bytes: &[u8], number: u64) -> String {
    let found = inner(bytes, number);
    found.first().map_or_else(String::new, |it| String::from_utf8(it.to_vec()).unwrap())
}

fn hex(bytes: &[u8], number: u64) -> String {
    let found = inner(bytes, number);
    found.first().map_or_else(String::new, |it| it.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn attributes(bytes: &[u8], number_of: u64) -> BTreeMap<String, String> {
    let pair = |pair: &[u8]| {
        let value = inner(pair, 2)[0];
        let text_value = inner(value, 1).first().map(|it| String::from_utf8(it.to_vec()).unwrap());
        (text(pair, 1), text_value.unwrap_or_else(|| number(value, 3).to_string()))
    };
    inner(bytes, number_of).into_iter().map(pair).collect()
}

fn spans(body: &[u8]) -> Vec<Span> {
    let scopes = inner(body, 1).into_iter().flat_map(|of_resource| inner(of_resource, 2));
    let spans = scopes.flat_map(|of_scope| inner(of_scope, 2));
    let read = |span: &[u8]| Span {
        trace: hex(span, 1),
        id: hex(span, 2),
        parent: hex(span, 4),
        name: text(span, 5),
        kind: number(span, 6),
        start: number(span, 7),
        end: number(span, 8),
        attributes: attributes(span, 9),
        links: inner(span, 13).into_iter().map(|link| (hex(link, 1), hex(link, 2))).collect(),
        status: inner(span, 15).first().map_or(0, |status| number(status, 3)),
    };
    spans.map(read).collect()
}
