use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Answer, Answered, Client, Draft, course};
use crate::calls::Call;
use crate::{Error, ErrorKind};

type Read<T> = fn(&Answer) -> Result<T, serde_json::Error>;

/// A call that is described and not made yet: by a [`Client`] it is made when it is awaited, by a
/// [`blocking::Client`](crate::blocking::Client) with [`Pending::wait`].
///
/// Dropping the future of a call sends nothing more; what was on its way may still arrive.
#[must_use = "a call is made when it is awaited, or with `wait`"]
pub struct Pending<C, T> {
    pub(super) client: C,
    pub(super) draft: Draft,
    pub(super) read: Read<T>,
}

/// How one call is made, if not as its client makes calls.
macro_rules! options {
    () => {
        /// The time one try may take; each has it anew. 30 s unless the client says otherwise.
        pub fn timeout(mut self, timeout: Duration) -> Self {
            self.draft.timeout(timeout);
            self
        }

        /// The time the whole call may take, waits and all. No wait is begun that would leave none of it.
        pub fn deadline(mut self, deadline: Duration) -> Self {
            self.draft.deadline(deadline);
            self
        }

        /// Most tries after the first, for failures that may pass. 2 unless the client says otherwise; 0: none.
        pub fn max_retries(mut self, max_retries: u32) -> Self {
            self.draft.max_retries(max_retries);
            self
        }
    };
}
pub(super) use options;

impl<C, T> Pending<C, T> {
    options!();

    /// The key under which the server stores what is sent, instead of one made for this call. 1 to 255 of
    /// `A-Z a-z 0-9 _ . : -`.
    ///
    /// Derive it from what made the send necessary (`invoice-paid:inv_4192`), never from a clock: then a job that
    /// crashed and runs again gets the first message back, with `replayed: true`, and sends nothing twice. The same key
    /// for something else is refused with `idempotency_key_reuse`.
    ///
    /// Only sends take keys. On another call this is an error, for the server would ignore the key.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.draft.key(key.into());
        self
    }

    fn finish(read: Read<T>, name: &str, answer: Answer) -> Result<(T, Answer), Error> {
        match read(&answer) {
            Ok(value) => Ok((value, answer)),
            Err(fault) => {
                let message = format!("the answer is not of the shape it should have: {fault}");
                let error = Error::broken(ErrorKind::Answer, name.to_owned(), message, Some(fault.into()));
                let error = error.with_status(answer.status, answer.request_id());
                Err(error.with_course(answer.attempts, answer.idempotency_key.as_deref(), None))
            }
        }
    }
}

/// What resources describe calls with.
impl<C: Clone, T> Pending<C, T> {
    /// A call that is answered with JSON.
    pub(crate) fn new(client: &C, call: &'static Call) -> Self
    where
        T: DeserializeOwned,
    {
        Self::reading(client, call, Answer::json)
    }

    fn reading(client: &C, call: &'static Call, read: Read<T>) -> Self {
        Self { client: client.clone(), draft: Draft::of(call), read }
    }

    /// Fills in a parameter of the call's path.
    pub(crate) fn param(mut self, name: &str, value: &str) -> Self {
        self.draft.param(name, value);
        self
    }

    /// Adds to the query.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Self {
        self.draft.query(query);
        self
    }

    /// The body, as JSON.
    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        self.draft.json(body);
        self
    }
}

impl<C: Clone> Pending<C, ()> {
    /// A call that is answered with nothing.
    pub(crate) fn empty(client: &C, call: &'static Call) -> Self {
        Self::reading(client, call, |_| Ok(()))
    }
}

impl<C: Clone> Pending<C, Bytes> {
    /// A call that is answered with bytes.
    pub(crate) fn bytes(client: &C, call: &'static Call) -> Self {
        let mut pending = Self::reading(client, call, |answer| Ok(answer.body.clone()));
        pending.draft.accept("*/*");
        pending
    }
}

impl<C: Clone> Pending<C, String> {
    /// A call that is answered with a text.
    pub(crate) fn text(client: &C, call: &'static Call) -> Self {
        let read = |answer: &Answer| Ok(String::from_utf8_lossy(&answer.body).into_owned());
        let mut pending = Self::reading(client, call, read);
        pending.draft.accept("*/*");
        pending
    }
}

/// Calls made by method and path.
impl<C: Clone> Pending<C, Answer> {
    pub(crate) fn bare(client: &C, method: Method, path: &str) -> Self {
        Self::raw(client, Draft::bare(method, path))
    }

    pub(crate) fn bare_as(client: &C, call: &'static Call, method: Method, path: &str) -> Self {
        Self::raw(client, Draft::routed(call, method, path))
    }

    fn raw(client: &C, mut draft: Draft) -> Self {
        draft.accept("*/*");
        Self { client: client.clone(), draft, read: |answer| Ok(answer.clone()) }
    }

    /// Adds to the query: pairs, or a struct of texts and numbers.
    pub fn with_query(mut self, query: &impl Serialize) -> Self {
        self.draft.query(query);
        self
    }

    /// The body, as JSON.
    pub fn with_json(mut self, body: &impl Serialize) -> Self {
        self.draft.json(body);
        self
    }

    /// The body, as bytes of this content type.
    pub fn with_body(mut self, body: impl Into<Bytes>, content_type: &str) -> Self {
        let content_type = self.draft.content_type(content_type);
        self.draft.bytes(body.into(), content_type);
        self
    }
}

impl<T> Pending<Client, T> {
    /// Makes the call, and tells besides its answer how it went: how many tries it took, under which key.
    ///
    /// # Errors
    /// As awaiting it.
    pub async fn answered(self) -> Result<Answered<T>, Error> {
        let (value, answer) = self.made().await?;
        Ok(Answered::new(value, answer))
    }

    async fn made(self) -> Result<(T, Answer), Error> {
        let name = self.draft.name().clone();
        let answer = course::run(self.client, self.draft).await?;
        Self::finish(self.read, &name, answer)
    }
}

impl<T: Send + 'static> IntoFuture for Pending<Client, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async { self.made().await.map(|(value, _)| value) })
    }
}

impl<T> Pending<crate::blocking::Client, T> {
    /// Makes the call. The calling thread waits until its last try is over. May be called anywhere, within a runtime
    /// too.
    ///
    /// # Errors
    /// [`Error`].
    pub fn wait(self) -> Result<T, Error> {
        self.made().map(|(value, _)| value)
    }

    /// Makes the call, and tells besides its answer how it went.
    ///
    /// # Errors
    /// As [`Pending::wait`].
    pub fn wait_answered(self) -> Result<Answered<T>, Error> {
        let (value, answer) = self.made()?;
        Ok(Answered::new(value, answer))
    }

    fn made(self) -> Result<(T, Answer), Error> {
        let answer = course::run_blocking(&self.client.0, self.draft.clone())?;
        Self::finish(self.read, self.draft.name(), answer)
    }
}

impl<C, T> fmt::Debug for Pending<C, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.draft.name()).finish()
    }
}
