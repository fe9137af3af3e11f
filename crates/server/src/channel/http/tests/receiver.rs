//! A receiver made of plain sockets and threads, so that it can be as wrong as it wants.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(super) struct Receiver {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Receiver {
    /// Serves every connection in a thread of its own.
    pub(super) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        Self { address, connections }
    }

    /// Answers every request of every connection with these bytes.
    pub(super) fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(
            move |mut stream| {
                while read_request(&mut stream).is_some() && stream.write_all(&response).is_ok() {}
            },
        )
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// One request, head and body, as it came; `None` when the peer has closed.
pub(super) fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        request.push(byte[0]);
    }
    let head = String::from_utf8(request).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).ok()?;
    Some(head + std::str::from_utf8(&body).unwrap())
}

/// Waits until the peer closes.
pub(super) fn until_closed(stream: &mut impl Read) {
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}
