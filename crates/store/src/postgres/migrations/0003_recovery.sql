-- What a task has used up of its budgets.
ALTER TABLE task ADD COLUMN recoveries  bigint  NOT NULL DEFAULT 0;  -- since a step was last finished
ALTER TABLE task ADD COLUMN progress_at bigint;
ALTER TABLE task ADD COLUMN cost        bigint  NOT NULL DEFAULT 0;  -- in millionths
ALTER TABLE task ADD COLUMN turns       bigint  NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN given_up    boolean NOT NULL DEFAULT false;
-- What an agent must be able to do; none when anybody can.
ALTER TABLE task ADD COLUMN needs       text[]  COLLATE "C";
