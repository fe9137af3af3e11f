//! A data directory that becomes a PostgreSQL: nothing is lost, and all goes on as it would have.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "transfer/fill.rs"]
mod fill;
#[path = "transfer/seen.rs"]
mod seen;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use restante_core::Timestamp;
use restante_store::conformance::{Home, World};
use restante_store::postgres::{Postgres, trust_nobody};
use restante_store::sqlite::Sqlite;
use restante_store::{Policy, Store};
use tempfile::TempDir;

/// A data directory. A crash leaves a copy of its files as they are while the process still runs.
#[derive(Clone)]
struct Directory(Arc<Mutex<TempDir>>);

impl Directory {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(tempfile::tempdir().unwrap())))
    }

    /// What a crash would leave now.
    async fn left(&self, store: &dyn Store) -> TempDir {
        // The writer may still be emptying its log: copied one after the other, the files would be of two moments.
        store.release(Vec::new(), Timestamp::from_millis(0)).await.unwrap();
        let left = tempfile::tempdir().unwrap();
        for file in ["restante.db", "restante.db-wal"] {
            fs::copy(self.0.lock().unwrap().path().join(file), left.path().join(file)).unwrap();
        }
        left
    }
}

#[async_trait]
impl Home for Directory {
    async fn open(&self, policy: Policy) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(self.0.lock().unwrap().path(), policy).unwrap())
    }

    async fn crash(&self, store: Arc<dyn Store>) {
        let left = self.left(&*store).await;
        drop(store);
        *self.0.lock().unwrap() = left;
    }
}

/// A database that somebody else has filled.
struct Database(String);

#[async_trait]
impl Home for Database {
    async fn open(&self, policy: Policy) -> Arc<dyn Store> {
        Arc::new(Postgres::open(&self.0, trust_nobody(), policy).await.unwrap())
    }

    async fn crash(&self, _: Arc<dyn Store>) {
        unreachable!("no node crashes here");
    }
}

/// What is in the files of a data directory.
fn files(directory: &Path) -> Vec<Vec<u8>> {
    ["restante.db", "restante.db-wal"].map(|file| fs::read(directory.join(file)).unwrap()).into()
}

mod on_postgres {
    use restante_store::testbed::Cluster;
    use restante_store::testbed::client::Client;
    use restante_store::transfer::{Fault, Progress, transfer};

    use super::*;

    async fn cluster() -> Cluster {
        Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn everything_is_there_and_goes_on_as_it_would_have() {
        let cluster = cluster().await;
        let url = cluster.database().await;
        let home = Directory::new();
        let mut here = World::open(home.clone()).await;
        let filled = fill::fill(&mut here).await;
        let left = home.left(&*here.store).await;
        let bytes = files(left.path());

        let mut told: Vec<Progress> = Vec::new();
        let report = transfer(left.path(), &url, trust_nobody(), |it| told.push(it)).await.unwrap();
        assert!(files(left.path()) == bytes, "the data directory is as it was");
        assert_eq!(report.in_flight, filled.in_flight);
        for count in &report.counts {
            assert!(count.read > 0, "{} was not tried", count.table);
            assert_eq!(count.read, count.written, "{}", count.table);
            assert!(told.iter().any(|it| it.table == count.table && it.done == count.read));
        }

        let mut client = Client::connect(&url).await.unwrap();
        let running = client.query("SELECT running FROM open_job ORDER BY record").await.unwrap();
        assert_eq!(running, [[Some("2".to_owned())], [Some("0".to_owned())]], "a replay and a recovery");

        let mut there = here.around(Database(url)).await;
        let (wanted, found) = (seen::all(&here, &filled).await, seen::all(&there, &filled).await);
        assert!(wanted.len() > 100, "there is something to be compared");
        for (wanted, found) in wanted.iter().zip(&found) {
            assert_eq!(wanted, found);
        }
        assert_eq!(wanted.len(), found.len());

        let mut here = here.crash().await;
        let (wanted, found) = (fill::go_on(&mut here, &filled).await, fill::go_on(&mut there, &filled).await);
        for (wanted, found) in wanted.iter().zip(&found) {
            assert_eq!(wanted, found);
        }
        assert_eq!(wanted.len(), found.len());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_interrupted_transfer_leaves_nothing_and_is_repeated() {
        let cluster = cluster().await;
        let url = cluster.database().await;
        let home = Directory::new();
        let mut world = World::open(home.clone()).await;
        fill::fill(&mut world).await;
        let left = home.left(&*world.store).await;

        let mut client = Client::connect(&url).await.unwrap();
        // The connection ends in the middle of it.
        let killing = async {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() \
                 AND pid <> pg_backend_pid() AND query LIKE 'COPY work %'";
            loop {
                client.query(sql).await.unwrap();
            }
        };
        // The lock keeps the transfer where it is until it is ended.
        let mut tables = Client::connect(&url).await.unwrap();
        Postgres::open(&url, trust_nobody(), Policy::default()).await.unwrap().close().await;
        tables.query("BEGIN; LOCK TABLE work").await.unwrap();
        let mut told = Vec::new();
        let moved = tokio::select! {
            moved = transfer(left.path(), &url, trust_nobody(), |it| told.push(it.table)) => moved,
            never = killing => never,
        };
        tables.query("ROLLBACK").await.unwrap();
        assert!(matches!(moved, Err(Fault::Target(_))), "{moved:?}");
        assert_eq!(told.last(), Some(&"delivery"), "the next table was under way");
        for table in ["record", "message", "node"] {
            let rows = tables.query(&format!("SELECT count(*) FROM {table}")).await.unwrap();
            assert_eq!(rows[0][0].as_deref(), Some("0"), "{table}");
        }
        transfer(left.path(), &url, trust_nobody(), |_| {}).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_directory_in_use_and_a_database_in_use_are_refused() {
        let cluster = cluster().await;
        let url = cluster.database().await;
        let home = Directory::new();
        let world = World::open(home.clone()).await;
        let path = home.0.lock().unwrap().path().to_owned();
        let moved = transfer(&path, &url, trust_nobody(), |_| {}).await;
        assert!(matches!(moved, Err(Fault::Source(_))), "{moved:?}");

        let left = home.left(&*world.store).await;
        let node = Postgres::open(&url, trust_nobody(), Policy::default()).await.unwrap();
        let moved = transfer(left.path(), &url, trust_nobody(), |_| {}).await;
        assert!(matches!(moved, Err(Fault::Busy)), "{moved:?}");
        node.close().await;
        transfer(left.path(), &url, trust_nobody(), |_| {}).await.unwrap();
        let moved = transfer(left.path(), &url, trust_nobody(), |_| {}).await;
        assert!(matches!(moved, Err(Fault::NotEmpty)), "{moved:?}");
    }
}
