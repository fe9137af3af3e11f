//! Calls to the tour's server, one connection each.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

pub(super) struct Client {
    address: SocketAddr,
    key: String,
}

impl Client {
    pub(super) fn new(address: SocketAddr, key: String) -> Self {
        Self { address, key }
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, Some(&self.key), Bytes::new()).await
    }

    /// `Value::Null` sends no body.
    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.call(Method::POST, path, Some(&self.key), body).await
    }

    /// Sends a webhook as an outsider does: without a key.
    pub(super) async fn send_webhook(&self, url: &str, body: &str) -> anyhow::Result<Value> {
        let path =
            url.split_once("/in/").map(|(_, token)| format!("/in/{token}")).context("an intake URL")?;
        self.call(Method::POST, &path, None, Bytes::from(body.to_owned())).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<Value> {
        let stream = TcpStream::connect(self.address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let response = sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        let answer = response.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{method} {path} answered {status}: {}", String::from_utf8_lossy(&answer));
        }
        serde_json::from_slice(&answer).with_context(|| format!("{method} {path} did not answer JSON"))
    }
}
