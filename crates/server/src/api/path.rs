//! Reads ids out of paths.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use restante_core::Id;
use restante_core::id::Kind;

use super::error::ApiError;

/// The id in a path. What is no id of the kind names nothing: 404.
pub(crate) struct One<K>(pub(crate) Id<K>);

/// The id or the name in a path.
pub(crate) struct Named(pub(crate) String);

/// The two ids in a path: of something, and of what it belongs to.
pub(crate) struct Within<P, K>(pub(crate) Id<P>, pub(crate) Id<K>);

/// The id in a path, and the place of one of its parts, from 0.
pub(crate) struct Part<K>(pub(crate) Id<K>, pub(crate) usize);

impl<S: Send + Sync, K: Kind> FromRequestParts<S> for Part<K> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = params(parts, state).await?;
        let place = params.iter().nth(1).and_then(|(_, text)| text.parse().ok());
        let nothing = || ApiError::new(StatusCode::NOT_FOUND, "not_found", "it has no such part");
        Ok(Self(read(&params, 0)?, place.ok_or_else(nothing)?))
    }
}

impl<S: Send + Sync, K: Kind> FromRequestParts<S> for One<K> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = params(parts, state).await?;
        read(&params, 0).map(Self)
    }
}

impl<S: Send + Sync, P: Kind, K: Kind> FromRequestParts<S> for Within<P, K> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = params(parts, state).await?;
        Ok(Self(read(&params, 0)?, read(&params, 1)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let params = params(parts, state).await?;
        Ok(Self(params.iter().next().map(|(_, text)| text.to_owned()).unwrap_or_default()))
    }
}

async fn params<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, ApiError> {
    // Only a path that is not UTF-8 after decoding is refused.
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|rejection| ApiError::malformed("malformed_path", rejection.to_string()))
}

fn read<K: Kind>(params: &RawPathParams, index: usize) -> Result<Id<K>, ApiError> {
    let text = params.iter().nth(index).map(|(_, text)| text).unwrap_or_default();
    text.parse().map_err(|_| ApiError::not_found::<K>())
}
