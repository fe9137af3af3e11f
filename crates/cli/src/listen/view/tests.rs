use std::sync::Arc;

use bytes::Bytes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use super::*;
use crate::listen::event::{Attempt, End, FaultKind, Outcome};
use crate::listen::tests::{at, attempt, chosen, end, ended};

fn view(names: &[&str]) -> View {
    let sources = names.iter().map(|name| chosen(name)).collect();
    View::new(sources, "https://hooks.example".to_owned(), Zone::Local { offset_seconds: 0 }, false)
}

/// What is on the screen, without blanks at the ends of lines.
fn screen(view: &mut View, (width, height): (u16, u16), seconds: i64) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.paint(frame, at(seconds))).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    let lines: Vec<String> = (0..height).map(line).collect();
    lines.join("\n")
}

const BODY: &[u8] = br#"{"order":41,"items":["a"]}"#;

/// Four attempts: one of each kind.
fn busy() -> View {
    let mut view = view(&["orders"]);
    let tell = |view: &mut View, event| view.update(event, at(0));
    tell(&mut view, Event::Link { source: 0, at: at(0), state: LinkState::Connected });
    tell(&mut view, Event::Local { source: 0, url: String::new(), fault: None });
    let refused = Outcome::Fault { kind: FaultKind::Network, detail: "connection refused".to_owned() };
    let outcomes = [
        ("POST", "/orders?x=1", Some((Outcome::Answer { status: 200 }, 12))),
        ("POST", "/orders", Some((Outcome::Answer { status: 500 }, 1_830))),
        ("DELETE", "/orders/a-very-long-path/that-does-not-fit/into-the-column/at-all", Some((refused, 2))),
        ("PATCH", "", None),
    ];
    for (serial, (method, uri, outcome)) in (1..).zip(outcomes) {
        let attempt = attempt(serial, method, uri, BODY);
        tell(&mut view, Event::Began(Arc::clone(&attempt)));
        if let Some((outcome, millis)) = outcome {
            tell(&mut view, ended(&attempt, outcome, millis));
        }
    }
    tell(&mut view, Event::Answered { serial: 2, body: Bytes::from("out of \u{1b}[31mstock"), whole: true });
    view
}

fn press(view: &mut View, keys: &str) -> Option<Action> {
    keys.chars().fold(None, |_, char| view.press(Key::Char(char), at(4)))
}

fn begin(view: &mut View, serials: std::ops::RangeInclusive<u64>) {
    for serial in serials {
        view.update(Event::Began(attempt(serial, "GET", &format!("/{serial}"), b"")), at(0));
    }
}

/// Paths of the rows on the screen, top down; the selected one with a star.
fn paths(view: &mut View, height: u16) -> Vec<String> {
    let text = screen(view, (80, height), 5);
    let rows = text.lines().filter(|line| line.contains(" GET "));
    let path = |line: &str| {
        let star = if line.starts_with('▸') { "*" } else { "" };
        format!("{star}{}", line.split_whitespace().find(|word| word.starts_with('/')).unwrap())
    };
    rows.map(path).collect()
}

#[test]
fn the_list_on_an_ordinary_terminal() {
    assert_eq!(screen(&mut busy(), (80, 24), 5), include_str!("tests/list_80x24.txt").trim_end_matches('\n'));
}

#[test]
fn the_list_on_narrow_and_on_low_terminals() {
    assert_eq!(screen(&mut busy(), (50, 16), 5), include_str!("tests/list_50x16.txt").trim_end_matches('\n'));
    assert_eq!(screen(&mut busy(), (40, 8), 5), include_str!("tests/list_40x8.txt").trim_end_matches('\n'));
    for size in [(1, 1), (2, 3), (7, 2), (20, 4), (80, 1), (300, 3), (3, 100)] {
        for keys in ["", "d", "c", "?", "jj"] {
            let mut view = busy();
            press(&mut view, keys);
            screen(&mut view, size, 5);
        }
    }
}

#[test]
fn the_states_of_several_sources_are_told_apart_in_words() {
    let mut view = view(&["orders", "billing", "mail", "old", "new"]);
    let why = "connection refused".to_owned();
    let states = [
        LinkState::Connected,
        LinkState::Reconnecting { why: why.clone(), next: Some(at(12)) },
        LinkState::Reconnecting { why: why.clone(), next: None },
        LinkState::Failed { why },
        LinkState::Connecting,
    ];
    for (source, state) in states.into_iter().enumerate() {
        view.update(Event::Link { source, at: at(0), state }, at(0));
    }
    let local = Event::Local { source: 0, url: String::new(), fault: Some("connection refused".to_owned()) };
    view.update(local, at(0));
    assert_eq!(screen(&mut view, (80, 24), 5), include_str!("tests/states_80x24.txt").trim_end_matches('\n'));
}

#[test]
fn details_show_what_was_sent_and_answered_and_what_came_of_it() {
    let mut view = busy();
    press(&mut view, "jjd");
    assert_eq!(screen(&mut view, (80, 24), 5), include_str!("tests/detail_80x24.txt").trim_end_matches('\n'));
    let top = screen(&mut view, (80, 10), 5);
    press(&mut view, "G");
    let bottom = screen(&mut view, (80, 10), 5);
    assert!(top.starts_with("POST http://127.0.0.1:3000/orders\n") && top.ends_with(" 1-9 of 23"), "{top}");
    assert!(bottom.contains("out of \\u{1b}[31mstock\n") && bottom.ends_with(" 15-23 of 23"), "{bottom}");
    press(&mut view, "kj");
    assert_eq!(screen(&mut view, (80, 10), 5), bottom);
    press(&mut view, "q");
    assert!(screen(&mut view, (80, 24), 5).contains("DURATION"));
}

