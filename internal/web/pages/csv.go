package pages

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/web/view"
)

// errNone says that there is no figure of that name.
var errNone = fmt.Errorf("there is no such figure")

// CSV serves the numbers of a figure: /csv/who, /csv/history, /csv/runs and /csv/run.
func (b *Board) CSV(w http.ResponseWriter, r *http.Request) {
	src := b.sources()
	s := b.read(r.Context(), &src)
	rows, err := b.rows(r, s, &src)
	switch {
	case err == errNone: //nolint:errorlint // as it is
		b.Problem(w, r, http.StatusNotFound, "There is no such figure")
		return
	case err != nil:
		b.log.Warn("show a figure", "figure", r.PathValue("figure"), "error", err)
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
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "" && strings.ContainsAny(text[:1], "=+-@\t") {
		return "'" + text
	}
	return text
}

// rows returns the rows of the figure that a request asks for, with their headings.
func (b *Board) rows(r *http.Request, s *state, src *view.Sources) ([][]string, error) {
	switch r.PathValue("figure") {
	case "who":
		u := s.worst()
		if name := r.URL.Query().Get("pool"); name != "" {
			u = s.pool(name)
		}
		if u == nil {
			return nil, orNone(s.outage)
		}
		return s.whoRows(s.hours(u, shown(u), byJob)), nil
	case "history":
		h, err := b.past(r, s, src)
		if h == nil {
			return nil, orNone(err)
		}
		return h.rows(), err
	case "runs":
		return runRows(s.runs), s.unread
	case "run":
		id, err := strconv.ParseInt(r.URL.Query().Get("id"), 10, 64)
		if err != nil || id < 1 {
			return nil, errNone
		}
		run, err := b.run(r.Context(), src.Catalog, id)
		if run == nil {
			return nil, orNone(err)
		}
		return workRows(run), nil
	}
	return nil, errNone
}

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func (s *state) whoRows(h hours) [][]string {
	rows := [][]string{{"who", "kind", "units", "percent"}}
	for _, l := range h.legend() {
		rows = append(rows, []string{l.Name, l.Kind, number(l.units), number(l.share)})
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
