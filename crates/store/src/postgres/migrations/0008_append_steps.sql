-- What holders record of their steps, for many tasks, in one trip that is a transaction by itself: the
-- writer's mark, the hot rows, the journal. All or nothing: where anything is not as the writer thinks
-- (a fence, a step's newest record, a newer schema) it raises RL001, and the writer goes the long way,
-- which tells why. Task rows are taken in the order given, which is the same for every writer.
--
-- Arrays that begin with t_ have a place for each task, those with s_ for each record of a step, whose
-- s_task is the place of its task. Kinds: 1 begun, 3 failed.
CREATE FUNCTION append_steps(
  mark_writer text, mark_number bigint, known_schema integer, ahead_ms bigint, journal_key bigint,
  t_id text[], t_fence bigint[], t_seq bigint[], t_commits bigint[], t_opened bigint[],
  t_done bigint[], t_at bigint[], t_progress_at bigint[],
  s_task integer[], s_was_open boolean[], s_at bigint[], s_kind smallint[], s_fence bigint[],
  s_detail text[], s_name text[], s_occurrence bigint[], s_rule smallint[], s_tries bigint[],
  s_fingerprint bigint[], s_exit_code integer[], s_body bytea[],
  OUT seqs bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  numbers bigint[];
  froms   bigint[];
BEGIN
  -- A number that is not larger was given up meanwhile: its answer was lost, and looked up.
  UPDATE commit_mark m
  SET number = mark_number, at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  WHERE m.writer = mark_writer AND m.number < mark_number
    AND (SELECT min_compatible FROM meta WHERE one) <= known_schema;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'the mark or the schema is another';
  END IF;

  WITH written AS (
    UPDATE task t
    SET seq = t.seq + w.commits, steps_open = t.steps_open + w.opened,
        steps_done = t.steps_done + w.done, updated_at = w.at,
        recoveries = CASE WHEN w.progress_at IS NULL THEN t.recoveries ELSE 0 END,
        progress_at = COALESCE(w.progress_at, t.progress_at),
        lease_until = CASE WHEN t.lease_ttl IS NOT NULL THEN
            (extract(epoch FROM clock_timestamp()) * 1000)::bigint + ahead_ms + t.lease_ttl END
    FROM unnest(t_id, t_fence, t_seq, t_commits, t_opened, t_done, t_at, t_progress_at)
         WITH ORDINALITY AS w (id, fence, seq, commits, opened, done, at, progress_at, place)
    WHERE t.id = w.id AND t.fence = w.fence AND t.held AND (w.seq IS NULL OR w.seq = t.seq)
    RETURNING w.place, t.n, t.seq, t.steps_from)
  SELECT array_agg(n ORDER BY place), array_agg(seq ORDER BY place),
         array_agg(steps_from ORDER BY place)
  INTO numbers, seqs, froms FROM written;
  IF numbers IS NULL OR cardinality(numbers) <> cardinality(t_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'a task is held by another';
  END IF;

  -- The rows are ours: this statement sees what they were waited for.
  PERFORM 1
  FROM unnest(s_task, s_was_open, s_name, s_occurrence) AS w (task, was_open, name, occurrence)
  LEFT JOIN LATERAL (
    SELECT kind FROM journal
    WHERE journal.task = numbers[w.task] AND journal.name = w.name
      AND journal.occurrence = w.occurrence AND journal.id > froms[w.task]
    ORDER BY id DESC LIMIT 1) j ON true
  WHERE NOT CASE WHEN w.was_open THEN j.kind IS NOT DISTINCT FROM 1
            ELSE j.kind IS NULL OR j.kind = 3 END;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'a step has moved on';
  END IF;

  -- From here to the end nobody else draws numbers of the journal.
  PERFORM pg_advisory_xact_lock(journal_key);
  INSERT INTO journal (at, kind, task, fence, detail, name, occurrence, rule, tries, fingerprint,
                       exit_code, body)
  SELECT w.at, w.kind, numbers[w.task], w.fence, w.detail, w.name, w.occurrence, w.rule, w.tries,
         w.fingerprint, w.exit_code, w.body
  FROM unnest(s_task, s_at, s_kind, s_fence, s_detail, s_name, s_occurrence, s_rule, s_tries,
              s_fingerprint, s_exit_code, s_body)
       AS w (task, at, kind, fence, detail, name, occurrence, rule, tries, fingerprint, exit_code,
             body);
END $$;

-- The same for one record of one task, without arrays: what a lone holder waits for.
CREATE FUNCTION append_step(
  mark_writer text, mark_number bigint, known_schema integer, ahead_ms bigint, journal_key bigint,
  t_id text, t_fence bigint, t_seq bigint, t_opened bigint, t_done bigint, t_at bigint,
  t_progress_at bigint,
  s_was_open boolean, s_kind smallint, s_detail text, s_name text, s_occurrence bigint,
  s_rule smallint, s_tries bigint, s_fingerprint bigint, s_exit_code integer, s_body bytea,
  OUT seqs bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  t_n         bigint;
  t_new_seq   bigint;
  t_from      bigint;
  s_kind_then smallint;
BEGIN
  UPDATE commit_mark m
  SET number = mark_number, at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  WHERE m.writer = mark_writer AND m.number < mark_number
    AND (SELECT min_compatible FROM meta WHERE one) <= known_schema;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'the mark or the schema is another';
  END IF;

  UPDATE task t
  SET seq = t.seq + 1, steps_open = t.steps_open + t_opened, steps_done = t.steps_done + t_done,
      updated_at = t_at,
      recoveries = CASE WHEN t_progress_at IS NULL THEN t.recoveries ELSE 0 END,
      progress_at = COALESCE(t_progress_at, t.progress_at),
      lease_until = CASE WHEN t.lease_ttl IS NOT NULL THEN
          (extract(epoch FROM clock_timestamp()) * 1000)::bigint + ahead_ms + t.lease_ttl END
  WHERE t.id = t_id AND t.fence = t_fence AND t.held AND (t_seq IS NULL OR t_seq = t.seq)
  RETURNING t.n, t.seq, t.steps_from INTO t_n, t_new_seq, t_from;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'a task is held by another';
  END IF;

  SELECT j.kind INTO s_kind_then FROM journal j
  WHERE j.task = t_n AND j.name = s_name AND j.occurrence = s_occurrence AND j.id > t_from
  ORDER BY j.id DESC LIMIT 1;
  IF s_was_open <> (s_kind_then IS NOT DISTINCT FROM 1) OR s_kind_then NOT IN (1, 3) THEN
    RAISE EXCEPTION USING ERRCODE = 'RL001', MESSAGE = 'a step has moved on';
  END IF;

  PERFORM pg_advisory_xact_lock(journal_key);
  INSERT INTO journal (at, kind, task, fence, detail, name, occurrence, rule, tries, fingerprint,
                       exit_code, body)
  VALUES (t_at, s_kind, t_n, t_fence, s_detail, s_name, s_occurrence, s_rule, s_tries,
          s_fingerprint, s_exit_code, s_body);
  seqs := ARRAY[t_new_seq];
END $$;
