package catalog

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/internal/sqlitefile"
)

// Chart is the last complete chart of a region and category.
type Chart struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at"` // when its first page was fetched
	Entries   []Entry   `json:"entries"`
}

// Entry is a place in a chart. Places of deleted videos are left out.
type Entry struct {
	Rank  int   `json:"rank"`
	Video Video `json:"video"`
}

// Feed says how fresh a chart is.
type Feed struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at,omitzero"` // of the last complete chart; zero without one
	Entries   int       `json:"entries"`
	Pending   int       `json:"pending"` // entries of the chart that is being fetched

	PendingSince time.Time `json:"-"` // when its first page was fetched; zero without one
}

// ErrNoBeginning says that the first pages of a chart are gone: they have expired, or the
// cursor belongs to another chart. Restart the work. The error is an [ErrOutOfStep].
var ErrNoBeginning = fmt.Errorf("%w: the beginning of this chart is gone; restart the work", ErrOutOfStep)

// saveChart adds a page to the chart that is being fetched. A complete chart replaces the
// one that was shown.
func (t *tx) saveChart(p *Page, cur *Cursor, rows []int64) error {
	if !cur.Begun() {
		if _, err := t.Exec("chart_drop", p.Region, p.Category, false); err != nil {
			return err
		}
		if _, err := t.Exec("chart_add", p.Region, p.Category, t.now); err != nil {
			return err
		}
	}
	pending, err := t.One("chart_pending", p.Region, p.Category)
	if err != nil {
		return err
	}
	if pending == nil {
		return ErrNoBeginning
	}
	chart, rank := pending.Int(0), pending.Int(1)
	for _, row := range rows {
		// A video that moved down between two fetches is on both pages. It keeps its
		// first rank.
		n, err := t.Exec("entry_add", chart, rank+1, row)
		if err != nil {
			return err
		}
		rank += n
	}
	if !p.Done {
		return nil
	}
	if _, err := t.Exec("chart_drop", p.Region, p.Category, true); err != nil {
		return err
	}
	_, err = t.Exec("chart_show", chart)
	return err
}

// Chart returns the last complete chart of a region and category, or [ErrNotFound].
func (c *Catalog) Chart(ctx context.Context, region, category string) (Chart, error) {
	ch := Chart{Region: region, Category: category}
	err := c.view(ctx, func(s *sqlitefile.Session) error { // the next chart may replace this one
		chart, err := s.One("SELECT id, fetched_at FROM charts WHERE region = ? AND category = ? AND complete", region, category)
		if err == nil && chart == nil {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		ch.FetchedAt = chart.Time(1)
		return s.Rows("SELECT e.rank, "+videoColumns+` FROM chart_entries e JOIN videos v ON v.id = e.video
			LEFT JOIN statistics s ON s.video = v.id WHERE e.chart = ? ORDER BY e.rank`, []driver.Value{chart.Int(0)}, func(row sqlitefile.Row) error {
			var e Entry
			err := scanVideo(row, &e.Video, &e.Rank)
			ch.Entries = append(ch.Entries, e)
			return err
		})
	})
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("chart of %q, category %q: %w", region, category, ErrNotFound)
	}
	if err != nil {
		return Chart{}, err
	}
	return ch, nil
}

// Feeds returns the freshness of every chart, by region and category.
func (c *Catalog) Feeds(ctx context.Context) (all []Feed, err error) {
	err = c.each(ctx, func(row sqlitefile.Row) error {
		var f Feed
		err := row.Scan(&f.Region, &f.Category, &f.FetchedAt, &f.Entries, &f.PendingSince, &f.Pending)
		all = append(all, f)
		return err
	}, `SELECT region, category, max(CASE WHEN complete THEN fetched_at ELSE 0 END), sum(CASE WHEN complete THEN n ELSE 0 END),
			max(CASE WHEN complete THEN 0 ELSE fetched_at END), sum(CASE WHEN complete THEN 0 ELSE n END)
		FROM (SELECT c.*, (SELECT count(*) FROM chart_entries e WHERE e.chart = c.id) AS n FROM charts c)
		GROUP BY region, category ORDER BY region, category`)
	return all, err
}
