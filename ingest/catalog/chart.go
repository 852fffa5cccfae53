package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Chart is the last complete chart of a region and category.
type Chart struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at"` // its first page: the rest is younger
	Entries   []Entry   `json:"entries"`
}

// Entry is a place in a chart. Places of videos that are gone are left out.
type Entry struct {
	Rank  int   `json:"rank"`
	Video Video `json:"video"`
}

// Feed says how fresh a chart is.
type Feed struct {
	Region    string    `json:"region"`
	Category  string    `json:"category"`
	FetchedAt time.Time `json:"fetched_at,omitzero"` // the last complete one; zero is never
	Entries   int       `json:"entries"`
	Pending   int       `json:"pending"` // entries of the one that is being fetched
}

var errNoBeginning = fmt.Errorf("%w: the beginning of this chart is not there any more; restart the work", ErrOutOfStep)

// saveChart adds a page to the chart that is being fetched, and shows it when that
// is complete.
func (t *tx) saveChart(p *Page, cur *Cursor, rows []int64) error {
	if !cur.Begun() {
		if _, err := t.exec("chart_drop", p.Region, p.Category, false); err != nil {
			return err
		}
		if _, err := t.insert("chart_add", p.Region, p.Category, t.now); err != nil {
			return err
		}
	}
	var chart, rank int64
	found, err := t.one("chart_pending", []any{p.Region, p.Category}, &chart, &rank)
	if err != nil {
		return err
	}
	if !found { // it has expired, or the cursor was that of another chart
		return errNoBeginning
	}
	for _, row := range rows {
		// A video that moved down while the pages were fetched stands on two of
		// them; it keeps its first place.
		n, err := t.exec("entry_add", chart, rank+1, row)
		if err != nil {
			return err
		}
		rank += n
	}
	if !p.Done {
		return nil
	}
	if _, err := t.exec("chart_drop", p.Region, p.Category, true); err != nil {
		return err
	}
	_, err = t.exec("chart_show", chart)
	return err
}

// Chart returns the last complete chart of a region and category, or
// [ErrNotFound].
func (c *Catalog) Chart(ctx context.Context, region, category string) (ch Chart, err error) {
	var id, fetched int64
	err = c.patiently(ctx, func() error {
		return c.read.QueryRowContext(ctx, "SELECT id, fetched_at FROM charts WHERE region = ? AND category = ? AND complete",
			region, category).Scan(&id, &fetched)
	})
	if err != nil {
		return Chart{}, c.missing(fmt.Sprintf("chart of %q, category %q", region, category), err)
	}
	ch = Chart{Region: region, Category: category, FetchedAt: moment(fetched)}
	err = c.each(ctx, func(rows *sql.Rows) error {
		var e Entry
		err := scanVideo(rows, &e.Video, &e.Rank)
		ch.Entries = append(ch.Entries, e)
		return err
	}, "SELECT e.rank, "+videoColumns+` FROM chart_entries e JOIN videos v ON v.id = e.video
		LEFT JOIN statistics s ON s.video = v.id WHERE e.chart = ? ORDER BY e.rank`, id)
	return ch, err
}

// Feeds returns how fresh each chart is, by region and category.
func (c *Catalog) Feeds(ctx context.Context) (all []Feed, err error) {
	err = c.each(ctx, func(rows *sql.Rows) error {
		var f Feed
		var fetched int64
		err := rows.Scan(&f.Region, &f.Category, &fetched, &f.Entries, &f.Pending)
		f.FetchedAt = moment(fetched)
		all = append(all, f)
		return err
	}, `SELECT region, category, max(CASE WHEN complete THEN fetched_at ELSE 0 END),
			sum(CASE WHEN complete THEN n ELSE 0 END), sum(CASE WHEN complete THEN 0 ELSE n END)
		FROM (SELECT c.*, (SELECT count(*) FROM chart_entries e WHERE e.chart = c.id) AS n FROM charts c)
		GROUP BY region, category ORDER BY region, category`)
	return all, err
}
