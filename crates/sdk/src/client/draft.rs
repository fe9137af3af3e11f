use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use url::Url;

use super::time::Time;
use super::{Client, Options};
use crate::Error;
use crate::calls::{Call, Class, find};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const WORKSPACE: HeaderName = HeaderName::from_static("x-workspace-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Letters, digits and `_ . : -`.
const KEY_CHARS_MAX: usize = 255;
/// What a path segment keeps as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A call as it is described so far. What is wrong with it is told when it is made.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    name: Cow<'static, str>,
    class: Class,
    method: Method,
    path: Cow<'static, str>,
    query: String,
    body: Option<(Bytes, HeaderValue)>,
    accept: HeaderValue,
    key: Option<String>,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
    max_retries: Option<u32>,
    fault: Option<Fault>,
}

/// The first thing that is wrong with a draft.
#[derive(Clone, Debug)]
struct Fault {
    code: &'static str,
    param: String,
    message: String,
}

/// A call ready to be sent, as often as its class allows: bytes and key are made once.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) name: Cow<'static, str>,
    pub(super) class: Class,
    pub(super) key: Option<String>,
    pub(super) options: Options,
    method: Method,
    url: Url,
    accept: HeaderValue,
    body: Option<(Bytes, HeaderValue)>,
}

impl Prepared {
    /// The request of a try: the same each time.
    pub(super) fn request(&self, client: &Client) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), self.url.clone());
        // Room for what the HTTP client adds.
        let mut headers = HeaderMap::with_capacity(9);
        headers.insert(AUTHORIZATION, client.shared.authorization.clone());
        headers.insert(ACCEPT, self.accept.clone());
        if let Some(workspace) = &client.workspace {
            headers.insert(WORKSPACE, workspace.clone());
        }
        // It was looked at when it was set, and is plain ASCII.
        let value = self.key.as_deref().and_then(|key| HeaderValue::from_str(key).ok());
        headers.extend(value.map(|value| (IDEMPOTENCY_KEY, value)));
        if let Some((body, content_type)) = &self.body {
            headers.insert(CONTENT_TYPE, content_type.clone());
            if !body.is_empty() {
                *request.body_mut() = Some(body.clone().into());
            }
        }
        *request.headers_mut() = headers;
        request
    }
}

impl Draft {
    fn with(name: Cow<'static, str>, class: Class, method: Method, path: Cow<'static, str>) -> Self {
        Self {
            name,
            class,
            method,
            path,
            query: String::new(),
            body: None,
            accept: JSON,
            key: None,
            timeout: None,
            deadline: None,
            max_retries: None,
            fault: None,
        }
    }

    /// A call of the table.
    pub(super) fn of(call: &'static Call) -> Self {
        let (method, path) = (call.method.clone().unwrap_or_default(), call.path.unwrap_or_default());
        Self::with(call.name.into(), call.class, method, path.into())
    }

    /// A call of the table by a route of the caller's.
    pub(super) fn routed(call: &'static Call, method: Method, path: &str) -> Self {
        Self::with(call.name.into(), call.class, method, path.to_owned().into())
    }

    /// A call that is perhaps in the table.
    pub(super) fn bare(method: Method, path: &str) -> Self {
        match find(&method, path) {
            Some(call) => Self::routed(call, method, path),
            None => {
                let class = Class::of_unlisted(&method);
                Self::with(format!("{method} {path}").into(), class, method, path.to_owned().into())
            }
        }
    }

