-- What died and came back is asked for again and again, and is rare beside steps. Codes 21 to 23 are
-- the events of attempts.
CREATE INDEX journal_attempt ON journal (id) WHERE kind IN (21, 22, 23);
