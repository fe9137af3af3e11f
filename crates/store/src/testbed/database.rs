//! One database that several nodes work on.

use std::sync::Arc;

use async_trait::async_trait;

use crate::conformance::{Home, World};
use crate::postgres::{Postgres, trust_nobody};
use crate::{Policy, Store};

use super::Cluster;

/// Where each store that is opened is one more node.
#[derive(Clone, Debug)]
pub struct Database(String);

impl Database {
    /// A new one, without tables.
    pub async fn new(cluster: &Cluster) -> Self {
        Self(cluster.database().await)
    }

    /// Two nodes of a new one.
    pub async fn nodes(cluster: &Cluster) -> (World, World) {
        let database = Self::new(cluster).await;
        let one = World::open(database.clone()).await;
        let other = one.around(database).await;
        (one, other)
    }
}

#[async_trait]
impl Home for Database {
    async fn open(&self, policy: Policy) -> Arc<dyn Store> {
        Arc::new(Postgres::open(&self.0, trust_nobody(), policy).await.unwrap())
    }

    async fn crash(&self, _: Arc<dyn Store>) {
        unreachable!("no node crashes here");
    }
}
