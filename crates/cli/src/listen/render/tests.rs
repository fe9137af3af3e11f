use super::*;
use crate::listen::tests::{at, attempt, chosen, end, ended};

fn render(json: bool, quiet: bool, colours: bool) -> Render {
    Render {
        sources: vec![chosen("orders")],
        dashboard: "https://hooks.example".to_owned(),
        json,
        quiet,
        colours,
        zone: Zone::Local { offset_seconds: 3600 },
    }
}

/// One of each.
fn events() -> Vec<Event> {
    let state = |seconds, state| Event::Link { source: 0, at: at(seconds), state };
    let fault = Outcome::Fault {
        kind: FaultKind::Network,
        detail: "cannot connect to 127.0.0.1:3000: connection refused".to_owned(),
    };
    let odd = attempt(4, "GET", "?q=\u{1b}[2J", b"");
    let unreported = Event::Ended {
        attempt: attempt(5, "POST", "/late", b""),
        end: End { reported: false, ..end(Outcome::Answer { status: 200 }, 1500) },
    };
    let why = "connection refused".to_owned();
    let local = |fault| Event::Local { source: 0, url: "http://127.0.0.1:3000".to_owned(), fault };
    vec![
        local(None),
        local(Some("connection refused".to_owned())),
        state(0, LinkState::Connecting),
        state(0, LinkState::Connected),
        Event::Began(attempt(1, "POST", "/orders?x=1", b"{}")),
        ended(&attempt(1, "POST", "/orders?x=1", b"{}"), Outcome::Answer { status: 200 }, 12),
        Event::Answered { serial: 1, body: "ok".into(), whole: true },
        ended(&attempt(2, "POST", "/orders", b"{}"), Outcome::Answer { status: 302 }, 0),
        ended(&attempt(3, "POST", "/orders", b"{}"), fault, 3),
        ended(&odd, Outcome::Cancelled, 31_000),
        unreported,
        state(6, LinkState::Reconnecting { why: why.clone(), next: Some(at(8)) }),
        state(8, LinkState::Reconnecting { why: why.clone(), next: None }),
        state(9, LinkState::Failed { why }),
        Event::Note("retried: dlv_9".to_owned()),
        Event::Stopping { running: 1 },
        state(10, LinkState::Stopped),
        Event::Over,
    ]
}

fn written(render: &Render) -> (Vec<String>, Vec<String>) {
    let (mut data, mut talk) = (Vec::new(), Vec::new());
    for line in events().iter().flat_map(|event| render.lines(event, at(0))) {
        match line {
            Line::Data(text) => data.push(text),
            Line::Talk(text) => talk.push(text),
        }
    }
    (data, talk)
}

#[test]
fn people_get_one_line_for_each_attempt_and_the_truth_about_the_connection() {
    let (data, talk) = written(&render(false, false, false));
    assert_eq!(
        data,
        [
            "15:03:21 ← 200 POST /orders?x=1 12 ms attempt 1 of 5 https://hooks.example/requests/req_1",
            "15:03:22 ← 302 POST /orders <1 ms attempt 1 of 5 https://hooks.example/requests/req_2",
            "15:03:23 ← network_error POST /orders 3 ms attempt 1 of 5 https://hooks.example/requests/req_3 \
             (cannot connect to 127.0.0.1:3000: connection refused)",
            "15:03:24 ← cancelled GET /?q=\\u{1b}[2J 31 s attempt 1 of 5 https://hooks.example/requests/req_4",
            "15:03:25 ← 200 POST /late 1.5 s attempt 1 of 5 https://hooks.example/requests/req_5 \
             (the server was not told: it counts as failed)",
        ]
    );
    assert_eq!(
        talk,
        [
            "the local service answers: http://127.0.0.1:3000",
            "the local service does not answer: http://127.0.0.1:3000: connection refused",
            "orders: connecting",
            "orders: connected: https://hooks.example/in/orders-c0ffee → http://127.0.0.1:3000",
            "orders: reconnecting: connection refused; next try at 15:03:28",
            "orders: failed: connection refused",
            "retried: dlv_9",
            "stopping: 1 attempt may still end, at most 5 s",
            "orders: stopped",
        ]
    );
}

#[test]
fn quiet_tells_only_what_needs_a_person() {
    let (data, talk) = written(&render(false, true, false));
    assert_eq!(data, Vec::<String>::new());
    assert_eq!(
        talk,
        [
            "the local service does not answer: http://127.0.0.1:3000: connection refused",
            "orders: reconnecting: connection refused; next try at 15:03:28",
            "orders: failed: connection refused",
        ]
    );
}

