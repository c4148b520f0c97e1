-- A task that belongs to its agent: the queue offers it to nobody else.
ALTER TABLE task ADD COLUMN pinned boolean NOT NULL DEFAULT false;
-- Workflows of the checkpoint dialect always do.
UPDATE task SET pinned = true WHERE n IN (SELECT n FROM task_body WHERE door IS NOT NULL);
