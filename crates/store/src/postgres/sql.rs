//! A connection, and short ways to ask it.

use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Fault;

/// The parameters of a statement.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection of the pool. Statements are prepared once on each.
pub(crate) struct Sql {
    client: Object,
    /// What was asked, and with how many parameters: see [`plans`](super::plans).
    #[cfg(feature = "conformance")]
    asked: std::sync::Mutex<Vec<(String, usize)>>,
}

impl Sql {
    pub(crate) fn new(client: Object) -> Self {
        Self {
            client,
            #[cfg(feature = "conformance")]
            asked: std::sync::Mutex::default(),
        }
    }

    /// What was asked since this was last called.
    #[cfg(feature = "conformance")]
    pub(super) fn asked(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut super::node::lock(&self.asked))
    }

    /// Runs statements as they are, and gives the text of the first column of each row.
    #[cfg(feature = "conformance")]
    pub(super) async fn plain(&self, sql: &str) -> Result<Vec<String>, Fault> {
        let messages = self.client.simple_query(sql).await?;
        let mut texts = Vec::new();
        for message in messages {
            if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
                texts.extend(row.get(0).map(str::to_owned));
            }
        }
        Ok(texts)
    }

    /// Runs several statements without parameters.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Fault> {
        let statement = self.client.prepare_cached(sql).await?;
        #[cfg(feature = "conformance")]
        super::node::lock(&self.asked).push((sql.to_owned(), params.len()));
        Ok(self.client.query(&statement, params).await?)
    }

    /// The first row; statements that may give several say themselves which.
    pub(super) async fn first(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// The only row of a statement that always gives one.
    pub(super) async fn one(&self, sql: &str, params: Params<'_>) -> Result<Row, Fault> {
        let row = self.first(sql, params).await?;
        row.ok_or_else(|| Fault::Damaged("a statement gave no row".into()))
    }

    /// Runs a statement and gives how many rows it touched.
    pub(crate) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Fault> {
        let statement = self.client.prepare_cached(sql).await?;
        Ok(self.client.execute(&statement, params).await?)
    }

    /// Closes the connection instead of giving it back: what was begun on it is undone.
    pub(super) fn throw_away(self) {
        drop(Object::take(self.client));
    }
}

/// A `LIMIT`, or a `LIMIT`-like number, as the database takes it.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
