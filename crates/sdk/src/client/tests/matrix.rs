//! Every status, class and wish, by both clients: how many tries, which waits, the same bytes and key in each, and what
//! the error says.

use std::time::Duration;

use http::Method;

use super::script::{Does, Seen};
use super::*;
use crate::calls::{self, Call, Class};
use crate::retry::GaveUp;
use crate::{Error, ErrorKind};

/// A call of each class.
const CALLS: [(&Call, bool); 14] = [
    (&calls::EVENTS_GET, true),
    (&calls::EVENTS_PUBLISH, true),
    (&calls::EMAILS_CANCEL, true),
    (&calls::RULES_REORDER, true),
    (&calls::SUPPRESSIONS_ADD, true),
    (&calls::DOMAINS_VERIFY, true),
    (&calls::SOURCES_CREATE, false),
    (&calls::DRAFTS_UPDATE, false),
    (&calls::SOURCES_DELETE, false),
    (&calls::KEYS_ROTATE, false),
    (&calls::WEBHOOKS_TEST, false),
    (&calls::EMAILS_COMPOSE, false),
    (&calls::SECURITY_VERIFY_STEP_UP, false),
    (&calls::REQUESTS_REPLAY, false),
];

/// The range of each wait, in milliseconds.
type Waits = [(u64, u64); 2];

const BACKOFF: Waits = [(250, 500), (500, 1000)];

const fn exactly(ms: u64) -> Waits {
    [(ms, ms), (ms, ms)]
}

/// A wish: how it is written, how long it is in seconds if it is one, and the waits it leads to; `None`: giving up.
const WISHES: [(Option<&str>, Option<f64>, Option<Waits>); 12] = [
    (None, None, Some(BACKOFF)),
    (Some("2"), Some(2.0), Some(exactly(2000))),
    (Some("0"), Some(0.0), Some(exactly(0))),
    (Some("1.5"), Some(1.5), Some(exactly(1500))),
    (Some("Sun, 29 Nov 2026 23:20:11 GMT"), Some(30.0), Some(exactly(30_000))),
    (Some("Sun, 29 Nov 2026 23:19:11 GMT"), Some(0.0), Some(exactly(0))),
    (Some("60"), Some(60.0), Some(exactly(60_000))),
    (Some("Sun, 29 Nov 2026 23:20:41 GMT"), Some(60.0), Some(exactly(60_000))),
    (Some("61"), Some(61.0), None),
    (Some("Sun, 29 Nov 2026 23:20:42 GMT"), Some(61.0), None),
    (Some("-1"), None, Some(BACKOFF)),
    (Some("soon"), None, Some(BACKOFF)),
];

const SUCCESSES: [u16; 4] = [200, 201, 202, 204];
const RETURNED: [u16; 21] =
    [301, 302, 303, 307, 308, 304, 400, 401, 402, 403, 404, 405, 409, 410, 413, 418, 422, 425, 501, 505, 599];
const TRIED_AGAIN: [u16; 5] = [408, 500, 502, 503, 504];

fn method_of(call: &Call) -> Method {
    call.method.clone().unwrap_or(if call.class == Class::Read { Method::GET } else { Method::POST })
}

