//! Connections that are kept for the next request to the same origin.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Uri;
use hyper::client::conn::http2;
use hyper::http::uri::Authority;
use rustc_hash::FxHashMap;
use tokio::time::{Instant, sleep};

use super::line::Line;
use super::{IDLE_CONNECTIONS_MAX, IDLE_MAX};

/// How often connections are looked for that nobody has used for `IDLE_MAX`.
const SWEEP_EVERY: Duration = Duration::from_millis(500);

/// Carries any number of requests at once; its connection has a task, which ends with the last of these.
pub(super) type Shared = http2::SendRequest<Full<Bytes>>;

/// A connection that a request can be sent on.
pub(super) enum Carrier {
    /// HTTP/1: lent out until the response is read.
    Line(Lent),
    /// HTTP/2.
    Shared(Shared),
}

/// A line in use. Dropped it is closed.
pub(super) struct Lent {
    pub(super) line: Line,
    pool: Arc<Pool>,
    origin: Origin,
}

/// Whom a connection is to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    is_encrypted: bool,
    authority: Authority,
}

impl Origin {
    /// `None` for a target that names no host.
    pub(super) fn of(target: &Uri) -> Option<Self> {
        let is_encrypted = target.scheme_str() != Some("http");
        target.authority().map(|authority| Self { is_encrypted, authority: authority.clone() })
    }
}

/// The free connections.
#[derive(Default)]
pub(super) struct Pool {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    origins: FxHashMap<Origin, Free>,
    /// A task looks after what is kept.
    is_swept: bool,
}

/// What is free to one origin.
#[derive(Default)]
struct Free {
    /// The one used last at the end, and since when they are free.
    lines: Vec<(Line, Instant)>,
    /// And when a request was last sent on it.
    shared: Option<(Shared, Instant)>,
}

impl Pool {
    /// The free connection that was used last.
    pub(super) fn take(self: &Arc<Self>, origin: &Origin) -> Option<Carrier> {
        let mut kept = self.kept();
        let free = kept.origins.get_mut(origin)?;
        if let Some((shared, used_at)) = &mut free.shared {
            if !shared.is_closed() {
                *used_at = Instant::now();
                return Some(Carrier::Shared(shared.clone()));
            }
            free.shared = None;
        }
        while let Some((mut line, since)) = free.lines.pop() {
            if since.elapsed() >= IDLE_MAX {
                // Those below have been free for longer.
                free.lines.clear();
            } else if line.is_free() {
                return Some(Carrier::Line(self.lend(line, origin.clone())));
            }
        }
        None
    }

    /// A new line for one who will give it back.
    pub(super) fn lend(self: &Arc<Self>, line: Line, origin: Origin) -> Lent {
        Lent { line, pool: Arc::clone(self), origin }
    }

    /// Keeps a new connection that all requests to the origin may share, and gives the one that is to be used: others
    /// may have connected at the same time.
    pub(super) fn share(self: &Arc<Self>, shared: Shared, origin: Origin) -> Carrier {
        let mut kept = self.kept();
        let place = &mut kept.origins.entry(origin).or_default().shared;
        let (known, _) = match place.take().filter(|(known, _)| !known.is_closed()) {
            Some((known, _)) => place.insert((known, Instant::now())),
            None => place.insert((shared, Instant::now())),
        };
        let carrier = Carrier::Shared(known.clone());
        self.sweep_later(&mut kept);
        carrier
    }

    /// Forgets the shared connection of an origin, on which nothing can be sent any more.
    pub(super) fn forget_shared(&self, origin: &Origin) {
        if let Some(free) = self.kept().origins.get_mut(origin) {
            free.shared = None;
        }
    }

    fn give_back(self: &Arc<Self>, line: Line, origin: Origin) {
        let mut kept = self.kept();
        let lines = &mut kept.origins.entry(origin).or_default().lines;
        if lines.len() < IDLE_CONNECTIONS_MAX {
            lines.push((line, Instant::now()));
        }
        self.sweep_later(&mut kept);
    }

    fn sweep_later(self: &Arc<Self>, kept: &mut Kept) {
        if kept.is_swept {
            return;
        }
        kept.is_swept = true;
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                sleep(SWEEP_EVERY).await;
                if pool.upgrade().is_none_or(|pool| pool.sweep()) {
                    return;
                }
            }
        });
    }

    /// Closes what nobody has used for long, and says whether nothing is left to look after.
    fn sweep(&self) -> bool {
        let mut kept = self.kept();
        kept.origins.retain(|_, free| {
            free.lines.retain_mut(|(line, since)| since.elapsed() < IDLE_MAX && line.is_free());
            free.shared = free.shared.take().filter(|(it, at)| at.elapsed() < IDLE_MAX && !it.is_closed());
            !free.lines.is_empty() || free.shared.is_some()
        });
        kept.is_swept = !kept.origins.is_empty();
        !kept.is_swept
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Keeps the line for the next request, once it is free.
    pub(super) async fn give_back(mut self) {
        if self.line.free().await {
            self.pool.give_back(self.line, self.origin);
        }
    }

    /// Keeps the line for the next request if it is free already; gives it when something is still to come on it.
    pub(super) fn give_back_now(mut self) -> Option<Self> {
        if self.line.is_free() {
            self.pool.give_back(self.line, self.origin);
            return None;
        }
        Some(self).filter(|lent| !lent.line.has_ended())
    }
}
