-- The catalog. Times are microseconds since 1970 UTC.

PRAGMA application_id = 1215458659; -- 'Hrmc': a catalog of Headroom

-- The version of the words in the index. The words of a text depend on tables of Unicode,
-- which change with Go. The index can remove a row only by the same words that were added.
CREATE TABLE about (
	words TEXT NOT NULL
) STRICT;

INSERT INTO about (words) VALUES ('');

-- Videos, as the upstream describes them. The long text comes last, so that reading other
-- columns of many rows does not read it.
CREATE TABLE videos (
	id            INTEGER PRIMARY KEY,
	video_id      TEXT    NOT NULL UNIQUE,
	channel_id    TEXT    NOT NULL,
	published_at  INTEGER NOT NULL,
	fetched_at    INTEGER NOT NULL,
	brief         INTEGER NOT NULL, -- 1: the description is cut short, and other columns are missing
	duration      INTEGER,          -- in seconds; NULL while live or upcoming
	category      TEXT    NOT NULL,
	live          TEXT    NOT NULL,
	language      TEXT    NOT NULL,
	thumbnail     TEXT    NOT NULL,
	title         TEXT    NOT NULL,
	channel_title TEXT    NOT NULL,
	tags          TEXT    NOT NULL, -- a JSON array
	description   TEXT    NOT NULL
) STRICT;

CREATE INDEX videos_by_age ON videos (fetched_at);

-- The regions that a video was fetched for.
CREATE TABLE sightings (
	region  TEXT    NOT NULL,
	video   INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
	seen_at INTEGER NOT NULL, -- the last time it was fetched
	PRIMARY KEY (region, video)
) STRICT, WITHOUT ROWID;

CREATE INDEX sightings_of_video ON sightings (video);

-- The latest numbers of a video. A hidden number is NULL, not zero.
CREATE TABLE statistics (
	video      INTEGER PRIMARY KEY REFERENCES videos (id) ON DELETE CASCADE,
	fetched_at INTEGER NOT NULL,
	views      INTEGER,
	likes      INTEGER,
	comments   INTEGER
) STRICT;

CREATE INDEX statistics_by_age ON statistics (fetched_at);

CREATE TABLE channels (
	channel_id   TEXT    PRIMARY KEY,
	fetched_at   INTEGER NOT NULL,
	published_at INTEGER NOT NULL,
	title        TEXT    NOT NULL,
	handle       TEXT    NOT NULL,
	country      TEXT    NOT NULL,
	uploads      TEXT    NOT NULL, -- the playlist of its uploads
	description  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX channels_by_age ON channels (fetched_at);

-- The last complete chart of a region and category, and the one that is being fetched.
CREATE TABLE charts (
	id         INTEGER PRIMARY KEY,
	region     TEXT    NOT NULL,
	category   TEXT    NOT NULL,
	complete   INTEGER NOT NULL,
	fetched_at INTEGER NOT NULL, -- when its first page was fetched
	UNIQUE (region, category, complete)
) STRICT;

CREATE TABLE chart_entries (
	chart INTEGER NOT NULL REFERENCES charts (id) ON DELETE CASCADE,
	rank  INTEGER NOT NULL,
	video INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
	PRIMARY KEY (chart, rank),
	UNIQUE (video, chart)
) STRICT, WITHOUT ROWID;

-- The position of each unit of work.
CREATE TABLE cursors (
	job          TEXT    NOT NULL,
	work         TEXT    NOT NULL,
	pass         INTEGER NOT NULL, -- number of passes that ended
	page         INTEGER NOT NULL, -- number of saved pages in this pass
	token        TEXT    NOT NULL, -- the token of the next page
	since        INTEGER NOT NULL, -- where this pass begins; 0 for a pass without a beginning
	high         INTEGER NOT NULL, -- the latest time in this pass; 0 without a page
	mark         INTEGER NOT NULL, -- everything up to here is fetched; 0 before the first pass is complete
	saved_at     INTEGER NOT NULL, -- when its last page was saved; 0 before the first
	completed_at INTEGER NOT NULL, -- when its last pass was completed; 0 before the first
	resume_at    INTEGER NOT NULL, -- when deferred work resumes; 0 if it is not deferred
	PRIMARY KEY (job, work)
) STRICT, WITHOUT ROWID;

-- The highest token of each fence. A process with a lower one may not write.
CREATE TABLE fences (
	name  TEXT    PRIMARY KEY,
	token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	job          TEXT    NOT NULL,
	scheduled_at INTEGER NOT NULL, -- 0 if it was not scheduled
	started_at   INTEGER NOT NULL,
	ended_at     INTEGER NOT NULL, -- 0 until it ends
	state        TEXT    NOT NULL,
	resume_at    INTEGER NOT NULL,
	error        TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_by_job ON runs (job, id);

CREATE TABLE run_work (
	run       INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
	work      TEXT    NOT NULL,
	region    TEXT    NOT NULL,
	pages     INTEGER NOT NULL DEFAULT 0,
	units     INTEGER NOT NULL DEFAULT 0,
	new       INTEGER NOT NULL DEFAULT 0,
	updated   INTEGER NOT NULL DEFAULT 0,
	unchanged INTEGER NOT NULL DEFAULT 0,
	gone      INTEGER NOT NULL DEFAULT 0,
	statistics INTEGER NOT NULL DEFAULT 0,
	state     TEXT    NOT NULL DEFAULT 'running',
	ended_at  INTEGER NOT NULL DEFAULT 0,
	resume_at INTEGER NOT NULL DEFAULT 0,
	error     TEXT    NOT NULL DEFAULT '',
	PRIMARY KEY (run, work)
) STRICT, WITHOUT ROWID;

-- The index of words. It holds no text: functions of the program make the words of a row
-- from the table videos. The program adds and removes them page by page. Triggers would
-- make each row a savepoint, and FTS5 writes a segment at each savepoint.
CREATE VIEW video_words (id, title, description, channel, tags) AS
SELECT id, catalog_words(title), catalog_words(description), catalog_words(channel_title), catalog_tags(tags)
FROM videos;

CREATE VIRTUAL TABLE search USING fts5 (
	title, description, channel, tags,
	content = 'video_words', content_rowid = 'id', tokenize = 'ascii'
);

-- A page is a segment. Merging eight segments at once, not four, takes a fifth less time.
INSERT INTO search (search, rank) VALUES ('automerge', 8);

-- A plain sqlite3 lacks the functions. It can read everything, and these triggers keep it
-- from changing videos without the index.
CREATE TRIGGER guard_added BEFORE INSERT ON videos BEGIN SELECT catalog_words(''); END;
CREATE TRIGGER guard_removed BEFORE DELETE ON videos BEGIN SELECT catalog_words(''); END;
CREATE TRIGGER guard_changed BEFORE UPDATE OF id, title, description, channel_title, tags ON videos
BEGIN SELECT catalog_words(''); END;
