package pages

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// errNone says that there is no figure of that name.
var errNone = fmt.Errorf("there is no such figure")

// CSV serves the numbers of a figure: /csv/who, /csv/history and so on, see rows.
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
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(text))
	formula := strings.HasPrefix(text, "\t") || strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first)
	if _, err := strconv.ParseFloat(text, 64); err != nil && formula {
		return "'" + text
	}
	return text
}

// rows returns the rows of the figure that a request asks for, with their headings.
func (b *Board) rows(r *http.Request, s *state, src *view.Sources) ([][]string, error) {
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
			if w = windowOf(u, name); w == nil {
				return nil, orNone(s.Outage)
			}
		}
		return s.whoRows(s.hours(u, w, byJob)), nil
	case "regions":
		return regionRows(s.regions()), s.Unread
	case "chart":
		return b.chartRows(r.Context(), src.Catalog, strings.ToUpper(q.Get("region")), ingest.Category(q.Get("category")))
	case "jobs":
		return jobRows(s.Jobs), s.Unread
	case "actions":
		return b.actionRows(r.Context(), src.Catalog)
	case "daemons", "work":
		return b.fleetRows(r, src.Fleet)
	case "history":
		h, err := b.past(r, s, src)
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
		run, err := b.run(r.Context(), src.Catalog, id)
		if run == nil {
			return nil, orNone(err)
		}
		return workRows(run), nil
	}
	return nil, errNone
}

// windowOf returns a window of a pool by its name, or nil.
func windowOf(u *quota.Usage, name string) *quota.WindowUsage {
	for i := range u.Allowances {
		if u.Allowances[i].Window == name {
			return &u.Allowances[i]
		}
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}
