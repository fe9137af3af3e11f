//! Opens connections, to allowed addresses only.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Host;

use crate::channel::guard::{DialFault, Resolve, Rules, Verdict};

/// How long an address may take to answer while something else is left to try. The last one has all the time there is.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_secs(5);

/// Looks up a name, judges what it means and dials what it judged.
pub(super) struct Dialer {
    pub(super) rules: Rules,
    pub(super) resolver: Arc<dyn Resolve>,
}

impl Dialer {
    /// A connection to the first address that answers, and that address.
    ///
    /// `is_last`: there is no other host to try when this one fails.
    ///
    /// # Errors
    /// The fault of the last address; `Refused` when none may be dialled.
    pub(super) async fn dial(
        &self,
        host: &Host<String>,
        port: u16,
        is_last: bool,
    ) -> Result<(TcpStream, IpAddr), DialFault> {
        let addresses = self.addresses(host).await?;
        let (mut refused, mut failed) = (None, None);
        let last = addresses.len() - 1;
        for (index, address) in addresses.into_iter().enumerate() {
            if let Verdict::Refused(ground) = self.rules.judge(address) {
                refused = refused.or(Some(DialFault::Refused { address, ground }));
                continue;
            }
            match connect(SocketAddr::new(address, port), is_last && index == last).await {
                Ok(stream) => return Ok((stream, address)),
                Err(fault) => failed = Some(fault),
            }
        }
        Err(failed.or(refused).expect("there is at least one address, and it failed or was refused"))
    }

    /// At least one.
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
}

async fn connect(address: SocketAddr, is_last: bool) -> Result<TcpStream, DialFault> {
    let dialling = TcpStream::connect(address);
    let dialled = if is_last {
        dialling.await
    } else {
        timeout(NEXT_ADDRESS_AFTER, dialling).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    };
    let ready = dialled.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    ready.map_err(|source| DialFault::Connect { address, source })
}
