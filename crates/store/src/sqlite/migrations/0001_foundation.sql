-- No index has the condition IS NOT NULL: SQLite then looks at the bound values to plan, and plans
-- every statement anew for each call.

-- Hot rows are narrow: every step updates one. What people wrote is in task_body, who holds the
-- lease in lease; both change rarely.
CREATE TABLE task (
  n           INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL,
  status      INTEGER NOT NULL,
  agent       TEXT,
  fence       INTEGER NOT NULL,
  held        INTEGER NOT NULL,   -- 1 while somebody has the lease
  lease_ttl   INTEGER,            -- ms that each write renews it for
  lease_until INTEGER,            -- ms of the boot-time clock
  lease_boot  INTEGER,            -- which boot that clock counts from
  seq         INTEGER NOT NULL,
  steps_done  INTEGER NOT NULL,
  steps_open  INTEGER NOT NULL,
  steps_from  INTEGER NOT NULL,   -- journal rows up to this one were cleared
  starts      INTEGER NOT NULL,
  retries     INTEGER NOT NULL,
  max_retries INTEGER NOT NULL,
  priority    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  not_before  INTEGER,
  expires_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX task_id ON task (id);
-- Codes 10 and 11 are the terminal statuses.
CREATE INDEX task_open ON task (status, priority DESC, n) WHERE status < 10;
CREATE INDEX task_in_doubt ON task (n) WHERE steps_open > 0;

CREATE TABLE task_body (
  n       INTEGER PRIMARY KEY,
  key     TEXT,
  folder  TEXT,                   -- of the checkpoint dialect
  reason  TEXT,
  spec    TEXT NOT NULL,
  context TEXT NOT NULL,
  door    TEXT
) STRICT;
CREATE UNIQUE INDEX task_key ON task_body (key);
CREATE INDEX task_folder ON task_body (folder);

CREATE TABLE lease (
  n      INTEGER PRIMARY KEY,
  holder TEXT    NOT NULL,
  since  INTEGER NOT NULL
) STRICT;

-- Everything that happened, in order, appended and never rewritten. A step's records are rows with
-- a name; its newest row is its state.
CREATE TABLE journal (
  id          INTEGER PRIMARY KEY,
  at          INTEGER NOT NULL,
  kind        INTEGER NOT NULL,
  task        INTEGER,
  fence       INTEGER,
  name        TEXT,
  occurrence  INTEGER,
  rule        INTEGER,
  tries       INTEGER,
  fingerprint INTEGER,
  exit_code   INTEGER,
  detail      TEXT,
  body        BLOB,
  output      INTEGER             -- the body's row in output, when it is kept apart
) STRICT;
CREATE INDEX journal_step ON journal (task, name, occurrence);

CREATE TABLE output (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;
