//! Who takes the mail of a domain (RFC 5321, 5.1; RFC 7505).

use async_trait::async_trait;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::name_server::TokioConnectionProvider;

use crate::channel::guard::ResolveFault;

/// Most hosts of one domain that are tried in one attempt.
const HOSTS_MAX: usize = 10;

/// One MX record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Lower is tried earlier.
    pub preference: u16,
    /// The host's name; empty or `.` says that the domain takes no mail.
    pub host: String,
}

/// Looks up the MX records of a domain.
#[async_trait]
pub trait Exchanges: Send + Sync {
    /// All MX records of `domain`, in any order; empty when it has none.
    ///
    /// # Errors
    /// `ResolveFault` when there was no answer, or the answer was that the name does not exist.
    async fn exchanges(&self, domain: &str) -> Result<Vec<Exchange>, ResolveFault>;
}

/// The domain says that it takes no mail (RFC 7505).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the domain takes no mail: its MX record is null")]
pub(super) struct NullMx;

/// The hosts to try, in order, without final dots: `domain` itself when it has no MX record.
///
/// `draw` gives random bits. They choose among hosts of equal preference, which is how a domain spreads its load.
///
/// # Errors
/// `NullMx`, which is final.
pub(super) fn hosts(
    domain: &str,
    exchanges: Vec<Exchange>,
    mut draw: impl FnMut() -> u64,
) -> Result<Vec<String>, NullMx> {
    if exchanges.is_empty() {
        return Ok(vec![domain.to_owned()]);
    }
    let mut named: Vec<(u16, u64, String)> = Vec::with_capacity(exchanges.len());
    for exchange in exchanges {
        let host = exchange.host.trim_end_matches('.');
        // A null record beside others is a mistake; the others say where the mail is wanted.
        if !host.is_empty() {
            named.push((exchange.preference, draw(), host.to_owned()));
        }
    }
    if named.is_empty() {
        return Err(NullMx);
    }
    named.sort();
    Ok(named.into_iter().map(|(_, _, host)| host).take(HOSTS_MAX).collect())
}

/// The name servers of the machine's own configuration.
///
/// Its sockets belong to the runtime it is used on, so each runtime needs one of its own.
pub struct SystemExchanges(TokioResolver);

impl SystemExchanges {
    /// Reads the machine's configuration. Without one no domain has an answer.
    pub fn new() -> Self {
        let builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
            tracing::warn!(error = %error, "no name servers: the resolver configuration cannot be read");
            TokioResolver::builder_with_config(ResolverConfig::new(), TokioConnectionProvider::default())
        });
        Self(builder.build())
    }
}

impl Default for SystemExchanges {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Exchanges for SystemExchanges {
    async fn exchanges(&self, domain: &str) -> Result<Vec<Exchange>, ResolveFault> {
        match self.0.mx_lookup(absolute(domain)).await {
            Ok(found) => {
                let records = found.iter().map(|record| Exchange {
                    preference: record.preference(),
                    host: record.exchange().to_ascii(),
                });
                Ok(records.collect())
            }
            Err(error) if error.is_nx_domain() => Err(ResolveFault("the domain does not exist".to_owned())),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => Err(ResolveFault(error.to_string())),
        }
    }
}

/// With the final dot, which keeps the machine's search list away: somebody else's name is never one of our own.
pub(super) fn absolute(name: &str) -> String {
    format!("{}.", name.trim_end_matches('.'))
}
