-- What statements compare is in columns, the rest of an agent and of an attempt is JSON. Nothing
-- here is touched by a step.
CREATE TABLE agent (
  n           INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL,
  state       INTEGER NOT NULL,
  fence       INTEGER NOT NULL,
  held        INTEGER NOT NULL,   -- 1 while a supervisor has the lease
  lease_ttl   INTEGER,            -- as in task
  lease_until INTEGER,
  lease_boot  INTEGER,
  seq         INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  body        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX agent_name ON agent (name);

CREATE TABLE attempt (
  n        INTEGER PRIMARY KEY,   -- grows in the order they were begun
  agent    INTEGER NOT NULL,
  number   INTEGER NOT NULL,      -- grows in the same order within its agent
  tag      TEXT    NOT NULL,
  begun_at INTEGER NOT NULL,
  cause    INTEGER,               -- of its end; none while it lives
  body     TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX attempt_number ON attempt (agent, number);
CREATE UNIQUE INDEX attempt_tag ON attempt (tag);

-- Small records of the whole store.
CREATE TABLE kept (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Partial: the rows of steps have no agent and no place in it.
ALTER TABLE journal ADD COLUMN agent INTEGER;
CREATE INDEX journal_agent ON journal (agent) WHERE agent IS NOT NULL;

-- The tag out of holder, where an attempt holds the lease.
ALTER TABLE lease ADD COLUMN attempt TEXT;
CREATE INDEX lease_attempt ON lease (attempt) WHERE attempt IS NOT NULL;
