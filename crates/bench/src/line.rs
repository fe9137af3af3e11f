//! One HTTP/1.1 keep-alive connection of a client.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection to one address that dials again when the peer has closed it.
pub(crate) struct Line {
    address: SocketAddr,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Line {
    /// A line that dials on first use.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: None }
    }

    /// Dials now, so that the first request does not pay for it.
    pub(crate) async fn connect(&mut self) -> Result<()> {
        self.sender().await.map(drop)
    }

    /// Sends one request and gives its response head; the caller reads the body to its end before the next request.
    ///
    /// # Errors
    /// The peer cannot be reached or broke off. Whether the request had an effect is unknown; the next call dials again.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let answer = self.sender().await?.send_request(request).await;
        if answer.is_err() {
            self.sender = None;
        }
        Ok(answer?)
    }

    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>> {
        // Waiting until the connection is ready notices a peer that closed it while it was idle.
        let alive = match self.sender.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let sender = match alive {
            Some(sender) => sender,
            None => dial(self.address).await?,
        };
        Ok(self.sender.insert(sender))
    }
}

async fn dial(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // How the connection ended shows in the request that needed it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}
