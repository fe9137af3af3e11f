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
    // Each is looked up on its own, whatever the planner thinks of a table that is nearly empty as yet.
    let statement = format!(
        "SELECT wanted.uuid, {STANDING_COLUMNS} FROM unnest($1::uuid[]) AS wanted(uuid) CROSS JOIN LATERAL \
         (SELECT row FROM record WHERE record.uuid = wanted.uuid AND record.kind = $2 OFFSET 0) AS record \
         CROSS JOIN LATERAL (SELECT * FROM health WHERE health.endpoint = record.row OFFSET 0) AS health"
    );
    let mut known = HashMap::new();
    for row in sql.query(&statement, &[&uuids, &(Kind::Webhook as i16)]).await? {
        known.insert(row.try_get::<_, Uuid>(0)?, read_standing(&row, 1)?.health);
    }
    Ok(uuids.iter().map(|uuid| known.get(uuid).copied().unwrap_or_default()).collect())
}
