-- Claims go by these, whatever else is in the store: what has no time to wait for comes in the order
-- of the queue, what has one by that time.
DROP INDEX task_open;
CREATE INDEX task_open ON task (status, not_before, priority DESC, n) WHERE status < 10;
-- Assigned and interrupted tasks are for one agent.
CREATE INDEX task_for_agent ON task (agent, status, not_before, priority DESC, n)
  WHERE status = 2 OR status = 7;
-- Failed ones that may be tried again; the others stay in the store for long.
CREATE INDEX task_failed ON task (not_before, priority DESC, n)
  WHERE status = 9 AND retries < max_retries AND given_up = 0;
