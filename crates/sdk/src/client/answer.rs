use bytes::Bytes;
use http::HeaderMap;
use serde::de::DeserializeOwned;

/// A success as it came: status 200 to 299.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer {
    /// 200 to 299.
    pub status: u16,
    /// As they came.
    pub headers: HeaderMap,
    /// As it came; empty where there is none.
    pub body: Bytes,
    /// How often the call was tried.
    pub attempts: u32,
    /// The key of all its tries, if it is keyed.
    pub idempotency_key: Option<String>,
}

impl Answer {
    /// Reads the body.
    ///
    /// # Errors
    /// It is not JSON, or not of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// How the server's log names the request.
    pub fn request_id(&self) -> Option<&str> {
        self.headers.get("x-request-id").and_then(|value| value.to_str().ok())
    }
}

/// What a call was answered, and how it went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answered<T> {
    /// The answer itself.
    pub value: T,
    /// 200 to 299: for a keyed call, 200 says that an earlier call sent it.
    pub status: u16,
    /// How the server's log names the request.
    pub request_id: Option<String>,
    /// How often the call was tried.
    pub attempts: u32,
    /// The key of all its tries, if it is keyed.
    pub idempotency_key: Option<String>,
}

impl<T> Answered<T> {
    pub(super) fn new(value: T, answer: Answer) -> Self {
        Self {
            value,
            status: answer.status,
            request_id: answer.request_id().map(str::to_owned),
            attempts: answer.attempts,
            idempotency_key: answer.idempotency_key,
        }
    }
}
