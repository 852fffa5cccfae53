package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/ingest/fleet"
)

// The rows of the figures, with their headings.

func (s *state) poolRows() [][]string {
	rows := [][]string{{"pool", "window", "used", "limit", "left", "quota", "headroom", "next_units", "next_at", "resets_at", "blocked_until"}}
	for _, p := range view.Pools(s.Pools) {
		for i := range p.Windows {
			w := &p.Windows[i]
			rows = append(rows, []string{
				p.Pool, w.Window, number(w.Used), number(w.Limit), number(w.Remaining), number(w.Quota), number(w.Headroom),
				number(w.NextUnits), instantOf(w.NextAt), instantOf(w.ResetAt), instantOf(p.Blocked),
			})
		}
	}
	return rows
}

func regionRows(all []region) [][]string {
	rows := [][]string{{"region", "category", "job", "state", "fetched", "age_seconds", "videos", "pending", "last_run", "last_state", "next_run"}}
	for i := range all {
		r := &all[i]
		age := ""
		if r.AgeSeconds != nil {
			age = number(*r.AgeSeconds)
		}
		rows = append(rows, []string{
			r.Region, r.Category, r.Job, r.State.Text, instantOf(r.FetchedAt), age, number(int64(r.Videos)), number(int64(r.Pending)),
			isoOf(r.Last), string(r.LastState), isoOf(r.Next),
		})
	}
	return rows
}

func (b *Board) chartRows(ctx context.Context, c charts, region, category string) (rows [][]string, err error) {
	rows = [][]string{{"rank", "video", "title", "channel", "published"}}
	err = b.facts.Within(ctx, func(ctx context.Context) error {
		all, err := c.Chart(ctx, region, category)
		for i := range all.Entries {
			v := &all.Entries[i].Video
			rows = append(rows, []string{number(int64(all.Entries[i].Rank)), v.ID, v.Title, v.ChannelTitle, instant(v.PublishedAt)})
		}
		return err
	})
	if errors.Is(err, catalog.ErrNotFound) {
		err = errNone
	}
	return rows, err
}

func jobRows(all []*job) [][]string {
	rows := [][]string{{"job", "schedule", "next", "units_of_a_run", "known_from_runs"}}
	for _, j := range all {
		units := number(j.Cost.Units)
		if j.Cost.Unknown {
			units = ""
		}
		rows = append(rows, []string{j.Name, j.Schedule().String(), instant(j.Next), units, number(int64(j.Cost.Runs))})
	}
	return rows
}

func (b *Board) actionRows(ctx context.Context, c view.Catalog) (rows [][]string, err error) {
	rows = [][]string{{"when", "who", "did", "to", "detail"}}
	err = b.facts.Within(ctx, func(ctx context.Context) error {
		all, err := c.Actions(ctx, catalog.KeptActions)
		for _, a := range all {
			rows = append(rows, []string{instant(a.At), a.Who, a.What, a.Target, a.Detail})
		}
		return err
	})
	return rows, err
}

// fleetRows returns the rows of the daemons of a fleet, or of all of their work.
func (b *Board) fleetRows(r *http.Request, f view.Fleet) ([][]string, error) {
	if f == nil {
		return nil, errNone
	}
	var is fleet.Status
	err := b.facts.Within(r.Context(), func(ctx context.Context) (err error) {
		is, err = f.Status(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := view.DaemonTable(&is)
	if r.PathValue("figure") == "work" {
		t = view.UnitTable(&is, true)
	}
	return tableRows(&t), nil
}

// tableRows returns the rows of a table.
func tableRows(t *view.Table) [][]string {
	rows := make([][]string, 1, 1+len(t.Rows))
	for _, c := range t.Columns {
		rows[0] = append(rows[0], strings.ReplaceAll(c.Name, " ", "_"))
	}
	for _, cells := range t.Rows {
		var row []string
		for _, c := range cells {
			row = append(row, figureOf(c))
		}
		rows = append(rows, row)
	}
	return rows
}

// figureOf writes a cell of a table for programs.
func figureOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case time.Time:
		return instant(v)
	case time.Duration:
		return number(int64(v / time.Second))
	case view.State:
		return v.Text
	case view.Reason:
		return v.Why
	}
	return fmt.Sprint(value)
}

// instantOf writes a time that may be missing.
func instantOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return instant(*t)
}

func isoOf(m *moment) string {
	if m == nil {
		return ""
	}
	return m.ISO
}

func (s *state) whoRows(h hours) [][]string {
	rows := [][]string{{"who", "kind", "units", "percent", "spent_since"}}
	for _, l := range h.legend() {
		rows = append(rows, []string{l.Name, l.Kind, number(l.units), number(l.share), instant(h.since)})
	}
	return rows
}

// rows returns a row for each bar and group with spend, and one for the refusals of a bar.
func (h *past) rows() [][]string {
	first := "day"
	if h.span == "24h" {
		first = "hour"
	}
	rows := [][]string{{first, string(h.by), "units", "refused_calls", "stopped_by_block"}}
	for i, b := range h.bars {
		for _, g := range h.groups {
			if g.hours[i] != 0 {
				rows = append(rows, []string{b.key, g.name, number(g.hours[i]), "", ""})
			}
		}
		if b.refused+b.blocked > 0 {
			rows = append(rows, []string{b.key, "", "", number(b.refused), number(b.blocked)})
		}
	}
	return rows
}

func runRows(runs []catalog.RunRecord) [][]string {
	rows := [][]string{{"run", "job", "started", "ended", "state", "pages", "units", "new", "updated", "resumes"}}
	for i := range runs {
		r := &runs[i]
		sum := view.Total(r)
		rows = append(rows, []string{
			number(r.ID), r.Job, instant(r.StartedAt), instant(r.EndedAt), string(r.State),
			number(int64(sum.Pages)), number(sum.Units), number(int64(sum.New)), number(int64(sum.Updated)), instant(r.ResumeAt),
		})
	}
	return rows
}

func workRows(r *catalog.RunRecord) [][]string {
	rows := [][]string{{"work", "state", "pages", "units", "refused_calls", "new", "updated", "why", "resumes"}}
	for i := range r.Work {
		w := &r.Work[i]
		rows = append(rows, []string{
			w.Work, string(w.State), number(int64(w.Pages)), number(w.Units), number(w.Refused), number(int64(w.New)), number(int64(w.Updated)),
			why(w).String(), instant(w.ResumeAt),
		})
	}
	return rows
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// instant writes a time, or nothing for zero.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