#[test]
fn colour_repeats_what_is_said_and_is_left_out_where_it_is_not_wanted() {
    let plain = written(&render(false, false, false)).0.join("\n");
    let coloured = written(&render(false, false, true)).0.join("\n");
    assert!(!plain.contains('\x1b'));
    assert!(coloured.starts_with("15:03:21 ← \x1b[32m200\x1b[0m POST"));
    assert!(coloured.contains("\x1b[31mnetwork_error\x1b[0m"));
    let bare = ["\x1b[32m", "\x1b[31m", "\x1b[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(bare, plain);
}

#[test]
fn several_sources_are_named() {
    let mut render = render(false, false, false);
    render.sources.push(chosen("billing"));
    let first = written(&render).0.remove(0);
    assert_eq!(
        first,
        "15:03:21 ← 200 POST /orders?x=1 12 ms attempt 1 of 5 orders https://hooks.example/requests/req_1"
    );
}

#[test]
fn programs_get_a_shape_that_stays() {
    let (data, talk) = written(&render(true, true, true));
    let head = r#"{"v":1,"event":"state","at":"2026-11-29T14:03:20.000Z","source":"orders","source_id":"src_orders","#;
    let url = r#""url":"https://hooks.example/in/orders-c0ffee"}"#;
    assert_eq!(
        data[0],
        r#"{"v":1,"event":"local","at":"2026-11-29T14:03:20.000Z","source":"orders","source_id":"src_orders","url":"http://127.0.0.1:3000","answers":true,"reason":null}"#
    );
    assert!(data[1].ends_with(r#""answers":false,"reason":"connection refused"}"#), "{}", data[1]);
    assert_eq!(data[2], format!(r#"{head}"state":"connecting","reason":null,"next_try_at":null,{url}"#));
    assert_eq!(data[3], format!(r#"{head}"state":"connected","reason":null,"next_try_at":null,{url}"#));
    assert_eq!(
        data[4],
        r#"{"v":1,"event":"attempt","at":"2026-11-29T14:03:21.000Z","source":"orders","source_id":"src_orders","request_id":"req_1","delivery_id":"dlv_1","destination_id":"dst_1","attempt":1,"attempts_max":5,"method":"POST","path":"/orders?x=1","url":"http://127.0.0.1:3000/orders?x=1","body_bytes":2,"outcome":"success","status":200,"error":null,"detail":null,"duration_us":12000,"reported":true,"dashboard_url":"https://hooks.example/requests/req_1"}"#
    );
    assert!(
        data[5].contains(r#""outcome":"failed","status":302,"error":null,"detail":null,"#),
        "{}",
        data[5]
    );
    let refused = r#""outcome":"failed","status":null,"error":"network_error","detail":"cannot connect to 127.0.0.1:3000: connection refused","#;
    assert!(data[6].contains(refused), "{}", data[6]);
    assert!(data[7].contains(r#""path":"?q=\u001b[2J""#), "{}", data[7]);
    assert!(data[7].contains(r#""outcome":"cancelled","status":null,"error":null,"#), "{}", data[7]);
    assert!(data[8].contains(r#""reported":false"#), "{}", data[8]);
    let tail =
        r#""state":"reconnecting","reason":"connection refused","next_try_at":"2026-11-29T14:03:28.000Z""#;
    assert!(data[9].contains(tail), "{}", data[9]);
    assert!(data[10].contains(r#""state":"reconnecting","reason":"connection refused","next_try_at":null"#));
    assert!(data[11].contains(r#""state":"failed","reason":"connection refused""#));
    assert!(data[12].contains(r#""state":"stopped""#));
    assert_eq!(data.len(), 13);
    assert_eq!(talk.len(), 3, "quiet as without");
}

#[test]
fn a_timeout_has_a_word_of_its_own() {
    let late = Outcome::Fault { kind: FaultKind::Timeout, detail: "no answer within 2 s".to_owned() };
    let event = ended(&attempt(1, "GET", "/slow", b""), late, 2_000);
    let line = |json| match render(json, false, false).lines(&event, at(0)).remove(0) {
        Line::Data(text) | Line::Talk(text) => text,
    };
    let json = line(true);
    assert!(json.contains(r#""outcome":"failed","status":null,"error":"timeout","#), "{json}");
    let text = line(false);
    assert!(text.starts_with("15:03:21 ← timeout GET /slow 2.0 s "), "{text}");
}
