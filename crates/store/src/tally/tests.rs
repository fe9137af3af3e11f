use std::time::Duration;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

/// An accepted message of the workspace with this row.
fn accept(tally: &mut Tally, workspace: i64, at: Timestamp) {
    tally.count(&Config::default(), &[Counted::Accepted { workspace, source: None, at }]);
}

/// What a round writes, in one piece: series and messages by scope, step and start.
fn write(tally: &mut Tally, now: Timestamp, series: i64) -> Vec<(i64, i64, i64, i64, u64)> {
    tally.begin_round(now);
    let rows = tally.take(series, usize::MAX);
    tally.note_written(&rows);
    let mut told: Vec<_> = rows
        .iter()
        .map(|row| (row.scope(), row.step(), row.at() - at(0).millis(), row.series, row.counts.accepted))
        .collect();
    told.sort_unstable();
    told
}

#[test]
fn what_changed_is_written_and_all_of_it() {
    let mut tally = Tally::default();
    accept(&mut tally, 1, at(0));
    accept(&mut tally, 1, at(59_999));
    accept(&mut tally, 2, at(60_000));
    let all = [(1, 60, 0, 7, 2), (1, 600, 0, 7, 2), (2, 60, 60_000, 7, 1), (2, 600, 0, 7, 1)];
    assert_eq!(write(&mut tally, at(60_000), 7), all);
    assert_eq!(write(&mut tally, at(60_000), 8), []);
    assert!(!tally.begin_round(at(60_000)), "there is nothing to write");
    accept(&mut tally, 2, at(61_000));
    let changed = [(2, 60, 60_000, 7, 2), (2, 600, 0, 7, 2)];
    assert_eq!(write(&mut tally, at(61_000), 9), changed, "by the series that began it");
}

#[test]
fn what_is_counted_behind_what_was_forgotten_is_another_series() {
    let mut tally = Tally::default();
    accept(&mut tally, 1, at(0));
    assert_eq!(write(&mut tally, at(60_000), 7), [(1, 60, 0, 7, 1), (1, 600, 0, 7, 1)]);
    assert_eq!(write(&mut tally, at(60_000), 8), [], "now it is forgotten");
    accept(&mut tally, 1, at(1));
    assert_eq!(write(&mut tally, at(60_000), 9), [(1, 60, 0, 9, 1), (1, 600, 0, 7, 2)]);
}

#[test]
fn what_could_not_be_written_is_kept_under_its_series() {
    let mut tally = Tally::default();
    accept(&mut tally, 1, at(0));
    tally.begin_round(at(0));
    assert_eq!(tally.take(7, usize::MAX).len(), 2);
    let later = at(0) + MINUTE * 60;
    assert_eq!(write(&mut tally, later, 8), [(1, 60, 0, 7, 1), (1, 600, 0, 7, 1)]);
    assert_eq!(tally.last_series, 7);
}

#[test]
fn what_is_counted_while_it_is_written_is_written_next_time() {
    let mut tally = Tally::default();
    accept(&mut tally, 1, at(0));
    tally.begin_round(at(0));
    let rows = tally.take(7, usize::MAX);
    accept(&mut tally, 1, at(0));
    tally.note_written(&rows);
    assert!(tally.take(7, usize::MAX).is_empty(), "a round takes each once");
    assert_eq!(write(&mut tally, at(0) + MINUTE, 8), [(1, 60, 0, 7, 2), (1, 600, 0, 7, 2)]);
}

#[test]
fn a_round_in_pieces_takes_everything_once() {
    let mut tally = Tally::default();
    (1..=50).for_each(|workspace| accept(&mut tally, workspace, at(0)));
    assert!(tally.begin_round(at(0)));
    let mut taken = Vec::new();
    loop {
        let rows = tally.take(7, 7);
        if rows.is_empty() {
            break;
        }
        tally.note_written(&rows);
        (1..=50).for_each(|workspace| accept(&mut tally, workspace, at(0)));
        taken.extend(rows.iter().map(|row| (row.scope(), row.step())));
    }
    taken.sort_unstable();
    let all: Vec<_> = (1..=50).flat_map(|workspace| [(workspace, 60), (workspace, 600)]).collect();
    assert_eq!(taken, all);
}

#[test]
fn memory_is_bounded() {
    let mut tally = Tally::default();
    (0..100_000).for_each(|workspace| accept(&mut tally, workspace, at(0)));
    assert_eq!(tally.cells.len(), CELLS_MAX);
    accept(&mut tally, 5, at(0));
    tally.begin_round(at(0));
    let rows = tally.take(1, usize::MAX);
    let of_five = rows.iter().find(|row| row.scope() == 5 && row.step() == 60).unwrap();
    assert_eq!(of_five.counts.accepted, 2, "what is there goes on");
}

#[test]
fn memory_stands_for_its_own_row_and_no_other() {
    let part = |minute: i64, series: Option<i64>, accepted: u64| Part {
        at: at(0).millis() + minute * 60_000,
        series,
        counts: Counts { accepted, ..Counts::default() },
    };
    let read = [part(0, Some(1), 10), part(0, Some(2), 20), part(1, Some(2), 40), part(9, Some(2), 1000)];
    let memory = [part(0, Some(2), 21), part(1, None, 300), part(2, Some(3), 7)];
    let span = Span { since: at(0), step_ms: 60_000, steps: 3 };
    let accepted: Vec<u64> = steps(&span, &read, &memory).iter().map(|it| it.accepted).collect();
    assert_eq!(accepted, [31, 340, 7]);
    assert_eq!(total(&read[..3], &memory).accepted, 378);
}

#[test]
fn what_is_in_memory_is_found_by_its_scope() {
    let mut tally = Tally::default();
    let source = Some(3);
    tally.count(&Config::default(), &[Counted::Accepted { workspace: 1, source, at: at(61_000) }]);
    let minutes = Span { since: at(0), step_ms: 60_000, steps: 10 };
    let tens = Span { since: at(0), step_ms: 600_000, steps: 1 };
    let starts = |parts: Vec<Part>| parts.iter().map(|it| it.at - at(0).millis()).collect::<Vec<_>>();
    assert_eq!(starts(tally.parts(1, &minutes)), [60_000]);
    assert_eq!(starts(tally.parts(1, &tens)), [0]);
    assert!(tally.parts(3, &minutes).is_empty());
    assert_eq!(starts(tally.parts(3, &tens)), [0]);
    assert_eq!(tally.parts_of(1, &tens).into_keys().collect::<Vec<_>>(), [3]);
    assert!(tally.parts_of(2, &tens).is_empty());
    assert!(tally.parts_of(1, &Span { since: at(600_000), ..tens }).is_empty());
}
