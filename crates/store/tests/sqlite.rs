//! The promises of the store, kept by the embedded database.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use restante_core::Timestamp;
use restante_store::conformance::{Home, World};
use restante_store::sqlite::Sqlite;
use restante_store::{Policy, Store};
use tempfile::TempDir;

/// A data directory. A crash leaves a copy of its files as they are while the process still runs: nothing that a
/// clean end would add is in them.
struct Directory(Mutex<TempDir>);

impl Directory {
    fn new() -> Self {
        Self(Mutex::new(tempfile::tempdir().unwrap()))
    }
}

#[async_trait]
impl Home for Directory {
    async fn open(&self, policy: Policy) -> Arc<dyn Store> {
        Arc::new(Sqlite::open(self.0.lock().unwrap().path(), policy).unwrap())
    }

    async fn crash(&self, store: Arc<dyn Store>) {
        // The writer may still be emptying its log: copied one after the other, the files would be of two moments.
        store.release(Vec::new(), Timestamp::from_millis(0)).await.unwrap();
        let left = tempfile::tempdir().unwrap();
        for file in ["restante.db", "restante.db-wal"] {
            fs::copy(self.0.lock().unwrap().path().join(file), left.path().join(file)).unwrap();
        }
        drop(store);
        *self.0.lock().unwrap() = left;
    }
}

macro_rules! on_sqlite {
    ($($module:ident { $($promise:ident)* })*) => {
        $(mod $module {
            $(#[tokio::test]
            async fn $promise() {
                let world = super::World::open(super::Directory::new()).await;
                restante_store::conformance::$module::$promise(world).await;
            })*
        })*

        const NAMES: &[(&str, &[&str])] = &[$((stringify!($module), &[$(stringify!($promise)),*])),*];
    };
}

restante_store::for_each_promise!(on_sqlite);

#[test]
fn every_promise_that_is_written_is_run() {
    let mut listed: usize = 0;
    for (module, promises) in NAMES {
        let path = format!("{}/src/conformance/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let written = fs::read_to_string(path).unwrap().matches("\npub async fn ").count();
        assert_eq!(written, promises.len(), "{module}");
        listed += 1;
    }
    let files = fs::read_dir(format!("{}/src/conformance", env!("CARGO_MANIFEST_DIR"))).unwrap().count();
    assert_eq!(files - ["tray.rs", "world.rs", "world"].len(), listed);
}
