//! Domains that a workspace sends mail from.

mod lookup;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use data_encoding::HEXLOWER;
use restante_core::email::Address;
use restante_core::email::address::Fault;
use restante_core::id::{Tail, kind};
use restante_store::record::{Domain, Record};
use serde::Deserialize;
use tokio::sync::Semaphore;
use utoipa::ToSchema;

use super::auth::{Caller, DomainsRead, DomainsWrite};
use super::body::Body;
use super::error::ApiError;
use super::path::One;
use super::query::{Listing, NoFilter, Paging};
use super::records::{self as kept, written};
use super::{Api, ApiState, wire};
use crate::mail::dkim::Key;
use crate::mail::records::{self, LookupFault, Purpose, Setup, Status};
use crate::vault;

pub use lookup::MachineLookup;

/// What SPF records are advised to name: the hosts of the domain itself. Which others send for it, a relay's say, only
/// its owner knows.
const SENDERS: &str = "a mx";
/// What a DKIM record begins with, before the key.
const DKIM_START: &str = "v=DKIM1; k=rsa; p=";
/// Keys are made one at a time: each is a second of CPU that attempts would wait for.
static MAKING: Semaphore = Semaphore::const_new(1);

/// A domain to send from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDomain {
    /// As `example.com`. Letters beyond ASCII are written as A-labels from then on.
    name: String,
}

/// A change of a domain, of which there is nothing to change yet.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DomainInput {
    /// The name that it has.
    name: Option<String>,
}

/// Add a domain
///
/// With a key of its own, which signs its mail once the records that are answered are set and verified.
#[utoipa::path(
    post, path = "/v1/domains", operation_id = "domains.create", tag = "domains",
    request_body = NewDomain,
    responses((status = 201, body = wire::Domain), (status = 409, description = "`name_taken`")),
    security(("key" = ["domains:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    caller: Caller<DomainsWrite>,
    Body(new): Body<NewDomain>,
) -> Result<(StatusCode, Json<wire::Domain>), ApiError> {
    let name = read_name(&new.name)?;
    let domain = with_key(&api, name).await?;
    let tail = Tail::from_bits(api.clock.draw());
    let made = api.store.make(Some(caller.workspace), None, domain, tail, api.clock.now()).await?;
    Ok((StatusCode::CREATED, Json(show(&api, written(made)?))))
}

/// List domains
#[utoipa::path(
    get, path = "/v1/domains", operation_id = "domains.list", tag = "domains",
    params(Paging), responses((status = 200, body = wire::Page<wire::Domain>)),
    security(("key" = ["domains:read"])),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    caller: Caller<DomainsRead>,
    listing: Listing<NoFilter>,
) -> Result<Json<wire::Page<wire::Domain>>, ApiError> {
    let NoFilter {} = listing.filter;
    let domains = api.store.list::<Domain>(Some(caller.workspace), None, listing.page).await?;
    Ok(Json(wire::Page::new(domains, listing.page.total, |domain| show(&api, domain))))
}

/// Get a domain
#[utoipa::path(
    get, path = "/v1/domains/{id}", operation_id = "domains.get", tag = "domains",
    params(("id" = String, Path, description = "`dom_…`")), responses((status = 200, body = wire::Domain)),
    security(("key" = ["domains:read"])),
)]
pub(crate) async fn get(
    State(api): State<Api>,
    caller: Caller<DomainsRead>,
    One(id): One<kind::Domain>,
) -> Result<Json<wire::Domain>, ApiError> {
    let domain = kept::get(&api, &caller.place::<Domain>(id)).await?;
    Ok(Json(show(&api, domain)))
}

/// Change a domain
///
/// Its name stays: mail from another one is another domain's.
#[utoipa::path(
    patch, path = "/v1/domains/{id}", operation_id = "domains.update", tag = "domains",
    params(("id" = String, Path, description = "`dom_…`")), request_body = DomainInput,
    responses((status = 200, body = wire::Domain)),
    security(("key" = ["domains:write"])), extensions(("x-retry-class" = json!("set"))),
)]
pub(crate) async fn update(
    State(api): State<Api>,
    caller: Caller<DomainsWrite>,
    One(id): One<kind::Domain>,
    Body(input): Body<DomainInput>,
) -> Result<Json<wire::Domain>, ApiError> {
    let domain = kept::get(&api, &caller.place::<Domain>(id)).await?;
    if let Some(name) = &input.name
        && read_name(name)? != domain.body.name
    {
        let message = "the name of a domain cannot change: add the other one with POST /v1/domains";
        return Err(ApiError::invalid("invalid_field", message).on("name"));
    }
    Ok(Json(show(&api, domain)))
}

