-- The catalog. Times are microseconds since 1970 UTC.

PRAGMA application_id = 1215458659; -- 'Hrmc': a catalog of Headroom

-- What the index of words was made with: the words of a text depend on tables of
-- Unicode that change from one Go to the next, and a row can be taken out of the
-- index only by the very words that it went in with.
CREATE TABLE about (
	words TEXT NOT NULL
) STRICT;

INSERT INTO about (words) VALUES ('');

-- Videos, as the upstream described them. The long text comes last, so that what
-- is asked of many rows is read without it.
CREATE TABLE videos (
	id            INTEGER PRIMARY KEY,
	video_id      TEXT    NOT NULL UNIQUE,
	channel_id    TEXT    NOT NULL,
	published_at  INTEGER NOT NULL,
	fetched_at    INTEGER NOT NULL,
	brief         INTEGER NOT NULL, -- 1: the description is cut, what else there is was not told
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

-- For which regions a video was fetched.
CREATE TABLE sightings (
	region  TEXT    NOT NULL,
	video   INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
	seen_at INTEGER NOT NULL, -- the last time
	PRIMARY KEY (region, video)
) STRICT, WITHOUT ROWID;

CREATE INDEX sightings_of_video ON sightings (video);

-- The latest numbers of a video. NULL is hidden, which is not zero.
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
	uploads      TEXT    NOT NULL, -- the playlist of all that it uploaded
	description  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX channels_by_age ON channels (fetched_at);

-- Of each chart the last complete one, and the one that is being written.
CREATE TABLE charts (
	id         INTEGER PRIMARY KEY,
	region     TEXT    NOT NULL,
	category   TEXT    NOT NULL,
	complete   INTEGER NOT NULL,
	fetched_at INTEGER NOT NULL, -- its first page: the rest is younger
	UNIQUE (region, category, complete)
) STRICT;

CREATE TABLE chart_entries (
	chart INTEGER NOT NULL REFERENCES charts (id) ON DELETE CASCADE,
	rank  INTEGER NOT NULL,
	video INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
	PRIMARY KEY (chart, rank),
	UNIQUE (video, chart)
) STRICT, WITHOUT ROWID;

-- How far each unit of work has got.
CREATE TABLE cursors (
	job          TEXT    NOT NULL,
	work         TEXT    NOT NULL,
	pass         INTEGER NOT NULL, -- passes that are over
	page         INTEGER NOT NULL, -- pages of this pass that are saved
	token        TEXT    NOT NULL, -- what the next page is asked for with
	since        INTEGER NOT NULL, -- where this pass began; 0 is none
	high         INTEGER NOT NULL, -- the latest that this pass has met; 0 is none
	mark         INTEGER NOT NULL, -- up to here all is fetched; 0 is never
	saved_at     INTEGER NOT NULL, -- the last page; 0 is never
	completed_at INTEGER NOT NULL, -- the last pass; 0 is never
	resume_at    INTEGER NOT NULL, -- it was deferred until then; 0 is not
	PRIMARY KEY (job, work)
) STRICT, WITHOUT ROWID;

-- Who may write: the highest token that was ever shown.
CREATE TABLE fences (
	name  TEXT    PRIMARY KEY,
	token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	job          TEXT    NOT NULL,
	scheduled_at INTEGER NOT NULL, -- 0: it was not scheduled
	started_at   INTEGER NOT NULL,
	ended_at     INTEGER NOT NULL, -- 0 is not yet
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

-- The index of words. It holds no text: the words of a row are made from the table
-- videos by functions of the program, and are put in and taken out page by page. With
-- triggers each row would be a savepoint, at each of which FTS5 writes a segment.
CREATE VIEW video_words (id, title, description, channel, tags) AS
SELECT id, catalog_words(title), catalog_words(description), catalog_words(channel_title), catalog_tags(tags)
FROM videos;

CREATE VIRTUAL TABLE search USING fts5 (
	title, description, channel, tags,
	content = 'video_words', content_rowid = 'id', tokenize = 'ascii'
);

-- A page is a segment. To merge eight at once, not four, takes a fifth less time.
INSERT INTO search (search, rank) VALUES ('automerge', 8);

-- A plain sqlite3 does not have the functions: it can read all of this, and these keep
-- it from changing videos behind the index's back.
CREATE TRIGGER guard_added BEFORE INSERT ON videos BEGIN SELECT catalog_words(''); END;
CREATE TRIGGER guard_removed BEFORE DELETE ON videos BEGIN SELECT catalog_words(''); END;
CREATE TRIGGER guard_changed BEFORE UPDATE OF id, title, description, channel_title, tags ON videos
BEGIN SELECT catalog_words(''); END;
