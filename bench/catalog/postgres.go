package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/library"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/catalog/pgcatalog"
	"github.com/headroom-quota/headroom/ingest/catalog/words"
	"github.com/headroom-quota/headroom/quota/pgstore/testing/pgtest"
)

// The limits of a search in PostgreSQL, which 95 of 100 searches must keep.
const (
	limitUnranked = 10 * time.Millisecond
	limitRanked   = 100 * time.Millisecond
)

// postgres searches a catalog in PostgreSQL: for 160 pairs of characters, whose answers it
// checks against the texts, and for the questions that the file is asked. Unranked is the bare
// query of the index for the pairs. Ranked is the search with its rows and marks, for all
// questions.
func postgres(ctx context.Context, videos, times int, seed uint64) (err error) {
	// The servers of tests have less memory than PostgreSQL gives itself.
	server, err := pgtest.Open(append(slices.Clone(pgtest.Fast), "shared_buffers=128MB")...)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Exec("CREATE DATABASE bench"); err != nil {
		return err
	}
	c, err := pgcatalog.Open(ctx, server.URL("bench"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	l := library.New(seed)
	fmt.Fprintf(os.Stderr, "filling a catalog in PostgreSQL with %d videos\n", videos)
	pairs := map[string]map[string]bool{} // the videos that have them
	begun := time.Now()
	run, err := c.Begin(ctx, catalog.Start{Job: "trending"})
	if err != nil {
		return err
	}
	for n := range videos / 50 {
		page := l.Page(n)
		cur := catalog.Cursor{Job: "trending", Work: fmt.Sprint(n)}
		if _, err := run.Save(ctx, &catalog.Page{Cursor: cur, Done: true, Units: 1, Region: "US", Videos: page}); err != nil {
			return err
		}
		for i := range page {
			read(pairs, &page[i])
		}
	}
	fmt.Printf("\nA catalog in PostgreSQL: saved %d videos in %s.\n", videos, time.Since(begun).Round(time.Second))
	if _, err := c.Pool().Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return err
	}

	typed := map[string][]string{}
	wrong, asked := 0, 0
	for _, pair := range slices.Sorted(keys(pairs)) {
		if asked == 160 {
			break
		}
		if len(pairs[pair]) > 400 { // a search shows 500 at most
			continue
		}
		asked++
		typed["unranked"] = append(typed["unranked"], pair)
		if err := same(ctx, c, pair, pairs[pair]); err != nil {
			wrong++
			fmt.Fprintln(os.Stderr, err)
		}
	}
	fmt.Printf("%d wrong of %d searches for two characters\n", wrong, asked)

	for _, q := range questions(l) {
		typed["ranked"] = append(typed["ranked"], q.typed)
	}
	for _, kind := range []string{"unranked", "ranked"} {
		var took []time.Duration
		for range times {
			for _, text := range typed[kind] {
				begun := time.Now()
				if kind == "ranked" {
					_, err = c.Search(ctx, catalog.Query{Text: text})
				} else {
					err = bareMatch(ctx, c, text)
				}
				if err != nil {
					return err
				}
				took = append(took, time.Since(begun))
			}
		}
		slices.Sort(took)
		limit := limitRanked
		if kind == "unranked" {
			limit = limitUnranked
		}
		p95 := took[len(took)*95/100]
		fmt.Printf("%s: %d searches, median %.1f ms, p95 %.1f ms, slowest %.1f ms; the limit of p95 is %s: %s\n", kind, len(took),
			ms(took[len(took)/2]), ms(p95), ms(took[len(took)-1]), limit, verdict(true, p95 <= limit))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func keys(m map[string]map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// read notes the pairs of Chinese characters in the texts of a video.
func read(pairs map[string]map[string]bool, v *catalog.Video) {
	for _, text := range []string{v.Title, v.ChannelTitle, v.Description, strings.Join(v.Tags, "\n")} {
		var last rune
		for _, r := range text {
			if last >= 0x4E00 && last < 0xA000 && r >= 0x4E00 && r < 0xA000 {
				pair := string([]rune{last, r})
				if pairs[pair] == nil {
					pairs[pair] = map[string]bool{}
				}
				pairs[pair][v.ID] = true
			}
			last = r
		}
	}
}

// same compares what a search finds with what the texts say.
func same(ctx context.Context, c *pgcatalog.Catalog, text string, want map[string]bool) error {
	found := 0
	for q := (catalog.Query{Text: text, Limit: 100}); ; {
		r, err := c.Search(ctx, q)
		if err != nil {
			return err
		}
		for _, h := range r.Hits {
			if found++; !want[h.Video.ID] {
				return fmt.Errorf("%s: found %s, which does not have it", text, h.Video.ID)
			}
		}
		if q.Cursor = r.Cursor; q.Cursor == "" {
			break
		}
	}
	if found != len(want) {
		return fmt.Errorf("%s: found %d of %d", text, found, len(want))
	}
	return nil
}

// bareMatch asks the index alone.
func bareMatch(ctx context.Context, c *pgcatalog.Catalog, text string) error {
	rows, err := c.Pool().Query(ctx, "SELECT video FROM headroom_catalog.video_words WHERE words @@ $1::tsquery", pgcatalog.Expression(words.Parse(text)))
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}
