//! Paints the view.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;
use restante_core::Timestamp;

use super::rows::Row;
use super::{Screen, SourceLine, View};
use crate::listen::event::{FaultKind, LinkState, Outcome};
use crate::listen::text::duration;
use crate::table::harmless;

/// Below this width a row does without its attempt's number, below the next one without its duration too.
const WIDTH_ATTEMPT: u16 = 64;
const WIDTH_DURATION: u16 = 44;
/// Below this height the header is one line for each source.
const HEIGHT_ROOMY: u16 = 14;

/// One line of the screen, written from left to right.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl Pen<'_> {
    fn put(&mut self, text: &str, style: Style) {
        let room = usize::from(self.end.saturating_sub(self.x));
        (self.x, _) = self.buffer.set_stringn(self.x, self.y, text, room, style);
    }

    /// In a column of this width: cut with an ellipsis, or filled up.
    fn column(&mut self, text: &str, width: u16, style: Style) {
        let start = self.x;
        let end = start.saturating_add(width).min(self.end);
        self.put(&cut(text, usize::from(end.saturating_sub(start))), style);
        while self.x < end {
            self.put(" ", style);
        }
    }

    /// At the right edge of a column of this width.
    fn right(&mut self, text: &str, width: u16, style: Style) {
        let blank = usize::from(width).saturating_sub(columns(text));
        self.put(&" ".repeat(blank), style);
        self.put(text, style);
    }
}

