//! Reads query strings: filters, and where a page of a list starts.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use restante_core::id::Key;
use restante_core::{Timestamp, limits};
use restante_store::{Page, Start};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::error::ApiError;

/// A call's query parameters. Unknown ones are refused, as `T` must deny them.
pub(crate) struct Query<T>(pub(crate) T);

/// The query parameters of a list: which page, of what.
pub(crate) struct Listing<F> {
    pub(crate) page: Page,
    pub(crate) filter: F,
}

/// For lists that have no filters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFilter {}

/// The parameters that all lists have.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// Items on a page, 1 to 100; 25 unless given.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// Go on behind the page that gave this `next_cursor`.
    cursor: Option<String>,
    /// The same as `cursor`.
    starting_after: Option<String>,
    /// The page just before the one that gave this `prev_cursor`.
    ending_before: Option<String>,
    /// Whether `total` is wanted.
    include_total: Option<bool>,
}

const PAGING: [&str; 5] = ["limit", "cursor", "starting_after", "ending_before", "include_total"];

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parse(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

impl<S: Sync, F: DeserializeOwned> FromRequestParts<S> for Listing<F> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        let (mut paging, mut filter) = (
            form_urlencoded::Serializer::new(String::new()),
            form_urlencoded::Serializer::new(String::new()),
        );
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let part = if PAGING.contains(&name.as_ref()) { &mut paging } else { &mut filter };
            part.append_pair(&name, &value);
        }
        Ok(Self { page: page(parse(&paging.finish())?)?, filter: parse(&filter.finish())? })
    }
}

/// Parses a query string.
///
/// # Errors
/// 422 that names the parameter.
fn parse<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let param = error.path().to_string();
        let message = error.into_inner().to_string();
        if let Some((param, _)) = message.strip_prefix("duplicate field `").and_then(|it| it.split_once('`'))
        {
            return invalid(param, "is there twice");
        }
        if message.starts_with("unknown field") {
            let message = format!("there is no query parameter {param} here");
            return ApiError::invalid("unknown_parameter", message).on(param);
        }
        invalid(&param, &message)
    })
}

/// A query parameter that is not what it should be.
pub(crate) fn invalid(param: &str, message: &str) -> ApiError {
    ApiError::invalid("invalid_parameter", format!("{param}: {message}")).on(param)
}

/// # Errors
/// 422 when `until` lies before `since`.
pub(crate) fn check_span(since: Option<Timestamp>, until: Option<Timestamp>) -> Result<(), ApiError> {
    match (since, until) {
        (Some(since), Some(until)) if until < since => Err(invalid("until", "lies before since")),
        _ => Ok(()),
    }
}

fn page(paging: Paging) -> Result<Page, ApiError> {
    let limit = paging.limit.unwrap_or(limits::PAGE_DEFAULT);
    if !(1..=limits::PAGE_MAX).contains(&limit) {
        return Err(invalid("limit", &format!("must be 1 to {}", limits::PAGE_MAX)));
    }
    let starts = [
        ("cursor", paging.cursor, Start::After as fn(Key) -> Start),
        ("starting_after", paging.starting_after, Start::After),
        ("ending_before", paging.ending_before, Start::Before),
    ];
    let mut start = Start::Newest;
    for (param, cursor, make) in starts {
        let Some(cursor) = cursor else { continue };
        if start != Start::Newest {
            return Err(invalid(param, "only one of cursor, starting_after and ending_before may be given"));
        }
        let key = read_cursor(&cursor).ok_or_else(|| invalid(param, "is no cursor of ours"))?;
        start = make(key);
    }
    Ok(Page { limit, start, total: paging.include_total.unwrap_or(false) })
}

/// Says how the rest is to be read, so that cursors in callers' hands survive a change of the format.
const CURSOR_VERSION: &str = "01";

/// The wire's form of a place in a list. Opaque to callers.
pub(crate) fn cursor(key: Key) -> String {
    format!("{CURSOR_VERSION}{:016x}", key.value())
}

/// The key in a cursor; `None` for what is none of ours.
pub(crate) fn read_cursor(text: &str) -> Option<Key> {
    let digits = text.strip_prefix(CURSOR_VERSION)?;
    let canonical = digits.len() == 16 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let value = i64::from_str_radix(digits, 16).ok()?;
    canonical.then(|| Key::from_value(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_no_cursor() {
        for text in [
            "",
            "01",
            "0100000000000000",
            "01000000000000000g",
            "01+00000000000000a",
            "01000000000000000A",
            "01ffffffffffffffff",
            "020000000000000001",
            "req_01",
            "01é00000000000000",
        ] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
    }

    #[test]
    fn parameters_are_checked() {
        let read = |query: &str| parse::<Paging>(query).and_then(page);
        let start = cursor(Key::from_value(7));
        assert_eq!(read("").unwrap(), Page { limit: 25, start: Start::Newest, total: false });
        assert_eq!(
            read(&format!("limit=100&starting_after={start}&include_total=true")).unwrap(),
            Page { limit: 100, start: Start::After(Key::from_value(7)), total: true }
        );
        let table = [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("limit=1&limit=2", "limit"),
            ("cursor=zz", "cursor"),
            ("include_total=maybe", "include_total"),
            ("page=2", "page"),
        ];
        for (query, param) in table {
            let body = serde_json::to_value(read(query).unwrap_err().body("r")).unwrap();
            assert_eq!(body["error"]["param"], param, "{query}");
        }
        let both = format!("cursor={start}&ending_before={start}");
        assert_eq!(read(&both).unwrap_err().status.as_u16(), 422);
    }

    proptest::proptest! {
        #[test]
        fn a_cursor_comes_back(value in 0i64..=i64::MAX) {
            let key = Key::from_value(value);
            proptest::prop_assert_eq!(read_cursor(&cursor(key)), Some(key));
        }

        #[test]
        fn only_what_we_write_is_read(text in ".{0,24}") {
            if let Some(key) = read_cursor(&text) {
                proptest::prop_assert_eq!(cursor(key), text);
            }
        }
    }
}
