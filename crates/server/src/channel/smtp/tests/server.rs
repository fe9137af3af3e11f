//! A mail server that does as it should, except where a test says otherwise.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::super::wire::Stream;

/// What a server does instead of answering as it should. `\r\n` ends each answer without being written here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    AsUsual,
    Say(&'static str),
    /// Says it and hangs up.
    Last(&'static str),
    HangUp,
    /// Never says anything again.
    Stall,
}

/// How a server is.
#[derive(Clone, Default)]
pub(super) struct Traits {
    /// Lines of the answer to `EHLO`, after the first.
    pub(super) extensions: Vec<&'static str>,
    /// By what came: `connection`, a verb, `content` (after its first line), `dot`. One act each time, then as usual.
    pub(super) acts: HashMap<&'static str, VecDeque<Act>>,
    /// Answers `MAIL` and `RCPT` only when it has got `DATA`, as a server may that offers PIPELINING.
    pub(super) holds_answers: bool,
    pub(super) tls: Option<TlsAcceptor>,
    /// Encrypts from the first byte.
    pub(super) implicit_tls: bool,
}

impl Traits {
    pub(super) fn offering(extensions: &[&'static str]) -> Self {
        Self { extensions: extensions.to_vec(), ..Self::default() }
    }

    pub(super) fn on(mut self, what: &'static str, acts: &[Act]) -> Self {
        self.acts.insert(what, acts.iter().copied().collect());
        self
    }
}

/// Clones are the same server.
#[derive(Clone)]
pub(super) struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    acts: Mutex<HashMap<&'static str, VecDeque<Act>>>,
    /// Command lines, `tls ` in front of those that came encrypted.
    lines: Mutex<Vec<String>>,
    mails: Mutex<Vec<String>>,
    connections: AtomicUsize,
    acted: watch::Sender<bool>,
    /// Whether any command came before the one before it was answered.
    pipelined: Mutex<bool>,
}

impl Server {
    pub(super) async fn start(traits: Traits) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), traits)
    }

    /// A server whose only oddities are these.
    pub(super) async fn acting(what: &'static str, acts: &[Act]) -> Self {
        Self::start(Traits::default().on(what, acts)).await
    }

    pub(super) fn start_on(listener: TcpListener, traits: Traits) -> Self {
        let seen = Seen {
            acts: Mutex::new(traits.acts.clone()),
            lines: Mutex::default(),
            mails: Mutex::default(),
            connections: AtomicUsize::new(0),
            acted: watch::channel(false).0,
            pipelined: Mutex::new(false),
        };
        let server = Self { address: listener.local_addr().unwrap(), seen: Arc::new(seen) };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.seen.connections.fetch_add(1, Ordering::SeqCst);
                let (server, traits) = (serving.clone(), traits.clone());
                tokio::spawn(async move {
                    server.serve(stream, traits).await;
                    server.seen.acted.send_replace(true);
                });
            }
        });
        server
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.seen.lines.lock().unwrap().clone()
    }

    /// Contents up to the final dot, as they came.
    pub(super) fn mails(&self) -> Vec<String> {
        self.seen.mails.lock().unwrap().clone()
    }

    pub(super) fn was_pipelined(&self) -> bool {
        *self.seen.pipelined.lock().unwrap()
    }

    /// Returns when the server has hung up, or spoken in the middle of a content.
    pub(super) async fn acted(&self) {
        self.seen.acted.subscribe().wait_for(|acted| *acted).await.unwrap();
    }

    fn act(&self, what: &str) -> Act {
        let mut acts = self.seen.acts.lock().unwrap();
        acts.get_mut(what).and_then(VecDeque::pop_front).unwrap_or(Act::AsUsual)
    }

    async fn serve(&self, stream: TcpStream, traits: Traits) {
        let mut talk = Talk { reader: BufReader::new(Box::new(stream)), held: String::new(), is_tls: false };
        if traits.implicit_tls {
            let Some(encrypted) = talk.encrypt(&traits).await else { return };
            talk = encrypted;
        }
        if !talk.answer(self.act("connection"), "220 mx.example ready").await {
            return;
        }
        while let Some(line) = talk.line().await {
            let verb = line.split([' ', '\r']).next().unwrap().to_ascii_uppercase();
            let tls = if talk.is_tls { "tls " } else { "" };
            self.seen.lines.lock().unwrap().push(format!("{tls}{}", line.trim_end()));
            *self.seen.pipelined.lock().unwrap() |= !talk.reader.buffer().is_empty();
            let act = self.act(&verb);
            let goes_on = match verb.as_str() {
                "EHLO" => talk.answer(act, &greeting(&traits.extensions)).await,
                "MAIL" | "RCPT" if traits.holds_answers => talk.hold("250 2.1.0 ok"),
                "HELO" | "MAIL" | "RCPT" | "RSET" => talk.answer(act, "250 2.1.0 ok").await,
                "DATA" => self.data(&mut talk, act).await,
                "AUTH" => talk.log_in(act, &line).await,
                "STARTTLS" => {
                    let starts =
                        matches!(act, Act::AsUsual) || matches!(act, Act::Say(it) if it.starts_with("220"));
                    let goes_on = talk.answer(act, "220 2.0.0 go on").await;
                    if starts {
                        let Some(encrypted) = talk.encrypt(&traits).await else { return };
                        talk = encrypted;
                    }
                    goes_on
                }
                "QUIT" => talk.answer(Act::Last("221 2.0.0 bye"), "").await,
                other => panic!("the server does not know {other}"),
            };
            if !goes_on {
                return;
            }
        }
    }

    async fn data(&self, talk: &mut Talk, act: Act) -> bool {
        let is_usual = matches!(act, Act::AsUsual) || matches!(act, Act::Say(it) if it.starts_with("354"));
        if !talk.answer(act, "354 go ahead").await {
            return false;
        }
        if !is_usual {
            return true;
        }
        let mut content = String::new();
        loop {
            let Some(line) = talk.line().await else { return false };
            if content.is_empty() && line != ".\r\n" {
                let act = self.act("content");
                if !matches!(act, Act::AsUsual) {
                    let goes_on = talk.answer(act, "").await;
                    self.seen.acted.send_replace(goes_on);
                    // Reads no more, so that whoever still writes finds no room.
                    return goes_on && std::future::pending().await;
                }
            }
            if line == ".\r\n" {
                break;
            }
            content.push_str(&line);
        }
        self.seen.mails.lock().unwrap().push(content);
        talk.answer(self.act("dot"), "250 2.0.0 queued").await
    }
}

