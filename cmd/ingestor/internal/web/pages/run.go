package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// runsPage is the data of the template runs.html.
type runsPage struct {
	Page
	Runs   timeline
	Unread bool
}

// Runs serves the runs of the last 24 hours and the schedules: /runs.
func (b *Board) Runs(w http.ResponseWriter, r *http.Request) {
	s := b.read(r.Context())
	b.show(w, r, http.StatusOK, "runs", &runsPage{s.judged("Runs", "/runs"), s.timeline(), s.Unread != nil})
}

func (s *state) runsInShort() sentence {
	if len(s.runs) == 0 {
		return nil
	}
	r := &s.runs[0]
	return say("The last run, ", r.Job, " at ", s.Moment(r.StartedAt), ", is ", stateWord(r.State), ". It spent ", view.SpentWords(view.Total(r)))
}

// stateWord returns a state in a word that follows "is" or stands alone.
func stateWord(st catalog.State) string {
	if st == catalog.Running {
		return "under way"
	}
	return string(st)
}

// timeline is the data of the section on runs.
type timeline struct {
	Wide, Narrow template.HTML
	Latest       *table
	Jobs         []jobRow
	Partial      bool // whether the oldest runs are left out
}

type jobRow struct {
	Name, Schedule, Cost string
	Next                 *moment // nil: not known, or never
	Says                 sentence
}

// latest is the number of runs in the table.
const latest = 12

func (s *state) timeline() timeline {
	t := timeline{Wide: s.drawRuns(760), Narrow: s.drawRuns(340), Partial: s.partial}
	if runs := view.ShortRuns(s.runs, s.whole); len(runs) > 0 {
		t.Latest = s.runTable(runs[:min(len(runs), latest)])
	}
	t.Jobs = s.outlooks()
	return t
}

// outlooks returns a row for each job: when it runs next, and whether it can.
func (s *state) outlooks() (all []jobRow) {
	for _, j := range s.Jobs {
		o := s.Outlook(j)
		row := jobRow{Name: j.Name, Schedule: j.Schedule().String(), Next: s.at(o.At), Says: o.Says, Cost: count(j.Cost.Units, "unit")}
		switch {
		case j.Cost.Unknown:
			row.Cost = "not known yet"
		case j.Cost.Runs == 0:
			row.Cost = "not known yet, at most " + row.Cost
		}
		all = append(all, row)
	}
	return all
}

// runTable returns the table of runs: the columns of the view with links, and why each
// stopped.
func (s *state) runTable(runs []view.ShortRun) *table {
	t := view.RunTable(runs)
	job := slices.IndexFunc(t.Columns, func(c view.Column) bool { return c.Name == "job" })
	for i := range runs {
		id := strconv.FormatInt(runs[i].ID, 10)
		t.Rows[i][job] = link{text: runs[i].Job, to: "/runs/" + id, id: "run-" + id}
		t.Rows[i] = append(t.Rows[i], s.whyRun(&runs[i]))
	}
	t.Columns = append(t.Columns, view.Column{Name: "why", Long: true})
	return s.table("The latest runs", false, t)
}

