//! Peers that fail, and say what must not be repeated.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const FAILED: &str = "HTTP/1.1 500 canary-reason\r\nx-said: canary-answer-header\r\nretry-after: canary-wish\r\n\
                      content-length: 18\r\nconnection: close\r\n\r\ncanary-answer-body";

/// A receiver that answers 500. Gives its port.
pub(super) async fn failing() -> u16 {
    answering(FAILED).await
}

/// A receiver that speaks no HTTP.
pub(super) async fn garbled() -> u16 {
    answering("canary-garbage: this is no HTTP\r\n\r\n").await
}

async fn answering(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = [0; 16 * 1024];
                // Whatever was said, and if it goes away meanwhile, that is its business.
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    port
}

/// A relay that knows the password and judges by the mailbox's name, repeating it.
pub(super) async fn relay() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream));
        }
    });
    port
}

async fn converse(stream: TcpStream) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 relay.test canary-greeting\r\n").await?;
    let (mut mailbox, mut in_data) = (String::new(), false);
    while let Some(line) = lines.next_line().await? {
        let verb = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let answer = if in_data {
            if line != "." {
                continue;
            }
            in_data = false;
            if mailbox.contains("uncertain") {
                // Gone, with the mail.
                return Ok(());
            }
            "250 canary-taken".to_owned()
        } else if verb == "EHLO" {
            "250-relay.test\r\n250-AUTH PLAIN LOGIN\r\n250 8BITMIME".to_owned()
        } else if verb == "AUTH" {
            "235 canary-welcome".to_owned()
        } else if verb == "RCPT" {
            mailbox.clone_from(&line);
            if line.contains("refused") {
                format!("550 5.1.1 canary-said: no such mailbox in {line}")
            } else if line.contains("later") {
                format!("451 4.2.1 canary-said: not now {line}")
            } else {
                "250 ok".to_owned()
            }
        } else if verb == "DATA" {
            in_data = true;
            "354 go on".to_owned()
        } else if verb == "QUIT" {
            "221 bye".to_owned()
        } else {
            "250 ok".to_owned()
        };
        writer.write_all(format!("{answer}\r\n").as_bytes()).await?;
    }
    Ok(())
}

/// Says this to a server and reads what comes, for a moment at most.
pub(super) async fn say(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is kept open says nothing more.
    let _ = tokio::time::timeout(Duration::from_millis(500), stream.read_to_end(&mut answer)).await;
}
