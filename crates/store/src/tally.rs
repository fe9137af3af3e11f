//! What went through, counted in memory.
//!
//! Counted is what took effect, after its commit: a hash lookup and an addition for each count. Now and then what
//! changed is written to the table `tally`, see [`Store::roll_up`](crate::Store::roll_up). A crash loses the counts of the
//! seconds since, and nothing else.
//!
//! A **cell** is what one scope did in one minute or ten. A scope is the row of a workspace, a source or an endpoint in
//! the table `record`. A cell is written with its **series**, a number that no other cell of its scope and time ever
//! has, be it another node's or an earlier one of this node: so a row has one writer, which writes what it has counted in
//! all, and may do so again. Whoever reads adds up the series, and takes those that are still in memory from there.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use restante_core::histogram::Histogram;
use restante_core::id::Key;
use restante_core::stats::{Breadth, End, Grain, Span, end};
use restante_core::{Attempt, Delivery, Outcome, Timestamp};
use rustc_hash::FxHashMap;

use crate::config::Config;
use crate::endpoint::Feed;
use crate::stats::Counts;

/// Cells in memory, at most. What would need another one is not counted: it takes a server that nobody lets write
/// them down.
const CELLS_MAX: usize = 65_536;

/// The columns of a row but for those it is found by.
pub(crate) const COUNT_COLUMNS: &str =
    "accepted, delivered, failed, attempts, attempts_failed, arrival, duration";

/// Something that is counted. Workspaces, sources and endpoints are named by their rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counted {
    /// A message was stored for a caller.
    Accepted { workspace: i64, source: Option<i64>, at: Timestamp },
    /// A delivery was made.
    Made { endpoint: i64, at: Timestamp },
    /// An attempt was recorded.
    Attempted { endpoint: i64, failed: bool, duration_ms: u64, at: Timestamp },
    /// A delivery ended.
    Ended { endpoint: i64, end: End, at: Timestamp },
}

impl Counted {
    /// `None` for one that was lost: that says nothing about the receiver.
    pub(crate) fn attempt(endpoint: i64, attempt: &Attempt) -> Option<Self> {
        let failed = match attempt.outcome {
            Outcome::Delivered { .. } => false,
            Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Uncertain(_) => true,
            Outcome::Lost => return None,
        };
        let duration = attempt.ended_at.since(attempt.started_at).as_millis();
        let duration_ms = u64::try_from(duration).unwrap_or(u64::MAX);
        Some(Self::Attempted { endpoint, failed, duration_ms, at: attempt.ended_at })
    }

    /// What a change of the delivery with this key counts as, if it is an end.
    pub(crate) fn change(endpoint: i64, key: i64, before: &Delivery, after: &Delivery) -> Option<Self> {
        // Nearly all changes of others are not.
        after.ended_at?;
        let (end, at) = end(before, after, Key::from_value(key).at())?;
        Some(Self::Ended { endpoint, end, at })
    }
}

/// Which cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    scope: i64,
    grain: Grain,
    start: Timestamp,
}

#[derive(Debug)]
struct Cell {
    /// Whose scope it is.
    workspace: i64,
    breadth: Breadth,
    counts: Counts,
    /// Given with the first writing.
    series: Option<i64>,
    /// Counts changes; `written`: up to which they are in the table.
    changes: u64,
    written: u64,
    /// The latest round that took it.
    round: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    cells: FxHashMap<Place, Cell>,
    round: u64,
    /// The highest series that a cell was given here.
    pub(crate) last_series: i64,
}

/// A tally that those who commit and those who read share.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTally(Arc<Mutex<Tally>>);

impl SharedTally {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A row of the table, as it is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    place: Place,
    changes: u64,
    pub(crate) workspace: i64,
    pub(crate) series: i64,
    pub(crate) kept_until: i64,
    pub(crate) counts: Counts,
}

impl Row {
    pub(crate) fn scope(&self) -> i64 {
        self.place.scope
    }

    /// The length of its time, in seconds.
    pub(crate) fn step(&self) -> i64 {
        step(self.place.grain)
    }

    /// The start of its time.
    pub(crate) fn at(&self) -> i64 {
        self.place.start.millis()
    }
}

/// `tally.step`.
pub(crate) const fn step(grain: Grain) -> i64 {
    grain.ms() / 1000
}

/// What one series counted in one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) at: i64,
    /// `None`: it was never written.
    pub(crate) series: Option<i64>,
    pub(crate) counts: Counts,
}

