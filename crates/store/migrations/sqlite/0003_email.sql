-- Why: emails go to mailboxes. Each recipient is a delivery of its own, to the mailboxes of a domain, and what happens
-- to it is told as events.

-- An email is a message of kind 3. Its feed is the workspace's row, negated; `method` is its mode, `remote` where bounces
-- go, `headers` what is shown of it as JSON, `body` its bytes as they leave but for what signs them.
CREATE TABLE email (
    message      INTEGER PRIMARY KEY,
    workspace    INTEGER NOT NULL,
    test         INTEGER NOT NULL,
    sender       TEXT    NOT NULL,
    scheduled_at INTEGER,
    cancelled_at INTEGER,
    -- The caller's key, as it is kept.
    key          TEXT
);

-- `suppressed`: it was on the list of suppressions when it was accepted or its turn came.
CREATE TABLE recipient (
    delivery   INTEGER PRIMARY KEY,
    role       INTEGER NOT NULL,
    email      TEXT    NOT NULL,
    name       TEXT,
    suppressed INTEGER NOT NULL
);

-- What was told about an email.
CREATE TABLE email_event (
    email INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (email, event)
) WITHOUT ROWID;

-- The attempt of which the whole message was sent before its end was: if that is lost, the mail may have arrived.
ALTER TABLE delivery ADD COLUMN data_sent INTEGER;
