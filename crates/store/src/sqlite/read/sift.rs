//! Which of some keys may be of interest, told by one statement for all of them.
//!
//! A list looks at thousands of rows, and of a rare thing nearly all are passed over. Row by row each takes several
//! statements; here many take one, and only what may match is looked at in full.

use rusqlite::params;

use super::Reader;
use crate::row::{DeliveryFilter, EventFilter, RequestFilter, RequestState};
use crate::sqlite::Fault;
use crate::sqlite::codec::{self, PENDING, REQUEST, SENDING};
use crate::sqlite::config::over;

/// The keys of an array, as `FROM` takes them: `?1` is what [`array`] makes.
const WANTED: &str = "json_each(?1) AS wanted";

impl Reader<'_> {
    /// Leaves out what is surely no request that a filter wants.
    pub(super) fn sift_requests(
        &mut self,
        keys: Vec<i64>,
        filter: &RequestFilter,
    ) -> Result<Vec<i64>, Fault> {
        let keys = self.requests_saying(keys, filter)?;
        match filter.state {
            None => Ok(keys),
            Some(RequestState::None) => self.without_deliveries(&keys),
            Some(RequestState::Pending) => self.with_deliveries(keys, &["pending", "sending"]),
            Some(RequestState::Delivered) => self.with_deliveries(keys, &["delivered"]),
            Some(RequestState::Failed) => self.with_deliveries(keys, &["failed"]),
            Some(RequestState::Cancelled) => self.with_deliveries(keys, &["cancelled"]),
        }
    }

    /// Leaves out what does not say what a filter wants.
    fn requests_saying(&self, keys: Vec<i64>, filter: &RequestFilter) -> Result<Vec<i64>, Fault> {
        if filter.method.is_none() && filter.path.is_none() && filter.text.is_none() {
            return Ok(keys);
        }
        let sql = format!(
            "SELECT message.key FROM {WANTED} CROSS JOIN message ON message.key = wanted.value WHERE message.kind = {REQUEST} \
             AND (?2 IS NULL OR message.method = ?2) AND (?3 IS NULL OR instr(message.path, ?3) > 0) AND (?4 IS NULL OR instr(message.body, ?4) > 0)"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let text = filter.text.as_ref().map(String::as_bytes);
        let rows =
            statement.query_map(params![array(&keys), filter.method, filter.path, text], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Leaves out events of other types than a filter wants.
    pub(super) fn sift_events(&mut self, keys: Vec<i64>, filter: &EventFilter) -> Result<Vec<i64>, Fault> {
        let Some(wanted) = &filter.event_type else { return Ok(keys) };
        let sql = format!(
            "SELECT message.key FROM {WANTED} CROSS JOIN message ON message.key = wanted.value WHERE message.type = ?2"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map(params![array(&keys), wanted.as_str()], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn without_deliveries(&self, keys: &[i64]) -> Result<Vec<i64>, Fault> {
        let sql = format!(
            "SELECT message.key FROM {WANTED} CROSS JOIN message ON message.key = wanted.value WHERE message.fanout = 0"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement.query_map([array(keys)], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Leaves those of some messages that may have a delivery in one of these states.
    fn with_deliveries(&mut self, mut keys: Vec<i64>, states: &[&str]) -> Result<Vec<i64>, Fault> {
        let found = {
            let sql = format!(
                "SELECT wanted.value, delivery.key, delivery.endpoint, delivery.state \
                 FROM {WANTED} CROSS JOIN message ON message.key = wanted.value CROSS JOIN delivery \
                 ON delivery.key > message.key AND delivery.key <= message.key + message.fanout \
                 UNION ALL SELECT wanted.value, delivery.key, delivery.endpoint, delivery.state \
                 FROM {WANTED} CROSS JOIN delivery ON delivery.message = wanted.value AND delivery.retry_of IS NOT NULL"
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            let rows = statement
                .query_map([array(&keys)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            rows.collect::<Result<Vec<(i64, i64, i64, i64)>, _>>()?
        };
        let mut kept = Vec::new();
        for (message, key, endpoint, state) in found {
            if kept.last() != Some(&message) && self.may_be(states, key, endpoint, state)? {
                kept.push(message);
            }
        }
        kept.sort_unstable();
        keys.retain(|key| kept.binary_search(key).is_ok());
        Ok(keys)
    }

    /// Leaves out what is surely no delivery that a filter wants.
    pub(super) fn sift_deliveries(
        &mut self,
        mut keys: Vec<i64>,
        filter: &DeliveryFilter,
    ) -> Result<Vec<i64>, Fault> {
        let Some(wanted) = filter.state.as_deref() else { return Ok(keys) };
        let found = {
            let sql = format!(
                "SELECT delivery.key, delivery.endpoint, delivery.state \
                 FROM {WANTED} CROSS JOIN delivery ON delivery.key = wanted.value"
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            let rows =
                statement.query_map([array(&keys)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<Vec<(i64, i64, i64)>, _>>()?
        };
        let mut kept = Vec::new();
        for (key, endpoint, state) in found {
            if self.may_be(&[wanted], key, endpoint, state)? {
                kept.push(key);
            }
        }
        kept.sort_unstable();
        keys.retain(|key| kept.binary_search(key).is_ok());
        Ok(keys)
    }

    /// Whether a delivery may be shown in one of these states: what a deletion or a pause has not swept yet is shown in
    /// another than its own.
    fn may_be(&mut self, states: &[&str], key: i64, endpoint: i64, state: i64) -> Result<bool, Fault> {
        if states
            .iter()
            .filter_map(|name| codec::state_range(name))
            .any(|(first, last)| (first..=last).contains(&state))
        {
            return Ok(true);
        }
        if ![PENDING, SENDING].contains(&state) {
            return Ok(false);
        }
        let endpoint = self.endpoint(endpoint)?;
        Ok(over(endpoint.gone, endpoint.standing, key).is_some())
    }
}

/// Keys as a JSON array.
fn array(keys: &[i64]) -> String {
    let numbers: Vec<String> = keys.iter().map(i64::to_string).collect();
    format!("[{}]", numbers.join(","))
}
