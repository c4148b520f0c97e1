-- Machines of a fleet, each with one lease for all that it holds. Renewed every few seconds, so the row
-- is narrow and has room beside it.
CREATE TABLE node (
  name        text    COLLATE "C" PRIMARY KEY,
  epoch       bigint  NOT NULL,   -- how often it has joined
  lease_until bigint  NOT NULL,   -- ms of the database's clock; 0 when it left
  joined_at   bigint  NOT NULL,
  draining    boolean NOT NULL,
  body        text    COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
