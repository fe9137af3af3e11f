//! The SMTP channel: one mail to one mailbox, and what the mail server said.
//!
//! ```text
//! hosts (exchange) ─▶ connection (dial, pool) ─▶ conversation (session) ─▶ MAIL, RCPT, DATA, dot (transaction) ─▶ Sent
//! ```
//!
//! Until the final dot leaves, nothing has happened and every fault is tried again later. From then on silence means
//! that the mail may have arrived (RFC 1047).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use restante_core::FailureKind;
use restante_core::smtp::Reply;
use tokio::time::timeout;
use url::Host;

use super::ChannelConfig;
use super::guard::{DialFault, Dialer, Patience, Resolve, SystemResolver};
use super::http::SetupFault;
use crate::clock::Clock;
use exchange::absolute;
use fault::Fault;
use pool::{IDLE_MAX, IDLE_PER_EXCHANGE, IDLE_WITH_RELAY, Pool};
use session::{Manner, Session};
use tls::{Encryption, Trust};
use transaction::{After, Point, hand_over};

mod dots;
mod exchange;
mod extensions;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod path;
mod pool;
mod relay;
mod reply;
mod session;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;
mod wire;

pub use exchange::{Exchange, Exchanges, SystemExchanges};
pub use relay::{Credentials, Relay, RelayFault};

/// Where mail servers listen for each other.
const EXCHANGE_PORT: u16 = 25;
/// How long an address may take to answer while something else is left to try.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(5);
/// A host that is not ready for mail after this part of the attempt's time is left for the next one, if there is one.
const EARLY_HOST_SHARE: u32 = 3;

/// One copy for one recipient.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The reverse path, without angle brackets; may be empty.
    pub from: String,
    /// The recipient, without angle brackets.
    pub to: String,
    /// The receiving domain, as A-labels.
    pub domain: String,
    /// The whole message with its DKIM signature; the lines end in CRLF.
    pub message: Bytes,
    /// An address is not ASCII: the server has to know SMTPUTF8.
    pub utf8: bool,
}

/// Which way mail leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// All of it through one server.
    Relay(Relay),
    /// To the recipient's own server.
    Direct,
}

/// What an attempt came to.
///
/// `message` is one line for people that names no mailbox; a `reply` may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The server answered 2xx to the whole mail: it is the server's now.
    Accepted(Reply),
    /// Nothing arrived, and another attempt may do better: a 4xx, or a fault before the final dot left. There is a
    /// `reply` exactly when `kind` is `Smtp`.
    Deferred { reply: Option<Reply>, kind: FailureKind, message: String },
    /// Nothing arrived and nothing will: a 5xx to the mail. Where a server need not be asked, for what it offers or
    /// its domain says is answer enough, `reply` is the one that the standards have for it.
    Refused { reply: Reply, message: String },
    /// The final dot left and no readable answer came: the mail may have arrived.
    Uncertain { message: String },
}

impl Sent {
    /// A refusal that needs no server to say it.
    fn refused_unasked(code: u16, enhanced: (u8, u16, u16), message: String) -> Self {
        Self::Refused { reply: Reply { code, enhanced: Some(enhanced), text: message.clone() }, message }
    }
}

/// Records that an attempt may arrive from now on.
#[async_trait]
pub trait DataSent: Send + Sync {
    /// Makes it durable that the whole message is about to be sent; called right before the final dot leaves, at most
    /// once an attempt. An attempt may still end as `Deferred` afterwards, when the server is gone by then.
    ///
    /// # Errors
    /// Why it is not durable; the dot is not sent.
    async fn data_sent(&self) -> Result<(), String>;
}

/// What the operator decides about mail.
#[derive(Clone, Debug)]
pub struct SmtpConfig {
    pub route: Route,
    /// The name we give in `EHLO`: our host's, fully qualified, or an address literal such as `[192.0.2.1]`.
    /// It is written as it is.
    pub hello: String,
}

/// Hands mail over to mail servers and keeps conversations for the next ones.
///
/// One per runtime: connections live on the runtime that opened them.
pub struct Smtp {
    config: SmtpConfig,
    dialer: Dialer,
    exchanges: Arc<dyn Exchanges>,
    trust: Trust,
    clock: Arc<dyn Clock>,
    pool: Pool,
    exchange_port: u16,
}

/// A host that may take the mail, with how to talk to it.
struct Stop {
    host: Host<String>,
    port: u16,
    encryption: Encryption,
}

impl Smtp {
    /// A channel that asks the machine's name servers.
    ///
    /// The rules of `channel` hold for every address dialled, a relay's too.
    ///
    /// # Errors
    /// `SetupFault` when the file of extra certificates cannot be used: the operator has to mend it.
    pub fn new(
        config: SmtpConfig,
        channel: &ChannelConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, SetupFault> {
        let (resolver, exchanges) = (Arc::new(SystemResolver::new()), Arc::new(SystemExchanges::new()));
        Self::with_resolver(config, channel, clock, resolver, exchanges)
    }

    /// A channel that asks `resolver` for addresses, which are judged all the same, and `exchanges` for MX records.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_resolver(
        config: SmtpConfig,
        channel: &ChannelConfig,
        clock: Arc<dyn Clock>,
        resolver: Arc<dyn Resolve>,
        exchanges: Arc<dyn Exchanges>,
    ) -> Result<Self, SetupFault> {
        let per_host = match config.route {
            Route::Relay(_) => IDLE_WITH_RELAY,
            Route::Direct => IDLE_PER_EXCHANGE,
        };
        Ok(Self {
            config,
            dialer: Dialer::new(channel.rules.clone(), resolver),
            exchanges,
            trust: Trust::new(channel.extra_ca_file.as_deref())?,
            clock,
            pool: Pool::new(IDLE_MAX, per_host),
            exchange_port: EXCHANGE_PORT,
        })
    }

