//! On a terminal: the view, driven by keys.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use bytes::Bytes;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::process;
use super::testbed::{LONG, OK, Server, Service, frame, request};

/// What a terminal has got so far.
struct Got {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// A terminal with the binary in it. Dropping it kills the binary.
struct Terminal {
    keys: File,
    got: Arc<(Mutex<Got>, Condvar)>,
    child: Child,
}

impl Terminal {
    fn start(
        server: &Server,
        arguments: &[&str],
        (rows, cols): (u16, u16),
        environment: &[(&str, &str)],
    ) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        resize(&controller, rows, cols);
        let name = ptsname(&controller, Vec::new()).unwrap();
        let user =
            || File::from(open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let listen = process::command(server, arguments);
        // A session of its own, whose terminal this is.
        let mut command = Command::new("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(listen.as_std().get_program())
            .args(listen.as_std().get_args());
        for (name, value) in listen.as_std().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").envs(environment.iter().copied());
        let child = command.stdin(user()).stdout(user()).stderr(user()).spawn().unwrap();
        let keys = File::from(controller);
        let got = Got { parser: vt100::Parser::new(some(rows), some(cols), 0), raw: Vec::new() };
        let got = Arc::new((Mutex::new(got), Condvar::new()));
        thread::spawn({
            let (mut screen, got) = (keys.try_clone().unwrap(), Arc::clone(&got));
            move || {
                let mut bytes = [0; 4096];
                // Ends with an error when the last process has left the terminal.
                while let Ok(count @ 1..) = screen.read(&mut bytes) {
                    let mut it = got.0.lock().unwrap();
                    it.parser.process(&bytes[..count]);
                    it.raw.extend(&bytes[..count]);
                    got.1.notify_all();
                }
            }
        });
        Self { keys, got, child }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until what the terminal has got fulfils something, and returns the screen.
    fn until(&self, what: &str, fulfilled: impl Fn(&Got) -> bool) -> String {
        let (got, news) = &*self.got;
        let got = got.lock().unwrap();
        let (got, late) = news.wait_timeout_while(got, LONG, |got| !fulfilled(got)).unwrap();
        let screen = got.parser.screen().contents();
        assert!(!late.timed_out(), "{what} did not come:\n{screen}");
        screen
    }

    /// Waits until a text is on the screen.
    fn shows(&self, text: &str) -> String {
        self.until(text, |got| got.parser.screen().contents().contains(text))
    }

    fn resize(&self, rows: u16, cols: u16) {
        self.got.0.lock().unwrap().parser.screen_mut().set_size(some(rows), some(cols));
        resize(&self.keys, rows, cols);
    }

    fn end(&mut self) -> ExitStatus {
        self.until("the ordinary screen", |got| !got.parser.screen().alternate_screen());
        self.child.wait().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

fn resize(terminal: impl std::os::fd::AsFd, rows: u16, cols: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

async fn pair() -> (Server, Service) {
    let server = Server::start().await.with_source("orders", Some("http://localhost:1/own"));
    (server, Service::start().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_view_is_driven_by_keys() {
    let (mut server, mut service) = pair().await;
    let mut terminal = Terminal::start(&server, &[&service.port.to_string()], (24, 80), &[]);
    let mut client = server.client().await;
    let screen = terminal.shows("● orders  connected");
    assert!(screen.contains(&format!("{}/in/tok_orders", server.url)), "{screen}");
    terminal.shows("(answers)");
    for (id, path, answer) in
        [(1, "/first", OK), (2, "/second", "HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\nno")]
    {
        let body = Bytes::from_static(br#"{"order":41}"#);
        client.send(&frame(request(id, "POST", path, &[("X-Sig", b"abc")], body))).await;
        service.received().await.answer(answer);
        client.ack().await;
        client.result().await;
    }
    let screen = terminal.shows("500 fail");
    let first = screen.lines().position(|line| line.contains("/first")).unwrap();
    let second = screen.lines().position(|line| line.contains("/second")).unwrap();
    assert!(second < first, "the newest is on top:\n{screen}");

    terminal.press("\x1b[B");
    terminal.shows(" paused");
    terminal.press("d");
    let detail = terminal.shows("Answer body, 2 bytes");
    for part in ["attempt 1 of 5: success, 200", "X-Sig: abc", "  \"order\": 41", "\nok"] {
        assert!(detail.contains(part), "{part}:\n{detail}");
    }
    terminal.press("c");
    terminal.shows("curl command: copied");
    terminal.until("the clipboard", |got| got.raw.windows(7).any(|bytes| bytes == b"\x1b]52;c;"));
    terminal.press("q");
    terminal.shows("DURATION");
    terminal.press("?");
    terminal.shows("Every line is one attempt");
    terminal.press("q");
    terminal.press("r");
    terminal.shows("not retried: it is not over yet");
    assert!(server.calls().contains(&"POST /v1/deliveries/dlv_1/retry".to_owned()));
    terminal.press("o");
    terminal.shows(&format!("{}/requests/req_1", server.url));

    terminal.press("k");
    terminal.shows(" following");
    terminal.resize(10, 40);
    terminal.until("the narrow screen", |got| {
        let screen = got.parser.screen().contents();
        screen.contains("? help  q quit") && !screen.contains("DURATION") && screen.contains("/second")
    });
    drop(client);
    terminal.shows("◌ orders  reconnecting");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_c_lets_end_what_runs_and_puts_the_terminal_back() {
    let (mut server, mut service) = pair().await;
    let mut terminal = Terminal::start(&server, &[&service.port.to_string()], (24, 80), &[]);
    let mut client = server.client().await;
    client.send(&frame(request(1, "GET", "/slow", &[], Bytes::new()))).await;
    let slow = service.received().await;
    terminal.shows("→ running   GET     /slow");
    terminal.press("\x03");
    terminal.shows("stopping: 1 on their way");
    slow.answer(OK);
    client.ack().await;
    assert_eq!(client.result().await.response_code, Some(200));
    drop(client);
    assert_eq!(terminal.end().code(), Some(130));
    let got = terminal.got.0.lock().unwrap();
    assert!(!got.parser.screen().hide_cursor());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn colour_is_left_out_where_it_is_not_wanted() {
    for (environment, coloured) in [(vec![], true), (vec![("NO_COLOR", "1")], false)] {
        let (mut server, service) = pair().await;
        let terminal = Terminal::start(&server, &[&service.port.to_string()], (24, 80), &environment);
        let _client = server.client().await;
        terminal.shows("● orders  connected");
        let got = terminal.got.0.lock().unwrap();
        let screen = got.parser.screen();
        let cells = (0..24).flat_map(|row| (0..80).filter_map(move |col| screen.cell(row, col)));
        let colours = cells.filter(|cell| cell.fgcolor() != vt100::Color::Default).count();
        assert_eq!(colours > 0, coloured, "{environment:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_is_told_on_the_ordinary_screen() {
    let (server, service) = pair().await;
    server.answer_logins(&[401]);
    let mut terminal = Terminal::start(&server, &[&service.port.to_string()], (24, 80), &[]);
    terminal.shows("error: the server knows no source with this token");
    assert_eq!(terminal.end().code(), Some(3));
}
