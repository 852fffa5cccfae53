-- The state of limiters, by name. Times are microseconds since 1970 UTC.
CREATE TABLE fixed (
  name   TEXT PRIMARY KEY,
  window INTEGER NOT NULL, -- its number since 1970
  count  INTEGER NOT NULL  -- accepted in it
) STRICT;
CREATE TABLE gcra (
  name TEXT PRIMARY KEY,
  tat  INTEGER NOT NULL -- theoretical arrival time
) STRICT;
