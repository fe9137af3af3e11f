//! Bugs of many nodes, planted on purpose: a checker that finds none of them would prove nothing.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A settle passes for that of any lease that the delivery has now.
    NoFence,
    /// A node dials whatever it holds, however long the database has not heard of it.
    NoHeartbeatRule,
    /// A claim reads what is due without locking it.
    ClaimUnlocked,
    /// A lease ends when its node has lapsed, whatever its attempt may still do.
    TakeOverEarly,
    /// A cancel is answered when it is committed, whoever holds the delivery.
    CancelDoesNotWait,
    /// Nodes take what an endpoint allows, each for itself.
    SlotsIgnored,
    /// A COMMIT whose answer was lost counts as failed, and its transaction is made again.
    UnknownIsNo,
    /// A transaction does not look whether the configuration is the one the node knows.
    NoEpochCheck,
    /// A withdrawal of what the node does not know yet is forgotten.
    WithdrawalForgotten,
    /// After a lapse a node goes on with the slots that it had.
    SlotsKept,
    /// An endpoint with a rate goes to the next node without a pause.
    RateHandedOver,
    /// Slots are shared out without locking the endpoint.
    SlotsUnlocked,
    /// A node that may not dial goes on leasing.
    LeasesWhileLapsed,
}
