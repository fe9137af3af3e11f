//! A client of PostgreSQL by hand: simple queries, no TLS, no password.

use std::io;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{self, Frame, Side, Splitter};

/// Version 3.0.
const PROTOCOL: u32 = 0x0003_0000;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the statement; the session goes on.
    #[error("{code}: {text}")]
    Refused { code: String, text: String },
    /// The session is over. Whether the statement was executed is not known.
    #[error("the connection is lost")]
    Lost(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] wire::Error),
}

/// The columns of a row as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// A session.
#[derive(Debug)]
pub struct Client {
    /// The commands of the last query that are known to be done, with their numbers of rows: `INSERT 0 1`.
    pub completed: Vec<String>,
    stream: TcpStream,
    splitter: Splitter,
}

impl Client {
    /// Begins a session with a URL as [`Cluster::database`](super::Cluster::database) gives it. Of several hosts the
    /// first one counts that can be reached and, with `target_session_attrs=read-write`, written to.
    ///
    /// # Errors
    /// Of the last host, when no host will do.
    ///
    /// # Panics
    /// The URL has another form.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let (hosts, rest) = url.strip_prefix("postgres://postgres@").unwrap().split_once('/').unwrap();
        let (database, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let writable = parameters.split('&').any(|it| it == "target_session_attrs=read-write");
        let mut failure = None;
        for host in hosts.split(',') {
            match Self::begin(host, database, writable).await {
                Ok(client) => return Ok(client),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap())
    }

    async fn begin(host: &str, database: &str, writable: bool) -> Result<Self, Error> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let mut client = Self { completed: Vec::new(), stream, splitter: Splitter::new(Side::Server) };
        let mut startup = BytesMut::new();
        let parameters = format!("user\0postgres\0database\0{database}\0\0");
        startup.put_u32(u32::try_from(8 + parameters.len()).unwrap());
        startup.put_u32(PROTOCOL);
        startup.put_slice(parameters.as_bytes());
        client.stream.write_all(&startup).await?;
        client.answer().await?;
        if writable && client.query("SHOW transaction_read_only").await?[0][0].as_deref() == Some("on") {
            let text = format!("{host} is read-only");
            return Err(Error::Refused { code: "25006".to_owned(), text });
        }
        Ok(client)
    }

    /// Executes SQL, one statement or more, and gives the rows of all.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn query(&mut self, sql: &str) -> Result<Vec<Row>, Error> {
        self.completed.clear();
        let mut query = BytesMut::new();
        query.put_u8(b'Q');
        query.put_u32(u32::try_from(4 + sql.len() + 1).unwrap());
        query.put_slice(sql.as_bytes());
        query.put_u8(0);
        self.stream.write_all(&query).await?;
        self.answer().await
    }

    /// What comes until the server is ready again.
    async fn answer(&mut self) -> Result<Vec<Row>, Error> {
        let (mut rows, mut refused) = (Vec::new(), None);
        loop {
            while let Some((bytes, frame)) = self.splitter.take()? {
                match frame {
                    Frame::ReadyForQuery(_) => return refused.map_or(Ok(rows), Err),
                    Frame::Error { code, text } => refused = Some(Error::Refused { code, text }),
                    Frame::CommandComplete(tag) => self.completed.push(tag),
                    Frame::Other(b'D') => rows.push(row(&bytes[5..])),
                    Frame::Startup
                    | Frame::Encrypt
                    | Frame::Cancel
                    | Frame::Query(_)
                    | Frame::Parse { .. }
                    | Frame::Bind { .. }
                    | Frame::Execute(_)
                    | Frame::Sync
                    | Frame::Terminate
                    | Frame::Other(_) => {}
                }
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).await?;
            if count == 0 {
                // The last word of a server that ends the session says why.
                return Err(refused.unwrap_or_else(|| Error::Lost(io::ErrorKind::UnexpectedEof.into())));
            }
            self.splitter.push(&bytes[..count]);
        }
    }
}

/// A count of columns, and for each its length, -1 for NULL, and its bytes.
fn row(mut body: &[u8]) -> Row {
    let columns = body.get_u16();
    let column = |_| {
        let length = usize::try_from(body.get_i32()).ok()?;
        let text = String::from_utf8_lossy(&body[..length]).into_owned();
        body.advance(length);
        Some(text)
    };
    (0..columns).map(column).collect()
}
