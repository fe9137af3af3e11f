//! The channel against receivers on real sockets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use restante_core::outcome::Failure;
use restante_core::{FailureKind, Outcome, Timestamp};

use super::{HttpChannel, Outgoing};
use crate::channel::ChannelConfig;
use crate::channel::guard::{PrivateTargets, Resolve, ResolveFault, Rules};

mod answers;
mod receiver;
mod requests;
mod reuse;
mod tls;
mod zoo;

/// Long enough to never be met by a receiver that answers.
const PATIENT: Duration = Duration::from_secs(20);
/// For receivers that do not answer.
const HASTY: Duration = Duration::from_millis(60);
/// The time of every response.
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

/// Every name is this machine.
struct Here;

#[async_trait]
impl Resolve for Here {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        match name {
            "nowhere.example" => Err(ResolveFault("the name does not exist".to_owned())),
            "empty.example" => Ok(Vec::new()),
            "private.example" => Ok(vec![IpAddr::from([10, 0, 0, 1])]),
            _ => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
        }
    }
}

/// A channel that may dial this machine and nothing else that is not public.
fn channel() -> HttpChannel {
    let private_targets = PrivateTargets::Cidrs(vec!["127.0.0.1/32".parse().unwrap()]);
    let rules = Rules { private_targets, http_targets: true };
    HttpChannel::with_resolver(&ChannelConfig { rules, extra_ca_file: None }, Arc::new(Here)).unwrap()
}

fn post(url: String, timeout: Duration) -> Outgoing {
    Outgoing { url, method: Method::POST, headers: Vec::new(), body: Bytes::from_static(b"hello"), timeout }
}

/// Sends as the dispatcher does, from a task.
async fn send(channel: &HttpChannel, out: Outgoing) -> Outcome {
    let channel = channel.clone();
    tokio::spawn(async move { channel.send(out, || NOW).await }).await.unwrap()
}

async fn fail(channel: &HttpChannel, out: Outgoing) -> Failure {
    let outcome = send(channel, out).await;
    let Outcome::Failed(failure) = outcome else {
        panic!("expected a failure, got {outcome:?}");
    };
    failure
}

const fn delivered(status: u16) -> Outcome {
    Outcome::Delivered { status: Some(status) }
}

/// The kind of a failure that has no response, and with it no status.
async fn kind_of_failure(channel: &HttpChannel, out: Outgoing) -> FailureKind {
    let failure = fail(channel, out).await;
    assert_eq!((failure.status, failure.retry_after), (None, None), "{failure:?}");
    assert!(!failure.message.is_empty() && !failure.message.contains('\n'), "{failure:?}");
    failure.kind
}
