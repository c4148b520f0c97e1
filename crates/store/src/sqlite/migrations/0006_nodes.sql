-- One row a machine of a fleet; everything that it holds lives as long as this lease.
CREATE TABLE node (
  name        TEXT    PRIMARY KEY,
  epoch       INTEGER NOT NULL,   -- how often it has joined
  lease_ttl   INTEGER NOT NULL,   -- as in task
  lease_until INTEGER NOT NULL,
  lease_boot  INTEGER NOT NULL,
  draining    INTEGER NOT NULL,
  joined_at   INTEGER NOT NULL,
  body        TEXT    NOT NULL    -- JSON: what it says of itself
) STRICT, WITHOUT ROWID;
