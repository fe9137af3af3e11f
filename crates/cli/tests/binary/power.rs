//! What a power cut leaves on the disk.
//!
//! All that a server writes is recorded, and when it syncs. From that the files are put together as a disk may have them
//! after a cut at any moment: what was synced is there; of what was written since, each sector is there or is not. On
//! each such disk the database must open, be whole, and have all that was acknowledged by then.

mod disk;
mod record;

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use restante_core::Timestamp;
use restante_store::backup::{self, Order};
use restante_store::record::Kind;
use restante_store::row::RequestFilter;
use restante_store::sqlite::Sqlite;
use restante_store::{Page, Policy, Start, Store};
use serde_json::json;

use crate::process::{Process, data_directory};
use crate::strace::Strace;
use disk::{Disk, Syncs};
use record::{Event, Record};

const SENDERS: usize = 4;
/// Together more than a checkpoint waits for.
const REQUESTS: usize = 180;
const CUTS: usize = 30;
/// Of the control, which must not be slower than what it controls.
const CONTROL_CUTS: usize = 10;
const FILES: [&str; 2] = ["restante.db", "restante.db-wal"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_was_acknowledged_survives_a_power_cut_at_any_moment() {
    let (data, base, log) = (data_directory(), data_directory(), data_directory());
    let mut server = Process::start(data.path()).await;
    let source = server.call(Method::POST, "/v1/sources", json!({"name": "shop"})).await;
    let intake = format!("/in/{}", source["token"].as_str().unwrap());
    // All is synced that is in its files now, and nobody writes to them.
    server.freeze();
    copy(data.path(), base.path());
    let path = log.path().join("strace");
    let calls = "trace=pwrite64,fdatasync,fsync,ftruncate,write,writev,sendto";
    let arguments = ["-y", "-xx", "-s", "1000000", "-e", calls, "-o", path.to_str().unwrap()];
    let strace = Strace::attach(server.pid(), &arguments);
    server.thaw();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let (caller, intake) = (server.caller(), intake.clone());
            tokio::spawn(async move {
                for number in 0..REQUESTS / SENDERS {
                    let body = Bytes::from(vec![b'a' + sender as u8; 1000 * (number * 7 % 230)]);
                    let (status, _) = caller.ask((Method::POST, &intake), &[], body).await.unwrap();
                    assert_eq!(status, StatusCode::OK);
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    server.kill();
    strace.wait();

    let record = Record::read(&path);
    let acknowledged =
        record.events.iter().filter(|event| matches!(event, Event::Acknowledged { .. })).count();
    assert_eq!(acknowledged, REQUESTS);
    let checkpoints =
        record.events.iter().any(|event| matches!(event, Event::Write { file, .. } if file == FILES[0]));
    assert!(checkpoints, "nothing was copied back from the log");

    let mut seed = u64::from(std::process::id());
    println!("seed {seed}, {} events", record.events.len());
    for cut in cuts(&record, CUTS, &mut seed) {
        let lost = lost(&record, base.path(), (cut, Syncs::All), &mut seed).await;
        assert_eq!(lost.unwrap(), 0, "cut after event {cut}");
    }
    let mut losses = 0;
    for cut in cuts(&record, CONTROL_CUTS, &mut seed) {
        // Where the log is not synced at each commit, something is lost, or nothing can be read.
        losses += usize::from(lost(&record, base.path(), (cut, Syncs::NoneOfLog), &mut seed).await != Ok(0));
    }
    assert!(losses > 0, "a disk that forgets what was synced would pass as well");
}

/// Moments all over the record, each right after an acknowledgement or anywhere.
fn cuts(record: &Record, count: usize, seed: &mut u64) -> Vec<usize> {
    let acknowledged: Vec<usize> = (0..record.events.len())
        .filter(|index| matches!(record.events[*index], Event::Acknowledged { .. }))
        .collect();
    let draw = |index: usize, seed: &mut u64| match index % 2 {
        0 => acknowledged[disk::draw(seed, acknowledged.len())] + 1,
        _ => disk::draw(seed, record.events.len()) + 1,
    };
    (0..count).map(|index| draw(index, seed)).collect()
}

/// How many acknowledged requests are not on a disk whose power was cut before this event; `Err`: it cannot be used.
async fn lost(
    record: &Record,
    base: &Path,
    (cut, syncs): (usize, Syncs),
    seed: &mut u64,
) -> Result<usize, String> {
    let (image, copies) = (data_directory(), data_directory());
    let disk = Disk::after(&record.events[..cut], base, &FILES, syncs);
    disk.write(image.path(), seed);
    let mut expected: BTreeSet<&str> = record.events[..cut].iter().filter_map(Event::acknowledged).collect();
    let store = Sqlite::open(image.path(), Policy::default()).map_err(|fault| fault.to_string())?;
    for id in ids(&store).await.map_err(|error| error.to_string())? {
        expected.remove(id.as_str());
    }
    store.close();
    let (to, now) = (copies.path().join("copy.db"), Timestamp::from_millis(0));
    let order = Order {
        directory: image.path(),
        to: &to,
        replace: false,
        now,
        secret_key: None,
        log_growth_bytes_max: u64::MAX,
    };
    backup::take(&order, &mut |_| {}).map_err(|fault| fault.to_string())?;
    Ok(expected.len())
}

async fn ids(store: &Sqlite) -> Result<Vec<String>, restante_store::Error> {
    let workspaces = store.records(Kind::Workspace, None, None, Page::newest(1)).await?.items;
    let Some(first) = workspaces.first() else { return Ok(Vec::new()) };
    let (mut page, mut found) = (Page::newest(100), Vec::new());
    loop {
        let read = store.requests(first.workspace, RequestFilter::default(), page, first.created_at).await?;
        found.extend(read.items.iter().map(|request| request.id.to_string()));
        match read.next {
            Some(next) => page.start = Start::After(next),
            None => return Ok(found),
        }
    }
}

fn copy(from: &Path, to: &Path) {
    for file in FILES {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}
