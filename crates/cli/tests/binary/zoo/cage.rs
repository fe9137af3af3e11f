//! Receivers on plain sockets, for no HTTP library would do what they do.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Between two pieces of what drips.
const DRIP: Duration = Duration::from_secs(1);

/// What a receiver does on each connection.
#[derive(Clone)]
pub(super) enum Manner {
    /// Reads, and never says a word.
    Stalls,
    /// Does not even read.
    NeverReads,
    /// Reads a request and hangs.
    Hangs,
    /// Answers each request with these bytes.
    Says(Vec<u8>),
    /// Answers the first one and closes.
    SaysAndCloses(Vec<u8>),
    /// Answers the first one and resets the connection.
    SaysAndResets(Vec<u8>),
    /// Answers before the request has come.
    SpeaksFirst(Vec<u8>),
    /// Answers the first byte of a request and closes.
    AnswersEarly(Vec<u8>),
    /// Begins an answer and goes on by one byte a second.
    Drips(Vec<u8>),
    /// Begins an answer, and says the other part again and again as fast as it can.
    Pours(Vec<u8>, Vec<u8>),
}

/// One receiver, and what it saw.
#[derive(Clone)]
pub(super) struct Cage {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    /// When requests came, by their key.
    requests: HashMap<String, Vec<Instant>>,
    /// Bytes that were poured and taken, on all connections together.
    poured: usize,
}

impl Cage {
    pub(super) async fn open(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cage = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let shared = cage.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().connections += 1;
                let (cage, manner) = (shared.clone(), manner.clone());
                // How a connection ends is the server's business as well.
                tokio::spawn(async move { cage.visit(stream, manner).await });
            }
        });
        cage
    }

    pub(super) fn connections(&self) -> usize {
        self.lock().connections
    }

    /// Bytes of answers without end that were taken, on all connections together.
    pub(super) fn poured(&self) -> usize {
        self.lock().poured
    }

    /// When requests with this key came.
    pub(super) fn requests(&self, key: &str) -> Vec<Instant> {
        self.lock().requests.get(key).cloned().unwrap_or_default()
    }

    async fn visit(self, mut stream: TcpStream, manner: Manner) -> io::Result<()> {
        match manner {
            Manner::Stalls => until_closed(&mut stream).await,
            Manner::NeverReads => {
                std::future::pending::<()>().await;
                drop(stream);
                Ok(())
            }
            Manner::Hangs => {
                self.read(&mut stream).await?;
                until_closed(&mut stream).await
            }
            Manner::Says(answer) => loop {
                self.read(&mut stream).await?;
                stream.write_all(&answer).await?;
            },
            Manner::SaysAndCloses(answer) => {
                self.read(&mut stream).await?;
                stream.write_all(&answer).await
            }
            Manner::SaysAndResets(answer) => {
                self.read(&mut stream).await?;
                stream.write_all(&answer).await?;
                stream.set_zero_linger()
            }
            Manner::SpeaksFirst(answer) => {
                stream.write_all(&answer).await?;
                self.read(&mut stream).await?;
                until_closed(&mut stream).await
            }
            Manner::AnswersEarly(answer) => {
                stream.read_u8().await?;
                stream.write_all(&answer).await
            }
            Manner::Drips(start) => {
                self.read(&mut stream).await?;
                stream.write_all(&start).await?;
                loop {
                    tokio::time::sleep(DRIP).await;
                    stream.write_all(b"x").await?;
                }
            }
            Manner::Pours(start, piece) => {
                self.read(&mut stream).await?;
                self.pour(&mut stream, &start).await?;
                loop {
                    self.pour(&mut stream, &piece).await?;
                }
            }
        }
    }

    async fn pour(&self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
        stream.write_all(bytes).await?;
        self.lock().poured += bytes.len();
        Ok(())
    }

    /// Reads a request whole, and counts it as soon as its head is there.
    async fn read(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            read_more(stream, &mut bytes).await?;
        };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
        let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let key = value("x-adal-idempotency:").unwrap_or("no key").to_owned();
        self.lock().requests.entry(key).or_default().push(Instant::now());
        let length: usize = value("content-length:").map_or(0, |length| length.parse().unwrap());
        while bytes.len() < head_end + length {
            read_more(stream, &mut bytes).await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    match stream.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn until_closed(stream: &mut TcpStream) -> io::Result<()> {
    let mut nothing = [0; 1024];
    while stream.read(&mut nothing).await? > 0 {}
    Ok(())
}
