use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(super) enum Does {
    /// Answers: status, headers, body.
    Answers(u16, Vec<(&'static str, String)>, String),
    /// Closes the connection.
    Cuts,
    /// Closes the connection within the body of a 200.
    CutsInBody,
    /// Says nothing until the client gives up.
    Hangs,
}

impl Does {
    pub(super) fn answers(status: u16) -> Self {
        Self::Answers(status, Vec::new(), "{}".to_owned())
    }

    pub(super) fn says(body: &str) -> Self {
        Self::Answers(200, Vec::new(), body.to_owned())
    }

    pub(super) fn wishes(status: u16, retry_after: &str) -> Self {
        Self::Answers(status, vec![("retry-after", retry_after.to_owned())], String::new())
    }
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Seen {
    /// The values of a header.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The key, if there is exactly one.
    pub(super) fn key(&self) -> Option<&str> {
        match self.all("idempotency-key")[..] {
            [] => None,
            [key] => Some(key),
            _ => panic!("several keys: {self:?}"),
        }
    }
}

/// A server that follows a script, one step a request; behind its end it answers 200.
pub(super) struct Scripted {
    pub(super) url: String,
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Does>>,
    seen: Mutex<Vec<Seen>>,
    came: Condvar,
    over: Mutex<bool>,
}

impl Scripted {
    pub(super) fn new(does: impl IntoIterator<Item = Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        shared.script.lock().unwrap().extend(does);
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if *serving.over.lock().unwrap() {
                    return;
                }
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.serve(stream.unwrap()));
            }
        });
        Self { url: format!("http://{address}"), address, shared }
    }

    /// Goes on with these steps.
    pub(super) fn then(&self, does: impl IntoIterator<Item = Does>) {
        self.shared.script.lock().unwrap().extend(does);
    }

    /// The requests since this was last asked.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen.lock().unwrap())
    }

    /// Waits until so many requests have come, and takes them.
    pub(super) fn await_seen(&self, count: usize) -> Vec<Seen> {
        let seen = self.shared.seen.lock().unwrap();
        let mut seen = self.shared.came.wait_while(seen, |seen| seen.len() < count).unwrap();
        std::mem::take(&mut seen)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        *self.shared.over.lock().unwrap() = true;
        // So that the listener looks up.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(seen) = read(&mut reader) {
            let does = self.script.lock().unwrap().pop_front().unwrap_or(Does::answers(200));
            self.seen.lock().unwrap().push(seen);
            self.came.notify_all();
            if !perform(&stream, &mut reader, &does) {
                return;
            }
        }
    }
}

/// A request; `None` at the end of the connection.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?;
    let split = |line: String| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_lowercase(), value.to_owned())
    };
    let headers: Vec<(String, String)> = lines.map(split).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { line, headers, body })
}

/// Whether the connection goes on.
fn perform(mut stream: &TcpStream, reader: &mut BufReader<TcpStream>, does: &Does) -> bool {
    match does {
        Does::Answers(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} Whatever\r\nx-request-id: q-{status}\r\n");
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            // These have no body, whatever is said of it.
            let body = if [204, 304].contains(status) { "" } else { body };
            let length = format!("content-length: {}\r\n\r\n", body.len());
            let head = if [204, 304].contains(status) { head + "\r\n" } else { head + &length };
            stream.write_all((head + body).as_bytes()).is_ok()
        }
        Does::Cuts => false,
        Does::CutsInBody => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{");
            false
        }
        Does::Hangs => {
            // The client hangs up.
            let _ = reader.read(&mut [0]);
            false
        }
    }
}
