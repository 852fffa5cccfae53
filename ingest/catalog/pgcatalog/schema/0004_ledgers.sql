-- The ledger of each account that runs are charged to: its identity, where it was seen last,
-- and since when. All daemons of a fleet must charge the same one.
CREATE TABLE headroom_catalog.ledgers (
	upstream text   COLLATE "C" NOT NULL,
	account  text   COLLATE "C" NOT NULL,
	identity text   COLLATE "C" NOT NULL,
	address  text   NOT NULL,
	since    bigint NOT NULL,
	PRIMARY KEY (upstream, account)
);
