//! A receiver in the thread of the calls that answers each with the same accepted event.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = br#"{"id":"whe_01k5v3qj7xq2m8r4t6w9y0z1ab","deliveries":0,"replayed":false}"#;

/// Listens on a free port until the runtime ends.
pub(super) async fn start() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A connection that breaks shows at its client.
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

async fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await?)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::from(ANSWER));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-request-id", HeaderValue::from_static("req_01k5v3qj7xq2m8r4t6w9y0z1ab"));
    Ok(response)
}
