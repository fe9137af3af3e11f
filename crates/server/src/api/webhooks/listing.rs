//! Pages of the list of webhooks, which callers may sort.
//!
//! A workspace has few webhooks, so all are read and the page is cut out of them. A cursor holds what its item is
//! sorted by, so that it stays good when the item goes.

use data_encoding::BASE64URL_NOPAD;
use restante_core::endpoint::Webhook;
use restante_core::id::Key;
use restante_core::limits;
use restante_store::record::Record;
use serde::Deserialize;
use url::Url;

use crate::api::error::ApiError;
use crate::api::query::{cursor, invalid, read_cursor};

/// Between the two parts of a cursor.
const SEPARATOR: char = '.';

/// Which webhooks are wanted, and in which order.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WebhookListing {
    /// With exactly this URL.
    url: Option<String>,
    /// `created_at` unless given.
    #[param(inline)]
    sort: Option<Sort>,
    /// `desc` unless given.
    #[param(inline)]
    order: Option<Order>,
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

/// What the list can be sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    CreatedAt,
    Url,
}

/// In which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    Asc,
    Desc,
}

/// What an item is sorted by: its URL, where that counts, then its age.
pub(crate) type Place = (String, i64);

/// One page of webhooks.
pub(crate) struct WebhookPage {
    pub(crate) items: Vec<Record<Webhook>>,
    pub(crate) next: Option<String>,
    pub(crate) prev: Option<String>,
    pub(crate) total: Option<u64>,
}

impl WebhookListing {
    /// Cuts the page out of all webhooks.
    ///
    /// # Errors
    /// 422 that names the parameter.
    pub(crate) fn cut(self, mut all: Vec<Record<Webhook>>) -> Result<WebhookPage, ApiError> {
        let limit = self.limit.unwrap_or(limits::PAGE_DEFAULT);
        if !(1..=limits::PAGE_MAX).contains(&limit) {
            return Err(invalid("limit", &format!("must be 1 to {}", limits::PAGE_MAX)));
        }
        let descending = self.order.unwrap_or(Order::Desc) == Order::Desc;
        let by_url = self.sort == Some(Sort::Url);
        let place = |webhook: &Record<Webhook>| -> Place {
            let url = if by_url { webhook.body.url.clone() } else { String::new() };
            (url, webhook.id.key().value())
        };
        if let Some(url) = &self.url {
            // As it is kept: a caller looks for what it wrote when it made the webhook.
            let kept = Url::parse(url).map_or_else(|_| url.clone(), String::from);
            all.retain(|webhook| webhook.body.url == kept);
        }
        all.sort_by_cached_key(place);
        if descending {
            all.reverse();
        }
        let total = self.include_total.unwrap_or(false).then_some(all.len() as u64);
        let is_behind = |webhook: &Record<Webhook>, mark: &Place| {
            if descending { place(webhook) < *mark } else { place(webhook) > *mark }
        };
        let (from, to) = match self.start(by_url)? {
            Start::Beginning => (0, limit),
            Start::After(mark) => {
                let from = all.iter().position(|it| is_behind(it, &mark)).unwrap_or(all.len());
                (from, from + limit)
            }
            Start::Before(mark) => {
                let behind = all.iter().position(|it| place(it) == mark || is_behind(it, &mark));
                let to = behind.unwrap_or(all.len());
                (to.saturating_sub(limit), to)
            }
        };
        let to = to.min(all.len());
        let next = (to < all.len() && to > from).then(|| write_cursor(&place(&all[to - 1])));
        let prev = (from > 0 && to > from).then(|| write_cursor(&place(&all[from])));
        let items = all.drain(from..to).collect();
        Ok(WebhookPage { items, next, prev, total })
    }

    fn start(&self, by_url: bool) -> Result<Start, ApiError> {
        let given = [
            ("cursor", &self.cursor, Start::After as fn(Place) -> Start),
            ("starting_after", &self.starting_after, Start::After),
            ("ending_before", &self.ending_before, Start::Before),
        ];
        let mut start = Start::Beginning;
        for (param, cursor, make) in given {
            let Some(cursor) = cursor else { continue };
            if !matches!(start, Start::Beginning) {
                return Err(invalid(
                    param,
                    "only one of cursor, starting_after and ending_before may be given",
                ));
            }
            let place = read_place(cursor, by_url);
            start = make(place.ok_or_else(|| invalid(param, "is no cursor of a list that is sorted so"))?);
        }
        Ok(start)
    }
}

/// Where a page starts.
enum Start {
    Beginning,
    After(Place),
    Before(Place),
}

pub(crate) fn write_cursor((url, key): &Place) -> String {
    let key = cursor(Key::from_value(*key));
    if url.is_empty() { key } else { format!("{key}{SEPARATOR}{}", BASE64URL_NOPAD.encode(url.as_bytes())) }
}

/// The place in a cursor; `None` for what is none of a list that is sorted by URL, or not.
pub(crate) fn read_place(text: &str, by_url: bool) -> Option<Place> {
    if !by_url {
        return Some((String::new(), read_cursor(text)?.value()));
    }
    let (key, url) = text.split_once(SEPARATOR)?;
    let url = String::from_utf8(BASE64URL_NOPAD.decode(url.as_bytes()).ok()?).ok()?;
    // No webhook is without one, so we have not written that.
    (!url.is_empty()).then_some((url, read_cursor(key)?.value()))
}

#[cfg(test)]
mod tests;
