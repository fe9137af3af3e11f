use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use restante_core::Timestamp;
use restante_core::id::SourceId;
use restante_sdk::tunnel::{RequestFrame, ResultFrame, ToServer};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc};

use super::{Protocol, Seat};

/// One connected client.
pub(super) struct Client {
    /// Among all of this node.
    pub(super) number: u64,
    pub(super) source: SourceId,
    /// The source's token that it has logged in with. Once that is another, it has to go.
    pub(super) token: String,
    /// When it connected.
    pub(super) since: Timestamp,
    pub(super) protocol: Protocol,
    commands: mpsc::UnboundedSender<Command>,
    waiting: Mutex<Waiting>,
    next: AtomicI64,
    /// When it was last heard, by the even clock, in milliseconds.
    heard_ms: AtomicU64,
    /// How often it was heard.
    words: AtomicU64,
    spoke: Notify,
    pub(super) cut: Notify,
    /// It is to be looked whether its source still has its token.
    pub(super) look: Notify,
    /// It has not begun what it was handed over: it may be asleep, or gone.
    pub(super) doubt: Notify,
}

/// What the writer of a session is to do.
pub(super) enum Command {
    HandOver(Box<Frame>),
    Cancel(i64),
    Ping,
}

/// A request to be written.
pub(super) struct Frame {
    /// Number of its delivery on this connection.
    pub(super) delivery: i64,
    pub(super) content: Written,
}

/// A request's bytes, or what to make them of.
pub(super) enum Written {
    Whole(Bytes),
    /// In pieces: the frame has no body yet.
    Pieces(Box<RequestFrame>, Bytes),
}

/// What an attempt hears of its client. The end of the channel is the end of the link.
#[derive(Debug)]
pub(super) enum News {
    /// The request is on its way.
    Written,
    /// The attempt begins.
    Ack,
    Result(ResultFrame),
    /// This node stops, and the client has not answered.
    Stopped,
}

#[derive(Default)]
struct Waiting {
    /// The link has ended.
    over: bool,
    attempts: FxHashMap<i64, Attempt>,
}

struct Attempt {
    number: u32,
    /// Its request is on the way.
    written: bool,
    told: mpsc::UnboundedSender<News>,
    /// Free again when the client has answered.
    _seat: Seat,
}

impl Client {
    pub(super) fn new(
        number: u64,
        (source, token): (SourceId, String),
        since: Timestamp,
        protocol: Protocol,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self {
            number,
            source,
            token,
            since,
            protocol,
            commands,
            waiting: Mutex::default(),
            next: AtomicI64::new(1),
            heard_ms: AtomicU64::new(0),
            words: AtomicU64::new(0),
            spoke: Notify::new(),
            cut: Notify::new(),
            look: Notify::new(),
            doubt: Notify::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that nothing on this connection has yet.
    pub(super) fn number(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Hands a request over. `None`: the link has ended.
    pub(super) fn hand_over(
        &self,
        seat: Seat,
        attempt: u32,
        frame: Frame,
    ) -> Option<mpsc::UnboundedReceiver<News>> {
        let (told, news) = mpsc::unbounded_channel();
        let mut waiting = self.waiting();
        if waiting.over {
            return None;
        }
        waiting
            .attempts
            .insert(frame.delivery, Attempt { number: attempt, written: false, told, _seat: seat });
        drop(waiting);
        // Without a writer the session ends, and with it the news.
        let _ = self.commands.send(Command::HandOver(Box::new(frame)));
        Some(news)
    }

    /// Nobody waits for a result any more. What is not on its way is not written; a client that makes one attempt at a
    /// time keeps its seat until it has answered: it reads nothing before.
    pub(super) fn give_up(&self, delivery: i64) {
        let mut waiting = self.waiting();
        let written = waiting.attempts.get(&delivery).is_some_and(|attempt| attempt.written);
        if self.protocol == Protocol::V1 || !written {
            let given_up = waiting.attempts.remove(&delivery);
            drop(waiting);
            // Outside of the lock: its seat looks for the hub's.
            drop(given_up);
        }
        if self.protocol == Protocol::V1 && written {
            let _ = self.commands.send(Command::Cancel(delivery));
        }
    }

    /// Whether a request is to be written; from then on it is on its way.
    pub(super) fn begins(&self, delivery: i64) -> bool {
        let mut waiting = self.waiting();
        let Some(attempt) = waiting.attempts.get_mut(&delivery) else { return false };
        attempt.written = true;
        let _ = attempt.told.send(News::Written);
        true
    }

    /// Takes note of what the client says. What is of no attempt here came too late.
    pub(super) fn take(&self, frame: ToServer) {
        let mut waiting = self.waiting();
        match frame {
            ToServer::Ack(ack) => {
                let attempt = waiting.attempts.get(&ack.delivery_id);
                if let Some(attempt) = attempt.filter(|it| it.number == ack.attempt_number) {
                    let _ = attempt.told.send(News::Ack);
                }
            }
            ToServer::Result(result) => {
                let known = waiting.attempts.get(&result.delivery_id);
                if known.is_none_or(|it| it.number != result.attempt_number) {
                    return;
                }
                let answered = waiting.attempts.remove(&result.delivery_id);
                drop(waiting);
                if let Some(attempt) = answered {
                    let _ = attempt.told.send(News::Result(result));
                }
            }
        }
    }

    /// The link has ended: all attempts hear of it. `ours`: because this node stops.
    pub(super) fn end(&self, ours: bool) {
        let mut waiting = self.waiting();
        waiting.over = true;
        if ours {
            for attempt in waiting.attempts.values() {
                let _ = attempt.told.send(News::Stopped);
            }
        }
        let cut_off = std::mem::take(&mut waiting.attempts);
        drop(waiting);
        drop(cut_off);
    }

    /// Whether it makes an attempt now.
    pub(super) fn is_busy(&self) -> bool {
        !self.waiting().attempts.is_empty()
    }

    /// Whether an attempt of its has a right to be waited for: somebody still wants the result.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting().attempts.values().any(|attempt| !attempt.told.is_closed())
    }

    pub(super) fn ping(&self) {
        let _ = self.commands.send(Command::Ping);
    }

    pub(super) fn heard(&self, monotonic: Duration) {
        self.heard_ms.store(u64::try_from(monotonic.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.words.fetch_add(1, Ordering::Relaxed);
        self.spoke.notify_waiters();
    }

    /// Waits until a condition holds; it is looked at whenever the client says something.
    pub(super) async fn until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            let spoke = self.spoke.notified();
            tokio::pin!(spoke);
            spoke.as_mut().enable();
            if holds(self) {
                return;
            }
            spoke.await;
        }
    }

    pub(super) fn words(&self) -> u64 {
        self.words.load(Ordering::Relaxed)
    }

    pub(super) fn heard_at(&self) -> Duration {
        Duration::from_millis(self.heard_ms.load(Ordering::Relaxed))
    }
}
