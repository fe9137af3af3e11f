//! Which receivers there are, and what is promised about each.

use super::cage::Manner;

/// A receiver that does not behave.
pub(super) struct Animal {
    /// What it does, as an error would tell it.
    pub(super) name: &'static str,
    /// Of its URL.
    pub(super) scheme: &'static str,
    pub(super) manner: Manner,
    pub(super) ends: Ends,
}

/// What becomes of each delivery to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ends {
    /// By the first attempt.
    Delivered,
    /// Fails at each attempt of the schedule, in this way.
    Exhausted(Failure<'static>),
    /// Fails once; the second attempt is planned so many seconds from the end of the first.
    Waits(Failure<'static>, u64),
    /// Who answers while it is asked may be heard or not.
    DeliveredOr(Failure<'static>),
    /// Whatever comes of it, in time and counted.
    Somehow,
}

/// How an attempt fails: its `error_kind` and `response_status_code`.
pub(super) type Failure<'a> = (&'a str, Option<u16>);

const TIMEOUT: Failure<'_> = ("timeout", None);
const NETWORK: Failure<'_> = ("network", None);
const TLS: Failure<'_> = ("tls", None);
/// What is waited at least after a timeout, or a 429 without a wish that counts.
const THROTTLED: u64 = 60;
/// The longest wish that is granted.
const DAY: u64 = 24 * 3600;
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const fn status(status: u16) -> Failure<'static> {
    ("status", Some(status))
}

fn animal(name: &'static str, manner: Manner, ends: Ends) -> Animal {
    Animal { name, scheme: "http", manner, ends }
}

fn says(name: &'static str, answer: impl AsRef<[u8]>, ends: Ends) -> Animal {
    animal(name, Manner::Says(answer.as_ref().to_vec()), ends)
}

/// All of them. `witness` is where redirects lead to, which nobody may follow.
pub(super) fn all(witness: &str) -> Vec<Animal> {
    [silent(), endless(), broken(), encrypted(), redirecting(witness), wishing(), odd(), smuggling()]
        .into_iter()
        .flatten()
        .collect()
}

fn silent() -> Vec<Animal> {
    let head = |text: &str| Manner::Drips(text.into());
    let waits = Ends::Waits(TIMEOUT, THROTTLED);
    vec![
        animal("accepts and never answers", Manner::Hangs, waits),
        animal("never reads", Manner::NeverReads, waits),
        animal("says one byte of its head a second", head("HTTP/1.1 200 OK\r\nX-Slow: "), waits),
        animal(
            "says one byte of its body a second",
            head("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"),
            Ends::Delivered,
        ),
        animal("goes away without an answer", Manner::SaysAndCloses(vec![]), Ends::Exhausted(NETWORK)),
    ]
}

