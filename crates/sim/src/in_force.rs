//! What may have been in force when: a change that nobody was told about may have happened.

use crate::timeline::Moment;

/// The values a setting had, as far as those who set it can know.
#[derive(Clone, Debug)]
pub struct InForce<T> {
    entries: Vec<Entry<T>>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    value: T,
    asked: Moment,
    /// When somebody was told that it is done. Until then it may be or may not.
    told: Option<Moment>,
    /// It was refused: it never came into force.
    refused: bool,
}

impl<T> InForce<T> {
    pub fn since(moment: Moment, value: T) -> Self {
        Self { entries: vec![Entry { value, asked: moment, told: Some(moment), refused: false }] }
    }

    /// Notes that somebody asked for a change. Gives what [`InForce::done`] and [`InForce::refused`] want.
    pub fn asked(&mut self, at: Moment, value: T) -> usize {
        self.entries.push(Entry { value, asked: at, told: None, refused: false });
        self.entries.len() - 1
    }

    pub fn done(&mut self, entry: usize, at: Moment) {
        self.entries[entry].told = Some(at);
    }

    /// The change is done, and this is what it came to.
    pub fn done_as(&mut self, entry: usize, at: Moment, value: T) {
        self.entries[entry].value = value;
        self.done(entry, at);
    }

    pub fn refused(&mut self, entry: usize) {
        self.entries[entry].refused = true;
    }

    /// All values that may have been in force at some time of the span.
    pub fn possible(&self, from: Moment, to: Moment) -> impl Iterator<Item = &T> {
        // Changes come into force in the order they are asked in.
        let first =
            self.entries.iter().rposition(|it| !it.refused && it.told.is_some_and(|told| told <= from));
        let entries = self.entries[first.unwrap_or(0)..].iter();
        entries.filter(move |it| it.asked <= to && !it.refused).map(|it| &it.value)
    }

    /// All values that were ever asked for and not refused.
    pub fn ever(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter(|entry| !entry.refused).map(|entry| &entry.value)
    }

    /// The value of now, if all that was asked is done.
    pub fn latest(&self) -> &T {
        let asked = self.entries.iter().rev().find(|entry| !entry.refused);
        &asked.expect("the first value is known").value
    }

    /// The value of now, if all that was asked was answered.
    pub fn last(&self) -> &T {
        let known = self.entries.iter().rev().find(|entry| entry.told.is_some() && !entry.refused);
        &known.expect("the first value is known").value
    }

    /// The value of then, as far as it was known; `None` before there was one.
    pub fn known_at(&self, at: Moment) -> Option<&T> {
        let was_told = |entry: &&Entry<T>| !entry.refused && entry.told.is_some_and(|told| told <= at);
        self.entries.iter().rev().find(was_told).map(|entry| &entry.value)
    }
}
