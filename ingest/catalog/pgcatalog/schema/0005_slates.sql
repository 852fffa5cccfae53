-- Texts that processes share: see Slate.
CREATE TABLE headroom_catalog.slates (
	name    text   COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL,
	text    text   NOT NULL
);