impl Tally {
    /// Counts what was committed.
    pub(crate) fn count(&mut self, config: &Config, counted: &[Counted]) {
        for one in counted {
            self.count_one(config, *one);
        }
    }

    fn count_one(&mut self, config: &Config, counted: Counted) {
        match counted {
            Counted::Accepted { workspace, source, at } => {
                let whole = Scopes { workspace, source, endpoint: None };
                self.add(whole, at, |counts, _| counts.accepted += 1);
            }
            Counted::Made { endpoint, at } => {
                let Some(scopes) = Scopes::of(config, endpoint) else { return };
                if let Some(endpoint) = scopes.endpoint {
                    let made = |counts: &mut Counts| counts.accepted += 1;
                    self.add_to(scopes.workspace, endpoint, (Breadth::Part, Grain::TenMinutes), at, made);
                }
            }
            Counted::Attempted { endpoint, failed, duration_ms, at } => {
                let Some(scopes) = Scopes::of(config, endpoint) else { return };
                self.add(scopes, at, |counts, of_endpoint| {
                    counts.attempts += 1;
                    counts.attempts_failed += u64::from(failed);
                    if of_endpoint {
                        counts.duration.record(duration_ms);
                    }
                });
            }
            Counted::Ended { endpoint, end, at } => {
                let Some(scopes) = Scopes::of(config, endpoint) else { return };
                self.add(scopes, at, |counts, _| match end {
                    End::Delivered { arrival_ms } => {
                        counts.delivered += 1;
                        counts.arrival.record(arrival_ms);
                    }
                    End::Failed => counts.failed += 1,
                });
            }
        }
    }

    /// Changes the counts of all scopes at a time. `change` also gets whether the scope is an endpoint.
    fn add(&mut self, scopes: Scopes, at: Timestamp, change: impl Fn(&mut Counts, bool)) {
        let Scopes { workspace, source, endpoint } = scopes;
        for grain in [Grain::Minute, Grain::TenMinutes] {
            self.add_to(workspace, workspace, (Breadth::Workspace, grain), at, |it| change(it, false));
        }
        for (part, of_endpoint) in [(source, false), (endpoint, true)] {
            if let Some(scope) = part {
                let cell = (Breadth::Part, Grain::TenMinutes);
                self.add_to(workspace, scope, cell, at, |it| change(it, of_endpoint));
            }
        }
    }

    fn add_to(
        &mut self,
        workspace: i64,
        scope: i64,
        (breadth, grain): (Breadth, Grain),
        at: Timestamp,
        change: impl FnOnce(&mut Counts),
    ) {
        let place = Place { scope, grain, start: grain.start(at) };
        if self.cells.len() >= CELLS_MAX && !self.cells.contains_key(&place) {
            return;
        }
        let cell = self.cells.entry(place).or_insert_with(|| Cell {
            workspace,
            breadth,
            counts: Counts::default(),
            series: None,
            changes: 0,
            written: 0,
            round: 0,
        });
        change(&mut cell.counts);
        cell.changes += 1;
    }

    /// Begins a round of writing: forgets what is written and lies behind, and returns whether anything is to be
    /// written.
    ///
    /// What lies behind is forgotten a round after it was written, so that whoever has read the table meanwhile finds
    /// here what was not in it yet. Should something be counted there after all, that is another cell.
    pub(crate) fn begin_round(&mut self, now: Timestamp) -> bool {
        self.round += 1;
        self.cells.retain(|place, cell| {
            let over = place.start.millis() + place.grain.ms() <= now.millis();
            cell.changes != cell.written || !over
        });
        self.cells.values().any(|cell| cell.changes != cell.written)
    }

    /// Up to `most` rows that this round has not taken yet. `series`: a number that nobody ever had; cells that have none
    /// are given it.
    pub(crate) fn take(&mut self, series: i64, most: usize) -> Vec<Row> {
        let round = self.round;
        let changed =
            self.cells.iter_mut().filter(|(_, it)| it.changes != it.written && it.round != round).take(most);
        let mut rows = Vec::new();
        for (place, cell) in changed {
            cell.round = round;
            let series = *cell.series.get_or_insert(series);
            self.last_series = self.last_series.max(series);
            let kept_until = place.start + place.grain.kept(cell.breadth);
            rows.push(Row {
                place: *place,
                changes: cell.changes,
                workspace: cell.workspace,
                series,
                kept_until: kept_until.millis(),
                counts: cell.counts.clone(),
            });
        }
        rows
    }

