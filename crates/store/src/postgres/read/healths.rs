//! How webhooks stand.

use std::collections::HashMap;

use restante_core::health::Health;
use restante_core::id::WebhookId;
use uuid::Uuid;

use crate::postgres::Fault;
use crate::postgres::config::{STANDING_COLUMNS, read_standing};
use crate::postgres::sql::Sql;
use crate::record::Kind;

/// How webhooks stand, in their order.
pub(in crate::postgres) async fn healths(sql: &Sql, webhooks: &[WebhookId]) -> Result<Vec<Health>, Fault> {
    let uuids: Vec<Uuid> = webhooks.iter().map(|id| Uuid::from_u128(id.uuid())).collect();
    let statement = format!(
        "SELECT record.uuid, {STANDING_COLUMNS} FROM record JOIN health ON health.endpoint = record.row \
         WHERE record.uuid = ANY($1) AND record.kind = $2"
    );
    let mut known = HashMap::new();
    for row in sql.query(&statement, &[&uuids, &(Kind::Webhook as i16)]).await? {
        known.insert(row.try_get::<_, Uuid>(0)?, read_standing(&row, 1)?.health);
    }
    Ok(uuids.iter().map(|uuid| known.get(uuid).copied().unwrap_or_default()).collect())
}
