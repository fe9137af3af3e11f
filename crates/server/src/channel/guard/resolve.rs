//! Names to addresses.

use std::net::IpAddr;

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::name_server::TokioConnectionProvider;

/// Looks up the addresses of a host name; never asked about an IP literal.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of `name`, in the order in which they should be tried; empty when it has none.
    ///
    /// # Errors
    /// `ResolveFault` when there was no answer, or the answer was that the name does not exist.
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault>;
}

/// Why a name could not be looked up, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ResolveFault(pub String);

/// The resolver of the machine's own configuration: its hosts file, name servers and search list.
///
/// Its sockets belong to the runtime it is used on, so each runtime needs one of its own.
pub struct SystemResolver(TokioResolver);

impl SystemResolver {
    /// Reads the machine's configuration. Without one only `localhost` and the hosts file have addresses.
    pub fn new() -> Self {
        let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            tracing::warn!(error = %error, "no name servers: the resolver configuration cannot be read");
            TokioResolver::builder_with_config(ResolverConfig::new(), TokioConnectionProvider::default())
        });
        // Both families are judged and tried: a local receiver may listen on `::1` only.
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        Self(builder.build())
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        match self.0.lookup_ip(name).await {
            Ok(found) => {
                let mut addresses: Vec<IpAddr> = found.iter().collect();
                // A machine without IPv6 fails on it at once; one with a broken IPv6 does not.
                addresses.sort_by_key(IpAddr::is_ipv6);
                Ok(addresses)
            }
            Err(error) if error.is_nx_domain() => Err(ResolveFault("the name does not exist".to_owned())),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(ResolveFault(error.to_string())),
        }
    }
}
