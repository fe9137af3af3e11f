//! Walking through a table until a page of matches is full, or enough was looked at.

use std::future::Future;

use restante_core::Timestamp;
use restante_core::id::Key;

use crate::postgres::Fault;
use crate::postgres::read::Reader;
use crate::postgres::scan::{self, Range, Table};
use crate::postgres::sql::Sql;
use crate::{Page, Paged, Start};

/// Rows a list looks at before it gives what it has.
const LOOK_MAX: usize = 10_000;
/// Rows that counting all matches looks at.
const COUNT_MAX: usize = 20_000;
/// Rows looked at with one statement. A walk begins with what a page holds: most lists need no more.
const CHUNK_MAX: usize = 1024;
/// Each statement of a walk looks at so many times more than the one before.
const CHUNK_GROWTH: usize = 4;

/// What a list is of.
pub(in crate::postgres::read) trait List: Sync {
    type Match: Keyed + Send;

    /// The matches among some keys, in their order.
    fn matches(
        &self,
        reader: &mut Reader<'_>,
        owner: i64,
        keys: &[i64],
    ) -> impl Future<Output = Result<Vec<Self::Match>, Fault>> + Send;
}

pub(in crate::postgres::read) trait Keyed {
    fn key(&self) -> Key;
}

/// Where a list looks.
pub(in crate::postgres::read) enum Among {
    /// Everywhere in the workspace.
    All,
    /// At what belongs to these sources or endpoints.
    Scopes(Vec<i64>),
    /// At these rows.
    Keys(Vec<i64>),
}

/// What a list walks through.
pub(in crate::postgres::read) struct Walk {
    table: Table,
    owner: i64,
    among: Among,
    above: i64,
    below: i64,
}

impl Walk {
    pub(in crate::postgres::read) async fn new(
        sql: &Sql,
        table: Table,
        owner: i64,
        among: Among,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<Self, Fault> {
        let range = Range::of_times(since, until, scan::key_lead(sql).await?);
        Ok(Self { table, owner, among, above: range.above, below: range.below })
    }

    fn range(&self, start: Start) -> Range {
        let (above, below) = (self.above, self.below);
        match start {
            Start::Newest => Range { above, below, newest_first: true },
            Start::After(key) => Range { above, below: below.min(key.value()), newest_first: true },
            Start::Before(key) => Range { above: above.max(key.value()), below, newest_first: false },
        }
    }

    /// Whether nothing follows a chunk of `len` where there could have been `most`. Of several scopes a chunk may be short
    /// though more follows.
    fn ends_with(&self, len: usize, most: usize) -> bool {
        let of_several = matches!(&self.among, Among::Scopes(scopes) if scopes.len() > 1);
        len < most && !of_several
    }

    /// The next keys of a range.
    async fn keys(&self, sql: &Sql, range: Range, limit: usize) -> Result<Vec<i64>, Fault> {
        let scopes = match &self.among {
            Among::All => None,
            Among::Scopes(scopes) => Some(scopes.as_slice()),
            Among::Keys(keys) => return Ok(range.pick(keys, limit)),
        };
        scan::keys(sql, self.table, self.owner, scopes, range, limit).await
    }
}

impl Reader<'_> {
    pub(in crate::postgres::read) async fn walk<L: List>(
        &mut self,
        walk: &Walk,
        list: &L,
        page: Page,
    ) -> Result<Paged<L::Match>, Fault> {
        let mut range = walk.range(page.start);
        let (mut items, mut looked) = (Vec::new(), 0);
        let mut chunk_max = (page.limit + 1).min(CHUNK_MAX);
        let mut stopped_at = None;
        while items.len() <= page.limit {
            let chunk = walk.keys(self.sql, range, chunk_max).await?;
            let Some(last) = chunk.last().copied() else { break };
            items.extend(list.matches(self, walk.owner, &chunk).await?);
            if walk.ends_with(chunk.len(), chunk_max) {
                break;
            }
            range = range.behind(last);
            looked += chunk.len();
            chunk_max = (chunk_max * CHUNK_GROWTH).min(CHUNK_MAX);
            if looked >= LOOK_MAX && items.len() <= page.limit {
                stopped_at = Some(Key::from_value(last));
                break;
            }
        }
        let mut paged = Paged::cut(items, page, Keyed::key);
        if let Some(key) = stopped_at {
            if range.newest_first { paged.next = Some(key) } else { paged.prev = Some(key) }
        }
        if page.total {
            paged.total = self.count(walk, list).await?;
        }
        Ok(paged)
    }

    /// Counts all matches; `None` when there is more to look at than a read may take.
    async fn count<L: List>(&mut self, walk: &Walk, list: &L) -> Result<Option<u64>, Fault> {
        let mut range = walk.range(Start::Newest);
        let (mut count, mut looked) = (0, 0);
        loop {
            let chunk = walk.keys(self.sql, range, CHUNK_MAX).await?;
            let Some(last) = chunk.last().copied() else { return Ok(Some(count)) };
            count += list.matches(self, walk.owner, &chunk).await?.len() as u64;
            if walk.ends_with(chunk.len(), CHUNK_MAX) {
                return Ok(Some(count));
            }
            range = range.behind(last);
            looked += chunk.len();
            if looked >= COUNT_MAX {
                return Ok(None);
            }
        }
    }
}
