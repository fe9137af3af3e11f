//! Every call a client can make, and whether it may be made again when its answer was lost.
//!
//! A read changes nothing. A write is repeated only if an identical second request cannot mean anything else than the
//! first: its [`Class`] says so, and its `reason` says why. Calls that this server has no route for yet are listed with
//! `path: None`, so that their class is settled before they come.

mod table;

use http::Method;

pub use table::*;

/// What an identical second request would mean, which decides whether a client may send one by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Class {
    /// Changes nothing. Repeated.
    Read,
    /// Its idempotency key makes a repetition the first message again. Repeated.
    Keyed,
    /// Sets a named state, or names the end result. Repeated.
    Set,
    /// A grant or an order given whole; bytes sent again replace what they are. Repeated.
    Upsert,
    /// A repetition finds the work done and says so. Repeated.
    NoOpWhenDone,
    /// Renders, counts or checks, and writes nothing but when it ran. Repeated.
    Evaluate,
    /// Two objects would remain. Not repeated.
    Creates,
    /// Each write moves the id; the next must use the one it was answered. Not repeated.
    MovesId,
    /// After a lost answer a repetition would report the failure of what succeeded. Not repeated.
    Deletes,
    /// A second rotation voids the secret that the first returned. Not repeated.
    Rotates,
    /// Something would be delivered a second time. Not repeated.
    RepeatsEffect,
    /// The same answer would be bought twice. Not repeated.
    Costs,
    /// A second mail would be sent, or a second guess be spent. Not repeated.
    Security,
    /// Whatever else is no GET. Not repeated.
    Once,
}

impl Class {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Read,
        Self::Keyed,
        Self::Set,
        Self::Upsert,
        Self::NoOpWhenDone,
        Self::Evaluate,
        Self::Creates,
        Self::MovesId,
        Self::Deletes,
        Self::Rotates,
        Self::RepeatsEffect,
        Self::Costs,
        Self::Security,
        Self::Once,
    ];

    /// Whether a client may send the identical request again.
    pub const fn is_retried(self) -> bool {
        match self {
            Self::Read | Self::Keyed | Self::Set | Self::Upsert | Self::NoOpWhenDone | Self::Evaluate => true,
            Self::Creates
            | Self::MovesId
            | Self::Deletes
            | Self::Rotates
            | Self::RepeatsEffect
            | Self::Costs
            | Self::Security
            | Self::Once => false,
        }
    }

    /// Its name in the server's description of the API (`x-retry-class`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Keyed => "keyed",
            Self::Set => "set",
            Self::Upsert => "upsert",
            Self::NoOpWhenDone => "no_op_when_done",
            Self::Evaluate => "evaluate",
            Self::Creates => "creates",
            Self::MovesId => "moves_id",
            Self::Deletes => "deletes",
            Self::Rotates => "rotates",
            Self::RepeatsEffect => "repeats_effect",
            Self::Costs => "costs",
            Self::Security => "security",
            Self::Once => "once",
        }
    }

    /// The class of a call that [`CALLS`] does not list: a GET or HEAD reads, anything else is sent once.
    pub fn of_unlisted(method: &Method) -> Self {
        if *method == Method::GET || *method == Method::HEAD { Self::Read } else { Self::Once }
    }
}

/// One call of the API.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// As clients name it: `emails.send`.
    pub name: &'static str,
    /// What an identical second request would mean.
    pub class: Class,
    /// Why it has its class.
    pub reason: &'static str,
    /// `None` as long as there is no route for it.
    pub method: Option<Method>,
    /// With its parameters in braces: `/v1/emails/{id}`. `None` as long as there is no route for it.
    pub path: Option<&'static str>,
}

impl Call {
    /// Whether this is the call with such a method and path. A literal segment is no parameter's value: `batch` is not
    /// the id of an email.
    fn answers(&self, method: &Method, path: &str) -> bool {
        self.method.as_ref() == Some(method) && self.path.is_some_and(|template| matches(template, path))
    }

    /// Parameters in its path.
    fn params(&self) -> usize {
        self.path.unwrap_or_default().matches('{').count()
    }
}

fn matches(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given => {}
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            (Some(_) | None, Some(_) | None) => return false,
        }
    }
}

/// The call by its name, `emails.send`.
pub fn named(name: &str) -> Option<&'static Call> {
    CALLS.iter().copied().find(|call| call.name == name)
}

/// The call that a method and a path (without query) make. Of calls that share a route it is the first listed.
pub fn find(method: &Method, path: &str) -> Option<&'static Call> {
    let fitting = CALLS.iter().copied().filter(|call| call.answers(method, path));
    fitting.min_by_key(|call| call.params())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn names_are_unique_and_every_call_has_a_reason() {
        let names: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
        assert_eq!(names.len(), CALLS.len());
        for call in CALLS {
            assert!(!call.reason.is_empty() && call.name.contains('.'), "{}", call.name);
            assert_eq!(call.method.is_some(), call.path.is_some(), "{}", call.name);
            assert_eq!(named(call.name).map(|it| it.name), Some(call.name));
            let reads = matches!(call.method, Some(Method::GET));
            assert_eq!(reads, call.class == Class::Read, "{}", call.name);
        }
    }

    #[test]
    fn calls_that_share_a_route_share_their_class() {
        let mut routes = BTreeMap::new();
        for call in CALLS {
            let Some(path) = call.path else { continue };
            let route = (call.method.as_ref().map(Method::as_str), path);
            assert_eq!(*routes.entry(route).or_insert(call.class), call.class, "{}", call.name);
        }
    }

    #[test]
    fn a_path_finds_its_call_and_literals_come_before_parameters() {
        let table = [
            (Method::POST, "/v1/emails", Some("emails.send")),
            (Method::POST, "/v1/emails/batch", Some("emails.send_batch")),
            (Method::POST, "/v1/events", Some("events.publish")),
            (Method::POST, "/v1/events/batch", Some("events.publish_batch")),
            (Method::POST, "/v1/templates/welcome/send", Some("templates.send")),
            (Method::POST, "/v1/templates/render", Some("templates.render")),
            (Method::GET, "/v1/emails/em_1", Some("emails.get")),
            (Method::PATCH, "/v1/emails/em_1", Some("emails.update")),
            (Method::GET, "/v1/emails/", None),
            (Method::PUT, "/v1/emails", None),
            (Method::POST, "/v1/emails/em_1/cancel", Some("emails.cancel")),
            (Method::POST, "/v1/emails/em_1/cancel/x", None),
            (Method::POST, "/emails", None),
        ];
        for (method, path, name) in table {
            assert_eq!(find(&method, path).map(|call| call.name), name, "{method} {path}");
        }
    }

    #[test]
    fn what_is_not_listed_is_read_or_sent_once() {
        assert_eq!(Class::of_unlisted(&Method::GET), Class::Read);
        assert_eq!(Class::of_unlisted(&Method::HEAD), Class::Read);
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert_eq!(Class::of_unlisted(&method), Class::Once);
        }
    }
}