/// Columns of a terminal that a text takes.
fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// What fits of a text into so many columns, and the rest.
fn split(text: &str, width: usize) -> (&str, &str) {
    if text.is_ascii() {
        return text.split_at(width.min(text.len()));
    }
    let mut left = width;
    let mut fits = |char: char| {
        let taken = columns(char.encode_utf8(&mut [0; 4]));
        left.checked_sub(taken).map(|rest| left = rest).is_some()
    };
    let at = text.char_indices().find(|(_, char)| !fits(*char)).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// The text, with an ellipsis in place of what does not fit.
fn cut(text: &str, width: usize) -> String {
    match split(text, width) {
        (whole, "") => whole.to_owned(),
        _ if width == 0 => String::new(),
        _ => format!("{}…", split(text, width - 1).0),
    }
}

/// The text in lines of at most this width, and of one character at least.
fn wrap(text: &str, width: usize, heading: bool) -> Vec<(String, bool)> {
    let (mut lines, mut rest) = (Vec::new(), text);
    loop {
        let (mut line, mut after) = split(rest, width);
        if line.is_empty() {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            (line, after) = rest.split_at(first);
        }
        lines.push((line.to_owned(), heading));
        if after.is_empty() {
            return lines;
        }
        rest = after;
    }
}

impl View {
    /// Paints all of it, as of `now`.
    pub(crate) fn paint(&mut self, frame: &mut Frame<'_>, now: Timestamp) {
        let area = frame.area();
        if area.width == 0 || area.height == 0 {
            return;
        }
        let buffer = frame.buffer_mut();
        let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
        let above = Rect { height: area.height - 1, ..area };
        match self.screen {
            Screen::List => self.paint_list(buffer, above, now),
            Screen::Detail(_) | Screen::Curl(_) | Screen::Help => self.paint_text(buffer, above),
        }
        self.paint_footer(buffer, footer, now);
    }

    fn paint_list(&mut self, buffer: &mut Buffer, area: Rect, now: Timestamp) {
        let roomy = area.height >= HEIGHT_ROOMY;
        let each = if roomy { 2 } else { 1 };
        let fitting = usize::from((area.height / 2).max(1) / each).max(1);
        let mut y = area.y;
        for index in 0..self.sources.len().min(fitting) {
            y = self.paint_source(buffer, Rect { y, ..area }, index, roomy, now);
        }
        let hidden = self.sources.len().saturating_sub(fitting);
        if hidden > 0 && y < area.bottom() {
            let text = format!("  and {hidden} more");
            pen(buffer, area, y).put(&text, self.faint());
            y += 1;
        }
        if roomy {
            y += 1;
        }
        if y < area.bottom() {
            self.paint_titles(buffer, Rect { y, ..area });
            y += 1;
        }
        let room = area.bottom().saturating_sub(y);
        if self.rows.is_empty() && room > 0 {
            pen(buffer, area, y).put("  nothing has come yet; send a webhook to a URL above", self.faint());
        }
        let (zone, colours, several) = (self.zone, self.colours, self.sources.len() > 1);
        let names: Vec<String> = (0..self.sources.len()).map(|index| self.name(index)).collect();
        for ((row, selected), y) in self.rows.shown(usize::from(room)).zip(y..) {
            let name = names.get(row.attempt.source).filter(|_| several).map(String::as_str);
            let time = zone.clock(row.attempt.at);
            paint_row(&mut pen(buffer, area, y), row, (&time, name), selected, colours);
        }
    }

    /// Returns the next free line.
    fn paint_source(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        index: usize,
        roomy: bool,
        now: Timestamp,
    ) -> u16 {
        let Some(source) = self.sources.get(index) else { return area.y };
        let (mark, state, colour) = self.state(source, now);
        let mut line = pen(buffer, area, area.y);
        line.put(mark, self.coloured(colour));
        line.put(" ", Style::new());
        line.put(&self.name(index), Style::new().add_modifier(Modifier::BOLD));
        line.put("  ", Style::new());
        line.put(&state, self.coloured(colour));
        let targets = source.chosen.targets.join(", ");
        line.put(&format!("  → {}", harmless(&targets)), Style::new());
        match &source.local {
            None => {}
            Some(Ok(())) => line.put(" (answers)", self.faint()),
            Some(Err(why)) => {
                line.put(&format!(" (does not answer: {})", harmless(why)), self.coloured(Color::Yellow));
            }
        }
        if !roomy {
            return area.y + 1;
        }
        // In whole: it is there to be copied.
        let mut y = area.y + 1;
        for (part, _) in
            wrap(&harmless(&source.chosen.url), usize::from(area.width).saturating_sub(2).max(1), false)
        {
            pen(buffer, area, y).put(&format!("  {part}"), Style::new());
            y += 1;
        }
        y
    }

    fn state(&self, source: &SourceLine, now: Timestamp) -> (&'static str, String, Color) {
        match &source.state {
            LinkState::Connecting => ("◌", "connecting".to_owned(), Color::Yellow),
            LinkState::Connected => ("●", "connected".to_owned(), Color::Green),
            LinkState::Reconnecting { why, next: Some(next) } => {
                let seconds = next.since(now).as_millis().div_ceil(1000);
                ("◌", format!("reconnecting in {seconds} s: {}", harmless(why)), Color::Yellow)
            }
            LinkState::Reconnecting { why, next: None } => {
                ("◌", format!("reconnecting now: {}", harmless(why)), Color::Yellow)
            }
            LinkState::Failed { why } => ("✗", format!("failed: {}", harmless(why)), Color::Red),
            LinkState::Stopped => ("○", "stopped".to_owned(), Color::Reset),
        }
    }

    fn paint_titles(&self, buffer: &mut Buffer, area: Rect) {
        let style = self.faint();
        let mut line = pen(buffer, area, area.y);
        line.put("  TIME      STATUS     METHOD  ", style);
        let tail = tail_width(area.width);
        let path = line.end.saturating_sub(line.x).saturating_sub(tail);
        line.column("PATH", path, style);
        if area.width >= WIDTH_DURATION {
            line.right("DURATION", 10, style);
        }
        if area.width >= WIDTH_ATTEMPT {
            line.right("ATTEMPT", 10, style);
        }
    }

    fn paint_text(&mut self, buffer: &mut Buffer, area: Rect) {
        let width = usize::from(area.width).max(1);
        let wrapped: Vec<(String, bool)> =
            self.text().into_iter().flat_map(|(text, heading)| wrap(&text, width, heading)).collect();
        self.pages = (wrapped.len(), usize::from(area.height));
        self.scroll = self.scroll.min(wrapped.len().saturating_sub(usize::from(area.height)));
        for ((text, heading), y) in wrapped.iter().skip(self.scroll).zip(area.y..area.bottom()) {
            let style = if *heading { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            pen(buffer, area, y).put(text, style);
        }
    }

    fn paint_footer(&self, buffer: &mut Buffer, area: Rect, now: Timestamp) {
        let style = Style::new().add_modifier(Modifier::REVERSED);
        let mut line = pen(buffer, area, area.y);
        let right = self.position();
        let left = match (self.note(now), self.stopping, self.screen) {
            (_, Some(0), _) => " stopping".to_owned(),
            (_, Some(running), _) => {
                format!(" stopping: {running} on their way, at most 5 s; Ctrl-C ends at once")
            }
            (Some(note), None, _) => format!(" {}", harmless(note)),
            (None, None, Screen::List) if area.width < WIDTH_ATTEMPT => " ? help  q quit".to_owned(),
            (None, None, Screen::List) => {
                " ↑↓ select  d details  r retry  c curl  o open  ? help  q quit".to_owned()
            }
            (None, None, _) => " ↑↓ scroll  q back".to_owned(),
        };
        let width = u16::try_from(columns(&right)).unwrap_or(u16::MAX);
        let room = area.width.saturating_sub(width);
        line.column(&left, room, style);
        line.put(&right, style);
    }

    /// Where in the list or the text this is.
    fn position(&self) -> String {
        match (self.screen, self.rows.missed()) {
            (Screen::List, None) => " following ".to_owned(),
            (Screen::List, Some(0)) => " paused ".to_owned(),
            (Screen::List, Some(missed)) => format!(" paused, {missed} new "),
            (_, _) => {
                let (lines, room) = self.pages;
                let last = (self.scroll + room).min(lines);
                format!(" {}-{last} of {lines} ", (self.scroll + 1).min(lines))
            }
        }
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn faint(&self) -> Style {
        if self.colours { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
    }
}

/// A line of the area. What is put on one below the screen goes nowhere.
fn pen(buffer: &mut Buffer, area: Rect, y: u16) -> Pen<'_> {
    let bottom = buffer.area.bottom();
    let end = if y < bottom { area.right() } else { area.x };
    Pen { buffer, x: area.x, y: y.min(bottom.saturating_sub(1)), end }
}

/// Columns behind the path.
fn tail_width(width: u16) -> u16 {
    match width {
        ..WIDTH_DURATION => 0,
        WIDTH_DURATION..WIDTH_ATTEMPT => 10,
        WIDTH_ATTEMPT.. => 20,
    }
}

fn paint_row(
    line: &mut Pen<'_>,
    row: &Row,
    (time, name): (&str, Option<&str>),
    selected: bool,
    colours: bool,
) {
    let width = line.end.saturating_sub(line.x);
    let base = if selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
    let (arrow, status, colour) = status(row);
    let style = if colours && !selected { base.fg(colour) } else { base };
    line.put(if selected { "▸ " } else { "  " }, base);
    line.column(time, 9, base);
    line.put(&format!("{arrow} "), style);
    line.column(&status, 10, style);
    line.column(&harmless(&row.attempt.method), 8, base);
    let path = match row.attempt.uri.starts_with('/') {
        true => harmless(&row.attempt.uri),
        false => format!("/{}", harmless(&row.attempt.uri)),
    };
    let path = name.map_or(path.clone(), |name| format!("{name} {path}"));
    let room = line.end.saturating_sub(line.x).saturating_sub(tail_width(width));
    line.column(&path, room, base);
    if width >= WIDTH_DURATION {
        let time = row.end.as_ref().map_or_else(|| "…".to_owned(), |end| duration(end.duration));
        line.right(&time, 10, base);
    }
    if width >= WIDTH_ATTEMPT {
        let number = row.attempt.number;
        let of =
            row.attempt.attempts_max.map_or_else(|| number.to_string(), |max| format!("{number} of {max}"));
        line.right(&of, 10, base);
    }
}

/// Arrow and word: the colour only repeats them.
fn status(row: &Row) -> (&'static str, String, Color) {
    let Some(end) = &row.end else { return ("→", "running".to_owned(), Color::Reset) };
    let arrow = if end.reported { "←" } else { "↚" };
    let colour = if end.outcome.is_success() { Color::Green } else { Color::Red };
    match &end.outcome {
        Outcome::Answer { status } if end.outcome.is_success() => (arrow, status.to_string(), colour),
        Outcome::Answer { status } => (arrow, format!("{status} fail"), colour),
        Outcome::Fault { kind: FaultKind::Timeout, .. } => (arrow, "timeout".to_owned(), colour),
        Outcome::Fault { kind: FaultKind::Network | FaultKind::InvalidUrl, .. } => {
            (arrow, "no answer".to_owned(), colour)
        }
        Outcome::Cancelled => ("×", "cancelled".to_owned(), Color::Yellow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        let lines =
            |text, width| wrap(text, width, false).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("日本語abc", 4), ["日本", "語ab", "c"]);
        assert_eq!(
            lines("日本", 1),
            ["日", "本"],
            "what does not fit is cut at the edge, and not lost in a loop"
        );
        assert_eq!(lines("", 4), [""]);
        assert_eq!(lines("abcdefgh", 4), ["abcd", "efgh"]);
        assert_eq!(
            [cut("日本語", 6), cut("日本語", 5), cut("abc", 2), cut("abc", 0)],
            ["日本語", "日本…", "a…", ""]
        );
    }
}
