-- Why: emails go to mailboxes. Each recipient is a delivery of its own, to the mailboxes of a domain, and what happens
-- to it is told as events.

-- An email is a message of kind 3. Its feed is the workspace's row, negated; `method` is its mode, `remote` where bounces
-- go, `headers` what is shown of it as JSON, `body` its bytes as they leave but for what signs them. Rows of these tables
-- are deleted with the message, before its day's partition is dropped.
CREATE TABLE email (
    workspace    bigint  NOT NULL,
    message      bigint  NOT NULL,
    test         boolean NOT NULL,
    sender       text    NOT NULL,
    scheduled_at bigint,
    cancelled_at bigint,
    -- The caller's key, as it is kept.
    key          text COLLATE "C",
    PRIMARY KEY (workspace, message)
);

-- `suppressed`: it was on the list of suppressions when it was accepted or its turn came.
CREATE TABLE recipient (
    workspace  bigint   NOT NULL,
    delivery   bigint   NOT NULL,
    role       smallint NOT NULL,
    email      text     NOT NULL,
    name       text,
    suppressed boolean  NOT NULL,
    PRIMARY KEY (workspace, delivery)
);

-- What was told about an email.
CREATE TABLE email_event (
    workspace bigint NOT NULL,
    email     bigint NOT NULL,
    event     bigint NOT NULL,
    PRIMARY KEY (workspace, email, event)
);

-- The attempt of which the whole message was sent before its end was: if that is lost, the mail may have arrived.
ALTER TABLE delivery ADD COLUMN data_sent int;