/// Delete a domain
///
/// Its key is gone for good: mail from it is not signed any more.
#[utoipa::path(
    delete, path = "/v1/domains/{id}", operation_id = "domains.delete", tag = "domains",
    params(("id" = String, Path, description = "`dom_…`")), responses((status = 204, description = "Deleted")),
    security(("key" = ["domains:write"])), extensions(("x-retry-class" = json!("once"))),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    caller: Caller<DomainsWrite>,
    One(id): One<kind::Domain>,
) -> Result<StatusCode, ApiError> {
    kept::delete(&api, &caller.place::<Domain>(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Look a domain's records up
///
/// With its key in the DNS it is verified, and without it is not any more. Where name servers do not answer, it stays
/// what it was.
#[utoipa::path(
    post, path = "/v1/domains/{id}/verify", operation_id = "domains.verify", tag = "domains",
    params(("id" = String, Path, description = "`dom_…`")), responses((status = 200, body = wire::Domain)),
    security(("key" = ["domains:write"])), extensions(("x-retry-class" = json!("evaluate"))),
)]
pub(crate) async fn verify(
    State(api): State<Api>,
    caller: Caller<DomainsWrite>,
    One(id): One<kind::Domain>,
) -> Result<Json<wire::Domain>, ApiError> {
    let place = caller.place::<Domain>(id);
    let domain = kept::get(&api, &place).await?;
    let mut found = wanted(&domain.body);
    let looked = records::check(&mut found, &*api.lookup).await;
    let error = wrong(&found, looked);
    let verified = dkim(&found).is_some_and(|record| record.status == Status::Verified);
    let now = api.clock.now();
    let note = |domain: &mut Domain| {
        domain.checked_at = Some(now);
        domain.error.clone_from(&error);
        domain.verified_at = if verified { domain.verified_at.or(Some(now)) } else { None };
        Ok(())
    };
    let domain = kept::change(&api, &place, note).await?;
    Ok(Json(wire::Domain::new(domain, found, !api.require_verified_domains)))
}

/// What is wrong with the record that counts, in words.
fn wrong(found: &[records::Record], looked: Result<(), LookupFault>) -> Option<String> {
    let record = dkim(found)?;
    match (record.status, looked) {
        (_, Err(fault)) => Some(format!("the name servers gave no answer: {fault}")),
        (Status::Verified, Ok(())) => None,
        (Status::Pending, Ok(())) => Some(format!("there is no TXT record at {}", record.name)),
        (Status::Failed, Ok(())) => {
            Some(format!("the TXT record at {} is not the one to set, or there are several", record.name))
        }
    }
}

fn dkim(records: &[records::Record]) -> Option<&records::Record> {
    records.iter().find(|record| record.purpose == Purpose::Dkim)
}

/// The records to set, with what is known of them.
fn wanted(domain: &Domain) -> Vec<records::Record> {
    let dkim = format!("{DKIM_START}{}", domain.public_key);
    let setup = Setup { domain: &domain.name, selector: &domain.selector, dkim: &dkim, senders: SENDERS };
    let mut wanted = records::wanted(setup);
    for record in &mut wanted {
        if record.purpose == Purpose::Dkim && domain.verified_at.is_some() {
            record.status = Status::Verified;
        }
    }
    wanted
}

fn show(api: &ApiState, domain: Record<Domain>) -> wire::Domain {
    let wanted = wanted(&domain.body);
    wire::Domain::new(domain, wanted, !api.require_verified_domains)
}

/// The name of a domain as addresses have it.
fn read_name(text: &str) -> Result<String, ApiError> {
    let fault = |message: &str| ApiError::invalid("invalid_field", message).on("name");
    match Address::from_parts(&format!("a@{text}"), None) {
        Ok(address) if address.local() == "a" => Ok(address.domain().to_owned()),
        Err(Fault::Literal) => Err(fault("must be a name: an IP address cannot stand in for the domain")),
        Ok(_) | Err(_) => Err(fault("must be the name of a domain, such as mail.example.com")),
    }
}

/// A new domain with a key of its own.
async fn with_key(api: &Api, name: String) -> Result<Domain, ApiError> {
    let broken = |cause: String| ApiError::broken(format!("making the key of a domain: {cause}"));
    let turn = MAKING.acquire().await.map_err(|error| broken(error.to_string()))?;
    let clock = Arc::clone(&api.clock);
    let making = tokio::task::spawn_blocking(move || {
        // Held until the key is made, also when the caller has gone.
        let _turn = turn;
        Key::generate(&*clock)
    });
    let pem = making.await.map_err(|error| broken(error.to_string()))?;
    let record = Key::read(&pem).map_err(|error| broken(error.to_string()))?.record();
    let public_key = record.strip_prefix(DKIM_START).ok_or_else(|| broken(record.clone()))?.to_owned();
    let random: [u8; 4] = vault::random(&*api.clock);
    Ok(Domain {
        name,
        selector: format!("rst{}", HEXLOWER.encode(&random)),
        private_key: api.vault.seal(vault::Purpose::DomainKey, pem.expose(), &*api.clock),
        public_key,
        verified_at: None,
        checked_at: None,
        error: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_addresses_read_them() {
        let table = [
            ("Example.COM", Some("example.com")),
            ("bücher.example", Some("xn--bcher-kva.example")),
            ("a.b.c.example", Some("a.b.c.example")),
            ("", None),
            ("jane@example.com", None),
            ("[192.0.2.1]", None),
            ("192.0.2.1", None),
            ("https://example.com", None),
            ("example..com", None),
            ("exa mple.com", None),
            ("b\n.example", None),
        ];
        for (text, expected) in table {
            assert_eq!(read_name(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_of_the_key_alone() {
        let setup =
            Setup { domain: "a.example", selector: "s", dkim: "v=DKIM1; k=rsa; p=AA", senders: SENDERS };
        let mut records = records::wanted(setup);
        let mut say = |status, looked| {
            records[0].status = status;
            wrong(&records, looked)
        };
        assert_eq!(say(Status::Verified, Ok(())), None);
        let expected = "there is no TXT record at s._domainkey.a.example";
        assert_eq!(say(Status::Pending, Ok(())).as_deref(), Some(expected));
        let expected = "the TXT record at s._domainkey.a.example is not the one to set, or there are several";
        assert_eq!(say(Status::Failed, Ok(())).as_deref(), Some(expected));
        let silent = || Err(LookupFault("timed out".into()));
        let expected = "the name servers gave no answer: timed out";
        assert_eq!(say(Status::Verified, silent()).as_deref(), Some(expected));
    }
}