// jobNames names the jobs of the timeline: the configured ones and those that ran.
func (s *state) jobNames() (names []string) {
	for _, j := range s.Jobs {
		names = append(names, j.Name)
	}
	for i := range s.runs {
		names = append(names, s.runs[i].Job)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

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

type figure struct{ Number, Name string }

type reported struct{ Work, Text string }

// OneRun serves a run: /runs/{id}.
func (b *Board) OneRun(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		b.Problem(w, r, http.StatusNotFound, "There is no such run")
		return
	}
	s := b.read(r.Context())
	p := &oneRun{Page: s.judged("Run "+strconv.FormatInt(id, 10), "/runs")}
	run, err := b.run(r.Context(), s, id)
	switch {
	case err != nil:
		b.o.Log.Warn("show a run", "run", id, "error", err)
		p.Problem = "The catalog cannot be read now. To look for damage: ingestor doctor"
	case run == nil:
		b.Problem(w, r, http.StatusNotFound, "There is no such run. The history keeps the latest")
		return
	default:
		s.fill(p, run)
	}
	b.show(w, r, http.StatusOK, "run", p)
}

func (b *Board) run(ctx context.Context, s *state, id int64) (run *catalog.RunRecord, err error) {
	all, err := ask(ctx, b, func(ctx context.Context) ([]catalog.RunRecord, error) {
		return s.src.Catalog.Runs(ctx, catalog.RunsQuery{Before: id + 1, Limit: 1})
	})
	if all = view.Runs(all); len(all) > 0 && all[0].ID == id {
		run = &all[0]
	}
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
		p.Resumes = s.at(r.ResumeAt)
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
	}
	spent := view.ColumnsOf(sum)
	for i, c := range spent.Columns() {
		switch units := spent.Cells(&sum)[i].(type) {
		case int64:
			p.Figures = append(p.Figures, figure{view.Number(units), c.Name + " spent"})
		case string: // of a budget
			p.Figures = append(p.Figures, figure{units, "of " + c.Name})
		}
	}
	p.Figures = append(p.Figures, figure{view.Number(refused), "calls refused"}, figure{view.Number(int64(sum.New)), "new videos"})
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
	spent := view.ColumnsOf(r.Work...)
	t := view.Table{Columns: slices.Concat([]view.Column{
		{Name: "work", Long: true},
		{Name: "state"},
		{Name: "pages", Number: true},
	}, spent.Columns(), []view.Column{
		{Name: "refused", Number: true},
		{Name: "new", Number: true, Spare: true},
		{Name: "updated", Number: true, Spare: true},
		{Name: "why", Long: true},
	})}
	whole := ""
	if w := stopped(r); w != nil {
		whole = why(w).String()
	}
	for i := range r.Work {
		w := &r.Work[i]
		st := view.StateOf(w.State)
		st.Text = stateWord(w.State)
		row := slices.Concat([]any{workName(w.Work), st, int64(w.Pages)}, spent.Cells(w), []any{w.Refused, int64(w.New), int64(w.Updated), nil})
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

// causes say in plain words why work stopped. The error itself is on the page of the run.
var causes = map[string]string{
	"interrupted": "It was told to stop",
	"lease":       "Another process took the job over",
	"max_runtime": "Its max_runtime had passed",
	"max_units":   "Its max_units were spent",
	"pages":       "It fetched its pages of one run, and there are more",
	"outage":      "The ledger could not be reached",
	"down":        "The upstream was down",
	"credential":  "The upstream rejected the credential",
	"impossible":  "A call costs more than the limit",
	"unpriced":    "The price book has no price for a call",
	"book":        "Another process uses a newer price book",
	"input":       "A call was invalid",
	"catalog":     "The catalog could not be written",
	"ended":       "Its process ended too early",
}

// why says why work stopped, or nothing if it is done or under way.
func why(w *catalog.WorkRecord) sentence {
	switch {
	case w.State == catalog.Done || w.State == catalog.Running:
		return nil
	case w.Cause == "refused" && w.Pool != "":
		return say(w.Pool, " had too few units left")
	case w.Cause == "blocked" && w.Pool != "":
		return say(w.Pool, " was blocked")
	case causes[w.Cause] != "":
		return say(causes[w.Cause])
	case w.State == catalog.Deferred:
		return say("It was deferred")
	}
	return say("The upstream answered with an error")
}

// stopped returns the work that says why a run stopped: the first that failed, or else the
// first that was deferred. It returns nil if all is done.
func stopped(r *catalog.RunRecord) *catalog.WorkRecord {
	for _, state := range []catalog.State{catalog.Failed, catalog.Deferred} {
		for i := range r.Work {
			if r.Work[i].State == state {
				return &r.Work[i]
			}
		}
	}
	return nil
}

// whyRun is the cell that says why a run stopped, and when it resumes.
func (s *state) whyRun(r *view.ShortRun) any {
	var says sentence
	switch w := stopped(r.RunRecord); {
	case w != nil:
		says = why(w)
		if w.State == catalog.Failed && w.Work != "" {
			says = say(workName(w.Work), ": ", says)
		}
	case r.State == catalog.Failed:
		says = say("It ended before its work was done")
	case r.State == catalog.Skipped:
		says = say(r.Error)
	}
	if says == nil {
		return nil
	}
	return view.Reason{Why: r.With(says.String()), Until: r.ResumeAt}
}
