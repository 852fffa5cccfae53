package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/headroom-quota/headroom/internal/testing/team"

	"github.com/headroom-quota/headroom/ingest/catalog/catalogtest/library"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// A question is what a person types, and what the bare query is for it.
type question struct{ kind, typed, expression string }

// questions are some of each kind, with words as common as their ranks say.
func questions(l *library.Library) (all []question) {
	add := func(kind, typed, expression string) { all = append(all, question{kind, typed, expression}) }
	quoted := func(w string) string { return `"` + plain(w) + `"` }
	for _, rank := range []int{5, 50, 500, 5000} {
		for i := range 5 {
			one, two := l.Words[rank+i], l.Words[(rank+i)*2]
			common := fmt.Sprintf("one of the %d", rank*2)
			add("word, "+common, one, quoted(one)+"*")
			add("two words, "+common, one+" "+two, quoted(one)+" AND "+quoted(two)+"*")
			add("phrase, "+common, `"`+one+" "+two+`"`, `"`+plain(one)+" "+plain(two)+`"`)
		}
	}
	for i := range 5 {
		k := []rune(l.Kanji[20+i] + l.Kanji[30+i])[:2]
		add("two characters", string(k), `"`+string(k)+`"`)
		add("one character", string(k[:1]), `"`+string(k[:1])+`"*`)
	}
	return all
}

// plain folds the few accents that our texts have.
func plain(w string) string {
	var out []rune
	for _, r := range w {
		if f, ok := map[rune]rune{'é': 'e', 'è': 'e', 'ü': 'u', 'ö': 'o', 'ñ': 'n', 'ã': 'a'}[r]; ok {
			r = f
		}
		out = append(out, r)
	}
	return string(out)
}

// slower is how many times as long as the bare query a search may take.
const slower = 2

func search(ctx context.Context, videos, times int, dir string, seed uint64) (err error) {
	l := library.New(seed)
	path := filepath.Join(dir, "searched.db")
	c, err := catalog.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	fmt.Fprintf(os.Stderr, "filling a catalog with %d videos\n", videos)
	for n := 0; n < videos/50; n += 200 {
		var pages [][]catalog.Video
		for i := range min(200, videos/50-n) {
			pages = append(pages, l.Page(n+i))
		}
		if err := ours(ctx, path, pages); err != nil {
			return err
		}
	}
	db, err := sql.Open("sqlite", "file:"+path+settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bare, err := db.PrepareContext(ctx, "SELECT rowid FROM search WHERE search MATCH ? ORDER BY bm25(search, 10, 1, 4, 3) LIMIT 20")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	all := questions(l)
	took := [2][]time.Duration{make([]time.Duration, len(all)), make([]time.Duration, len(all))}
	hits := [2][]int{make([]int, len(all)), make([]int, len(all))}
	for i, q := range all {
		var each [2][]float64
		for range times {
			for side, ask := range []func() (int, error){
				func() (int, error) { return askBare(ctx, bare, q.expression) },
				func() (int, error) {
					r, err := c.Search(ctx, catalog.Query{Text: q.typed})
					return len(r.Hits), err
				},
			} {
				begun := time.Now()
				n, err := ask()
				if err != nil {
					return fmt.Errorf("%s: %w", q.typed, err)
				}
				each[side] = append(each[side], float64(time.Since(begun)))
				hits[side][i] = n
			}
		}
		for side := range each {
			took[side][i] = time.Duration(team.Median(each[side]))
		}
		if hits[0][i] != hits[1][i] {
			return fmt.Errorf("%s: the bare query found %d, the search %d", q.typed, hits[0][i], hits[1][i])
		}
	}
	report(all, took, videos, times)
	return nil
}

func askBare(ctx context.Context, bare *sql.Stmt, expression string) (n int, err error) {
	rows, err := bare.QueryContext(ctx, expression)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row int64
		if err := rows.Scan(&row); err != nil {
			return 0, err
		}
		n++
	}
	return n, rows.Err()
}

func report(all []question, took [2][]time.Duration, videos, times int) {
	fmt.Printf("\nSearching %d videos, median of %d.\n", videos, times)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nvs bare\tbare, ms\tours, ms\tgoal\t  \t")
	line := func(kind string, judged bool, of func(question) bool) {
		var ratios, bare, ours []float64
		for i, q := range all {
			if of(q) {
				ratios = append(ratios, float64(took[1][i])/float64(took[0][i]))
				bare = append(bare, float64(took[0][i])/1e6)
				ours = append(ours, float64(took[1][i])/1e6)
			}
		}
		fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t%s\t  %s\t\n", team.Median(ratios), team.Median(bare), team.Median(ours), verdict(judged, team.Median(ratios) < slower), kind)
	}
	var kinds []string
	seen := map[string]bool{}
	for _, q := range all {
		if !seen[q.kind] {
			seen[q.kind], kinds = true, append(kinds, q.kind)
		}
	}
	for _, kind := range kinds {
		line(kind, false, func(q question) bool { return q.kind == kind })
	}
	line("all", true, func(question) bool { return true })
	w.Flush()
	fmt.Printf("\nvs bare  ours, with the rows and what is marked in them, to the rows' numbers by themselves; the goal is below %d\n", slower)
}