#[test]
fn help_names_every_key() {
    let mut view = view(&["orders"]);
    press(&mut view, "?");
    assert_eq!(screen(&mut view, (80, 24), 5), include_str!("tests/help_80x24.txt").trim_end_matches('\n'));
}

#[test]
fn keys_act_on_the_selected_row() {
    let mut view = busy();
    assert_eq!(press(&mut view, "r"), None);
    assert!(screen(&mut view, (80, 24), 5).contains("it is still on its way"));
    assert_eq!(press(&mut view, "jr"), Some(Action::Retry("dlv_3".to_owned())));
    assert_eq!(press(&mut view, "jo"), Some(Action::Open("https://hooks.example/requests/req_2".to_owned())));
    let Some(Action::Copy(command)) = press(&mut view, "jc") else { panic!("nothing to copy") };
    assert!(command.starts_with("curl --request 'POST' "), "{command}");
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let shown = dense(&screen(&mut view, (80, 24), 5));
    assert!(shown.starts_with(&dense(&command)), "{shown}");
    assert_eq!(press(&mut view, "qq"), Some(Action::Quit));
    assert_eq!(view.press(Key::Interrupt, at(0)), Some(Action::Interrupt));
    let mut empty = busy();
    empty.rows = Rows::default();
    assert_eq!(press(&mut empty, "d"), None);
    assert!(screen(&mut empty, (80, 24), 5).contains("nothing has come yet"));
}

#[test]
fn the_list_follows_until_one_looks_at_something_else() {
    let mut view = view(&["orders"]);
    begin(&mut view, 1..=20);
    assert_eq!(paths(&mut view, 9), ["*/20", "/19", "/18", "/17", "/16", "/15"]);
    press(&mut view, "jj");
    begin(&mut view, 21..=23);
    assert_eq!(paths(&mut view, 9), ["/20", "/19", "*/18", "/17", "/16", "/15"]);
    assert!(screen(&mut view, (80, 9), 5).ends_with(" paused, 3 new"));
    view.press(Key::PageDown, at(5));
    assert_eq!(paths(&mut view, 9), ["/18", "/17", "/16", "/15", "/14", "*/13"]);
    view.press(Key::End, at(5));
    assert_eq!(paths(&mut view, 9), ["/6", "/5", "/4", "/3", "/2", "*/1"]);
    view.press(Key::Home, at(5));
    begin(&mut view, 24..=24);
    assert_eq!(paths(&mut view, 9), ["*/24", "/23", "/22", "/21", "/20", "/19"]);
    assert!(screen(&mut view, (80, 9), 5).ends_with(" following"));
    view.press(Key::Down, at(5));
    begin(&mut view, 25..=1_200);
    assert_eq!(paths(&mut view, 9)[0], "*/1200", "what was looked at is kept no longer");
}

#[test]
fn the_oldest_bodies_are_forgotten_first() {
    let mut view = view(&["orders"]);
    let body = Bytes::from(vec![b'x'; 30 * 1024 * 1024]);
    for serial in 1..=3 {
        let bare = Arc::unwrap_or_clone(attempt(serial, "GET", "/", b""));
        let attempt = Attempt { body: body.clone(), body_bytes: body.len(), ..bare };
        view.update(Event::Began(Arc::new(attempt)), at(0));
    }
    let kept = |serial| view.row(serial).unwrap().attempt.body.len();
    assert_eq!([1, 2, 3].map(kept), [0, body.len(), body.len()]);
    press(&mut view, "Gd");
    assert!(screen(&mut view, (80, 24), 5).contains("kept no longer"));
    assert_eq!(press(&mut view, "c"), None);
}

#[test]
fn colour_only_repeats_the_words() {
    let mut view = busy();
    let plain = screen(&mut view, (80, 24), 5);
    let mut coloured = View { colours: true, ..busy() };
    assert_eq!(screen(&mut coloured, (80, 24), 5), plain);
    let colours = |view: &mut View| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| view.paint(frame, at(5))).unwrap();
        terminal.backend().buffer().content.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colours(&mut view), 0);
    assert!(colours(&mut coloured) > 0);
}

#[test]
fn what_the_server_was_not_told_is_marked() {
    let mut view = view(&["orders"]);
    let attempt = attempt(1, "GET", "/late", b"");
    view.update(Event::Began(Arc::clone(&attempt)), at(0));
    let end = End { reported: false, ..end(Outcome::Answer { status: 200 }, 5) };
    view.update(Event::Ended { attempt, end }, at(0));
    assert!(screen(&mut view, (80, 24), 5).contains("↚ 200"));
    press(&mut view, "d");
    assert!(screen(&mut view, (100, 24), 5).contains("the server was not told, and counts it as failed"));
}

#[test]
fn a_stop_says_what_it_waits_for() {
    let mut view = busy();
    view.update(Event::Stopping { running: 1 }, at(5));
    assert!(
        screen(&mut view, (80, 24), 5).contains("stopping: 1 on their way, at most 5 s; Ctrl-C ends at once")
    );
}

#[test]
fn a_service_that_is_too_slow_is_told_from_one_that_is_not_there() {
    let mut view = view(&["orders"]);
    let attempt = attempt(1, "GET", "/slow", b"");
    view.update(Event::Began(Arc::clone(&attempt)), at(0));
    let late = Outcome::Fault { kind: FaultKind::Timeout, detail: "no answer within 2 s".to_owned() };
    view.update(ended(&attempt, late, 2_000), at(0));
    assert!(screen(&mut view, (80, 24), 5).contains("← timeout   GET"));
    press(&mut view, "d");
    let detail = screen(&mut view, (100, 24), 5);
    assert!(detail.contains("failed, timeout after 2.0 s: no answer within 2 s"), "{detail}");
}
