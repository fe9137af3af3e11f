-- Why: events are published to webhooks, which are watched over; what failed or was skipped can be sent again.

-- 1: request; 2: event, which has no method, path, sender and headers: they are empty.
ALTER TABLE message ADD COLUMN kind smallint NOT NULL DEFAULT 1;
ALTER TABLE message ADD COLUMN type text COLLATE "C";

-- The state to go back to, while a replay's attempt is in flight.
ALTER TABLE delivery ADD COLUMN back_to smallint;
-- The record of the replay or recovery it was last part of.
ALTER TABLE delivery ADD COLUMN job bigint;

-- Skipped deliveries. An index of `delivery` would keep settles from staying on their page.
CREATE TABLE skipped (
    workspace bigint NOT NULL,
    endpoint  bigint NOT NULL,
    key       bigint NOT NULL,
    PRIMARY KEY (workspace, endpoint, key)
);

-- Attempts to webhooks are listed by their time, and found by it for replays.
ALTER TABLE attempt ADD COLUMN webhook bigint;
ALTER TABLE attempt ADD COLUMN replay boolean NOT NULL DEFAULT false;
CREATE INDEX attempt_log ON attempt (webhook, started_at, delivery, number) WHERE webhook IS NOT NULL;

-- How webhooks stand that did not only succeed. `pauses`: how often it was paused; `cut`: pending deliveries planned
-- when it had been paused so many times or fewer were ended by the pause at `paused_at` and are not all marked yet.
-- `epoch`: that of the last change of one of these three.
CREATE TABLE health (
    endpoint     bigint PRIMARY KEY,
    run_since    bigint,
    run_failures int     NOT NULL,
    degraded     boolean NOT NULL,
    paused_at    bigint,
    cut          bigint,
    pauses       bigint  NOT NULL,
    epoch        bigint  NOT NULL
);
CREATE INDEX health_epoch ON health (epoch);

-- Keys of publishing calls. `events`: the event's id (16 bytes) and its deliveries (4 bytes), one after the other.
CREATE TABLE idempotency (
    workspace   bigint NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea  NOT NULL,
    events      bytea  NOT NULL,
    held_until  bigint NOT NULL,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX idempotency_held ON idempotency (held_until);

-- Replays and recoveries that are not over, by their records, and what replays have not begun. `kind` as in the record;
-- `running`: attempts in flight.
CREATE TABLE open_job (
    record   bigint PRIMARY KEY,
    endpoint bigint   NOT NULL,
    kind     text     NOT NULL,
    running  int      NOT NULL
);
CREATE INDEX open_job_endpoint ON open_job (endpoint, record);
CREATE TABLE replay_item (
    job      bigint NOT NULL,
    position bigint NOT NULL,
    delivery bigint NOT NULL,
    PRIMARY KEY (job, position)
);
-- One row for each day: a clock that goes back over midnight and forward again meets the same days.
CREATE TABLE replay_quota (
    workspace bigint NOT NULL,
    day       bigint NOT NULL,
    used      int    NOT NULL,
    PRIMARY KEY (workspace, day)
);

CREATE TABLE secret_check (id int PRIMARY KEY CHECK (id = 1), sealed text NOT NULL);
