//! What may happen, and how often.

use proptest::prelude::*;
use restante_core::outcome::Failure;
use restante_core::{FailureKind, Outcome};

/// One thing that somebody does. Indexes are taken modulo what there is.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Accept(usize),
    Claim(usize),
    /// Of the held lease with this index.
    Settle(usize, Ends),
    Release(usize),
    /// Of the delivery with this index.
    Cancel(usize),
    Retry(usize),
    /// Of the request with this index.
    Replay(usize),
    Erase(usize),
    Pause(usize, bool),
    Narrow(usize, u32),
    DeleteDestination(usize),
    NewDestination(usize),
    /// So many events.
    Publish(usize),
    PauseWebhook(usize, bool),
    /// To another host.
    MoveWebhook(usize, usize),
    DeleteWebhook(usize),
    NewWebhook,
    /// What failed in the last hours.
    ReplayWebhook(usize, u64),
    /// Of the webhook and the delivery with these indexes.
    ReplayDelivery(usize, usize),
    /// What was accepted in the last hours; `None`: what was skipped since the last pause.
    Recover(usize, Option<u64>),
    Prune(usize),
    Grant(i64),
    Attach(bool),
    Crash,
    /// A transaction that did the operation and then failed.
    Fails(Box<Op>),
    Clock(i64),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ends {
    Delivered,
    Failed,
    Lost,
}

impl Ends {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Delivered => Outcome::of_status(200, None),
            Self::Failed => {
                let message = "planted".into();
                Outcome::Failed(Failure {
                    kind: FailureKind::Connect,
                    status: None,
                    enhanced: None,
                    message,
                    retry_after: None,
                })
            }
            Self::Lost => Outcome::Lost,
        }
    }
}

pub(super) fn op() -> impl Strategy<Value = Op> {
    let ends = prop_oneof![2 => Just(Ends::Delivered), 3 => Just(Ends::Failed), 2 => Just(Ends::Lost)];
    let index = 0usize..40;
    let simple = prop_oneof![
        8 => (0usize..2).prop_map(Op::Accept),
        6 => (1usize..8).prop_map(Op::Claim),
        9 => (index.clone(), ends).prop_map(|(lease, ends)| Op::Settle(lease, ends)),
        2 => index.clone().prop_map(Op::Release),
        2 => index.clone().prop_map(Op::Cancel),
        2 => index.clone().prop_map(Op::Retry),
        1 => index.clone().prop_map(Op::Replay),
        1 => index.clone().prop_map(Op::Erase),
        2 => (0usize..6, any::<bool>()).prop_map(|(destination, paused)| Op::Pause(destination, paused)),
        3 => (0usize..9, 1u32..5).prop_map(|(endpoint, leases)| Op::Narrow(endpoint, leases)),
        1 => (0usize..6).prop_map(Op::DeleteDestination),
        1 => (0usize..2).prop_map(Op::NewDestination),
        8 => (1usize..4).prop_map(Op::Publish),
        3 => (0usize..3, any::<bool>()).prop_map(|(webhook, paused)| Op::PauseWebhook(webhook, paused)),
        1 => (0usize..3, 0usize..3).prop_map(|(webhook, host)| Op::MoveWebhook(webhook, host)),
        1 => (0usize..3).prop_map(Op::DeleteWebhook),
        1 => Just(Op::NewWebhook),
        3 => (0usize..3, 0u64..100).prop_map(|(webhook, hours)| Op::ReplayWebhook(webhook, hours)),
        3 => (0usize..3, index.clone()).prop_map(|(webhook, delivery)| Op::ReplayDelivery(webhook, delivery)),
        3 => (0usize..3, proptest::option::of(0u64..100))
            .prop_map(|(webhook, hours)| Op::Recover(webhook, hours)),
        2 => (1usize..20).prop_map(Op::Prune),
        1 => (-5i64..20).prop_map(Op::Grant),
        1 => any::<bool>().prop_map(Op::Attach),
        1 => Just(Op::Crash),
        4 => prop_oneof![Just(1), Just(60_000), Just(600_000), Just(20 * 3_600_000)].prop_map(Op::Clock),
        1 => (-3_600_000i64..0).prop_map(Op::Clock),
    ];
    let inner = prop_oneof![
        (0usize..2).prop_map(Op::Accept),
        (1usize..8).prop_map(Op::Claim),
        index.clone().prop_map(|lease| Op::Settle(lease, Ends::Failed)),
        index.clone().prop_map(Op::Release),
        index.clone().prop_map(Op::Cancel),
        index.clone().prop_map(Op::Retry),
        index.prop_map(Op::Erase),
        (0usize..6).prop_map(Op::DeleteDestination),
        (1usize..20).prop_map(Op::Prune),
        Just(Op::Publish(2)),
        (0usize..3).prop_map(Op::DeleteWebhook),
        (0usize..3).prop_map(|webhook| Op::ReplayWebhook(webhook, 48)),
        (0usize..3).prop_map(|webhook| Op::Recover(webhook, None)),
        Just(Op::Grant(3)),
    ];
    prop_oneof![12 => simple, 1 => inner.prop_map(|op| Op::Fails(Box::new(op)))]
}
