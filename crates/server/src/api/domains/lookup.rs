//! Asks the machine's name servers, and not for long.

use std::time::Duration;

use async_trait::async_trait;

use crate::mail::records::{Lookup, LookupFault, SystemLookup};

/// How long a name may take.
const LOOKUP_TIME: Duration = Duration::from_secs(5);

/// The machine's name servers as they are configured when they are asked: a configuration that cannot be read fails the
/// look-up, not the start of the server.
pub struct MachineLookup;

#[async_trait]
impl Lookup for MachineLookup {
    async fn txt(&self, name: &str) -> Result<Vec<String>, LookupFault> {
        let lookup = SystemLookup::new()?;
        let found = tokio::time::timeout(LOOKUP_TIME, lookup.txt(name)).await;
        found.unwrap_or_else(|_| Err(LookupFault(format!("none within {} s", LOOKUP_TIME.as_secs()))))
    }
}
