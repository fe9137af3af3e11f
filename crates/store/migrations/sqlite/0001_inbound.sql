-- Why: sources receive requests, destinations get deliveries of them, attempts are remembered.
--
-- Rows refer to records by `row`, a small integer; messages and deliveries have integer keys that rise with time
-- (see the module `id` of the core crate). A message's first deliveries have the keys right behind its own.

CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE record (
    row        INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       INTEGER NOT NULL,
    uuid       BLOB    NOT NULL UNIQUE,
    key        INTEGER NOT NULL,
    workspace  INTEGER NOT NULL,
    parent     INTEGER,
    name       TEXT,
    lookup     TEXT,
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deleted_at INTEGER,
    body       TEXT    NOT NULL
);
CREATE UNIQUE INDEX record_name ON record (kind, workspace, name) WHERE name IS NOT NULL AND deleted_at IS NULL;
CREATE UNIQUE INDEX record_lookup ON record (kind, lookup) WHERE lookup IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX record_list ON record (kind, workspace, key) WHERE deleted_at IS NULL;
CREATE INDEX record_child ON record (kind, parent, key) WHERE parent IS NOT NULL AND deleted_at IS NULL;

-- The URL of an endpoint from a version on, so that an attempt can say where it went without keeping a copy.
CREATE TABLE endpoint_url (
    endpoint INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    url      TEXT    NOT NULL,
    PRIMARY KEY (endpoint, version)
) WITHOUT ROWID;

CREATE TABLE message (
    key         INTEGER PRIMARY KEY,
    tail        INTEGER NOT NULL,
    source      INTEGER NOT NULL,
    fanout      INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    replay_of   BLOB,
    method      TEXT    NOT NULL,
    path        TEXT    NOT NULL,
    query       TEXT,
    remote      TEXT    NOT NULL,
    headers     BLOB    NOT NULL,
    body        BLOB    NOT NULL
);

-- `started_at`, `endpoint_version` and `status` are those of the running attempt, or of attempt 1 when it delivered:
-- the happy path writes no row of `attempt`.
CREATE TABLE delivery (
    key              INTEGER PRIMARY KEY,
    message          INTEGER NOT NULL,
    endpoint         INTEGER NOT NULL,
    state            INTEGER NOT NULL,
    claimed          INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    made             INTEGER NOT NULL,
    used             INTEGER NOT NULL,
    lost             INTEGER NOT NULL,
    due_at           INTEGER NOT NULL,
    started_at       INTEGER,
    endpoint_version INTEGER,
    ended_at         INTEGER,
    status           INTEGER,
    wait_ms          INTEGER,
    wait_cause       INTEGER,
    created_at       INTEGER,
    retry_of         INTEGER
);
-- A delivery that is born leased and delivered at once never enters one of these.
CREATE INDEX delivery_due ON delivery (endpoint, due_at, key) WHERE state = 0;
CREATE INDEX delivery_claimed ON delivery (key) WHERE state = 1 AND claimed = 1;
CREATE INDEX delivery_retry ON delivery (message, retry_of) WHERE retry_of IS NOT NULL;

CREATE TABLE attempt (
    delivery         INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    endpoint_version INTEGER NOT NULL,
    started_at       INTEGER NOT NULL,
    duration_ms      INTEGER NOT NULL,
    result           INTEGER NOT NULL,
    status           INTEGER,
    failure          INTEGER,
    message          TEXT,
    uses_budget      INTEGER NOT NULL,
    PRIMARY KEY (delivery, number)
) WITHOUT ROWID;

-- Source → its messages, endpoint → its deliveries. Written behind, in sorted runs, up to meta.history_watermark.
CREATE TABLE history (
    scope INTEGER NOT NULL,
    key   INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE TABLE credit (workspace INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE ledger (
    key       INTEGER PRIMARY KEY,
    tail      INTEGER NOT NULL,
    workspace INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    delta     INTEGER NOT NULL,
    reason    INTEGER NOT NULL,
    reference TEXT
);
CREATE INDEX ledger_workspace ON ledger (workspace, key);