fn endless() -> Vec<Animal> {
    let pours = |start: &str, piece: &[u8]| Manner::Pours(start.into(), piece.to_vec());
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
    let bomb = bomb();
    let gzip = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    let line = format!("X-More: {}\r\n", "y".repeat(1000));
    let long_head = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", line.repeat(400));
    let many_lines = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: 1\r\n".repeat(400));
    vec![
        animal("has a body without end", pours("HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096]), Ends::Delivered),
        animal("has chunks without end", pours(chunked, &chunk), Ends::Delivered),
        animal(
            "announces a body of an exabyte",
            pours("HTTP/1.1 500 No\r\nContent-Length: 1000000000000000000\r\n\r\n", &[b'x'; 4096]),
            Ends::Exhausted(status(500)),
        ),
        animal(
            "has a head without end",
            pours("HTTP/1.1 200 OK\r\n", line.as_bytes()),
            Ends::Exhausted(NETWORK),
        ),
        animal(
            "has a line without end",
            pours("HTTP/1.1 200 OK\r\nX: ", &[b'x'; 4096]),
            Ends::Exhausted(NETWORK),
        ),
        animal(
            "has interim responses without end",
            pours("", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
            Ends::Waits(TIMEOUT, THROTTLED),
        ),
        animal(
            "has chunk extensions without end",
            pours(&format!("{chunked}1;"), &[b'x'; 4096]),
            Ends::Delivered,
        ),
        says("has a head of 400 KB", long_head, Ends::Exhausted(NETWORK)),
        says("has 400 header lines", many_lines, Ends::Exhausted(NETWORK)),
        says("sends a gzip bomb", [gzip.as_bytes(), &bomb].concat(), Ends::Delivered),
    ]
}

fn broken() -> Vec<Animal> {
    let closes = |text: &str| Manner::SaysAndCloses(text.into());
    let resets = |text: &str| Manner::SaysAndResets(text.into());
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf";
    vec![
        animal("resets before its head", resets(""), Ends::Exhausted(NETWORK)),
        animal("resets in its head", resets("HTTP/1.1 200 OK\r\nConte"), Ends::Exhausted(NETWORK)),
        animal(
            "closes in its head",
            closes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"),
            Ends::Exhausted(NETWORK),
        ),
        animal("closes in its body", closes(half), Ends::Delivered),
        animal("closes after each answer, unannounced", closes(OK), Ends::Delivered),
        animal("speaks before it is asked", Manner::SpeaksFirst(OK.into()), Ends::Somehow),
        animal("answers the first byte", Manner::AnswersEarly(OK.into()), Ends::DeliveredOr(NETWORK)),
        says(
            "says to close and does not",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            Ends::Delivered,
        ),
    ]
}

fn encrypted() -> Vec<Animal> {
    let encrypted = |name, manner, ends| Animal { scheme: "https", ..animal(name, manner, ends) };
    vec![
        encrypted("never completes a handshake", Manner::Stalls, Ends::Waits(TIMEOUT, THROTTLED)),
        encrypted(
            "answers a handshake in the clear",
            Manner::SpeaksFirst("HTTP/1.1 400 Bad Request\r\n\r\n".into()),
            Ends::Exhausted(TLS),
        ),
    ]
}

fn redirecting(witness: &str) -> Vec<Animal> {
    let redirects = |name, code: u16| {
        let answer = format!("HTTP/1.1 {code} There\r\nLocation: {witness}\r\nContent-Length: 0\r\n\r\n");
        says(name, answer, Ends::Exhausted(status(code)))
    };
    vec![
        redirects("redirects for ever", 301),
        redirects("redirects for now", 302),
        redirects("redirects a POST", 307),
        redirects("redirects a POST for ever", 308),
    ]
}

/// `Retry-After`, in every form it has been seen in.
fn wishing() -> Vec<Animal> {
    let wishes = |name, code: u16, lines: &str, ends: fn(Failure<'static>) -> Ends| {
        let answer = format!("HTTP/1.1 {code} Later\r\n{lines}Content-Length: 0\r\n\r\n");
        says(name, answer, ends(status(code)))
    };
    let exhausted = Ends::Exhausted;
    let throttled = |failure| Ends::Waits(failure, THROTTLED);
    let a_day = |failure| Ends::Waits(failure, DAY);
    let an_hour = |failure| Ends::Waits(failure, 3600);
    let overflow = "Retry-After: 99999999999999999999\r\n";
    vec![
        wishes("has too many requests", 429, "", throttled),
        wishes("wishes for a negative time", 429, "Retry-After: -5\r\n", throttled),
        wishes("wishes for a past date", 429, "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", throttled),
        wishes("wishes for nothing that is a number", 429, "Retry-After: \u{ff}soon\r\n", throttled),
        wishes("wishes for more seconds than there are", 429, overflow, throttled),
        wishes("wishes for no time", 429, "Retry-After: 0\r\n", throttled),
        wishes("wishes for a year", 429, "Retry-After: 31536000\r\n", a_day),
        wishes("wishes for all the seconds there are", 503, "Retry-After: 18446744073709551615\r\n", a_day),
        wishes("wishes for the end of days", 503, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\r\n", a_day),
        wishes("wishes twice", 503, "Retry-After: 3600\r\nRetry-After: 7200\r\n", an_hour),
        wishes("is moved and wishes for an hour", 301, "Retry-After: 3600\r\n", an_hour),
        wishes("wishes for a fraction", 503, "Retry-After: 1.5\r\n", exhausted),
        wishes("wishes for garbage", 503, "Retry-After: in a while\r\n", exhausted),
        says(
            "is content and wishes for an hour",
            "HTTP/1.1 200 OK\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n",
            Ends::Delivered,
        ),
    ]
}

fn odd() -> Vec<Animal> {
    let closes = |name, text: &str, ends| animal(name, Manner::SaysAndCloses(text.into()), ends);
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
    let network = Ends::Exhausted(NETWORK);
    vec![
        says("has interim responses first", format!("{interim}{OK}"), Ends::Delivered),
        says("has an interim response and then none", interim, Ends::Waits(TIMEOUT, THROTTLED)),
        says("switches protocols unasked", switching, Ends::Exhausted(status(101))),
        closes("speaks HTTP/0.9", "<html>hello</html>", network),
        closes("speaks SSH", "SSH-2.0-OpenSSH_9.9\r\n", network),
        closes("speaks HTTP/3.7", "HTTP/3.7 200 OK\r\n\r\n", network),
        closes("has a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", network),
        closes("has a header without a name", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", network),
        closes(
            "has two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
            network,
        ),
        closes("speaks HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", Ends::Delivered),
        closes("has no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", Ends::Delivered),
        says(
            "has a status nobody knows",
            "HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n",
            Ends::Exhausted(status(999)),
        ),
        says(
            "has garbage for chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n\u{1}\r\n",
            Ends::Delivered,
        ),
        says(
            "has garbage for chunks of a failure",
            "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
            Ends::Exhausted(status(500)),
        ),
    ]
}

/// Behind the answer there is another, which is nobody's and must not be taken for the next request's.
fn smuggling() -> Vec<Animal> {
    let failure = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    let failed = Ends::Exhausted(status(500));
    vec![
        says(
            "has a 204 with a body",
            format!("HTTP/1.1 204 None\r\nContent-Length: 44\r\n\r\n{failure}"),
            Ends::Delivered,
        ),
        says("has a 304 with a body", format!("HTTP/1.1 304 Same\r\n\r\n{OK}"), Ends::Exhausted(status(304))),
        says("has a failure behind its success", format!("{OK}{failure}"), Ends::Delivered),
        says("has a success behind its failure", format!("{failure}{OK}"), failed),
    ]
}

/// Some 60 KB in the format gzip that stand for some 9 MB.
fn bomb() -> Vec<u8> {
    /// A literal zero in the fixed code of deflate (RFC 1951, 3.2.6).
    const ZERO: (u32, u32) = (0b0011_0000, 8);
    /// "The same byte 258 times more": length 285, distance 1.
    const AGAIN: (u32, u32) = (0b1_1000_1010_0000, 13);
    const REPEATS: usize = 36_000;
    // A header without a name and a time; then one last block with the fixed code, whose three bits come lowest first.
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut bits: Vec<bool> = vec![true, true, false];
    let code = |(code, length): (u32, u32)| (0..length).rev().map(move |bit| code >> bit & 1 == 1);
    bits.extend(code(ZERO));
    bits.extend((0..REPEATS).flat_map(|_| code(AGAIN)));
    bytes
        .extend(bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))));
    bytes
}
