//! Tables: aligned columns, as wide as the terminal at most.

use crate::paint::{Paint, Tone};

/// No column is made narrower than this.
const COLUMN_CHARS_MIN: usize = 8;
/// Between columns.
const GAP: &str = "  ";

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) numeric: bool,
    /// Made narrower where the terminal is: free text, and ids of other things.
    pub(crate) elastic: bool,
}

/// A column of words or ids.
pub(crate) const fn column(title: &'static str) -> Column {
    Column { title, numeric: false, elastic: false }
}

/// A column of numbers: aligned on the right.
pub(crate) const fn number(title: &'static str) -> Column {
    Column { title, numeric: true, elastic: false }
}

/// A column of free text, or of what is told elsewhere too.
pub(crate) const fn text(title: &'static str) -> Column {
    Column { title, numeric: false, elastic: true }
}

/// What stands in one place of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Cell {
    /// A text that others may have written: what could move the cursor is shown and not done.
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: harmless(text.as_ref()), tone: Tone::Plain }
    }

    /// A dash where there is nothing.
    pub(crate) fn maybe(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self { text: "-".to_owned(), tone: Tone::Dim }, Self::new)
    }

    /// A word of the API that says how something stands.
    pub(crate) fn state(word: &str) -> Self {
        Self { tone: Tone::of(word), ..Self::new(word) }
    }
}

/// A table that is written in pieces: the first one decides how wide columns are.
pub(crate) struct Table {
    columns: &'static [Column],
    widths: Option<Vec<usize>>,
    /// Of the terminal; `None`: as wide as it gets.
    chars_max: Option<usize>,
    paint: Paint,
}

impl Table {
    pub(crate) fn new(columns: &'static [Column], chars_max: Option<usize>, paint: Paint) -> Self {
        Self { columns, widths: None, chars_max, paint }
    }

    /// Lines of these rows; before the first ones the titles.
    pub(crate) fn lines(&mut self, rows: &[Vec<Cell>]) -> Vec<String> {
        let mut lines = Vec::with_capacity(rows.len() + 1);
        if self.widths.is_none() {
            self.widths = Some(self.fit(rows));
            let title = |column: &Column| Cell { text: column.title.to_uppercase(), tone: Tone::Dim };
            lines.push(self.line(&self.columns.iter().map(title).collect::<Vec<_>>()));
        }
        lines.extend(rows.iter().map(|row| self.line(row)));
        lines
    }

    fn fit(&self, rows: &[Vec<Cell>]) -> Vec<usize> {
        let widest = |index: usize| {
            let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| chars(&cell.text));
            cells.chain([chars(self.columns[index].title)]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let Some(chars_max) = self.chars_max else { return widths };
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > chars_max {
            let elastic = widths.iter_mut().zip(self.columns).filter(|(_, column)| column.elastic);
            let Some((width, _)) = elastic.max_by_key(|(width, _)| **width) else { break };
            if *width <= COLUMN_CHARS_MIN {
                break;
            }
            *width -= 1;
        }
        widths
    }

    fn line(&self, row: &[Cell]) -> String {
        let widths = self.widths.as_deref().unwrap_or_default();
        let last = self.columns.len().saturating_sub(1);
        let mut line = String::new();
        for (index, (cell, column)) in row.iter().zip(self.columns).enumerate() {
            let width = widths.get(index).copied().unwrap_or(0);
            let shown = match (self.chars_max, column.elastic) {
                (Some(_), true) => cut(&cell.text, width),
                _ => cell.text.clone(),
            };
            let pad = " ".repeat(width.saturating_sub(chars(&shown)));
            let painted = self.paint.tone(cell.tone, &shown);
            match (column.numeric, index == last) {
                (true, _) => line.extend([pad.as_str(), &painted]),
                (false, true) => line.push_str(&painted),
                (false, false) => line.extend([painted.as_str(), &pad]),
            }
            if index != last {
                line.push_str(GAP);
            }
        }
        line
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// The beginning of a text, with a mark where something is missing.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if chars(text) <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// What a terminal would take for a command is written out.
pub(crate) fn harmless(text: &str) -> String {
    // Marks that turn the direction of writing make a path look like another one.
    let turns = |char: char| matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.chars().any(|char| char.is_control() || turns(char)) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() || turns(char) {
            true => shown.extend(char.escape_default()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[column("id"), number("bytes"), text("path"), column("state")];

    fn rows() -> Vec<Vec<Cell>> {
        let row = |id, bytes, path, state| {
            vec![Cell::new(id), Cell::new(bytes), Cell::new(path), Cell::state(state)]
        };
        vec![row("req_1", "7", "/short", "delivered"), row("req_2", "12345", "/a/rather/long/path", "failed")]
    }

    fn table(chars_max: Option<usize>, paint: Paint) -> Vec<String> {
        Table::new(COLUMNS, chars_max, paint).lines(&rows())
    }

    #[test]
    fn columns_are_aligned_and_lines_end_where_their_text_does() {
        assert_eq!(
            table(None, Paint::plain()),
            [
                "ID     BYTES  PATH                 STATE",
                "req_1      7  /short               delivered",
                "req_2  12345  /a/rather/long/path  failed",
            ]
        );
    }

    #[test]
    fn free_text_gives_way_on_a_narrow_terminal_and_ids_do_not() {
        assert_eq!(
            table(Some(36), Paint::plain()),
            [
                "ID     BYTES  PATH         STATE",
                "req_1      7  /short       delivered",
                "req_2  12345  /a/rather/…  failed",
            ]
            .map(|line| line.to_owned())
        );
        assert_eq!(table(Some(10), Paint::plain())[2], "req_2  12345  /a/rath…  failed");
    }

    #[test]
    fn colour_says_nothing_that_words_do_not() {
        let painted = table(None, Paint::colours());
        assert_eq!(painted[1], "req_1      7  /short               \u{1b}[32mdelivered\u{1b}[0m");
        let plain: Vec<String> = painted
            .iter()
            .map(|line| {
                ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[2m", "\u{1b}[0m"]
                    .iter()
                    .fold(line.clone(), |line, code| line.replace(code, ""))
            })
            .collect();
        assert_eq!(plain, table(None, Paint::plain()));
    }

    #[test]
    fn later_pages_keep_the_columns_of_the_first() {
        let mut table = Table::new(COLUMNS, None, Paint::plain());
        let rows = rows();
        assert_eq!(table.lines(&rows[1..]).len(), 2);
        assert_eq!(table.lines(&rows[..1]), ["req_1      7  /short               delivered"]);
    }

    #[test]
    fn what_others_wrote_does_not_reach_the_terminal_as_a_command() {
        assert_eq!(Cell::new("/\u{1b}[2J\r\u{9b}x\u{202e}").text, "/\\u{1b}[2J\\r\\u{9b}x\\u{202e}");
        assert_eq!(Cell::new("/größe/日本").text, "/größe/日本");
    }
}
