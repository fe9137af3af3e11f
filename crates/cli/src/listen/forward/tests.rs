use super::*;
use crate::listen::testbed::{OK, Service, soon};

const TIME: Duration = Duration::from_secs(10);

fn outgoing(url: &str, method: &str, lines: &[(&str, &'static [u8])], body: &'static [u8]) -> Outgoing {
    let line = |(name, value): &(&str, &'static [u8])| ((*name).to_owned(), Bytes::from_static(value));
    let lines: Vec<Line> = lines.iter().map(line).collect();
    Outgoing {
        method: method.to_owned(),
        target: Target::parse(url).unwrap(),
        lines: head::forwardable(&lines, body.len(), None),
        body: Bytes::from_static(body),
    }
}

fn forwarder() -> Arc<Forwarder> {
    Arc::new(Forwarder::new(Arc::new(Dialer::new(None).unwrap())))
}

/// This machine by an address that does not tell: as a service on another one.
fn elsewhere(port: u16) -> String {
    format!("http://0.0.0.0:{port}")
}

/// Sends, lets the service answer, and reads the answer.
async fn exchange(
    forwarder: &Arc<Forwarder>,
    service: &mut Service,
    outgoing: Outgoing,
    answer: &str,
) -> (Vec<u8>, Vec<u8>, usize, u16, Bytes) {
    let sending = tokio::spawn({
        let forwarder = Arc::clone(forwarder);
        async move {
            let answer = forwarder.send(&outgoing, TIME).await.unwrap();
            (answer.status, answer.rest.read().await.0)
        }
    });
    let received = service.received().await;
    let (head, body, connection) = (received.head.clone(), received.body.clone(), received.connection);
    received.answer(answer);
    let (status, read) = soon(sending).await.unwrap();
    (head, body, connection, status, read)
}

#[tokio::test]
async fn what_the_service_gets_is_byte_for_byte_what_was_received() {
    let (mut service, forwarder) = (Service::start().await, forwarder());
    let url = format!("{}/a/../b//%7e%zz|?q={{}}&q=ä", service.url);
    let lines: [(&str, &[u8]); 9] = [
        ("hOST", b"hooks.example"),
        ("X-Sig", b"sha256=00ff"),
        ("accept", b"*/*"),
        ("x-sig", b""),
        ("X_Odd!Name", b"\xff\xfe tab\there"),
        ("X-Sig", b"again"),
        ("content-LENGTH", b"5"),
        ("Accept-Encoding", b"gzip, br"),
        ("Expect", b"200-maybe"),
    ];
    let outgoing = outgoing(&url, "PoSt", &lines, b"\x00\r\n\r\n");
    let (head, body, _, status, read) = exchange(&forwarder, &mut service, outgoing, OK).await;
    let mut expected = format!(
        "PoSt /a/../b//%7e%zz|?q={{}}&q=ä HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX-Sig: sha256=00ff\r\naccept: */*\r\n\
         x-sig: \r\nX_Odd!Name: ",
        service.port
    )
    .into_bytes();
    expected.extend(b"\xff\xfe tab\there");
    expected.extend(
        b"\r\nX-Sig: again\r\ncontent-LENGTH: 5\r\nAccept-Encoding: gzip, br\r\nExpect: 200-maybe\r\n\r\n",
    );
    assert_eq!(String::from_utf8_lossy(&head), String::from_utf8_lossy(&expected));
    assert_eq!(head, expected);
    assert_eq!(body, b"\x00\r\n\r\n");
    assert_eq!((status, read.as_ref()), (200, &b"ok"[..]));
}

#[tokio::test]
async fn nothing_is_made_up_for_a_request_without_a_body() {
    let (mut service, forwarder) = (Service::start().await, forwarder());
    let bare = outgoing(&service.url, "GET", &[], b"");
    let (head, ..) = exchange(&forwarder, &mut service, bare, OK).await;
    assert_eq!(
        String::from_utf8(head).unwrap(),
        format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", service.port)
    );
    let posted = outgoing(&service.url, "POST", &[("Content-Length", b"0")], b"");
    let (head, ..) = exchange(&forwarder, &mut service, posted, OK).await;
    assert!(head.ends_with(b"\r\nContent-Length: 0\r\n\r\n"));
    let head_request = outgoing(&service.url, "HEAD", &[], b"");
    let (.., status, read) =
        exchange(&forwarder, &mut service, head_request, "HTTP/1.1 204 X\r\nContent-Length: 9\r\n\r\n").await;
    assert_eq!((status, read.len()), (204, 0));
}

#[tokio::test]
async fn a_connection_elsewhere_is_used_again_and_redirects_are_answers() {
    let (mut service, forwarder) = (Service::start().await, forwarder());
    let url = elsewhere(service.port);
    let table = [
        ("HTTP/1.1 302 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 302, ""),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            500,
            "no",
        ),
        (OK, 200, "ok"),
    ];
    for (answer, expected, body) in table {
        let outgoing = outgoing(&url, "POST", &[("X", b"1")], b"body");
        let (.., connection, status, read) = exchange(&forwarder, &mut service, outgoing, answer).await;
        assert_eq!((connection, status, read.as_ref()), (0, expected, body.as_bytes()));
    }
}

/// A service that answers one request, says nothing of closing, and closes after so long, one after the other of these.
/// Each end is told.
fn closing_service(after: &'static [Duration]) -> (u16, std::sync::mpsc::Receiver<()>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (close, closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (socket, after) in listener.incoming().zip(after.iter().cycle()) {
            let (mut socket, close) = (socket.unwrap(), close.clone());
            std::thread::spawn(move || {
                let answered = socket.read(&mut [0; 4096]).and_then(|_| socket.write_all(OK.as_bytes()));
                answered.unwrap();
                std::thread::sleep(*after);
                drop(socket);
                let _ = close.send(());
            });
        }
    });
    (port, closed)
}

