-- What a task has used up of its budgets.
ALTER TABLE task ADD COLUMN recoveries  INTEGER NOT NULL DEFAULT 0;  -- since a step was last finished
ALTER TABLE task ADD COLUMN progress_at INTEGER;
ALTER TABLE task ADD COLUMN cost        INTEGER NOT NULL DEFAULT 0;  -- in millionths
ALTER TABLE task ADD COLUMN turns       INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN given_up    INTEGER NOT NULL DEFAULT 0;
-- Not before the truth, so that nothing counts as stuck for longer than it was.
UPDATE task SET progress_at = updated_at WHERE steps_done > 0;
-- What an agent must be able to do: a JSON list; none when anybody can.
ALTER TABLE task ADD COLUMN needs       TEXT;
