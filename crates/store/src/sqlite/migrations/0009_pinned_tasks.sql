-- A task that belongs to its agent: the queue offers it to nobody else.
ALTER TABLE task ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
-- Workflows of the checkpoint dialect always do.
UPDATE task SET pinned = 1 WHERE n IN (SELECT n FROM task_body WHERE door IS NOT NULL);
