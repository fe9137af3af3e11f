//! The channel against mail servers on real sockets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use restante_core::{FailureKind, Timestamp};

use super::*;
use crate::channel::ChannelConfig;
use crate::channel::guard::{PrivateTargets, Resolve, ResolveFault, Rules};
use crate::clock::ManualClock;
use server::{Act, Server};

mod answers;
mod direct;
mod parts;
mod reuse;
mod server;
mod tls;

/// Long enough to never be met by a server that answers.
const PATIENT: Duration = Duration::from_secs(20);
/// For servers that do not answer, and time enough for what comes before.
const HASTY: Duration = Duration::from_secs(1);

const MESSAGE: &str = "Subject: hello\r\n\r\n.hidden\r\n..\r\n.\r\nlast\r\n";

/// Names in tables; what is not in them is this machine, and takes its own mail.
#[derive(Default)]
struct Names {
    addresses: HashMap<&'static str, Vec<&'static str>>,
    exchanges: HashMap<&'static str, Vec<(u16, &'static str)>>,
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        let listed = self.addresses.get(name.trim_end_matches('.'));
        let listed = listed.map_or(&["127.0.0.1"][..], Vec::as_slice);
        Ok(listed.iter().map(|address| address.parse().unwrap()).collect())
    }
}

#[async_trait]
impl Exchanges for Names {
    async fn exchanges(&self, domain: &str) -> Result<Vec<Exchange>, ResolveFault> {
        if domain == "nowhere.example" {
            return Err(ResolveFault("the domain does not exist".to_owned()));
        }
        let listed = self.exchanges.get(domain).map_or(&[][..], Vec::as_slice);
        let exchange = |&(preference, host): &(u16, &str)| Exchange { preference, host: host.to_owned() };
        Ok(listed.iter().map(exchange).collect())
    }
}

/// Counts how often a mail is about to leave, and does what the test wants to happen at that time.
#[derive(Default)]
struct Record {
    calls: AtomicUsize,
    fails: bool,
    /// Waits until this server has hung up or spoken out of turn.
    until_acted: Option<Server>,
}

#[async_trait]
impl DataSent for Record {
    async fn data_sent(&self) -> Result<(), String> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if let Some(server) = &self.until_acted {
            server.acted().await;
        }
        if self.fails { Err("the disk is full".to_owned()) } else { Ok(()) }
    }
}

impl Record {
    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A channel that may dial this machine and nothing else that is not public.
fn smtp(route: Route, names: Names) -> Smtp {
    let private_targets = PrivateTargets::Cidrs(vec!["127.0.0.0/8".parse().unwrap()]);
    let rules = Rules { private_targets, http_targets: false };
    with(route, names, &ChannelConfig { rules, extra_ca_file: None })
}

fn with(route: Route, names: Names, channel: &ChannelConfig) -> Smtp {
    let config = SmtpConfig { route, hello: "us.example".to_owned() };
    let (names, clock) = (Arc::new(names), Arc::new(ManualClock::new(Timestamp::from_millis(0), 1)));
    Smtp::with_resolver(config, channel, clock, names.clone(), names).unwrap()
}

/// A channel with this server for its relay.
fn through(server: &Server) -> Smtp {
    let url = format!("smtp://127.0.0.1:{}", server.port());
    smtp(Route::Relay(url.parse().unwrap()), Names::default())
}

fn envelope(message: impl Into<Bytes>) -> Envelope {
    Envelope {
        from: "bounces@us.example".to_owned(),
        to: "ann@them.example".to_owned(),
        domain: "them.example".to_owned(),
        message: message.into(),
        utf8: false,
    }
}

/// Sends `MESSAGE`, with patience.
async fn send(smtp: &Smtp) -> Sent {
    smtp.send(&envelope(MESSAGE), PATIENT, &Record::default()).await
}

fn reply(code: u16, enhanced: (u8, u16, u16), text: &str) -> Reply {
    Reply { code, enhanced: Some(enhanced), text: text.to_owned() }
}

fn queued() -> Sent {
    Sent::Accepted(reply(250, (2, 0, 0), "queued"))
}

/// The kind and the code, if there was a reply, of a mail to be tried again.
#[track_caller]
fn deferred(sent: Sent) -> (FailureKind, Option<u16>) {
    let Sent::Deferred { reply, kind, message } = sent else {
        panic!("expected to be deferred, got {sent:?}")
    };
    assert!(!message.is_empty() && !message.contains(['\n', '@']), "{message}");
    assert_eq!(reply.is_some(), kind == FailureKind::Smtp, "{message}");
    (kind, reply.map(|reply| reply.code))
}

/// The code and the enhanced code of a final no.
#[track_caller]
fn refused(sent: Sent) -> (u16, Option<(u8, u16, u16)>) {
    let Sent::Refused { reply, message } = sent else { panic!("expected to be refused, got {sent:?}") };
    assert!(!message.is_empty() && !message.contains(['\n', '@']), "{message}");
    (reply.code, reply.enhanced)
}

#[track_caller]
fn uncertain(sent: Sent) {
    let Sent::Uncertain { message } = sent else { panic!("expected to be uncertain, got {sent:?}") };
    assert!(!message.is_empty() && !message.contains(['\n', '@']), "{message}");
}
