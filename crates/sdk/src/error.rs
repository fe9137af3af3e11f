//! What a call that failed tells.

use std::error::Error as StdError;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::retry::GaveUp;

type Source = Box<dyn StdError + Send + Sync>;

/// A call that failed: how, after how many tries, and why it was not tried again.
///
/// [`Error::may_have_taken_effect`] says whether a write may have been made all the same. A keyed call can be made again
/// with its [`Error::idempotency_key`], and is then answered with what it has sent.
pub struct Error(Box<Failure>);

struct Failure {
    kind: ErrorKind,
    /// Name of the call, or method and path.
    call: String,
    status: Option<u16>,
    told: Told,
    retry_after_seconds: Option<f64>,
    attempts: u32,
    idempotency_key: Option<String>,
    gave_up: Option<GaveUp>,
    source: Option<Source>,
}

/// In what way a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call cannot be made as it was given. Nothing was sent.
    Invalid,
    /// The server answered, and not with a 2xx.
    Status,
    /// No whole answer came: no address, no connection, no TLS, or it broke.
    Network,
    /// No whole answer came in time.
    Timeout,
    /// The call succeeded, but its answer is not of the shape it should have.
    Answer,
}

/// One of several things wrong with a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Detail {
    /// The field or parameter.
    pub param: String,
    /// What is wrong with it.
    pub message: String,
}

/// What an answer's body says is wrong.
#[derive(Default)]
struct Told {
    r#type: Option<String>,
    code: Option<String>,
    message: Option<String>,
    param: Option<String>,
    details: Vec<Detail>,
    doc_url: Option<String>,
    request_id: Option<String>,
}

impl Told {
    /// Field by field: what a newer server writes otherwise costs only that. `None`: this is not the API's shape.
    fn read(body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let error = body.get("error")?.as_object()?;
        let text = |name| Some(error.get(name)?.as_str()?.to_owned());
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let told = Self {
            r#type: text("type"),
            code: text("code"),
            message: text("message"),
            param: text("param"),
            details: details.filter_map(|it| Detail::deserialize(it).ok()).collect(),
            doc_url: text("doc_url"),
            request_id: text("request_id"),
        };
        (told.code.is_some() || told.message.is_some()).then_some(told)
    }
}

impl Error {
    /// In what way it failed.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The name of the call, `emails.send`; of one that is not listed its method and path.
    pub fn call(&self) -> &str {
        &self.0.call
    }

    /// The status of the last answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The kind of failure as the server calls it: `validation_error`, `rate_limit_error`.
    pub fn error_type(&self) -> Option<&str> {
        self.0.told.r#type.as_deref()
    }

    /// What is wrong, for programs: `idempotency_key_reuse`. For a call that was not sent, the client's own word.
    pub fn code(&self) -> Option<&str> {
        self.0.told.code.as_deref()
    }

    /// What is wrong, for people.
    pub fn message(&self) -> &str {
        self.0.told.message.as_deref().unwrap_or("the answer does not say what is wrong")
    }

    /// The field or parameter that is wrong.
    pub fn param(&self) -> Option<&str> {
        self.0.told.param.as_deref()
    }

    /// All that is wrong, where it is more than one thing.
    pub fn details(&self) -> &[Detail] {
        &self.0.told.details
    }

    /// Where to read more.
    pub fn doc_url(&self) -> Option<&str> {
        self.0.told.doc_url.as_deref()
    }

    /// How the server's log names the last request.
    pub fn request_id(&self) -> Option<&str> {
        self.0.told.request_id.as_deref()
    }

    /// How long the last answer asked to wait, in seconds.
    pub fn retry_after_seconds(&self) -> Option<f64> {
        self.0.retry_after_seconds
    }

