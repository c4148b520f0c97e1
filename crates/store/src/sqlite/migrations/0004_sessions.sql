-- A turn's begin and its end each write one row, so everything is in columns and what is rarely there
-- is null.
CREATE TABLE session (
  n            INTEGER PRIMARY KEY,
  key          TEXT    NOT NULL,
  session_id   TEXT    NOT NULL,
  state        INTEGER NOT NULL,
  generation   INTEGER NOT NULL,
  finished     INTEGER NOT NULL,   -- newest generation that ended by itself
  deaths       INTEGER NOT NULL,   -- of its owner, in a row
  seq          INTEGER NOT NULL,
  since        INTEGER,            -- of its state; of its discovery when it is to be resumed
  also_at      INTEGER,            -- fresh_until when it is to be resumed, discovered_at when it expired
  suspended_by INTEGER,
  owner        TEXT,               -- JSON, of the turn in flight
  lease_ttl    INTEGER,            -- as in task
  lease_until  INTEGER,
  lease_boot   INTEGER,
  reason       TEXT,
  reason_given INTEGER,
  context      TEXT,               -- JSON
  seen_at      INTEGER,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX session_key ON session (key);
-- State 1 is idle, which most sessions are most of the time.
CREATE INDEX session_open ON session (state, key) WHERE state > 1;
CREATE INDEX session_seen ON session (key) WHERE seen_at IS NOT NULL;
