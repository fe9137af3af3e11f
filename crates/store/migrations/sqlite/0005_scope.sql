-- Why: lists over everything begin with the sources and endpoints of a workspace, the deleted included, and looked for
-- them through all records; lists of a kind over all workspaces sorted all of it. Notices and suppressions are records
-- too, and there may be very many.

CREATE INDEX record_scope ON record (workspace, kind, parent);
CREATE INDEX record_kind ON record (kind, key) WHERE deleted_at IS NULL;
