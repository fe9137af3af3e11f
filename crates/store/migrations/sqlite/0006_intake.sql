-- Why: a source may ask that requests are signed, and that they are new; what is not is kept and not delivered.

-- The request that brought the same value first, as `replay_of`.
ALTER TABLE message ADD COLUMN duplicate_of BLOB;
-- Why it was not taken for its sender's.
ALTER TABLE message ADD COLUMN rejected TEXT;

-- Values that sources know, condensed, and the request that first brought each. A row goes with its request.
CREATE TABLE seen (
    source      INTEGER NOT NULL,
    value       BLOB    NOT NULL,
    message     INTEGER NOT NULL,
    tail        INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    held_until  INTEGER NOT NULL,
    PRIMARY KEY (source, value)
) WITHOUT ROWID;
CREATE INDEX seen_message ON seen (message);
CREATE INDEX seen_held ON seen (held_until);
