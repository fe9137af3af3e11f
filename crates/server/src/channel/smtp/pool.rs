//! Open conversations that wait for the next mail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::session::Session;

/// How long a conversation waits for the next mail.
///
/// Servers wait for minutes, but they count connections, and few like one that does nothing.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);
/// Idle conversations kept with somebody's mail server.
pub(super) const IDLE_PER_EXCHANGE: usize = 4;
/// Idle conversations kept with the relay, which takes the mail of all lanes.
pub(super) const IDLE_WITH_RELAY: usize = 32;
/// Idle conversations kept at all: each is a file descriptor.
const IDLE_TOTAL_MAX: usize = 64;
/// Mails over one connection; many servers close after about as many.
const MAILS_MAX: usize = 100;

/// Idle conversations by host. Cheap to clone; clones share them.
#[derive(Clone)]
pub(super) struct Pool {
    idle: Arc<Mutex<Idle>>,
    idle_max: Duration,
    per_host: usize,
}

#[derive(Default)]
struct Idle {
    /// Oldest first.
    waiting: Vec<Waiting>,
    /// Whether a task is there to say goodbye in time.
    is_swept: bool,
}

struct Waiting {
    host: String,
    until: Instant,
    session: Session,
}

impl Pool {
    /// `idle_max`: how long a conversation waits. `per_host`: how many with one host do.
    pub(super) fn new(idle_max: Duration, per_host: usize) -> Self {
        Self { idle: Arc::default(), idle_max, per_host }
    }

    /// A conversation with `host`, the one used last. It may have ended without our knowledge.
    pub(super) fn take(&self, host: &str) -> Option<Session> {
        let now = Instant::now();
        let mut idle = self.lock();
        let at = idle.waiting.iter().rposition(|it| it.host == host && it.until > now)?;
        Some(idle.waiting.remove(at).session)
    }

    /// Keeps a conversation for later, or ends it when it has carried enough or there are enough of them.
    pub(super) fn put(&self, host: &str, session: Session) {
        if session.mails >= MAILS_MAX {
            tokio::spawn(session.quit());
            return;
        }
        let waiting = Waiting { host: host.to_owned(), until: Instant::now() + self.idle_max, session };
        let mut idle = self.lock();
        let of_host = idle.waiting.iter().filter(|it| it.host == host).count();
        let surplus = if of_host >= self.per_host {
            idle.waiting.iter().position(|it| it.host == host)
        } else if idle.waiting.len() >= IDLE_TOTAL_MAX {
            Some(0)
        } else {
            None
        };
        if let Some(at) = surplus {
            tokio::spawn(idle.waiting.remove(at).session.quit());
        }
        idle.waiting.push(waiting);
        if !idle.is_swept {
            idle.is_swept = true;
            tokio::spawn(self.clone().sweep());
        }
    }

    /// Ends every conversation when its time is up; is over when none is left.
    async fn sweep(self) {
        while let Some(until) = self.next_end() {
            sleep_until(until).await;
            for session in self.ended() {
                tokio::spawn(session.quit());
            }
        }
    }

    /// When the oldest one's time is up. Says in the same breath that nobody sweeps when there is none.
    fn next_end(&self) -> Option<Instant> {
        let mut idle = self.lock();
        let until = idle.waiting.first().map(|it| it.until);
        idle.is_swept = until.is_some();
        until
    }

    fn ended(&self) -> Vec<Session> {
        let now = Instant::now();
        let mut idle = self.lock();
        let ended = idle.waiting.iter().take_while(|it| it.until <= now).count();
        idle.waiting.drain(..ended).map(|it| it.session).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
