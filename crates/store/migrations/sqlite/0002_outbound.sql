-- Why: events are published to webhooks, which are watched over; what failed or was skipped can be sent again.

-- The row of the source for a request, that of the workspace for an event.
ALTER TABLE message RENAME COLUMN source TO feed;
-- 1: request; 2: event, which has no method, path, sender and headers: they are empty.
ALTER TABLE message ADD COLUMN kind INTEGER NOT NULL DEFAULT 1;
ALTER TABLE message ADD COLUMN type TEXT;

-- 0: none; 1: cancelled; 2: its webhook was paused.
ALTER TABLE delivery RENAME COLUMN cancel_requested TO ending;
-- The state to go back to, while a replay's attempt is in flight.
ALTER TABLE delivery ADD COLUMN back_to INTEGER;
-- The record of the replay or recovery it was last part of.
ALTER TABLE delivery ADD COLUMN job INTEGER;
CREATE INDEX delivery_skipped ON delivery (endpoint, key) WHERE state = 50;
DROP INDEX delivery_claimed;
CREATE INDEX delivery_claimed ON delivery (endpoint, key) WHERE state = 1 AND claimed = 1;

-- Attempts to webhooks are listed by their time, and found by it for replays.
ALTER TABLE attempt ADD COLUMN webhook INTEGER;
ALTER TABLE attempt ADD COLUMN replay INTEGER NOT NULL DEFAULT 0;
CREATE INDEX attempt_log ON attempt (webhook, started_at, result) WHERE webhook IS NOT NULL;

-- How webhooks stand that did not only succeed. `cut`: pending deliveries with keys up to this were ended by the
-- pause at `paused_at` and are not all marked yet.
CREATE TABLE health (
    endpoint     INTEGER PRIMARY KEY,
    run_since    INTEGER,
    run_failures INTEGER NOT NULL,
    degraded     INTEGER NOT NULL,
    paused_at    INTEGER,
    cut          INTEGER
);

-- Keys of publishing calls. `events`: the event's id (16 bytes) and its deliveries (4 bytes), one after the other.
CREATE TABLE idempotency (
    workspace   INTEGER NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL,
    events      BLOB    NOT NULL,
    held_until  INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_held ON idempotency (held_until);

-- Replays and recoveries that are not over, by their records, and what replays have not begun.
CREATE TABLE open_job (record INTEGER PRIMARY KEY);
CREATE TABLE replay_item (
    job      INTEGER NOT NULL,
    position INTEGER NOT NULL,
    delivery INTEGER NOT NULL,
    PRIMARY KEY (job, position)
) WITHOUT ROWID;
-- One row for each day: a clock that goes back over midnight and forward again meets the same days.
CREATE TABLE replay_quota (
    workspace INTEGER NOT NULL,
    day       INTEGER NOT NULL,
    used      INTEGER NOT NULL,
    PRIMARY KEY (workspace, day)
) WITHOUT ROWID;

-- A word sealed with the key of the secrets: a start with another key is noticed.
CREATE TABLE secret_check (id INTEGER PRIMARY KEY CHECK (id = 1), sealed TEXT NOT NULL);