    /// Notes that rows are in the table.
    pub(crate) fn note_written(&mut self, rows: &[Row]) {
        for row in rows {
            if let Some(cell) = self.cells.get_mut(&row.place) {
                cell.written = cell.written.max(row.changes);
            }
        }
    }

    /// What is in memory of a scope, for a span.
    pub(crate) fn parts(&self, scope: i64, span: &Span) -> Vec<Part> {
        let grain = span.grain();
        let millis = span.millis();
        let step = usize::try_from(grain.ms()).unwrap_or(1);
        let starts = millis.step_by(step).map(Timestamp::from_millis);
        let cells = starts.filter_map(|start| {
            let cell = self.cells.get(&Place { scope, grain, start })?;
            Some(Part { at: start.millis(), series: cell.series, counts: cell.counts.clone() })
        });
        cells.collect()
    }

    /// What is in memory of parts of a workspace, by their scopes, for a span.
    pub(crate) fn parts_of(&self, workspace: i64, span: &Span) -> FxHashMap<i64, Vec<Part>> {
        let mut found: FxHashMap<i64, Vec<Part>> = FxHashMap::default();
        let wanted = self.cells.iter().filter(|(place, cell)| {
            cell.workspace == workspace
                && cell.breadth == Breadth::Part
                && place.grain == span.grain()
                && span.millis().contains(&place.start.millis())
        });
        for (place, cell) in wanted {
            let part = Part { at: place.start.millis(), series: cell.series, counts: cell.counts.clone() };
            found.entry(place.scope).or_default().push(part);
        }
        found
    }
}

/// Adds up what was read of a scope and what was in memory after that, for each step of a span.
pub(crate) fn steps(span: &Span, read: &[Part], memory: &[Part]) -> Vec<Counts> {
    let mut steps = vec![Counts::default(); span.steps];
    for part in added_up(read, memory) {
        if let Some(step) = span.step_of(Timestamp::from_millis(part.at)) {
            steps[step].merge(&part.counts);
        }
    }
    steps
}

/// The same for all of a span.
pub(crate) fn total(read: &[Part], memory: &[Part]) -> Counts {
    let mut total = Counts::default();
    added_up(read, memory).for_each(|part| total.merge(&part.counts));
    total
}

/// What memory has overrides the row of the same series.
fn added_up<'a>(read: &'a [Part], memory: &'a [Part]) -> impl Iterator<Item = &'a Part> {
    let newer = |row: &&Part| !memory.iter().any(|it| it.at == row.at && it.series == row.series);
    read.iter().filter(newer).chain(memory)
}

/// Reads the counts of a row: numbers, then histograms. `None`: they are damaged.
pub(crate) fn read_counts(numbers: [i64; 5], arrival: &[u8], duration: &[u8]) -> Option<Counts> {
    let [accepted, delivered, failed, attempts, attempts_failed] =
        numbers.map(|number| u64::try_from(number).ok());
    Some(Counts {
        accepted: accepted?,
        delivered: delivered?,
        failed: failed?,
        attempts: attempts?,
        attempts_failed: attempts_failed?,
        arrival: Histogram::decode(arrival)?,
        duration: Histogram::decode(duration)?,
    })
}

impl Counts {
    /// The numbers of a row, in the order of [`COUNT_COLUMNS`].
    pub(crate) fn numbers(&self) -> [i64; 5] {
        [self.accepted, self.delivered, self.failed, self.attempts, self.attempts_failed]
            .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Where something is counted. All that is to mailboxes is counted for its workspace only.
#[derive(Debug, Clone, Copy)]
struct Scopes {
    workspace: i64,
    source: Option<i64>,
    endpoint: Option<i64>,
}

impl Scopes {
    fn of(config: &Config, endpoint: i64) -> Option<Self> {
        let entry = config.endpoints.get(&endpoint)?;
        let parent = entry.parent;
        Some(match entry.endpoint.feed {
            Feed::Source(_) => {
                let workspace = config.sources.get(&parent)?.workspace;
                Self { workspace, source: Some(parent), endpoint: Some(endpoint) }
            }
            Feed::Events => Self { workspace: parent, source: None, endpoint: Some(endpoint) },
            Feed::Mail => Self { workspace: parent, source: None, endpoint: None },
        })
    }
}
