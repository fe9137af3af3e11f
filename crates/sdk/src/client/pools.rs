//! Connections, kept apart by the runtime that drives them.
//!
//! A connection is driven by the runtime that opened it, and waits in a pool for the next call. Shared between runtimes,
//! a call would hang as soon as it took a connection of one that nobody runs: while a thread of its waits, or between two
//! tests. So each runtime has a pool of its own, and what is called from none, or by a thread that waits, has ours.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::runtime::{Handle, Id};

/// The server closes a connection after 15 s without a request. One that is about to be closed must not be used: what
/// is sent once would be lost with it.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Runtimes whose pools are kept: those used last.
const RUNTIMES_MAX: usize = 8;

/// See the module.
pub(super) struct Pools {
    maker: Maker,
    ours: reqwest::Client,
    of_runtimes: Mutex<Vec<(Id, Option<reqwest::Client>)>>,
}

/// What all pools are made with.
pub(super) struct Maker {
    pub(super) tls: ClientConfig,
    /// Plain HTTP, to this machine.
    pub(super) plain: bool,
}

impl Maker {
    fn make(&self) -> reqwest::Result<reqwest::Client> {
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_idle_timeout(IDLE_TIME)
            .tcp_nodelay(true)
            .user_agent(concat!("restante-sdk/", env!("CARGO_PKG_VERSION")));
        if self.plain {
            // A proxy would read the key, and could not reach this machine's loopback anyway. And what a resolver says of
            // the name is not asked: the key stays on this machine.
            let here: [SocketAddr; 2] = [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()];
            http = http.no_proxy().resolve_to_addrs("localhost", &here);
        }
        http.build()
    }
}

impl Pools {
    /// # Errors
    /// What the HTTP client says against being set up so.
    pub(super) fn new(maker: Maker) -> reqwest::Result<Self> {
        let ours = maker.make()?;
        Ok(Self { maker, ours, of_runtimes: Mutex::default() })
    }

    /// The pool of the client's own runtime.
    pub(super) fn ours(&self) -> reqwest::Client {
        self.ours.clone()
    }

    /// The pool of the runtime that this is called in; `None` where there is none that can drive connections.
    pub(super) async fn here(&self) -> Option<reqwest::Client> {
        let handle = Handle::try_current().ok()?;
        let id = handle.id();
        if let Some(known) = self.known(id) {
            return known;
        }
        let pool = if is_fit(&handle).await { self.maker.make().ok() } else { None };
        let mut pools = self.of_runtimes();
        pools.retain(|(known, _)| *known != id);
        if pools.len() >= RUNTIMES_MAX {
            pools.remove(0);
        }
        pools.push((id, pool.clone()));
        pool
    }

    fn known(&self, id: Id) -> Option<Option<reqwest::Client>> {
        let mut pools = self.of_runtimes();
        let place = pools.iter().position(|(known, _)| *known == id)?;
        if place + 1 < pools.len() {
            let used = pools.remove(place);
            pools.push(used);
        }
        pools.last().map(|(_, pool)| pool.clone())
    }

    fn of_runtimes(&self) -> MutexGuard<'_, Vec<(Id, Option<reqwest::Client>)>> {
        self.of_runtimes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a runtime has timers and sockets. It does not say: without them it panics, and that ends a task only.
async fn is_fit(handle: &Handle) -> bool {
    let probe = handle.spawn(async {
        drop(tokio::time::sleep(Duration::ZERO));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
        socket.set_nonblocking(true).ok()?;
        tokio::net::UdpSocket::from_std(socket).ok()
    });
    matches!(probe.await, Ok(Some(_)))
}