/// Makes a call by the client for tasks or the one for threads.
struct Caller {
    client: Client,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Caller {
    fn call(&self, call: &'static Call, key: Option<&str>) -> Result<u32, Error> {
        let path = "/v1/things/1";
        let timeout = Duration::from_millis(300);
        // A try that hangs is over soon, and every other has all the time it needs.
        let timeout = if key == Some("hangs") { timeout } else { Duration::from_secs(30) };
        match &self.runtime {
            Some(runtime) => {
                let mut pending = self.client.request_as(call, method_of(call), path).timeout(timeout);
                if method_of(call) != Method::GET {
                    pending = pending.with_json(&["a", "body"]);
                }
                runtime.block_on(async { pending.await }).map(|answer| answer.attempts)
            }
            None => {
                let client = self.client.blocking();
                let mut pending = client.request_as(call, method_of(call), path).timeout(timeout);
                if method_of(call) != Method::GET {
                    pending = pending.with_json(&["a", "body"]);
                }
                pending.wait().map(|answer| answer.attempts)
            }
        }
    }
}

fn callers(server: &Scripted, time: &Virtual) -> [Caller; 2] {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    [None, Some(runtime)].map(|runtime| Caller { client: client_of(server, time), runtime })
}

/// All tries of a call are the same, and have one key if its class takes one.
#[track_caller]
fn same(tries: &[Seen], call: &Call, error: Option<&Error>) {
    assert!(tries.windows(2).all(|pair| pair[0] == pair[1]), "{tries:#?}");
    assert_eq!(tries[0].key().is_some(), call.class == Class::Keyed, "{}", call.name);
    assert_eq!(tries[0].all("authorization"), ["Bearer rst_live_canary"]);
    let body: &[u8] = if method_of(call) == Method::GET { b"" } else { br#"["a","body"]"# };
    assert_eq!(tries[0].body, body);
    if let Some(error) = error {
        assert_eq!(error.idempotency_key(), tries[0].key());
        assert_eq!(error.attempts() as usize, tries.len());
    }
}

#[track_caller]
fn within(waits: &[Duration], expected: &[(u64, u64)]) {
    assert_eq!(waits.len(), expected.len(), "{waits:?}");
    for (wait, (least, most)) in waits.iter().zip(expected) {
        let range = Duration::from_millis(*least)..=Duration::from_millis(*most);
        assert!(range.contains(wait), "{wait:?} is not in {range:?}");
    }
}

/// What is expected of a status with a wish.
struct Expected {
    waits: Vec<(u64, u64)>,
    gave_up: Option<GaveUp>,
}

fn expected(status: u16, retried: bool, class: Class, wish: Option<f64>, waits: Option<Waits>) -> Expected {
    let may_pass = TRIED_AGAIN.contains(&status) || (status == 429 && wish.is_some());
    let (waits, gave_up) = match (may_pass, retried, waits) {
        (false, ..) => (Vec::new(), None),
        (true, false, _) => (Vec::new(), Some(GaveUp::Class(class))),
        (true, true, Some(waits)) => (waits.to_vec(), Some(GaveUp::RetriesUsedUp)),
        (true, true, None) => (Vec::new(), Some(GaveUp::RetryAfterTooLong)),
    };
    Expected { waits, gave_up }
}

#[test]
fn every_status_in_every_class_with_every_wish() {
    let (server, time) = (Scripted::new([]), Virtual::default());
    for (call, retried) in CALLS {
        assert_eq!(call.class.is_retried(), retried);
        for status in RETURNED.into_iter().chain(TRIED_AGAIN).chain([429]) {
            for (text, wish, waits) in WISHES {
                let expected = expected(status, retried, call.class, wish, waits);
                let tries = expected.waits.len() + 1;
                // A new budget each time: it is not what is looked at here.
                for caller in callers(&server, &time) {
                    let does = text.map_or(Does::answers(status), |text| Does::wishes(status, text));
                    server.then(vec![does; tries]);
                    let error = caller.call(call, None).unwrap_err();
                    let seen = server.seen();
                    assert_eq!(seen.len(), tries, "{} {status} {text:?}", call.name);
                    same(&seen, call, Some(&error));
                    within(&time.waits(), &expected.waits);
                    assert_eq!(error.kind(), ErrorKind::Status);
                    assert_eq!(error.status(), Some(status));
                    assert_eq!(error.gave_up(), expected.gave_up, "{} {status} {text:?}", call.name);
                    assert_eq!(error.retry_after_seconds(), wish, "{text:?}");
                    assert_eq!(error.request_id(), Some(format!("q-{status}").as_str()));
                }
            }
        }
    }
}

#[test]
fn a_success_is_returned_at_once() {
    let (server, time) = (Scripted::new([]), Virtual::default());
    for (call, _) in CALLS {
        for status in SUCCESSES {
            for caller in callers(&server, &time) {
                server.then([Does::wishes(status, "5")]);
                assert_eq!(caller.call(call, None).unwrap(), 1);
                same(&server.seen(), call, None);
                within(&time.waits(), &[]);
            }
        }
    }
}

#[test]
fn a_broken_connection_and_silence_are_tried_again_by_class() {
    let (server, time) = (Scripted::new([]), Virtual::default());
    for (call, retried) in CALLS {
        for does in [Does::Cuts, Does::CutsInBody, Does::Hangs] {
            for caller in callers(&server, &time) {
                let tries = if retried { 3 } else { 1 };
                server.then(vec![does.clone(); tries]);
                let hangs = matches!(does, Does::Hangs);
                let error = caller.call(call, hangs.then_some("hangs")).unwrap_err();
                let seen = server.seen();
                assert_eq!(seen.len(), tries, "{} {does:?}", call.name);
                same(&seen, call, Some(&error));
                within(&time.waits(), &BACKOFF[..tries - 1]);
                assert_eq!(error.kind(), if hangs { ErrorKind::Timeout } else { ErrorKind::Network });
                assert_eq!((error.status(), error.retry_after_seconds()), (None, None));
                let gave_up = if retried { GaveUp::RetriesUsedUp } else { GaveUp::Class(call.class) };
                assert_eq!(error.gave_up(), Some(gave_up));
            }
        }
    }
}

#[test]
fn what_passes_is_overcome() {
    let (server, time) = (Scripted::new([]), Virtual::default());
    for (call, retried) in CALLS.into_iter().filter(|(_, retried)| *retried) {
        for caller in callers(&server, &time) {
            server.then([Does::Cuts, Does::wishes(503, "7"), Does::answers(200)]);
            assert_eq!(caller.call(call, None).unwrap(), 3, "{retried}");
            same(&server.seen(), call, None);
            within(&time.waits(), &[(250, 500), (7000, 7000)]);
        }
    }
}
