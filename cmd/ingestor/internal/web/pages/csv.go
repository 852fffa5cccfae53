package pages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

var errNone = fmt.Errorf("there is no such figure")

// CSV serves the numbers of a figure: /csv/who, /csv/history and so on, see rows.
func (b *Board) CSV(w http.ResponseWriter, r *http.Request) {
	s := b.read(r.Context())
	rows, err := b.rows(r, s)
	switch {
	case err == errNone: //nolint:errorlint // as it is
		b.Problem(w, r, http.StatusNotFound, "There is no such figure")
		return
	case err != nil:
		b.o.Log.Warn("show a figure", "figure", r.PathValue("figure"), "error", err)
		b.Problem(w, r, http.StatusServiceUnavailable, "The figure cannot be read now")
		return
	}
	var body bytes.Buffer
	c := csv.NewWriter(&body)
	for _, row := range rows {
		for i := range row {
			row[i] = inert(row[i])
		}
		_ = c.Write(row) // a Buffer does not fail
	}
	c.Flush()
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="headroom-`+r.PathValue("figure")+`.csv"`)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes()) // the client may have hung up
}

// inert keeps a spreadsheet from taking a text for a formula.
func inert(text string) string {
	text = view.Plain(text)
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(text))
	formula := strings.HasPrefix(text, "\t") || strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first)
	if _, err := strconv.ParseFloat(text, 64); err != nil && formula {
		return "'" + text
	}
	return text
}

// rows returns the rows of the figure that a request asks for, with their headings.
func (b *Board) rows(r *http.Request, s *state) ([][]string, error) {
	q := r.URL.Query()
	switch r.PathValue("figure") {
	case "pools":
		return s.poolRows(), s.Outage
	case "who":
		u := s.Worst()
		if name := q.Get("pool"); name != "" {
			u = s.Pool(name)
		}
		if u == nil {
			return nil, orNone(s.Outage)
		}
		w := verdict.Shown(u)
		if name := q.Get("window"); name != "" {
			i := slices.IndexFunc(u.Allowances, func(w quota.WindowUsage) bool { return w.Window == name })
			if i < 0 {
				return nil, orNone(s.Outage)
			}
			w = &u.Allowances[i]
		}
		return s.whoRows(s.hours(u, w, byJob)), nil
	case "regions":
		return regionRows(s.regions()), s.Unread
	case "chart":
		return b.chartRows(r.Context(), s, strings.ToUpper(q.Get("region")), ingest.Category(q.Get("category")))
	case "jobs":
		return jobRows(s.Jobs), s.Unread
	case "actions":
		return b.actionRows(r.Context(), s)
	case "daemons", "work":
		return b.fleetRows(r, s.src.Fleet)
	case "history":
		h, err := b.past(r, s)
		if h == nil {
			return nil, orNone(err)
		}
		return h.rows(), err
	case "runs":
		return runRows(s.runs), s.Unread
	case "run":
		id, err := strconv.ParseInt(q.Get("id"), 10, 64)
		if err != nil || id < 1 {
			return nil, errNone
		}
		run, err := b.run(r.Context(), s, id)
		if run == nil {
			return nil, orNone(err)
		}
		return workRows(run), nil
	}
	return nil, errNone
}

func orNone(err error) error { return cmp.Or(err, errNone) }

// rowsOf returns a row for each of all, below the headings.
func rowsOf[T any](headings string, all []T, row func(*T) []any) [][]string {
	rows := [][]string{strings.Fields(headings)}
	for i := range all {
		rows = append(rows, cells(row(&all[i])...))
	}
	return rows
}

func (s *state) poolRows() [][]string {
	rows := [][]string{{"pool", "window", "used", "limit", "left", "quota", "headroom", "next_units", "next_at", "resets_at", "blocked_until"}}
	for _, p := range view.Pools(s.Pools) {
		for _, w := range p.Windows {
			of := func(units int64) string { return sum(p.Pool, units) }
			rows = append(rows, cells(p.Pool, w.Window, of(w.Used), of(w.Limit), of(w.Remaining), of(w.Quota), of(w.Headroom), of(w.NextUnits), w.NextAt, w.ResetAt, p.Blocked))
		}
	}
	return rows
}

// sum writes units for a program: those of a budget in dollars, such as 12.50.
func sum(pool string, units int64) string {
	if view.IsMoney(pool) {
		return strings.TrimSuffix(view.Amount(pool, units), " USD")
	}
	return strconv.FormatInt(units, 10)
}

// unitOf is the heading of what [sum] writes.
func unitOf(pool string) string {
	if view.IsMoney(pool) {
		return "dollars"
	}
	return "units"
}

func regionRows(all []region) [][]string {
	return rowsOf("region category job state fetched age_seconds videos pending last_run last_state next_run", all, func(r *region) []any {
		var age any
		if r.AgeSeconds != nil {
			age = *r.AgeSeconds
		}
		return []any{r.Region, r.Category, r.Job, r.State, r.FetchedAt, age, r.Videos, r.Pending, r.Last, r.LastState, r.Next}
	})
}

func (b *Board) chartRows(ctx context.Context, s *state, region, category string) ([][]string, error) {
	c, err := b.chart(ctx, s, region, category)
	if errors.Is(err, catalog.ErrNotFound) {
		err = errNone
	}
	return rowsOf("rank video title channel published", c.Entries, func(e *view.Entry) []any {
		return []any{e.Rank, e.Video.ID, e.Video.Title, e.Video.ChannelTitle, e.Video.PublishedAt}
	}), err
}

func jobRows(all []*job) [][]string {
	return rowsOf("job schedule next units_of_a_run known_from_runs", all, func(of **job) []any {
		j, units := *of, any(nil)
		if !j.Cost.Unknown {
			units = j.Cost.Units
		}
		return []any{j.Name, j.Schedule(), j.Next, units, j.Cost.Runs}
	})
}

func (b *Board) actionRows(ctx context.Context, s *state) ([][]string, error) {
	all, err := b.actions(ctx, s, catalog.KeptActions)
	return rowsOf("when who did to detail", all, func(a *catalog.Action) []any { return []any{a.At, a.Who, a.What, a.Target, a.Detail} }), err
}

func (b *Board) fleetRows(r *http.Request, f view.Fleet) ([][]string, error) {
	if f == nil {
		return nil, errNone
	}
	is, err := ask(r.Context(), b, f.Status)
	if err != nil {
		return nil, err
	}
	t := view.DaemonTable(&is)
	if r.PathValue("figure") == "work" {
		t = view.UnitTable(&is, true)
	}
	rows := make([][]string, 1, 1+len(t.Rows))
	for _, c := range t.Columns {
		rows[0] = append(rows[0], strings.ReplaceAll(c.Name, " ", "_"))
	}
	for _, row := range t.Rows {
		rows = append(rows, cells(row...))
	}
	return rows, nil
}

// cells writes the cells of a row for programs. A time that is missing or zero is empty.
func cells(row ...any) []string {
	texts := make([]string, len(row))
	for i, value := range row {
		switch v := value.(type) {
		case nil:
		case time.Time:
			texts[i] = instant(v)
		case *time.Time:
			if v != nil {
				texts[i] = instant(*v)
			}
		case *moment:
			if v != nil {
				texts[i] = v.ISO
			}
		case time.Duration:
			texts[i] = fmt.Sprint(int64(v / time.Second))
		case view.State:
			texts[i] = v.Text
		case view.Reason:
			texts[i] = v.Why
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return texts
}

// instant writes a time, or nothing for zero.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (s *state) whoRows(h hours) [][]string {
	return rowsOf("who kind "+unitOf(h.pool)+" percent spent_since", h.legend(), func(l *legend) []any {
		return []any{l.Name, l.Kind, sum(h.pool, l.units), l.share, h.since}
	})
}

// rows returns a row for each bar and group with spend, and one for the refusals of a bar.
func (h *past) rows() [][]string {
	first := "day"
	if h.span == "24h" {
		first = "hour"
	}
	rows := [][]string{{first, string(h.by), unitOf(h.pool), "refused_calls", "stopped_by_block"}}
	for i, b := range h.bars {
		for _, g := range h.groups {
			if g.hours[i] != 0 {
				rows = append(rows, cells(b.key, g.name, sum(h.pool, g.hours[i]), nil, nil))
			}
		}
		if b.refused+b.blocked > 0 {
			rows = append(rows, cells(b.key, nil, nil, b.refused, b.blocked))
		}
	}
	return rows
}

func runRows(runs []catalog.RunRecord) [][]string {
	return rowsOf("run job started ended state pages units new updated resumes charges", runs, func(r *catalog.RunRecord) []any {
		sum := view.Total(r)
		return []any{r.ID, r.Job, r.StartedAt, r.EndedAt, r.State, sum.Pages, sum.Units, sum.New, sum.Updated, r.ResumeAt, charges(&sum)}
	})
}

func workRows(r *catalog.RunRecord) [][]string {
	return rowsOf("work state pages units refused_calls new updated why resumes charges", r.Work, func(w *catalog.WorkRecord) []any {
		return []any{w.Work, w.State, w.Pages, w.Units, w.Refused, w.New, w.Updated, why(w), w.ResumeAt, charges(w)}
	})
}

// charges returns the units by pool, such as budgets/all=0.02 youtube/searches=1 youtube/units=4.
func charges(w *catalog.WorkRecord) string {
	var all []string
	for _, pool := range slices.Sorted(maps.Keys(w.Charges)) {
		all = append(all, pool+"="+sum(pool, w.Charges[pool]))
	}
	return strings.Join(all, " ")
}
