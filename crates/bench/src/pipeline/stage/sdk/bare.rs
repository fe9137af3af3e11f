//! Calls as somebody makes them who has the HTTP client alone and wastes nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, retry};
use restante_sdk::wire::{PublishEvent, PublishedEvent, Source};
use rustls::{ClientConfig, RootCertStore, crypto};
use serde::de::DeserializeOwned;

use crate::clock;

/// The library's own.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One connection, and what each call needs.
pub(super) struct Bare {
    http: reqwest::Client,
    base: String,
    events: String,
    authorization: HeaderValue,
}

impl Bare {
    /// The HTTP client is set up as the library does it.
    pub(super) fn new(address: SocketAddr, key: &str) -> Result<Self> {
        let provider = Arc::new(crypto::ring::default_provider());
        // Not used: the calls go over plain HTTP. The HTTP client wants one all the same.
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .user_agent("restante-bench")
            .no_proxy()
            .build()?;
        let base = format!("http://{address}");
        let mut authorization = HeaderValue::try_from(format!("Bearer {key}"))?;
        authorization.set_sensitive(true);
        Ok(Self { http, events: format!("{base}/v1/events"), base, authorization })
    }

    pub(super) async fn publish(&self, event: &PublishEvent) -> Result<PublishedEvent> {
        // As random as the library's: to the server's index, keys in order would be cheaper ones.
        let key = format!("bench-{:032x}", clock::draw()?);
        let request = self
            .http
            .post(&self.events)
            .header("idempotency-key", key)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .body(serde_json::to_vec(event)?);
        self.answer(request).await
    }

    pub(super) async fn source(&self, id: &str) -> Result<Source> {
        self.answer(self.http.get(format!("{}/v1/sources/{id}", self.base))).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let request = request.header(AUTHORIZATION, self.authorization.clone()).timeout(TIMEOUT);
        let response = request.send().await?.error_for_status()?;
        Ok(serde_json::from_slice(&response.bytes().await?)?)
    }
}