    pub(super) fn name(&self) -> &Cow<'static, str> {
        &self.name
    }

    /// Keeps the first fault.
    fn fault(&mut self, code: &'static str, param: &str, message: String) {
        self.fault.get_or_insert_with(|| Fault { code, param: param.to_owned(), message });
    }

    /// Fills in a parameter of the path.
    pub(super) fn param(&mut self, name: &str, value: &str) {
        if value.is_empty() || [".", ".."].contains(&value) {
            self.fault("invalid_path", name, format!("`{name}` is {value:?}, which names nothing"));
        }
        let place = format!("{{{name}}}");
        self.path = self.path.replacen(&place, &utf8_percent_encode(value, SEGMENT).to_string(), 1).into();
    }

    /// Adds to the query.
    pub(super) fn query(&mut self, query: &impl Serialize) {
        match serde_urlencoded::to_string(query) {
            Ok(more) if more.is_empty() => {}
            Ok(more) => {
                if !self.query.is_empty() {
                    self.query.push('&');
                }
                self.query.push_str(&more);
            }
            Err(error) => {
                self.fault("invalid_query", "query", format!("the query cannot be written: {error}"))
            }
        }
    }

    /// Whether the query sets a parameter.
    pub(super) fn asks(&self, name: &str) -> bool {
        self.query.split('&').any(|pair| pair.split('=').next() == Some(name))
    }

    /// Sets a parameter of the query anew.
    pub(super) fn set_query(&mut self, name: &str, value: &str) {
        let others = self.query.split('&').filter(|pair| pair.split('=').next() != Some(name));
        self.query = others.filter(|pair| !pair.is_empty()).collect::<Vec<_>>().join("&");
        self.query(&[(name, value)]);
    }

    /// The body, serialised now: every try sends these bytes.
    pub(super) fn json(&mut self, body: &impl Serialize) {
        match serde_json::to_vec(body) {
            Ok(bytes) => self.bytes(bytes.into(), JSON),
            Err(error) => self.fault("invalid_body", "body", format!("the body cannot be written: {error}")),
        }
    }

    pub(super) fn bytes(&mut self, body: Bytes, content_type: HeaderValue) {
        self.body = Some((body, content_type));
    }

    pub(super) fn content_type(&mut self, text: &str) -> HeaderValue {
        HeaderValue::from_str(text).unwrap_or_else(|_| {
            self.fault("invalid_header", "content_type", "no content type can look like this".to_owned());
            JSON
        })
    }

    pub(super) fn accept(&mut self, content_type: &'static str) {
        self.accept = HeaderValue::from_static(content_type);
    }

    pub(super) fn key(&mut self, key: String) {
        let may = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if key.is_empty() || key.len() > KEY_CHARS_MAX || !key.bytes().all(may) {
            let message = "an idempotency key is 1 to 255 of A-Z a-z 0-9 _ . : -".to_owned();
            self.fault("invalid_idempotency_key", "idempotency_key", message);
        } else if self.class != Class::Keyed {
            // The server would ignore it, and the caller rely on it.
            let message =
                format!("{} takes no idempotency key: its class is `{}`", self.name, self.class.name());
            self.fault("no_idempotency_key", "idempotency_key", message);
        }
        self.key = Some(key);
    }

    pub(super) fn timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    pub(super) fn deadline(&mut self, deadline: Duration) {
        self.deadline = Some(deadline);
    }

    pub(super) fn max_retries(&mut self, max_retries: u32) {
        self.max_retries = Some(max_retries);
    }

    /// Makes it ready to be sent: draws its key, if it takes one and the caller gave none.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`].
    pub(super) fn prepare(self, client: &Client) -> Result<Prepared, Error> {
        let shared = &client.shared;
        let name = self.name;
        if let Some(Fault { code, param, message }) = self.fault {
            return Err(Error::invalid(name.into_owned(), code, &param, message));
        }
        let key = match (self.class, self.key) {
            (Class::Keyed, None) => match new_key(shared.time.as_ref()) {
                Some(key) => Some(key),
                None => {
                    let message = "the machine has no random bytes: give the call a key of your own";
                    return Err(Error::invalid(
                        name.into_owned(),
                        "no_random_bytes",
                        "idempotency_key",
                        message,
                    ));
                }
            },
            (_, key) => key,
        };
        let Some(url) = join(&shared.base, &self.path, &self.query) else {
            let message = format!("{} is no path of the API", self.path);
            return Err(Error::invalid(name.into_owned(), "invalid_path", "path", message));
        };
        let options = Options {
            timeout: self.timeout.unwrap_or(shared.options.timeout),
            deadline: self.deadline.or(shared.options.deadline),
            max_retries: self.max_retries.unwrap_or(shared.options.max_retries),
        };
        Ok(Prepared {
            name,
            class: self.class,
            key,
            options,
            method: self.method,
            url,
            accept: self.accept,
            body: self.body,
        })
    }
}

/// The URL of a path, unless reading it changes the path: what has dots, spaces or a query in it is none of the API's.
fn join(base: &Url, path: &str, query: &str) -> Option<Url> {
    let mut url = base.clone();
    let before = base.path().trim_end_matches('/');
    if before.is_empty() {
        url.set_path(path);
    } else {
        url.set_path(&format!("{before}{path}"));
    }
    if !query.is_empty() {
        url.set_query(Some(query));
    }
    let same = path.starts_with('/') && url.path().strip_prefix(before) == Some(path);
    (same && url.query().unwrap_or_default() == query).then_some(url)
}

/// `oe-` and a UUID of version 4.
fn new_key(time: &dyn Time) -> Option<String> {
    let mut bytes = time.draw()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut key = String::with_capacity(39);
    key.push_str("oe-");
    for (index, byte) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            key.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            key.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    Some(key)
}
