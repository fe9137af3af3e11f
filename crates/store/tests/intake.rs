//! Repeats at nodes that share a database.

use std::path::Path;
use std::sync::Arc;

use restante_store::Accepted;
use restante_store::conformance::World;
use restante_store::testbed::{Cluster, Database};
use tokio::task::JoinSet;

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_many_at_several_nodes_one_is_the_first() {
        let cluster = Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await;
        let database = Database::new(&cluster).await;
        let mut one = World::open(database.clone()).await;
        let mut nodes = [one.around(database.clone()).await, one.around(database).await];
        let source = one.careful("careful").await;
        for round in 0..5 {
            let mut calls = JoinSet::new();
            for number in 0..20 {
                let world = match number % 3 {
                    0 => &mut one,
                    other => &mut nodes[other - 1],
                };
                let (store, incoming) =
                    (Arc::clone(&world.store), world.bringing(&source, &round.to_string()));
                calls.spawn(async move { store.accept(incoming).await.unwrap() });
            }
            let (mut firsts, mut repeats) = (Vec::new(), Vec::new());
            for accepted in calls.join_all().await {
                match accepted {
                    Accepted::Fresh { id, .. } => firsts.push(id),
                    Accepted::Duplicate { id, .. } => repeats.push(id),
                    refused @ (Accepted::Rejected { .. }
                    | Accepted::RulesChanged(_)
                    | Accepted::UnknownSource
                    | Accepted::CreditsExhausted) => panic!("{refused:?}"),
                }
            }
            assert_eq!((firsts.len(), repeats.len()), (1, 19));
            for id in repeats {
                assert_eq!(one.request(id).await.duplicate_of, Some(firsts[0]));
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rules_hold_at_every_node_once_they_were_set() {
        let cluster = Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await;
        let database = Database::new(&cluster).await;
        let mut one = World::open(database.clone()).await;
        let other = one.around(database).await;
        let source = one.careful("careful").await;
        assert_eq!(other.store.rules(&source.token), one.store.rules(&source.token));
        assert!(other.store.rules(&source.token).is_some());
        other.change_source(source.id, |it| it.dedupe = None).await;
        assert_eq!(one.store.rules(&source.token), None);
    }
}
