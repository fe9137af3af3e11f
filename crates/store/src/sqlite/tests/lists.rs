//! Lists and bulk retries over more rows than one look takes.

use std::time::Duration;

use restante_core::Outcome;
use restante_core::id::ReplayId;

use super::{Rig, id};
use crate::record::{BulkRetryJob, BulkRetryState, Kind};
use crate::row::{LogFilter, LogStatus, RequestFilter};
use crate::sqlite::read::{self, Reader};
use crate::sqlite::scan::{self, Range, Table};
use crate::{BulkRetry, Page, Policy, Start};

#[test]
fn a_long_search_says_where_to_go_on() {
    let mut rig = Rig::new();
    rig.source("token");
    let mut wanted = rig.incoming("token", b"needle");
    wanted.received.method = "PUT".into();
    rig.run(|engine| engine.accept(wanted));
    let incoming: Vec<_> = (0..45_000).map(|_| rig.incoming("token", b"")).collect();
    rig.run(|engine| incoming.into_iter().try_for_each(|one| engine.accept(one).map(drop)));

    let filter = RequestFilter { method: Some("PUT".into()), ..RequestFilter::default() };
    let mut page = Page { total: true, ..Page::newest(10) };
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let mut reader = Reader::new(&rig.engine.conn, Policy::default(), rig.now);
        let paged = reader.requests(rig.workspace, &filter, page).unwrap();
        assert_eq!(paged.total, None, "there is more to count than a read may take");
        found.extend(paged.items);
        pages += 1;
        match paged.next {
            Some(next) => page.start = Start::After(next),
            None => break,
        }
    }
    assert_eq!((found.len(), pages), (1, 3));
    // And towards newer ones.
    page.start = Start::Before(found[0].id.key());
    let mut reader = Reader::new(&rig.engine.conn, Policy::default(), rig.now);
    let newer = reader.requests(rig.workspace, &filter, page).unwrap();
    assert!(newer.items.is_empty() && newer.prev.is_some());
}

#[test]
fn the_keys_of_many_scopes_come_whole_and_in_order() {
    let mut rig = Rig::new();
    let tokens: Vec<String> = (0..40).map(|index| format!("token {index}")).collect();
    let scopes: Vec<i64> = tokens
        .iter()
        .map(|token| {
            rig.source(token);
            rig.engine.conn.query_row("SELECT max(row) FROM record", [], |row| row.get(0)).unwrap()
        })
        .collect();
    // One source after the other, then one has most, then all in turn; the last lie behind the index.
    let order = (0..1_000).map(|n| n / 25).chain((0..1_000).map(|n| if n % 7 == 0 { n % 40 } else { 3 }));
    for (count, source) in order.chain((0..1_000).map(|n| n % 40)).enumerate() {
        rig.accept(&tokens[source]);
        if count == 2_800 {
            let last = rig.engine.last_key;
            rig.run(|engine| engine.history.flush(&engine.conn, last, usize::MAX));
        }
    }
    let all = scan::keys(&rig.engine.conn, Table::Message, None, Range::of_times(None, None, 0), 10_000);
    let mut wanted = all.unwrap();
    for newest_first in [true, false] {
        let mut range = Range { newest_first, ..Range::of_times(None, None, 0) };
        let mut found = Vec::new();
        loop {
            let keys = scan::keys(&rig.engine.conn, Table::Message, Some(&scopes), range, 256).unwrap();
            let Some(last) = keys.last() else { break };
            range = range.behind(*last);
            found.extend(keys);
        }
        assert_eq!(found, wanted);
        wanted.reverse();
    }
}

#[test]
fn a_log_of_many_deliveries_in_one_moment_comes_to_an_end() {
    let mut rig = Rig::new();
    let webhook = rig.webhook();
    rig.publish(1);
    let running = rig.tray.take().remove(0);
    rig.engine.attach(None);
    rig.publish(25_000);
    // Keys run ahead of the clock by more than one look covers.
    rig.now = rig.now - Duration::from_secs(3600);
    rig.publish(25_000);
    let filter = LogFilter { status: Some(LogStatus::Pending), ..LogFilter::default() };
    let (mut lines, mut behind, mut pages) = (Vec::new(), None, 0);
    loop {
        let mut reader = Reader::new(&rig.engine.conn, Policy::default(), rig.now);
        let (more, next) = reader.log(rig.workspace, id(&webhook), filter, behind, 10).unwrap().unwrap();
        assert!(next.is_none_or(|next| behind.is_none_or(|behind| next < behind)), "each page gets further");
        lines.extend(more);
        pages += 1;
        match next {
            Some(_) => behind = next,
            None => break,
        }
    }
    assert_eq!((lines.len(), lines[0].delivery), (1, running.lease.delivery));
    assert!(pages > 1, "one look does not cover all");
}

#[test]
fn a_bulk_retry_looks_at_a_bounded_number_at_once() {
    let mut rig = Rig::new();
    let source = rig.source("token");
    let destination = rig.destination(&source);
    for index in 0..2500 {
        let parcel = rig.send("token");
        rig.settle(&parcel, Outcome::of_status(if index == 2000 { 200 } else { 500 }, None));
    }
    let bulk = BulkRetry { since: rig.now, until: rig.now, state: "delivered".into() };
    let (conn, workspace) = (&rig.engine.conn, rig.workspace);
    let counted = crate::sqlite::bulk::count_bulk_retry(conn, workspace, id(&destination), &bulk).unwrap();
    assert_eq!(counted, 1);
    let job = BulkRetryJob {
        bulk,
        cursor: -1,
        end: i64::MAX,
        total: 1,
        created: 0,
        state: BulkRetryState::Running,
    };
    let body = serde_json::to_string(&job).unwrap();
    let job: ReplayId = id(&rig.create(Kind::BulkRetry, Some(destination.uuid), None, None, body));
    let now = rig.now;
    let mut created = Vec::new();
    while rig.run(|engine| engine.advance_bulk_retry(job, now, 100)) {
        created.push(rig.tray.take().len());
    }
    assert_eq!(created, [0, 1], "in three transactions");
    let record = read::record(&rig.engine.conn, Kind::BulkRetry, rig.workspace, job.uuid()).unwrap().unwrap();
    let job: BulkRetryJob = serde_json::from_str(&record.body).unwrap();
    assert_eq!((job.created, job.state), (1, BulkRetryState::Done));
}
