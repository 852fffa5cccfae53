-- Idle members are looked for among those that have a place. Keys with limits of their own
-- have none, and may be many: without this index, each search passes over all of them.
CREATE INDEX members_with_a_place ON headroom_ledger.members (upstream, account, pool, written) WHERE key <> '' AND NOT listed;
