//! The promises of the store, kept by PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use restante_store::conformance::{Home, World};
use restante_store::postgres::{self, Postgres};
use restante_store::testbed::Cluster;
use restante_store::testbed::client::Client;
use restante_store::{Policy, Store};

/// A database of its own on the server that all tests share.
struct Database {
    url: String,
    open: Mutex<Option<Arc<Postgres>>>,
    _cluster: Cluster,
}

impl Database {
    async fn new() -> Self {
        let cluster = Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await;
        Self { url: cluster.database().await, open: Mutex::default(), _cluster: cluster }
    }
}

#[async_trait]
impl Home for Database {
    async fn open(&self, policy: Policy) -> Arc<dyn Store> {
        let store = Arc::new(Postgres::open(&self.url, postgres::trust_nobody(), policy).await.unwrap());
        *self.open.lock().unwrap() = Some(Arc::clone(&store));
        store
    }

    async fn crash(&self, store: Arc<dyn Store>) {
        // What the process had under way is done or was not begun.
        store.health().await.unwrap();
        drop(store);
        self.open.lock().unwrap().take().unwrap().abandon();
        // Time passes: its leases have ended.
        let mut client = Client::connect(&self.url).await.unwrap();
        client.query("UPDATE node SET seen_at = seen_at - interval '1 hour'").await.unwrap();
    }
}

macro_rules! on_postgres {
    ($($module:ident { $($promise:ident)* })*) => {
        mod on_postgres {
            $(mod $module {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $promise() {
                    let world = crate::World::open(crate::Database::new().await).await;
                    restante_store::conformance::$module::$promise(world).await;
                })*
            })*
        }
    };
}

restante_store::for_each_promise!(on_postgres);

/// What nodes agree on, at the database itself.
mod on_postgres_alone {
    use restante_store::Policy;
    use restante_store::conformance::{Home, World};
    use restante_store::testbed::client::Client;

    /// Plans are those of tables whose sizes the database knows, too.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_read_looks_through_a_table_that_is_full() {
        let database = super::Database::new().await;
        let url = database.url.clone();
        let mut world = World::open(database).await;
        let subjects = world.fill(300).await;
        let mut client = Client::connect(&url).await.unwrap();
        client.query("VACUUM ANALYZE").await.unwrap();
        world.read_everything(&subjects).await;
    }

    /// A node that lost the answer to a COMMIT takes the transaction's place in `mark`, if it is free, and tries again.
    /// What was sent before and comes late must not take effect besides.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_transaction_whose_place_is_taken_cannot_begin() {
        let database = super::Database::new().await;
        let _store = database.open(Policy::default()).await;
        let mut client = Client::connect(&database.url).await.unwrap();
        client
            .query("INSERT INTO mark (node, lane, seq, void) SELECT id, 3, 7, true FROM node")
            .await
            .unwrap();
        let enter = |seq: u32| {
            format!("SELECT restante_enter((SELECT id FROM node), 3, {seq}, (SELECT value FROM epoch))")
        };
        let refused = client.query(&enter(7)).await.unwrap_err();
        assert!(refused.to_string().contains("mark_pkey"), "{refused}");
        client.query(&enter(8)).await.unwrap();
    }
}
