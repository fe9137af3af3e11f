//! The full-screen view: what it knows, and what events and keys do to it. Painting is in `paint`.

mod curl;
mod detail;
pub(crate) mod paint;
mod rows;
#[cfg(test)]
mod tests;

use restante_core::Timestamp;

use super::event::{Event, LinkState};
use super::render::link;
use super::sources::Chosen;
use super::text::plural;
use super::zone::Zone;
use rows::{Row, Rows};

/// How long a note is shown.
const NOTE_MS: i64 = 8_000;

/// A source in the header.
#[derive(Clone, Debug)]
pub(crate) struct SourceLine {
    pub(crate) chosen: Chosen,
    pub(crate) state: LinkState,
    /// Why the local service does not answer; `None` while that is not known.
    pub(crate) local: Option<Result<(), String>>,
}

/// What is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    List,
    /// Of this attempt.
    Detail(u64),
    Curl(u64),
    Help,
}

/// What a key asks for that the view cannot do itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A delivery, by its id.
    Retry(String),
    /// Into the clipboard.
    Copy(String),
    /// In a browser.
    Open(String),
    Quit,
    Interrupt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Leaves a screen.
    Back,
    Enter,
    Interrupt,
    Char(char),
}

pub(crate) struct View {
    pub(crate) sources: Vec<SourceLine>,
    /// Address of the dashboard, without a slash at the end.
    dashboard: String,
    zone: Zone,
    colours: bool,
    rows: Rows,
    screen: Screen,
    /// First line of a screen other than the list.
    scroll: usize,
    /// Lines such a screen had, and had room for, when it was last painted.
    pages: (usize, usize),
    note: Option<(String, Timestamp)>,
    stopping: Option<usize>,
}

impl View {
    pub(crate) fn new(sources: Vec<Chosen>, dashboard: String, zone: Zone, colours: bool) -> Self {
        let line = |chosen| SourceLine { chosen, state: LinkState::Connecting, local: None };
        Self {
            sources: sources.into_iter().map(line).collect(),
            dashboard,
            zone,
            colours,
            rows: Rows::default(),
            screen: Screen::List,
            scroll: 0,
            pages: (0, 0),
            note: None,
            stopping: None,
        }
    }

    /// Takes in what happened.
    pub(crate) fn update(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Link { source, state, .. } => {
                if let Some(line) = self.sources.get_mut(source) {
                    line.state = state;
                }
            }
            Event::Local { source, fault, .. } => {
                if let Some(line) = self.sources.get_mut(source) {
                    let before = line.local.take();
                    let now = fault.map_or(Ok(()), Err);
                    line.local = Some(before.map_or(now.clone(), |before| before.and(now)));
                }
            }
            Event::Began(attempt) => self.rows.begin(attempt),
            Event::Ended { attempt, end } => self.rows.end(attempt, end),
            Event::Answered { serial, body, whole } => self.rows.answer(serial, body, whole),
            Event::Missed { count } => {
                let missed = plural(count, "attempt");
                self.note = Some((format!("{missed} not shown: more came than can be"), now));
            }
            Event::Note(note) => self.note = Some((note, now)),
            Event::Stopping { running } => self.stopping = Some(running),
            Event::Over => {}
        }
    }

    /// Does what a key asks for.
    pub(crate) fn press(&mut self, key: Key, now: Timestamp) -> Option<Action> {
        if key == Key::Interrupt {
            return Some(Action::Interrupt);
        }
        self.note = None;
        match self.screen {
            Screen::List => self.press_in_list(key, now),
            Screen::Detail(_) | Screen::Curl(_) | Screen::Help => self.press_in_text(key, now),
        }
    }

    fn press_in_list(&mut self, key: Key, now: Timestamp) -> Option<Action> {
        match key {
            Key::Up | Key::Char('k') => self.rows.step(-1),
            Key::Down | Key::Char('j') => self.rows.step(1),
            Key::PageUp => self.rows.page(-1),
            Key::PageDown | Key::Char(' ') => self.rows.page(1),
            Key::Home | Key::Char('g') => self.rows.follow(),
            Key::End | Key::Char('G') => self.rows.last(),
            Key::Char('q') => return Some(Action::Quit),
            Key::Char('?' | 'h') => self.show(Screen::Help),
            Key::Enter => return self.act('d', now),
            Key::Char(char @ ('d' | 'c' | 'r' | 'o')) => return self.act(char, now),
            Key::Back | Key::Interrupt | Key::Char(_) => {}
        }
        None
    }

    fn press_in_text(&mut self, key: Key, now: Timestamp) -> Option<Action> {
        let (lines, room) = self.pages;
        let last = lines.saturating_sub(room);
        let page = room.saturating_sub(1).max(1);
        let scroll = self.scroll.min(last);
        self.scroll = match key {
            Key::Up | Key::Char('k') => scroll.saturating_sub(1),
            Key::Down | Key::Char('j') => (scroll + 1).min(last),
            Key::PageUp => scroll.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => (scroll + page).min(last),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => last,
            Key::Back | Key::Enter | Key::Char('q' | '?' | 'h') => {
                self.show(Screen::List);
                0
            }
            // What is shown already is left by the same key.
            Key::Char('d') if matches!(self.screen, Screen::Detail(_)) => {
                self.show(Screen::List);
                0
            }
            Key::Char(char @ ('d' | 'c' | 'r' | 'o')) => return self.act(char, now),
            Key::Interrupt | Key::Char(_) => scroll,
        };
        None
    }

    /// Acts on the selected row.
    fn act(&mut self, key: char, now: Timestamp) -> Option<Action> {
        let Some(row) = self.rows.selected().cloned() else {
            self.note = Some(("nothing has come yet".to_owned(), now));
            return None;
        };
        let serial = row.attempt.serial;
        match key {
            'd' => self.show(Screen::Detail(serial)),
            'c' => {
                self.show(Screen::Curl(serial));
                match curl::command(&row.attempt) {
                    Some(command) => return Some(Action::Copy(command)),
                    None => self.note = Some(("its body is kept no longer".to_owned(), now)),
                }
            }
            'o' => match &row.attempt.request_id {
                Some(id) => return Some(Action::Open(link(&self.dashboard, id))),
                None => self.note = Some(("the server does not name the request".to_owned(), now)),
            },
            _ => match (&row.attempt.delivery_id, &row.end) {
                (_, None) => self.note = Some(("it is still on its way".to_owned(), now)),
                (Some(id), Some(_)) => return Some(Action::Retry(id.clone())),
                (None, Some(_)) => {
                    self.note = Some(("the server does not name the delivery".to_owned(), now));
                }
            },
        }
        None
    }

    fn show(&mut self, screen: Screen) {
        self.screen = screen;
        self.scroll = 0;
        // While one row is read, others must not take its place.
        if screen != Screen::List {
            self.rows.hold();
        }
    }

    fn row(&self, serial: u64) -> Option<&Row> {
        self.rows.find(serial)
    }

    fn note(&self, now: Timestamp) -> Option<&str> {
        let (note, at) = self.note.as_ref()?;
        (now.millis().saturating_sub(at.millis()) < NOTE_MS).then_some(note.as_str())
    }
}
