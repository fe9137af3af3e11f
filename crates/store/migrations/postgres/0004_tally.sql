-- Why: charts show what went through in the last hours, and counting messages for that would take as long as there are
-- many.

-- What the row of a workspace, a source or an endpoint (`scope`) did in the `step` seconds from `at` on. Rows of several
-- series add up: each has one writer, which writes what it has counted in all. Histograms are as the core writes them.
-- Pages keep room, for a row is written again and again until its time is over.
CREATE TABLE tally (
    workspace       bigint NOT NULL,
    scope           bigint NOT NULL,
    step            int    NOT NULL,
    at              bigint NOT NULL,
    series          bigint NOT NULL,
    kept_until      bigint NOT NULL,
    accepted        bigint NOT NULL,
    delivered       bigint NOT NULL,
    failed          bigint NOT NULL,
    attempts        bigint NOT NULL,
    attempts_failed bigint NOT NULL,
    arrival         bytea  NOT NULL,
    duration        bytea  NOT NULL,
    PRIMARY KEY (workspace, scope, step, at, series)
) WITH (fillfactor = 70);
CREATE INDEX tally_kept ON tally (kept_until);
-- Numbers of series: no two nodes, nor two starts, get the same.
CREATE SEQUENCE tally_series;