fn greeting(extensions: &[&str]) -> String {
    let mut lines = vec!["mx.example greets you"];
    lines.extend(extensions);
    let last = lines.pop().unwrap();
    lines.iter().map(|line| format!("250-{line}\r\n")).collect::<String>() + "250 " + last
}

struct Talk {
    reader: BufReader<Box<dyn Stream>>,
    held: String,
    is_tls: bool,
}

impl Talk {
    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line).await.ok()?;
        if read == 0 { None } else { Some(String::from_utf8_lossy(&line).into_owned()) }
    }

    fn hold(&mut self, answer: &str) -> bool {
        self.held += answer;
        self.held += "\r\n";
        true
    }

    /// Whether the conversation goes on.
    async fn answer(&mut self, act: Act, usual: &str) -> bool {
        let (answer, goes_on) = match act {
            Act::AsUsual => (usual, true),
            Act::Say(answer) => (answer, true),
            Act::Last(answer) => (answer, false),
            Act::HangUp => return false,
            Act::Stall => std::future::pending().await,
        };
        let bytes = format!("{}{answer}\r\n", std::mem::take(&mut self.held));
        let said = self.reader.write_all(bytes.as_bytes()).await.and(self.reader.flush().await);
        said.is_ok() && goes_on
    }

    async fn log_in(&mut self, act: Act, line: &str) -> bool {
        let is_login = line.trim_end() == "AUTH LOGIN";
        let mut words = vec![line.trim_end().to_owned()];
        if is_login {
            for question in ["334 VXNlcm5hbWU6", "334 UGFzc3dvcmQ6"] {
                self.answer(Act::Say(question), "").await;
                let Some(word) = self.line().await else { return false };
                words.push(word.trim_end().to_owned());
            }
        }
        // "me@us.example" and "p:ss w/rd".
        let right = [
            vec!["AUTH PLAIN AG1lQHVzLmV4YW1wbGUAcDpzcyB3L3Jk"],
            vec!["AUTH LOGIN", "bWVAdXMuZXhhbXBsZQ==", "cDpzcyB3L3Jk"],
        ];
        let is_right = right.iter().any(|it| *it == words);
        self.answer(act, if is_right { "235 2.7.0 welcome" } else { "535 5.7.8 who are you" }).await
    }

    async fn encrypt(self, traits: &Traits) -> Option<Self> {
        let acceptor = traits.tls.as_ref().expect("the server has a certificate");
        let stream: Box<dyn Stream> = Box::new(acceptor.accept(self.reader.into_inner()).await.ok()?);
        Some(Self { reader: BufReader::new(stream), held: String::new(), is_tls: true })
    }
}