    /// How often the call was tried. 0: nothing was sent.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The key of all its tries. Give it to the next call to make the same send again.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.0.idempotency_key.as_deref()
    }

    /// Why it was not tried again, if it could have been.
    pub fn gave_up(&self) -> Option<GaveUp> {
        self.0.gave_up
    }

    /// Whether the call may have taken effect all the same, in a try whose answer was lost or in the last one.
    ///
    /// `false` only if nothing was sent, or if it was tried once and refused by Restante itself with a 4xx.
    pub fn may_have_taken_effect(&self) -> bool {
        let refused = self.code().is_some()
            && self.status().is_some_and(|status| (400..500).contains(&status) && status != 408);
        !(self.attempts() == 0 || self.attempts() == 1 && refused)
    }

    /// Whether the idempotency key was used for something else.
    pub fn is_key_reuse(&self) -> bool {
        self.code() == Some("idempotency_key_reuse")
    }

    /// Whether there is no such thing, in this workspace.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    fn new(kind: ErrorKind, call: String, told: Told) -> Self {
        Self(Box::new(Failure {
            kind,
            call,
            status: None,
            told,
            retry_after_seconds: None,
            attempts: 0,
            idempotency_key: None,
            gave_up: None,
            source: None,
        }))
    }
}

/// Made by the client.
#[cfg_attr(not(feature = "client"), expect(dead_code, reason = "only the client makes errors"))]
impl Error {
    /// A call that cannot be made. `param` is what is wrong with it.
    pub(crate) fn invalid(call: String, code: &str, param: &str, message: impl Into<String>) -> Self {
        let told = Told {
            code: Some(code.to_owned()),
            param: Some(param.to_owned()),
            message: Some(message.into()),
            ..Told::default()
        };
        Self::new(ErrorKind::Invalid, call, told)
    }

    /// An answer that is no success. What its body says is taken over if it is in the API's shape; otherwise something
    /// on the way has answered, and the message says that.
    pub(crate) fn answered(call: String, status: u16, request_id: Option<&str>, body: &[u8]) -> Self {
        let foreign = || Told { message: Some(foreign(status)), ..Told::default() };
        let mut told = Told::read(body).unwrap_or_else(foreign);
        if told.request_id.is_none() {
            told.request_id = request_id.map(str::to_owned);
        }
        let mut error = Self::new(ErrorKind::Status, call, told);
        error.0.status = Some(status);
        error
    }

    /// No answer, or one that cannot be read.
    pub(crate) fn broken(kind: ErrorKind, call: String, message: String, source: Option<Source>) -> Self {
        let told = Told { message: Some(message), ..Told::default() };
        let mut error = Self::new(kind, call, told);
        error.0.source = source;
        error
    }

    pub(crate) fn with_status(mut self, status: u16, request_id: Option<&str>) -> Self {
        self.0.status = Some(status);
        self.0.told.request_id = request_id.map(str::to_owned);
        self
    }

    pub(crate) fn with_course(mut self, attempts: u32, key: Option<&str>, gave_up: Option<GaveUp>) -> Self {
        self.0.attempts = attempts;
        self.0.idempotency_key = key.map(str::to_owned);
        self.0.gave_up = gave_up;
        self
    }

    pub(crate) fn with_retry_after(mut self, seconds: Option<f64>) -> Self {
        self.0.retry_after_seconds = seconds;
        self
    }
}

fn foreign(status: u16) -> String {
    let reason = http::StatusCode::from_u16(status).ok().and_then(|it| it.canonical_reason());
    match status {
        300..=399 => "a redirect, which is not followed: is the client's URL the server's own?".to_owned(),
        _ => format!(
            "{}, not told by Restante but by something on the way to it",
            reason.unwrap_or("an error")
        ),
    }
}

