package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// A contender saves pages of videos into a new file.
type contender struct {
	name   string
	save   func(ctx context.Context, path string, pages [][]catalog.Video) error
	judged bool // by the goal
}

// contenders are compared with the first.
var contenders = []contender{
	{name: "bare: the same rows and words, one transaction", save: bare(1<<30, sameWords)},
	{name: "bare: the same rows and words, a transaction per page", save: bare(1, sameWords)},
	{name: "ours: a page, its cursor and its run per transaction", save: ours, judged: true},
	{name: "bare: unicode61, which finds no Japanese, one transaction", save: bare(1<<30, unicode61)},
	{name: "bare: unicode61 and trigram, one transaction", save: bare(1<<30, unicode61, trigram)},
}

// ours saves pages as a run does: each as a part of its region's chart.
func ours(ctx context.Context, path string, pages [][]catalog.Video) (err error) {
	c, err := catalog.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fence, err := c.NewFence(ctx, "default/trending")
	if err != nil {
		return err
	}
	run, err := c.Begin(ctx, catalog.Start{Job: "trending", Fence: fence})
	if err != nil {
		return err
	}
	cur := catalog.Cursor{Job: "trending"}
	for n, videos := range pages {
		region, next := where(n)
		if cur.Work != region {
			cur = catalog.Cursor{Job: "trending", Work: region}
			if cur, err = c.Cursor(ctx, "trending", region); err != nil {
				return err
			}
		}
		s, err := run.Save(ctx, &catalog.Page{Cursor: cur, Next: next, Done: next == "", Units: 1, Region: region, Chart: true, Videos: videos})
		if err != nil {
			return err
		}
		cur = s.Cursor
	}
	return run.End(ctx, catalog.Outcome{State: catalog.Done})
}

// where returns the region of a page, and what asks for the next one: four pages are a
// chart.
func where(n int) (region, next string) {
	region = strings.Fields("US GB DE FR IN BR AU CA")[n/4%8]
	if n%4 < 3 {
		next = fmt.Sprint(n + 1)
	}
	return region, next
}

// An index has a tokenizer, and may be given words instead of text.
type index struct{ tokenize, title, tags string }

var (
	sameWords = index{"ascii", "catalog_words(?)", "catalog_tags(?)"}
	unicode61 = index{"unicode61 remove_diacritics 2", "?", "?"}
	trigram   = index{"trigram", "?", "?"}
)

// The settings of a connection of the catalog, word for word.
const settings = "?_txlock=immediate&_pragma=secure_delete(1)&_pragma=wal_autocheckpoint(4000)&_pragma=cache_size(-65536)&_pragma=temp_store(2)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)"

// The tables of the catalog, as far as pages fill them.
const tables = `
CREATE TABLE videos (id INTEGER PRIMARY KEY, video_id TEXT NOT NULL UNIQUE, channel_id TEXT NOT NULL, published_at INTEGER NOT NULL,
	fetched_at INTEGER NOT NULL, brief INTEGER NOT NULL, duration INTEGER, category TEXT NOT NULL, live TEXT NOT NULL,
	language TEXT NOT NULL, thumbnail TEXT NOT NULL, title TEXT NOT NULL, channel_title TEXT NOT NULL, tags TEXT NOT NULL, description TEXT NOT NULL) STRICT;
CREATE INDEX videos_by_age ON videos (fetched_at);
CREATE TABLE sightings (region TEXT NOT NULL, video INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE, seen_at INTEGER NOT NULL,
	PRIMARY KEY (region, video)) STRICT, WITHOUT ROWID;
CREATE INDEX sightings_of_video ON sightings (video);
CREATE TABLE statistics (video INTEGER PRIMARY KEY REFERENCES videos (id) ON DELETE CASCADE, fetched_at INTEGER NOT NULL,
	views INTEGER, likes INTEGER, comments INTEGER) STRICT;
CREATE INDEX statistics_by_age ON statistics (fetched_at);
CREATE TABLE chart_entries (chart INTEGER NOT NULL, rank INTEGER NOT NULL, video INTEGER NOT NULL REFERENCES videos (id) ON DELETE CASCADE,
	PRIMARY KEY (chart, rank), UNIQUE (video, chart)) STRICT, WITHOUT ROWID;`

// bare inserts the same rows with as little as that takes: so many pages to a
// transaction, and these indexes.
func bare(per int, indexes ...index) func(context.Context, string, [][]catalog.Video) error {
	return func(ctx context.Context, path string, pages [][]catalog.Video) (err error) {
		db, err := sql.Open("sqlite", "file:"+path+settings)
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		defer func() { err = errors.Join(err, db.Close()) }()
		texts := []string{
			"INSERT INTO videos VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			"INSERT INTO sightings VALUES (?, ?, ?)",
			"INSERT INTO statistics VALUES (?, ?, ?, ?, ?)",
			"INSERT INTO chart_entries VALUES (?, ?, ?)",
		}
		ddl := tables
		for i, x := range indexes {
			ddl += fmt.Sprintf("CREATE VIRTUAL TABLE search%d USING fts5 (title, description, channel_title, tags, content = 'videos', content_rowid = 'id', tokenize = '%s');", i, x.tokenize)
			texts = append(texts, fmt.Sprintf("INSERT INTO search%[1]d (rowid, title, description, channel_title, tags) VALUES (?, %[2]s, %[2]s, %[2]s, %[3]s)", i, x.title, x.tags))
		}
		if _, err := db.ExecContext(ctx, ddl); err != nil {
			return err
		}
		for at := 0; at < len(pages); at += per {
			if err := bulk(ctx, db, texts, pages[at:min(at+per, len(pages))], at); err != nil {
				return err
			}
		}
		return nil
	}
}

// bulk inserts pages in one transaction.
func bulk(ctx context.Context, db *sql.DB, texts []string, pages [][]catalog.Video, first int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var stmts []*sql.Stmt
	for _, text := range texts {
		st, err := tx.PrepareContext(ctx, text) //nolint:sqlclosecheck // the transaction does
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		stmts = append(stmts, st)
	}
	insert := func(st *sql.Stmt, args ...any) {
		if err == nil {
			_, err = st.ExecContext(ctx, args...)
		}
	}
	now := time.Now().UnixMicro()
	for i, videos := range pages {
		region, _ := where(first + i)
		for j, v := range videos {
			row := (first+i)*50 + j + 1
			tags := `["` + strings.Join(v.Tags, `","`) + `"]`
			insert(stmts[0], row, v.ID, v.ChannelID, v.PublishedAt.UnixMicro(), now, int(v.Duration.Seconds()), v.Category, v.Live,
				v.Language, v.Thumbnail, v.Title, v.ChannelTitle, tags, v.Description)
			insert(stmts[1], region, row, now)
			insert(stmts[2], row, now, v.Statistics.Views, v.Statistics.Likes, v.Statistics.Comments)
			insert(stmts[3], (first+i)/4, (first+i)%4*50+j+1, row)
			for _, st := range stmts[4:] {
				insert(st, row, v.Title, v.Description, v.ChannelTitle, tags)
			}
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
