use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Refuses everything, and tells what came. One connection for each request.
pub(super) struct Server {
    pub(super) url: String,
    seen: Receiver<(String, String)>,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, seen) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                refuse(&stream.unwrap(), &sender);
            }
        });
        Self { url, seen }
    }

    /// Method and path of the next request, and its body.
    pub(super) fn seen(&self) -> (String, String) {
        self.seen.recv().unwrap()
    }
}

fn refuse(mut stream: &TcpStream, seen: &Sender<(String, String)>) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut body_bytes) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body).unwrap();
    let line = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    // Nobody listens any more once a test has failed.
    if seen.send((line, String::from_utf8(body).unwrap())).is_ok() {
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        stream.write_all(answer).unwrap();
    }
}
