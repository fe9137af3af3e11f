//! One source's connection: logged in, connected, watched, and made again for as long as it is wanted.

mod course;
mod inbox;
mod open;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use restante_core::Timestamp;
use restante_server::clock::Clock;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::dial::Dialer;
use super::event::{Event, LinkState};
use super::forward::Forwarder;
use super::queue::Events;
use super::running::Running;
use super::target::Local;
use course::{Backoff, Sleep};
use open::OpenFault;
pub(crate) use session::DRAIN_TIME;
use session::Over;

/// How often is looked whether the machine slept, and whether the other side still speaks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What all links of a process have in common.
pub(crate) struct Shared {
    /// Address of the server, without a slash at the end.
    pub(crate) server: String,
    pub(crate) local: Local,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) forwarder: Arc<Forwarder>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Events,
    pub(crate) running: Running,
}

/// The connection of one source.
pub(crate) struct Link {
    pub(crate) shared: Arc<Shared>,
    /// Index of the source.
    pub(crate) source: usize,
    pub(crate) token: String,
    /// True: begin nothing new, and end.
    pub(crate) stop: watch::Receiver<bool>,
}

/// Why a link was given up for good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GivenUp {
    #[error("the server knows no source with this token")]
    Unknown,
    #[error("the source has as many clients as it may have")]
    Full,
}

/// How a try went.
enum Tried {
    /// Somebody wanted it to end.
    Stopped,
    GivenUp(GivenUp),
    /// It is worth another try. `heard`: the server has said something on the connection.
    Broke {
        why: String,
        heard: bool,
    },
}

impl Link {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// `GivenUp`: trying again is of no use.
    pub(crate) async fn run(mut self) -> Result<(), GivenUp> {
        let mut backoff = Backoff::default();
        self.say(LinkState::Connecting);
        loop {
            match self.once().await {
                Tried::Stopped => break,
                Tried::GivenUp(given_up) => {
                    self.say(LinkState::Failed { why: given_up.to_string() });
                    return Err(given_up);
                }
                Tried::Broke { why, heard } => {
                    let wait = backoff.wait(heard, self.shared.clock.draw());
                    let next = Some(self.now() + wait);
                    self.say(LinkState::Reconnecting { why: why.clone(), next });
                    if self.wait(wait).await {
                        break;
                    }
                    self.say(LinkState::Reconnecting { why, next: None });
                }
            }
        }
        self.say(LinkState::Stopped);
        Ok(())
    }

    /// Logs in, connects, and works until the connection ends.
    async fn once(&mut self) -> Tried {
        let opened = tokio::select! {
            opened = open::open(&self.shared.dialer, &self.shared.server, &self.token) => opened,
            () = stopped(&mut self.stop) => return Tried::Stopped,
        };
        match opened {
            Ok(socket) => {
                self.say(LinkState::Connected);
                let Over { why, heard } = session::run(self, socket).await;
                why.map_or(Tried::Stopped, |why| Tried::Broke { why, heard })
            }
            Err(OpenFault::GivenUp(given_up)) => Tried::GivenUp(given_up),
            Err(OpenFault::Again(why)) => Tried::Broke { why, heard: false },
        }
    }

    /// Waits for the next try; less long when the machine slept meanwhile. Whether it is to stop.
    async fn wait(&mut self, time: Duration) -> bool {
        let clock = Arc::clone(&self.shared.clock);
        tokio::select! {
            () = sleep(time) => false,
            _ = woken(clock.as_ref()) => false,
            () = stopped(&mut self.stop) => true,
        }
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn say(&self, state: LinkState) {
        let event = Event::Link { source: self.source, at: self.now(), state };
        self.shared.events.tell(event);
    }
}

/// Returns when it is to stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Whoever could say so is gone: that is a stop as well.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Returns when the machine has slept.
async fn woken(clock: &dyn Clock) -> Duration {
    let mut sleep = Sleep::new(clock.now().millis(), clock.monotonic());
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        if let Some(slept) = sleep.look(clock.now().millis(), clock.monotonic()) {
            return slept;
        }
    }
}
