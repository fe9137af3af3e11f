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
    /// All endpoints together share one slot.
    OneSlot,
    /// The key of a publishing call is kept in a later commit than its message.
    KeyKeptLater,
    /// A replay of failures takes along what was delivered meanwhile.
    AcknowledgedReplayed,
    /// The window of a replay ends before its last moment.
    WindowOpenAtEnd,
    /// After a crash the replays that were on the wire are on the list again.
    ReplayRepeated,
    /// Each failure of a degraded webhook gives a notice.
    NoticeRepeated,
    /// A webhook that is made active goes on with what its pause had ended.
    ResumeRecovers,
    /// Failing runs are kept in memory only.
    RunForgotten,
    /// The store is not told when the last client of a source goes.
    ClientKept,
    /// `deliver_pending_on_connect` is on, whatever was asked for.
    PendingAlways,
}
