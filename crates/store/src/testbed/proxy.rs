//! A bad link: a TCP proxy that lets frames through one by one, and spoils the link where a test wants it.

mod chaos;
mod connection;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::wire::{Frame, Side};
use chaos::Chaos;
use connection::Connection;

/// Who is this far behind is cut off.
const ORDERS_MAX: usize = 64;

/// What becomes of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Both sides see the end of their connection.
    Cut,
    /// The other side sees the end; the blind one sees nothing any more, and nobody hears what it says.
    HalfOpen { blind: Side },
    /// Both sides see nothing any more.
    Silence,
    /// What is said from here on is held for a time, then goes on.
    Stall(Duration),
}

/// When a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The frame does not pass any more, or passes after the stall.
    Before,
    /// The frame has been handed to the system, on its way to the other side.
    After,
}

/// What becomes of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newcomers {
    Welcome,
    /// Closed before a word is said.
    Refused,
    /// Never answered.
    Ignored,
}

/// A proxy in front of one server. Dropping it cuts all connections, and nobody listens any more.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    target: SocketAddr,
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Stands in front of `target`. A request to encrypt is answered with no: frames must be seen.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            orders: broadcast::Sender::new(ORDERS_MAX),
            stalls: [watch::Sender::new(0), watch::Sender::new(0)],
        });
        let listening = tokio::spawn(listen(listener, target, Arc::clone(&shared)));
        Self { address, target, shared, listening }
    }

    /// A URL of the server, or of several that it is one of, with this in its place.
    ///
    /// # Panics
    /// The server is not in it.
    pub fn url(&self, url: &str) -> String {
        let target = self.target.to_string();
        assert!(url.contains(&target), "{target} is not in {url}");
        url.replace(&target, &self.address.to_string())
    }

    /// How many connections were welcome so far.
    pub fn welcomed(&self) -> u64 {
        self.shared.state.lock().unwrap().welcomed
    }

    /// Spoils all connections that there are.
    pub fn strike(&self, fault: Fault) {
        if let Fault::Stall(time) = fault {
            let stalled = [Side::Client, Side::Server].map(|from| self.stall(from));
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                drop(stalled);
            });
        } else {
            // Nobody hears it when there is no connection.
            let _ = self.shared.orders.send(Order::Strike(fault));
        }
    }

    /// Spoils the connection on which the `nth` frame from now passes that is `wanted`, whatever connections the
    /// ones before it are on. `nth` counts from 1.
    pub fn plan(
        &self,
        nth: u64,
        wanted: impl Fn(&Frame) -> bool + Send + 'static,
        moment: Moment,
        fault: Fault,
    ) -> Struck {
        assert!(nth >= 1, "frames count from 1");
        let (struck, happens) = oneshot::channel();
        let plan = Plan { left: nth, wanted: Box::new(wanted), moment, fault, struck };
        self.shared.state.lock().unwrap().plans.push(plan);
        Struck(happens)
    }

    /// The next COMMIT is lost on its way to the server, and both are cut off: it did not happen.
    pub fn lose_commit(&self) -> Struck {
        self.plan(1, |frame| frame.executes("COMMIT"), Moment::Before, Fault::Cut)
    }

    /// The answer to the next COMMIT is lost, and both are cut off: it happened, and its client does not know.
    pub fn lose_commit_answer(&self) -> Struck {
        self.plan(1, |frame| frame.completes("COMMIT"), Moment::Before, Fault::Cut)
    }

    /// Holds what one side says, on all connections, until what this returns is dropped.
    pub fn stall(&self, from: Side) -> Stalled {
        self.shared.stalls[from as usize].send_modify(|count| *count += 1);
        Stalled { shared: Arc::clone(&self.shared), from }
    }

    /// What becomes of connections from now on.
    pub fn newcomers(&self, newcomers: Newcomers) {
        self.shared.state.lock().unwrap().newcomers = newcomers;
    }

    /// Cuts all connections; those after them are spoiled after as many frames and in such a way as the seed and
    /// their number, from this call on, decide.
    pub fn chaos(&self, seed: u64) {
        {
            let mut state = self.shared.state.lock().unwrap();
            state.chaos = Some(seed);
            state.welcomed = 0;
        }
        self.strike(Fault::Cut);
    }

    /// The link is good again: no plans, no chaos, newcomers are welcome, what was silent or half open is cut, as
    /// its next word would show, and what was held at a frame goes on. Only a [`Stalled`] holds on.
    pub fn heal(&self) {
        {
            let mut state = self.shared.state.lock().unwrap();
            let welcomed = state.welcomed;
            *state = State { welcomed, ..State::default() };
        }
        let _ = self.shared.orders.send(Order::Heal);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// A planned fault.
#[derive(Debug)]
#[must_use = "a fault that never struck has tested nothing"]
pub struct Struck(oneshot::Receiver<()>);

impl Struck {
    /// Waits until it strikes.
    ///
    /// # Panics
    /// The link was healed before, or its proxy is gone.
    pub async fn happened(self) {
        self.0.await.expect("the fault was called off before it struck");
    }
}

/// Holds what one side says. Let go when dropped.
#[derive(Debug)]
#[must_use = "dropping it lets go at once"]
pub struct Stalled {
    shared: Arc<Shared>,
    from: Side,
}

impl Drop for Stalled {
    fn drop(&mut self) {
        self.shared.stalls[self.from as usize].send_modify(|count| *count -= 1);
    }
}

/// What a proxy tells all its connections.
#[derive(Debug, Clone, Copy)]
enum Order {
    Strike(Fault),
    Heal,
}

/// What a proxy and its connections have in common.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    orders: broadcast::Sender<Order>,
    /// How many hold what the client says, and what the server says.
    stalls: [watch::Sender<u32>; 2],
}

#[derive(Debug)]
struct State {
    plans: Vec<Plan>,
    newcomers: Newcomers,
    chaos: Option<u64>,
    welcomed: u64,
}

impl Default for State {
    fn default() -> Self {
        Self { plans: Vec::new(), newcomers: Newcomers::Welcome, chaos: None, welcomed: 0 }
    }
}

impl State {
    /// A connection is welcome: counts it, and draws its faults.
    fn welcome(&mut self) -> Option<Chaos> {
        self.welcomed += 1;
        self.chaos.map(|seed| Chaos::new(seed, self.welcomed))
    }

    /// Counts a frame in all plans, and gives what the first one that has come to its end wants.
    fn count(&mut self, frame: &Frame) -> Option<(Moment, Fault)> {
        for plan in &mut self.plans {
            plan.left -= u64::from((plan.wanted)(frame));
        }
        let due = self.plans.iter().position(|plan| plan.left == 0)?;
        let Plan { moment, fault, struck, .. } = self.plans.remove(due);
        // The test may not want to know.
        let _ = struck.send(());
        Some((moment, fault))
    }
}

struct Plan {
    left: u64,
    wanted: Box<dyn Fn(&Frame) -> bool + Send>,
    moment: Moment,
    fault: Fault,
    struck: oneshot::Sender<()>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { left, moment, fault, .. } = self;
        write!(f, "{left} frames, then {moment:?} {fault:?}")
    }
}

async fn listen(listener: TcpListener, target: SocketAddr, shared: Arc<Shared>) {
    // They end with this.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                connections.spawn(Connection::run(Arc::clone(&shared), client, target));
            }
            Some(ended) = connections.join_next() => ended.unwrap(),
        }
    }
}
