package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// oneRun is the data of the template run.html.
type oneRun struct {
	Page
	Job     string
	State   view.State
	Started moment
	Took    string
	Why     sentence
	Resumes *moment
	Figures []figure
	Work    *table
	Errors  []reported
	CSV     string
	Problem string
	Actions []action
}

// figure is a number with its name.
type figure struct{ Number, Name string }

// reported is the text of an error.
type reported struct{ Work, Text string }

// OneRun serves a run: /runs/{id}.
func (b *Board) OneRun(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		b.Problem(w, r, http.StatusNotFound, "There is no such run")
		return
	}
	src := b.sources()
	s := b.read(r.Context(), &src)
	p := &oneRun{Page: s.judged("Run "+strconv.FormatInt(id, 10), "/runs")}
	run, err := b.run(r.Context(), src.Catalog, id)
	switch {
	case err != nil:
		b.log.Warn("show a run", "run", id, "error", err)
		p.Problem = "The catalog cannot be read now. To look for damage: ingestor doctor"
	case run == nil:
		b.Problem(w, r, http.StatusNotFound, "There is no such run. The history keeps the latest")
		return
	default:
		s.fill(p, run)
	}
	b.show(w, r, http.StatusOK, "run", p)
}

// run returns the run with that number, or nil.
func (b *Board) run(ctx context.Context, c history, id int64) (run *catalog.RunRecord, err error) {
	err = b.facts.Within(ctx, func(ctx context.Context) error {
		all, err := c.Runs(ctx, catalog.RunsQuery{Before: id + 1, Limit: 1})
		if all = view.Runs(all); len(all) > 0 && all[0].ID == id {
			run = &all[0]
		}
		return err
	})
	return run, err
}

// fill says what a run did, why it stopped and when it resumes.
func (s *state) fill(p *oneRun, r *catalog.RunRecord) {
	sum := view.Total(r)
	p.Title, p.Job, p.State, p.Started = r.Job+", run "+strconv.FormatInt(r.ID, 10), r.Job, view.StateOf(r.State), s.Moment(r.StartedAt)
	p.Tab, p.State.Text, p.CSV = say(p.Title), stateWord(r.State), "/csv/run?id="+strconv.FormatInt(r.ID, 10)
	if !r.EndedAt.IsZero() {
		p.Took = span(r.EndedAt.Sub(r.StartedAt))
	}
	if r.ResumeAt.After(s.Now) {
		at := s.Moment(r.ResumeAt)
		p.Resumes = &at
	}
	if w := stopped(r); w != nil {
		p.Why = why(w)
	} else if r.State == catalog.Failed {
		p.Why = say("It ended before its work was done")
	}
	done, refused := 0, int64(0)
	for _, w := range r.Work {
		refused += w.Refused
		if w.State == catalog.Done {
			done++
		}
		p.report(workName(w.Work), w.Error)
	}
	if !slices.ContainsFunc(p.Errors, func(e reported) bool { return strings.Contains(e.Text, r.Error) }) {
		p.report("the run", r.Error)
	}
	p.Figures = []figure{
		{view.Number(int64(done)) + " of " + view.Number(int64(len(r.Work))), "units of work done"},
		{view.Number(int64(sum.Pages)), "pages"},
		{view.Number(sum.Units), "units spent"},
		{view.Number(refused), "calls refused"},
		{view.Number(int64(sum.New)), "new videos"},
	}
	if len(r.Work) > 0 {
		p.Work = s.workTable(r)
	}
	p.Actions = s.resets(r)
}

// report adds the text of an error, once for all work that reported it.
func (p *oneRun) report(work, text string) {
	if text == "" {
		return
	}
	for i := range p.Errors {
		if e := &p.Errors[i]; e.Text == text {
			e.Work += "; " + work
			return
		}
	}
	p.Errors = append(p.Errors, reported{work, text})
}

// workTable returns a row for each unit of work of a run. It does not say again why the run
// stopped, and when it resumes.
func (s *state) workTable(r *catalog.RunRecord) *table {
	t := view.Table{Columns: []view.Column{
		{Name: "work", Long: true},
		{Name: "state"},
		{Name: "pages", Number: true},
		{Name: "units", Number: true},
		{Name: "refused", Number: true},
		{Name: "new", Number: true, Spare: true},
		{Name: "updated", Number: true, Spare: true},
		{Name: "why", Long: true},
	}}
	whole := ""
	if w := stopped(r); w != nil {
		whole = why(w).String()
	}
	for i := range r.Work {
		w := &r.Work[i]
		st := view.StateOf(w.State)
		st.Text = stateWord(w.State)
		row := []any{workName(w.Work), st, int64(w.Pages), w.Units, w.Refused, int64(w.New), int64(w.Updated), nil}
		if says := why(w).String(); says != "" && (says != whole || !w.ResumeAt.Equal(r.ResumeAt)) {
			row[len(row)-1] = view.Reason{Why: says, Until: w.ResumeAt}
		}
		t.Rows = append(t.Rows, row)
	}
	if k := len(t.Columns) - 1; !slices.ContainsFunc(t.Rows, func(row []any) bool { return row[k] != nil }) {
		t.Columns = t.Columns[:k]
	}
	return s.table("Its work", false, t)
}
