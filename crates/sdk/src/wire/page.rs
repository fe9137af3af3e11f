//! Pages of lists.

use serde::{Deserialize, Deserializer, Serialize};

/// One page of a list, newest first unless the call says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Read<T>")]
#[non_exhaustive]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// Whether older items follow.
    pub has_more: bool,
    /// Give this as `cursor` for older items.
    pub next_cursor: Option<String>,
    /// Give this as `ending_before` for newer items.
    pub prev_cursor: Option<String>,
    /// How many there are in all: `None` unless `include_total` asked for it, `Some(None)` where counting would take
    /// too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Option<u64>>,
}

/// A page as it is read: a log does not say whether more follows, but where.
#[derive(Deserialize)]
struct Read<T> {
    data: Vec<T>,
    has_more: Option<bool>,
    next_cursor: Option<String>,
    prev_cursor: Option<String>,
    #[serde(default, deserialize_with = "present")]
    total: Option<Option<u64>>,
}

impl<T> From<Read<T>> for Page<T> {
    fn from(read: Read<T>) -> Self {
        let Read { data, has_more, next_cursor, prev_cursor, total } = read;
        let has_more = has_more.unwrap_or(next_cursor.is_some());
        Self { data, has_more, next_cursor, prev_cursor, total }
    }
}

/// Reads a field that is there, be it null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A query parameter that can be left out.
pub(crate) trait Absent {
    fn is_absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// Makes the queries of lists: filters of their own, then the parameters that all lists have.
///
/// serde can flatten a struct of the latter into each, but then callers would have to write it out.
macro_rules! listings {
    ($(
        $(#[$about:meta])*
        $name:ident { $( $(#[$about_field:meta])* $field:ident: $type:ty, )* }
    )+) => { $(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Default, serde::Serialize)]
        pub struct $name {
            $(
                $(#[$about_field])*
                #[serde(skip_serializing_if = "crate::wire::page::Absent::is_absent")]
                pub $field: $type,
            )*
            /// Items on a page, 1 to 100; 25 unless given.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub limit: Option<u32>,
            /// Begin behind the page that gave this `next_cursor`. Not together with `ending_before`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub cursor: Option<String>,
            /// The page just before the one that gave this `prev_cursor`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub ending_before: Option<String>,
            /// Whether `total` is wanted.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub include_total: Option<bool>,
        }
    )+ };
}

pub(crate) use listings;

listings! {
    /// Which page of a list that has no filters.
    Paging {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_that_was_not_asked_for_is_not_one_that_is_not_known() {
        let rest = r#""data":[1],"has_more":false,"next_cursor":null,"prev_cursor":"01a""#;
        for (end, total) in [("", None), (r#","total":null"#, Some(None)), (r#","total":7"#, Some(Some(7)))] {
            let text = format!("{{{rest}{end}}}");
            let page: Page<u8> = serde_json::from_str(&text).unwrap();
            assert_eq!(page.total, total);
            assert_eq!(serde_json::to_string(&page).unwrap(), text);
        }
    }

    #[test]
    fn a_log_goes_on_while_it_says_where() {
        let read = |text| serde_json::from_str::<Page<u8>>(text).unwrap();
        assert!(read(r#"{"data":[1],"next_cursor":"02a"}"#).has_more);
        assert!(!read(r#"{"data":[1],"next_cursor":null}"#).has_more);
    }

    #[test]
    fn only_what_is_given_is_in_a_query() {
        assert_eq!(serde_urlencoded::to_string(Paging::default()).unwrap(), "");
        let paging = Paging { limit: Some(50), include_total: Some(true), ..Default::default() };
        assert_eq!(serde_urlencoded::to_string(paging).unwrap(), "limit=50&include_total=true");
    }
}