#[tokio::test]
async fn a_service_that_closes_without_a_word_fails_no_attempt() {
    const AFTER: &[Duration] =
        &[Duration::ZERO, Duration::from_millis(1), Duration::from_millis(3), Duration::from_micros(300)];
    let (port, _closed) = closing_service(AFTER);
    let forwarder = forwarder();
    for count in 0..400 {
        let get = outgoing(&format!("http://127.0.0.1:{port}/{count}"), "POST", &[], b"body");
        let sent = soon(forwarder.send(&get, TIME)).await;
        let answer = sent.unwrap_or_else(|fault| panic!("request {count}: {fault}"));
        assert_eq!(answer.rest.read().await, (Bytes::from("ok"), true));
    }
}

#[tokio::test]
async fn a_connection_elsewhere_that_was_closed_meanwhile_is_not_used() {
    let (port, closed) = closing_service(&[Duration::ZERO]);
    let forwarder = forwarder();
    for count in 0..50 {
        let get = outgoing(&elsewhere(port), "GET", &[], b"");
        let sent = soon(forwarder.send(&get, TIME)).await;
        let answer = sent.unwrap_or_else(|fault| panic!("request {count}: {fault}"));
        answer.rest.read().await;
        // Blocks the runtime: it learns of the end only after this.
        closed.recv().unwrap();
    }
}

#[tokio::test]
async fn an_answer_is_not_decompressed_and_what_is_too_long_is_cut() {
    let (mut service, forwarder) = (Service::start().await, forwarder());
    let url = elsewhere(service.port);
    let long = "x".repeat(70_000);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 70000\r\n\r\n{long}");
    let get = outgoing(&url, "GET", &[], b"");
    let (.., read) = exchange(&forwarder, &mut service, get.clone(), &answer).await;
    assert_eq!(read.len(), ANSWER_BYTES_MAX);
    let (_, _, connection, ..) = exchange(&forwarder, &mut service, get, OK).await;
    assert_eq!(connection, 1, "a connection on which an answer is still coming is not used again");
}

#[tokio::test]
async fn what_fails_says_why_in_words() {
    let forwarder = forwarder();
    let closed = Service::start().await;
    let send = async |outgoing: Outgoing, time| match forwarder.send(&outgoing, time).await {
        Ok(answer) => panic!("answered with {}", answer.status),
        Err(fault) => fault.to_string(),
    };
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = send(outgoing(&format!("http://{free}/"), "GET", &[], b""), TIME).await;
    assert_eq!(refused, format!("cannot connect to {free}: connection refused"));
    let unwritable = send(outgoing(&closed.url, "GET", &[("X", b"1\r\nY: 2")], b""), TIME).await;
    assert_eq!(unwritable, "the request cannot be written as HTTP/1.1");

    let mut service = Service::start().await;
    let silent = outgoing(&service.url, "GET", &[], b"");
    assert_eq!(send(silent.clone(), Duration::from_millis(50)).await, "no answer within 0.05 s");
    drop(service.received().await);
    let (cut, ()) = tokio::join!(send(silent.clone(), TIME), async { drop(service.received().await) });
    assert_eq!(cut, "the connection ended before there was an answer");
    let (nonsense, ()) = tokio::join!(send(silent, TIME), async {
        service.received().await.answer("SMTP ready\r\n\r\n");
    });
    assert_eq!(nonsense, "the answer is no HTTP/1.1");
}

#[tokio::test]
async fn a_service_of_this_machine_may_have_any_certificate_and_no_other_may() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = certificate.signing_key.serialize_der();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.cert.der().clone()], key.try_into().unwrap())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(mut tls) = acceptor.accept(socket).await else { continue };
            let mut read = [0; 4096];
            let _ = tls.read(&mut read).await;
            tls.write_all(OK.as_bytes()).await.unwrap();
            let _ = tls.read(&mut read).await;
        }
    });
    let forwarder = forwarder();
    let sent =
        soon(forwarder.send(&outgoing(&format!("https://localhost:{port}/"), "GET", &[], b""), TIME)).await;
    assert_eq!(sent.map(|answer| answer.status).map_err(|fault| fault.to_string()), Ok(200));
    let place = Place { tls: true, host: "localhost".to_owned(), port };
    let refused = soon(forwarder.dialer.server(&place)).await.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("TLS: "), "{refused}");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), certificate.cert.pem()).unwrap();
    let trusting = Dialer::new(Some(file.path())).unwrap();
    assert!(soon(trusting.server(&place)).await.is_ok(), "an authority of one's own");
}
