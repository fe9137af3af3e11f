-- Why: charts show what went through in the last hours, and counting messages for that would take as long as there are
-- many.

-- What the row of a workspace, a source or an endpoint (`scope`) did in the `step` seconds from `at` on. Rows of several
-- series add up: each has one writer, which writes what it has counted in all. Histograms are as the core writes them.
CREATE TABLE tally (
    workspace       INTEGER NOT NULL,
    scope           INTEGER NOT NULL,
    step            INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    series          INTEGER NOT NULL,
    kept_until      INTEGER NOT NULL,
    accepted        INTEGER NOT NULL,
    delivered       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    attempts_failed INTEGER NOT NULL,
    arrival         BLOB    NOT NULL,
    duration        BLOB    NOT NULL,
    PRIMARY KEY (workspace, scope, step, at, series)
) WITHOUT ROWID;
CREATE INDEX tally_kept ON tally (kept_until);
