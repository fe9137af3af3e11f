//! New connections: dialled, encrypted, and in the version of HTTP that the receiver speaks.

use std::sync::Arc;

use hyper::Uri;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::fault::Fault;
use super::line::Line;
use super::pool::{Carrier, Origin, Pool, Shared};
use super::{HTTP2_PING, HTTP2_STREAM_WINDOW_BYTES, RESPONSE_HEAD_BYTES_MAX};
use crate::channel::guard::Dialer;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Makes connections.
pub(super) struct Connector {
    dialer: Dialer,
    tls: TlsConnector,
}

impl Connector {
    pub(super) fn new(dialer: Dialer, mut tls: ClientConfig) -> Self {
        tls.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Self { dialer, tls: TlsConnector::from(Arc::new(tls)) }
    }

    /// A connection to the origin of `target`, which `pool` will keep.
    pub(super) async fn connect(
        &self,
        target: &Uri,
        origin: &Origin,
        pool: &Arc<Pool>,
    ) -> Result<Carrier, Fault> {
        let stream = self.dialer.dial_target(target).await?;
        if target.scheme_str() == Some("http") {
            return Ok(Carrier::Line(pool.lend(Line::open(stream).await?, origin.clone())));
        }
        let host = target.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let stream = self.tls.connect(ServerName::try_from(host.to_owned())?, stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(HTTP2) {
            return Ok(pool.share(share(stream).await?, origin.clone()));
        }
        Ok(Carrier::Line(pool.lend(Line::open(stream).await?, origin.clone())))
    }
}

async fn share(stream: TlsStream<TcpStream>) -> hyper::Result<Shared> {
    let (shared, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(RESPONSE_HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .keep_alive_interval(HTTP2_PING)
        .keep_alive_timeout(HTTP2_PING)
        .handshake(TokioIo::new(stream))
        .await?;
    // Why it ended is told to the requests that were on it.
    tokio::spawn(async move { drop(connection.await) });
    Ok(shared)
}
