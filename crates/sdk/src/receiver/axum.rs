//! Webhooks as arguments of axum's handlers (feature `axum`).
//!
//! A handler that takes a [`Webhook`] is called for events only that are signed, readable, and not processed yet. The
//! rest is answered before it:
//!
//! | what comes | answer |
//! |---|---|
//! | a signature that does not fit, is missing or too old | 401, with the reason |
//! | an event that was processed | 200 |
//! | an event that another request is processing | 409 |
//! | a body that is no event, or whose data do not fit the type | 400, with the reason |
//! | more than [`BODY_BYTES_MAX`] | 413 |
//! | a [`Store`] that fails | 500 |
//!
//! ```
//! use axum::routing::post;
//! use axum::{Router, response::IntoResponse};
//! use restante_sdk::receiver::Deduplicator;
//! use restante_sdk::receiver::axum::{Receiver, Webhook};
//! use restante_sdk::signature::Verifier;
//!
//! #[derive(serde::Deserialize)]
//! struct Delivered { email_id: String }
//!
//! async fn delivered(webhook: Webhook<Delivered>) -> impl IntoResponse {
//!     // 204 when the work returns `Ok`, which says that the event is stored; else 500, and it comes again.
//!     webhook.store(async |event| insert(&event.id, &event.data.email_id).await).await
//! }
//!
//! # async fn insert(_: &str, _: &str) -> std::io::Result<()> { Ok(()) }
//! # fn app(secret: &str) -> Result<Router, restante_sdk::signature::SecretError> {
//! let receiver = Receiver::new(Verifier::new(secret)?, Deduplicator::default());
//! let app: Router = Router::new().route("/webhooks", post(delivered)).with_state(receiver);
//! # Ok(app) }
//! ```
//!
//! To log what is refused, take `Result<Webhook<T>, Rejection>`: a [`Rejection`] is the answer as well.

use std::error::Error;
use std::sync::Arc;

use ::axum_core::body::Body;
use ::axum_core::extract::{FromRef, FromRequest, Request};
use ::axum_core::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::{Begun, Deduplicator, Event, NotAnEvent, NotStored, Store};
use crate::clock;
use crate::signature::{SignatureHeaders, Verifier, VerifyError};

/// How many bytes a body may have unless a receiver is told otherwise: an event's 256 KiB and some room.
pub const BODY_BYTES_MAX: usize = (256 + 16) * 1024;

/// What a router's state must hold for [`Webhook`] to be extracted: by itself, or by `FromRef`. Clones share all of it.
#[derive(Debug)]
pub struct Receiver<S = Deduplicator> {
    verifier: Arc<Verifier>,
    store: Arc<S>,
    body_bytes_max: usize,
}

impl<S: Store> Receiver<S> {
    /// A receiver that keeps what it processed in `store`: a [`Deduplicator`], or a [`Store`] of its own.
    pub fn new(verifier: Verifier, store: S) -> Self {
        Self { verifier: Arc::new(verifier), store: Arc::new(store), body_bytes_max: BODY_BYTES_MAX }
    }

    /// Sets how many bytes a body may have. A `DefaultBodyLimit` has no say in it.
    #[must_use]
    pub fn with_body_bytes_max(self, body_bytes_max: usize) -> Self {
        Self { body_bytes_max, ..self }
    }

    async fn read(&self, body: Body) -> Result<Bytes, Rejection> {
        match Limited::new(body, self.body_bytes_max).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(Rejection::TooLarge { bytes_max: self.body_bytes_max })
            }
            Err(error) => Err(Rejection::Unread(error)),
        }
    }
}

impl<S> Clone for Receiver<S> {
    fn clone(&self) -> Self {
        Self {
            verifier: Arc::clone(&self.verifier),
            store: Arc::clone(&self.store),
            body_bytes_max: self.body_bytes_max,
        }
    }
}

/// A verified event that is to be processed now.
///
/// Whoever drops it without [`store`](Webhook::store) or [`commit`](Webhook::commit) gives the event up: answer an error
/// status then, so that the sender tries again. That is also what happens when the connection breaks and axum drops the
/// handler: what was stored but not committed comes again.
#[must_use = "an event that is not committed is given up"]
pub struct Webhook<T, S: Store = Deduplicator> {
    event: Event<T>,
    ticket: S::Ticket,
    store: Arc<S>,
}

/// The event is stored: 204.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored(());

