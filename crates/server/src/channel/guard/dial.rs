//! The connector: resolves, judges and dials exactly what it judged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use super::{Resolve, ResolveFault, Rules, Verdict};

/// How long addresses may take to answer.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// While others of the same host are left to try.
    pub(crate) next_after: Duration,
    /// The last one; `None`: it has all the time there is.
    pub(crate) last: Option<Duration>,
}

/// For HTTP: a host is all there is to try.
const PATIENCE: Patience = Patience { next_after: Duration::from_secs(2), last: None };

/// Opens TCP connections to allowed addresses only.
///
/// The check sits here and not at the resolver, who is not asked about IP literals. A name is resolved once per
/// connection and the addresses that were judged are the ones dialled, so that a name server which changes its mind in
/// between changes nothing.
#[derive(Clone)]
pub(crate) struct Dialer {
    rules: Arc<Rules>,
    resolver: Arc<dyn Resolve>,
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFault {
    #[error("plain http is not allowed; RESTANTE_ALLOW_HTTP_TARGETS allows it")]
    Http,
    #[error("the target has no valid host")]
    Host,
    #[error("{name} could not be resolved: {source}")]
    Resolve { name: String, source: ResolveFault },
    #[error("{name} has no address")]
    NoAddress { name: String },
    /// None of the addresses is allowed; nothing was dialled.
    #[error("{address} is {ground}; RESTANTE_ALLOW_PRIVATE_TARGETS allows such targets")]
    Refused { address: IpAddr, ground: &'static str },
    #[error("no connection to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
}

impl Dialer {
    pub(crate) fn new(rules: Rules, resolver: Arc<dyn Resolve>) -> Self {
        Self { rules: Arc::new(rules), resolver }
    }

    /// A connection to where an HTTP request goes.
    ///
    /// # Errors
    /// Those of [`dial`](Self::dial); `Http` and `Host` before a name is looked up.
    pub(crate) async fn dial_target(&self, target: &Uri) -> Result<TcpStream, DialFault> {
        let port = match (target.port_u16(), target.scheme_str()) {
            (_, Some("http")) if !self.rules.http_targets => return Err(DialFault::Http),
            (Some(port), _) => port,
            (None, Some("http")) => 80,
            (None, _) => 443,
        };
        // The parser of web browsers: it knows every spelling of an IPv4 address, and reads IPv6 with its brackets.
        let host = Host::parse(target.host().unwrap_or_default()).map_err(|_| DialFault::Host)?;
        let (stream, _) = self.dial(&host, port, PATIENCE).await?;
        Ok(stream)
    }

    /// A connection to the first allowed address of the host that answers, and that address.
    ///
    /// # Errors
    /// The fault of the last allowed address; `Refused` when there is none.
    pub(crate) async fn dial(
        &self,
        host: &Host<String>,
        port: u16,
        patience: Patience,
    ) -> Result<(TcpStream, IpAddr), DialFault> {
        let addresses = self.addresses(host).await?;
        connect(&self.allowed(&addresses)?, port, patience).await
    }

    async fn addresses(&self, host: &Host<String>) -> Result<Vec<IpAddr>, DialFault> {
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![IpAddr::V4(*address)]),
            Host::Ipv6(address) => return Ok(vec![IpAddr::V6(*address)]),
            Host::Domain(name) => name.clone(),
        };
        match self.resolver.resolve(&name).await {
            Ok(addresses) if addresses.is_empty() => Err(DialFault::NoAddress { name }),
            Ok(addresses) => Ok(addresses),
            Err(source) => Err(DialFault::Resolve { name, source }),
        }
    }

    /// The addresses that may be dialled; a fault when there are none.
    fn allowed(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, DialFault> {
        let mut allowed = Vec::with_capacity(addresses.len());
        let mut refused = None;
        for &address in addresses {
            match self.rules.judge(address) {
                Verdict::Allowed => allowed.push(address),
                Verdict::Refused(ground) => {
                    refused = refused.or(Some(DialFault::Refused { address, ground }))
                }
            }
        }
        match refused {
            Some(fault) if allowed.is_empty() => Err(fault),
            _ => Ok(allowed),
        }
    }
}

/// Dials one address after the other until one answers; the fault is the last one's. `addresses` is not empty.
async fn connect(
    addresses: &[IpAddr],
    port: u16,
    patience: Patience,
) -> Result<(TcpStream, IpAddr), DialFault> {
    let mut fault = DialFault::Host;
    for (index, &ip) in addresses.iter().enumerate() {
        let address = SocketAddr::new(ip, port);
        let is_last = index + 1 == addresses.len();
        let dialling = TcpStream::connect(address);
        let most = if is_last { patience.last } else { Some(patience.next_after) };
        let dialled = match most {
            Some(most) => {
                timeout(most, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            None => dialling.await,
        };
        match dialled.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok((stream, ip)),
            Err(source) => fault = DialFault::Connect { address, source },
        }
    }
    Err(fault)
}
