-- Claims go by these, whatever else is in the store: what has no time to wait for comes in the order
-- of the queue, what has one by that time. Two indexes each, for the database does not take "is null"
-- for an order. Codes: 1 created, 2 assigned, 6 deferred, 7 interrupted, 9 failed.
CREATE INDEX task_ready ON task (status, priority DESC, n)
  WHERE (status = 1 OR status = 6) AND not_before IS NULL;
CREATE INDEX task_ready_for_agent ON task (COALESCE(agent, ''), status, priority DESC, n)
  WHERE (status = 2 OR status = 7) AND not_before IS NULL;
CREATE INDEX task_failed ON task (priority DESC, n)
  WHERE status = 9 AND retries < max_retries AND NOT given_up AND not_before IS NULL;
-- All that waits for its time.
CREATE INDEX task_waiting ON task (status, not_before) WHERE status < 10 AND not_before IS NOT NULL;
CREATE INDEX task_waiting_for_agent ON task (COALESCE(agent, ''), status, not_before)
  WHERE (status = 2 OR status = 7) AND not_before IS NOT NULL;