    /// Makes one attempt, which takes `deadline` at most, from name lookup to the server's last word.
    ///
    /// Once this future has been polled, dropping it leaves open whether the mail arrived.
    pub async fn send(&self, envelope: &Envelope, deadline: Duration, data_sent: &dyn DataSent) -> Sent {
        if let Some(refused) = path::refusal(envelope) {
            return refused;
        }
        let is_passed = AtomicBool::new(false);
        let attempt = self.attempt(envelope, deadline, Point { data_sent, is_passed: &is_passed });
        match timeout(deadline, attempt).await {
            Ok(sent) => sent,
            Err(_) if is_passed.load(Ordering::SeqCst) => {
                Sent::Uncertain { message: format!("no answer to the mail within {deadline:?}") }
            }
            Err(_) => {
                let message = format!("the mail was not handed over within {deadline:?}");
                Sent::Deferred { reply: None, kind: FailureKind::Timeout, message }
            }
        }
    }

    /// Tries host after host until one is ready for mail; what that one says stands.
    async fn attempt(&self, envelope: &Envelope, deadline: Duration, point: Point<'_>) -> Sent {
        let stops = match self.stops(&envelope.domain).await {
            Ok(stops) => stops,
            Err(sent) => return sent,
        };
        let mut fault = Fault::Dial(DialFault::Host);
        for (index, stop) in stops.iter().enumerate() {
            let key = stop.host.to_string();
            while let Some(mut session) = self.pool.take(&key) {
                // A fault here means that it ended while it waited, or was about to. Nothing was sent.
                if let Ok((sent, after)) = hand_over(&mut session, envelope, &point).await {
                    self.keep(&key, session, after);
                    return sent;
                }
            }
            let is_last = index + 1 == stops.len();
            let time = if is_last { deadline } else { deadline / EARLY_HOST_SHARE };
            let opened = timeout(time, self.open(stop, is_last)).await.unwrap_or(Err(Fault::Slow(time)));
            match opened {
                Ok(mut session) => {
                    return match hand_over(&mut session, envelope, &point).await {
                        Ok((sent, after)) => {
                            self.keep(&key, session, after);
                            sent
                        }
                        Err(fault) => fault.into(),
                    };
                }
                Err(it) => fault = it,
            }
        }
        fault.into()
    }

    /// Where to go with mail for `domain`, in order.
    async fn stops(&self, domain: &str) -> Result<Vec<Stop>, Sent> {
        if let Route::Relay(relay) = &self.config.route {
            let encryption = match (relay.implicit_tls, &relay.credentials) {
                (true, _) => Encryption::Implicit,
                (false, Some(_)) => Encryption::Required,
                (false, None) => Encryption::Offered,
            };
            return Ok(vec![Stop { host: relay.host.clone(), port: relay.port, encryption }]);
        }
        let exchanges = self.exchanges.exchanges(domain).await;
        let exchanges = exchanges.map_err(|source| Fault::Exchanges { domain: domain.to_owned(), source })?;
        let hosts = exchange::hosts(domain, exchanges, || self.clock.draw())
            .map_err(|null| Sent::refused_unasked(556, (5, 1, 10), null.to_string()))?;
        let hosts = hosts.iter().filter_map(|host| Host::parse(&absolute(host)).ok());
        let port = self.exchange_port;
        Ok(hosts.map(|host| Stop { host, port, encryption: Encryption::Offered }).collect())
    }

    /// A new conversation, at the point where mail can be handed over.
    async fn open(&self, stop: &Stop, is_last: bool) -> Result<Session, Fault> {
        match self.open_with(stop, stop.encryption, is_last).await {
            // Between strangers encryption is better than none, and none better than no mail (RFC 7435).
            Err(Fault::Handshake(_)) if matches!(self.config.route, Route::Direct) => {
                self.open_with(stop, Encryption::Never, is_last).await
            }
            opened => opened,
        }
    }

    async fn open_with(&self, stop: &Stop, encryption: Encryption, is_last: bool) -> Result<Session, Fault> {
        let last = if is_last { None } else { Some(NEXT_ADDRESS_AFTER) };
        let patience = Patience { next_after: NEXT_ADDRESS_AFTER, last };
        let (stream, peer) = self.dialer.dial(&stop.host, stop.port, patience).await?;
        let (connector, credentials) = match &self.config.route {
            Route::Relay(relay) => (&self.trust.verified, relay.credentials.as_ref()),
            Route::Direct => (&self.trust.anyone, None),
        };
        let manner =
            Manner { hello: &self.config.hello, host: &stop.host, encryption, connector, credentials };
        Session::open(stream, peer, &manner).await
    }

    fn keep(&self, key: &str, mut session: Session, after: After) {
        match after {
            After::Closed => return,
            After::Dirty => session.is_dirty = true,
            After::Clean => {}
        }
        self.pool.put(key, session);
    }
}
