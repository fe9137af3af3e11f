//! Command-line clients of nodes that share a database.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::Duration;

use restante_core::State;
use restante_core::delivery::{WaitingFor, waiting_for};
use restante_core::endpoint::{DestinationKind, EndpointId};
use restante_core::id::{DeliveryId, DestinationId};
use restante_store::conformance::{Origin, World, ok};
use restante_store::testbed::{Cluster, Database};
use restante_store::{Claimed, Withdraw};

/// Much less than it takes until a node looks at all that is due.
const AT_ONCE: Duration = Duration::from_secs(4);

/// A source with one destination for clients, of which one attempt may be in flight over all nodes.
async fn tunnel(world: &mut World, pending: bool) -> (Origin, DestinationId) {
    let source = world.source_with("tunnel", |it| it.deliver_pending_on_connect = pending).await;
    let narrow = |it: &mut restante_core::endpoint::Destination| {
        (it.kind, it.max_in_flight) = (DestinationKind::Cli, 1);
    };
    (source.clone(), world.destination_with(&source, narrow).await)
}

/// Claims on a node as its dispatcher does until it got something, and takes it.
async fn claim_some(world: &World) -> Vec<DeliveryId> {
    let claiming = async {
        while world.claim().await.count == 0 {
            let _ = tokio::time::timeout(Duration::from_millis(100), world.store.due().notified()).await;
        }
    };
    tokio::time::timeout(AT_ONCE, claiming).await.unwrap();
    world.tray.take().iter().map(|parcel| parcel.lease.delivery).collect()
}

async fn waits_for(world: &World, delivery: DeliveryId) -> Option<WaitingFor> {
    let shown = world.delivery(delivery).await;
    waiting_for(&shown.life, shown.held_back, world.now)
}

async fn delivery_of(world: &mut World, source: &Origin) -> DeliveryId {
    let request = world.receive(source).await;
    world.request(request).await.deliveries[0].id
}

mod on_postgres {
    use super::*;

    async fn cluster() -> Cluster {
        Cluster::shared(Path::new(env!("CARGO_TARGET_TMPDIR"))).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_the_node_that_holds_a_client_claims() {
        let (mut bare, mut holder) = Database::nodes(&cluster().await).await;
        let (source, _) = tunnel(&mut bare, true).await;
        let old = delivery_of(&mut bare, &source).await;
        holder.connect(&source).await;
        assert_eq!(claim_some(&holder).await, [old]);
        assert_eq!(waits_for(&bare, old).await, None, "it is being sent");
        let parcel = holder.find(old).await.unwrap();
        assert_eq!(parcel.life.state, State::Sending);
        for _ in 0..3 {
            let next = delivery_of(&mut bare, &source).await;
            assert_eq!(waits_for(&bare, next).await, Some(WaitingFor::Client));
            assert_eq!(waits_for(&holder, next).await, Some(WaitingFor::Slot));
            assert_eq!(bare.claim().await, Claimed::default());
            assert_eq!(claim_some(&holder).await, [next]);
        }
        let born = holder.send(&source).await;
        holder.settle(&born, ok()).await;
        assert_eq!(bare.state(born.lease.delivery).await, State::Delivered);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_one_node_gives_back_another_takes_at_once() {
        let (mut one, other) = Database::nodes(&cluster().await).await;
        let (source, destination) = tunnel(&mut one, true).await;
        one.connect(&source).await;
        let parcel = one.send(&source).await;
        // Another node has what comes later, and looks no further.
        other.connect(&source).await;
        one.leave(&source).await;
        let withdrawals = one.tray.take_withdrawals();
        assert_eq!(withdrawals[0], Withdraw::Endpoint(EndpointId::Destination(destination)));
        one.release(parcel.lease).await;
        assert_eq!(claim_some(&other).await, [parcel.lease.delivery]);
        assert_eq!(one.claim().await, Claimed::default());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_setting_changed_on_one_node_acts_at_once_on_another() {
        let (mut one, holder) = Database::nodes(&cluster().await).await;
        let (source, destination) = tunnel(&mut one, false).await;
        let old = delivery_of(&mut one, &source).await;
        let mut holder = holder;
        holder.pass(1000);
        holder.connect(&source).await;
        assert_eq!(holder.claim().await, Claimed::default());
        one.change_source(source.id, |it| it.deliver_pending_on_connect = true).await;
        assert_eq!(claim_some(&holder).await, [old]);
        one.change_source(source.id, |it| it.deliver_pending_on_connect = false).await;
        let withdrawals = holder.tray.take_withdrawals();
        assert_eq!(withdrawals, [Withdraw::Endpoint(EndpointId::Destination(destination))]);
    }
}
