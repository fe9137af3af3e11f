use crate::calls;
use crate::client::{Listing, Pending};
use crate::wire::{Domain, DomainChange, NewDomain, Paging};

/// Calls about domains that mail is sent from.
#[derive(Clone, Debug)]
pub struct Domains<C> {
    client: C,
}

impl<C: Clone> Domains<C> {
    pub(crate) fn new(client: C) -> Self {
        Self { client }
    }

    /// Adds a domain, with a key of its own that signs its mail once the records which are answered are set and
    /// verified. Not retried.
    ///
    /// Refused with `name_taken` (409) when the workspace has it. Scope `domains:write`.
    pub fn create(&self, domain: &NewDomain) -> Pending<C, Domain> {
        Pending::new(&self.client, &calls::DOMAINS_CREATE).body(domain)
    }

    /// Lists domains, newest first. Scope `domains:read`.
    pub fn list(&self, paging: &Paging) -> Listing<C, Domain> {
        Listing::new(&self.client, &calls::DOMAINS_LIST).query(paging)
    }

    /// Gets a domain by its id, `dom_…`. Scope `domains:read`.
    pub fn get(&self, id: &str) -> Pending<C, Domain> {
        Pending::new(&self.client, &calls::DOMAINS_GET).param("id", id)
    }

    /// Changes a domain, of which there is nothing to change yet. Retried.
    ///
    /// Scope `domains:write`.
    pub fn update(&self, id: &str, change: &DomainChange) -> Pending<C, Domain> {
        Pending::new(&self.client, &calls::DOMAINS_UPDATE).param("id", id).body(change)
    }

    /// Deletes a domain. Its key is gone for good: mail from it is not signed any more. Not retried.
    ///
    /// Scope `domains:write`.
    pub fn delete(&self, id: &str) -> Pending<C, ()> {
        Pending::empty(&self.client, &calls::DOMAINS_DELETE).param("id", id)
    }

    /// Looks a domain's records up in the DNS, and says of each what was found. Where name servers do not answer, the
    /// domain stays what it was. Retried.
    ///
    /// Scope `domains:write`.
    pub fn verify(&self, id: &str) -> Pending<C, Domain> {
        Pending::new(&self.client, &calls::DOMAINS_VERIFY).param("id", id)
    }
}
