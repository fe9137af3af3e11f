//! Bugs that are planted on purpose: a checker that finds none of them would prove nothing.

/// A bug, put between the world and the parts it drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A publisher is told yes although the commit then fails.
    AckBeforeCommit,
    /// A late settle passes for the running attempt's.
    NoFence,
    /// Each wait is that of the attempt before.
    RetryEarly,
    /// An attempt is sent, and its claim committed later, if at all.
    SendBeforeCommit,
    /// A cancel is stored, but what waits for its turn is not taken back.
    CancelLeavesQueue,
    /// After a crash nobody settles the leases of the node that died.
    NoTakeOver,
    /// The connector dials whatever a name resolves to.
    NoGuard,
    /// What the receiver asks for in `Retry-After` is not passed on.
    RetryAfterIgnored,
    /// All destinations together share one slot.
    OneSlot,
}