/// `emails.send: 503 store_unavailable: the store does not answer (3 tries, no retries are left; request 7f…, key oe-…)`
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.call)?;
        if let Some(status) = self.status() {
            write!(f, "{status} ")?;
        }
        if let Some(code) = self.code() {
            write!(f, "{code}: ")?;
        }
        f.write_str(self.message())?;
        if let (Some(param), false) = (self.param(), self.kind() == ErrorKind::Invalid) {
            write!(f, " [{param}]")?;
        }
        if self.attempts() == 0 {
            return f.write_str(" (nothing was sent)");
        }
        match self.attempts() {
            1 => f.write_str(" (1 try")?,
            tries => write!(f, " ({tries} tries")?,
        }
        if let Some(gave_up) = self.gave_up() {
            write!(f, ", {gave_up}")?;
        }
        if let Some(seconds) = self.retry_after_seconds() {
            write!(f, ", Retry-After {seconds} s")?;
        }
        if let Some(id) = self.request_id() {
            write!(f, "; request {id}")?;
        }
        if let Some(key) = self.idempotency_key() {
            write!(f, "; key {key}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.kind()).field("told", &self.to_string());
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Class;

    const BODY: &str = r#"{"error":{"type":"validation_error","code":"invalid_field","name":"InvalidField",
        "message":"`to` is empty","param":"to","details":[{"param":"to","message":"is empty"}],
        "doc_url":"https://d.example/","request_id":"q1"}}"#;

    fn answered(status: u16, body: &str) -> Error {
        Error::answered("emails.send".to_owned(), status, Some("q2"), body.as_bytes())
    }

    #[test]
    fn what_the_server_says_is_taken_over() {
        let error = answered(422, BODY).with_course(1, Some("oe-1"), None);
        assert_eq!(error.kind(), ErrorKind::Status);
        assert_eq!(error.status(), Some(422));
        assert_eq!(error.error_type(), Some("validation_error"));
        assert_eq!(error.code(), Some("invalid_field"));
        assert_eq!(error.message(), "`to` is empty");
        assert_eq!(error.param(), Some("to"));
        assert_eq!(error.details(), [Detail { param: "to".to_owned(), message: "is empty".to_owned() }]);
        assert_eq!(error.doc_url(), Some("https://d.example/"));
        assert_eq!(error.request_id(), Some("q1"));
        assert_eq!(error.attempts(), 1);
        assert_eq!(
            error.to_string(),
            "emails.send: 422 invalid_field: `to` is empty [to] (1 try; request q1; key oe-1)"
        );
    }

    #[test]
    fn an_answer_of_another_shape_is_told_as_one() {
        for body in
            ["", "<html>", "[]", "{}", r#"{"error":"x"}"#, r#"{"error":{"code":1}}"#, r#"{"error":{}}"#]
        {
            let error = answered(502, body).with_course(3, None, Some(GaveUp::RetriesUsedUp));
            assert_eq!(
                error.to_string(),
                "emails.send: 502 Bad Gateway, not told by Restante but by something on the way to it (3 tries, no \
                 retries are left; request q2)"
            );
        }
        assert_eq!(
            answered(308, "").message(),
            "a redirect, which is not followed: is the client's URL the server's own?"
        );
        let odd = r#"{"error":{"code":"store_unavailable","details":null,"doc_url":7,"param":[],"request_id":"q9"}}"#;
        let error = answered(503, odd);
        assert_eq!((error.code(), error.request_id()), (Some("store_unavailable"), Some("q9")));
        assert_eq!(error.message(), "the answer does not say what is wrong");
    }

    #[test]
    fn a_call_that_is_not_repeated_says_why() {
        let broken =
            Error::broken(ErrorKind::Timeout, "webhooks.create".to_owned(), "no answer".to_owned(), None);
        let error = broken.with_course(1, None, Some(GaveUp::Class(Class::Creates)));
        assert_eq!(
            error.to_string(),
            "webhooks.create: no answer (1 try, not tried again: a call of the class `creates` is sent once)"
        );
        let error = Error::invalid("emails.get".to_owned(), "invalid_id", "id", "`id` is empty");
        assert_eq!(error.to_string(), "emails.get: invalid_id: `id` is empty (nothing was sent)");
    }

    #[test]
    fn a_call_surely_took_no_effect_only_if_its_only_try_was_refused() {
        let refusal = r#"{"error":{"code":"c"}}"#;
        for (status, body, tries, may) in [
            (422, refusal, 1, false),
            (401, refusal, 1, false),
            // Its first try may have been accepted, and the answer lost.
            (401, refusal, 2, true),
            (429, refusal, 3, true),
            (408, refusal, 1, true),
            (503, refusal, 1, true),
            // Told by something on the way, which may have let it pass.
            (403, "<html>", 1, true),
            (302, "", 1, true),
        ] {
            let error = answered(status, body).with_course(tries, None, None);
            assert_eq!(error.may_have_taken_effect(), may, "{status} {tries}");
        }
        let unsent = Error::invalid("emails.get".to_owned(), "invalid_id", "id", "`id` is empty");
        assert!(!unsent.may_have_taken_effect());
        let broken = Error::broken(ErrorKind::Network, "x.y".to_owned(), "m".to_owned(), None);
        assert!(broken.with_course(1, None, None).may_have_taken_effect());
    }
}
