//! The list of attempts, newest first, and which of them is selected.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::listen::event::{Attempt, End};

/// Rows that are kept.
const ROWS_MAX: usize = 1_000;
/// Bytes of bodies that are kept.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) end: Option<End>,
    /// The answer's body, and whether that is all of it.
    pub(crate) answer: Option<(Bytes, bool)>,
}

#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Newest first.
    rows: VecDeque<Row>,
    /// Serial of the selected row; `None` follows the newest.
    held: Option<u64>,
    /// Index of the first row that is shown.
    top: usize,
    /// Rows there is room for, as last painted.
    room: usize,
    /// Rows that came while one was held.
    missed: usize,
}

impl Rows {
    pub(crate) fn begin(&mut self, attempt: Arc<Attempt>) {
        self.rows.push_front(Row { attempt, end: None, answer: None });
        if self.held.is_some() {
            // What is looked at stays where it is.
            self.top += 1;
            self.missed += 1;
        }
        self.rows.truncate(ROWS_MAX);
        self.forget_bodies();
        if self.held.is_some_and(|serial| self.find(serial).is_none()) {
            self.follow();
        }
    }

    pub(crate) fn end(&mut self, attempt: Arc<Attempt>, end: End) {
        if let Some(row) = self.find_mut(attempt.serial) {
            row.end = Some(end);
        }
    }

    pub(crate) fn answer(&mut self, serial: u64, body: Bytes, whole: bool) {
        if let Some(row) = self.find_mut(serial) {
            row.answer = Some((body, whole));
        }
    }

    pub(crate) fn find(&self, serial: u64) -> Option<&Row> {
        self.rows.iter().find(|row| row.attempt.serial == serial)
    }

    fn find_mut(&mut self, serial: u64) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.attempt.serial == serial)
    }

    /// The oldest bodies go first.
    fn forget_bodies(&mut self) {
        let mut left = BODY_BYTES_MAX;
        for row in &mut self.rows {
            let bytes = row.attempt.body.len();
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => {
                    row.attempt = Arc::new(Attempt { body: Bytes::new(), ..row.attempt.as_ref().clone() });
                }
            }
        }
    }

    pub(crate) fn selected(&self) -> Option<&Row> {
        self.rows.get(self.index())
    }

    fn index(&self) -> usize {
        let Some(serial) = self.held else { return 0 };
        self.rows.iter().position(|row| row.attempt.serial == serial).unwrap_or(0)
    }

    /// Selects the row so many below.
    pub(crate) fn step(&mut self, by: isize) {
        let index = self.index().saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
        match index {
            0 => self.follow(),
            index => self.held = self.rows.get(index).map(|row| row.attempt.serial),
        }
        self.scroll();
    }

    pub(crate) fn page(&mut self, by: isize) {
        let rows = isize::try_from(self.room.max(2) - 1).unwrap_or(1);
        self.step(by.saturating_mul(rows));
    }

    pub(crate) fn last(&mut self) {
        self.step(isize::MAX);
    }

    /// Goes with the newest again.
    pub(crate) fn follow(&mut self) {
        self.held = None;
        self.top = 0;
        self.missed = 0;
    }

    /// Stays with the selected row.
    pub(crate) fn hold(&mut self) {
        self.held = self.selected().map(|row| row.attempt.serial);
    }

    /// How many came while it did not follow; `None`: it follows.
    pub(crate) fn missed(&self) -> Option<usize> {
        self.held.map(|_| self.missed)
    }

    /// The rows there is room for, and whether each is the selected one.
    pub(crate) fn shown(&mut self, room: usize) -> impl Iterator<Item = (&Row, bool)> {
        self.room = room;
        self.scroll();
        let index = self.index();
        let rows = self.rows.iter().enumerate().skip(self.top).take(room);
        rows.map(move |(at, row)| (row, at == index))
    }

    /// Moves what is shown so that the selected row is in it.
    fn scroll(&mut self) {
        let (index, room) = (self.index(), self.room.max(1));
        self.top = self.top.min(index).max((index + 1).saturating_sub(room));
        self.top = self.top.min(self.rows.len().saturating_sub(1));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
