-- Why: a source may ask that requests are signed, and that they are new; what is not is kept and not delivered.

-- The request that brought the same value first, as `replay_of`.
ALTER TABLE message ADD COLUMN duplicate_of uuid;
-- Why it was not taken for its sender's.
ALTER TABLE message ADD COLUMN rejected text;

-- Values that sources know, condensed, and the request that first brought each. A row goes with its request. Who stores
-- a request claims the value's row first: of several at the same time the others wait, and find it claimed.
CREATE TABLE seen (
    workspace   bigint NOT NULL,
    source      bigint NOT NULL,
    value       bytea  NOT NULL,
    message     bigint NOT NULL,
    tail        bigint NOT NULL,
    received_at bigint NOT NULL,
    held_until  bigint NOT NULL,
    PRIMARY KEY (workspace, source, value)
);
CREATE INDEX seen_message ON seen (workspace, message);
CREATE INDEX seen_held ON seen (held_until);