impl<T, S: Store> Webhook<T, S> {
    /// The event.
    pub fn event(&self) -> &Event<T> {
        &self.event
    }

    /// Stores the event by `work` and commits it when that returns `Ok`. The result is the answer.
    ///
    /// `Ok` of `work` must mean that the event is stored.
    ///
    /// # Errors
    /// `NotStored`, which answers 500 and says nothing to the sender; the next attempt is processed. Log what it holds.
    pub async fn store<E>(
        self,
        work: impl AsyncFnOnce(Event<T>) -> Result<(), E>,
    ) -> Result<Stored, NotStored<E>> {
        work(self.event).await.map_err(NotStored::Work)?;
        commit(&*self.store, self.ticket).await
    }

    /// As [`Webhook::store`], with the store's ticket for the work: where that is a transaction, do everything through
    /// it.
    ///
    /// # Errors
    /// As [`Webhook::store`].
    pub async fn store_in<E>(
        mut self,
        work: impl AsyncFnOnce(Event<T>, &mut S::Ticket) -> Result<(), E>,
    ) -> Result<Stored, NotStored<E>> {
        work(self.event, &mut self.ticket).await.map_err(NotStored::Work)?;
        commit(&*self.store, self.ticket).await
    }

    /// Says that the event is stored. The result is the answer.
    ///
    /// # Errors
    /// `NotStored` when the store cannot commit.
    pub async fn commit(self) -> Result<Stored, NotStored<std::convert::Infallible>> {
        commit(&*self.store, self.ticket).await
    }

    /// The event, and the ticket to be committed once it is stored.
    pub fn into_parts(self) -> (Event<T>, S::Ticket) {
        (self.event, self.ticket)
    }
}

async fn commit<S: Store, E>(store: &S, ticket: S::Ticket) -> Result<Stored, NotStored<E>> {
    store.commit(ticket).await.map_err(NotStored::store)?;
    Ok(Stored(()))
}

impl<T, S, R> FromRequest<R> for Webhook<T, S>
where
    T: DeserializeOwned,
    S: Store + 'static,
    Receiver<S>: FromRef<R>,
    R: Send + Sync,
{
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &R) -> Result<Self, Rejection> {
        let receiver = Receiver::<S>::from_ref(state);
        let (head, body) = request.into_parts();
        // Whoever does not sign at all need not be listened to.
        let headers = SignatureHeaders::of(&head.headers)?;
        let body = receiver.read(body).await?;
        let verified = receiver.verifier.verify(headers, &body, clock::now())?;
        // Before the data are read: what was processed stays so, even if this version could not read it any more.
        let ticket = match receiver.store.begin(verified.id()).await {
            Ok(Begun::Fresh(ticket)) => ticket,
            Ok(Begun::InProgress) => return Err(Rejection::InProgress),
            Ok(Begun::Duplicate) => return Err(Rejection::Duplicate),
            Err(error) => return Err(Rejection::Store(Box::new(error))),
        };
        let event = Event::read(&verified)?;
        Ok(Self { event, ticket, store: receiver.store })
    }
}

/// Why the handler is not called, and the answer in its place. No text of it tells anything of a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// 200.
    #[error("processed before")]
    Duplicate,
    /// 409.
    #[error("being processed by another request")]
    InProgress,
    /// 401.
    #[error(transparent)]
    Unverified(#[from] VerifyError),
    /// 400.
    #[error(transparent)]
    NotAnEvent(#[from] NotAnEvent),
    /// 413.
    #[error("the body has more than {bytes_max} bytes")]
    TooLarge {
        /// How many it may have.
        bytes_max: usize,
    },
    /// 400: the body broke off.
    #[error("the body could not be read to its end")]
    Unread(#[source] Box<dyn Error + Send + Sync>),
    /// 500. What the store says is not for the sender.
    #[error("the store of processed events failed")]
    Store(#[source] Box<dyn Error + Send + Sync>),
}

impl Rejection {
    /// The status that it is answered with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Duplicate => StatusCode::OK,
            Self::InProgress => StatusCode::CONFLICT,
            Self::Unverified(_) => StatusCode::UNAUTHORIZED,
            Self::NotAnEvent(_) | Self::Unread(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}

impl IntoResponse for Stored {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl<E> IntoResponse for NotStored<E> {
    /// 500, and nothing of why.
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, "the event is not stored: send it again").into_response()
    }
}
