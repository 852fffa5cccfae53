package view

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// Runs returns the history of runs for JSON, where lists are never null.
func Runs(all []catalog.RunRecord) []catalog.RunRecord {
	all = listed(all)
	for i := range all {
		all[i].Work = listed(all[i].Work)
		clean(&all[i].Job, &all[i].Error)
		for k := range all[i].Work {
			w := &all[i].Work[k]
			clean(&w.Work, &w.Region, &w.Error, &w.Cause, &w.Pool)
		}
	}
	return all
}

// Total returns the sums of the work of a run.
func Total(r *catalog.RunRecord) (sum catalog.WorkRecord) {
	for _, w := range r.Work {
		sum.Pages += w.Pages
		sum.Units += w.Units
		sum.Charges.Add(w.Charges)
		sum.New += w.New
		sum.Updated += w.Updated
	}
	return sum
}

// ShortRun is a run, with those before it that found the same: still nothing to spend.
type ShortRun struct {
	*catalog.RunRecord
	Open   bool // whether runs that were not read may have found the same
	sum    catalog.WorkRecord
	before int
	since  time.Time
}

// ShortRuns returns the runs, the latest first. Runs of a job that waited for the same time are
// one: a job that is due each minute would fill a table until tomorrow. Whole says that there are no
// earlier runs.
func ShortRuns(all []catalog.RunRecord, whole bool) (short []ShortRun) {
	last := map[string]int{} // place of each job
	for i := range all {
		r := ShortRun{RunRecord: &all[i], sum: Total(&all[i])}
		at, known := last[r.Job]
		if known && r.waits() && short[at].waits() && r.ResumeAt.Equal(short[at].ResumeAt) {
			short[at].before++
			short[at].since = r.StartedAt
			continue
		}
		last[r.Job] = len(short)
		short = append(short, r)
	}
	for _, at := range last {
		short[at].Open = !whole && short[at].waits()
	}
	return short
}

// waits reports whether a run did nothing but see that its work stays deferred.
func (r *ShortRun) waits() bool {
	return r.State == catalog.Deferred && !r.ResumeAt.IsZero() && r.sum.Pages == 0 && r.sum.Units == 0
}

// With adds to why a run stopped that others before it found the same.
func (r *ShortRun) With(why string) string {
	if r.before == 0 {
		return why
	}
	more := ""
	if r.Open {
		more = " or more"
	}
	return fmt.Sprintf("%s (%s times%s since %s)", why, Number(int64(r.before)+1), more, r.since.UTC().Format("2006-01-02 15:04 MST"))
}

var runColumns = []column[ShortRun]{
	{Column{Name: "run", Number: true, Terminal: true}, func(r *ShortRun) any { return id(r.ID) }},
	{Column{Name: "job", Long: true}, func(r *ShortRun) any { return r.Job }},
	{Column{Name: "started"}, func(r *ShortRun) any { return r.StartedAt }},
	{Column{Name: "took", Number: true, Spare: true}, func(r *ShortRun) any {
		if r.EndedAt.IsZero() {
			return nil
		}
		return r.EndedAt.Sub(r.StartedAt)
	}},
	{Column{Name: "state"}, func(r *ShortRun) any {
		is := StateOf(r.State)
		if r.State == catalog.Skipped && r.Error != ingest.DoneSince {
			is.Level = Warn
		}
		return is
	}},
	{Column{Name: "pages", Number: true, Spare: true}, func(r *ShortRun) any { return int64(r.sum.Pages) }},
	{Column{Name: "new", Number: true}, func(r *ShortRun) any { return int64(r.sum.New) }},
	{Column{Name: "updated", Number: true, Spare: true}, func(r *ShortRun) any { return int64(r.sum.Updated) }},
	{Column{Name: "why", Long: true, Terminal: true}, func(r *ShortRun) any { return reason(r.With(Why(r.RunRecord)), r.ResumeAt) }},
}

// RunTable returns a row for each run.
func RunTable(runs []ShortRun) Table {
	return table(withSpent(runColumns, runs, func(r *ShortRun) *catalog.WorkRecord { return &r.sum }), runs)
}

// id writes an id as --before takes it.
func id(n int64) string { return strconv.FormatInt(n, 10) }

type workRow struct {
	*catalog.WorkRecord
	run *catalog.RunRecord
}

var workColumns = []column[workRow]{
	{Column{Name: "run", Number: true}, func(w *workRow) any { return id(w.run.ID) }},
	{Column{Name: "job", Long: true}, func(w *workRow) any { return w.run.Job }},
	{Column{Name: "work", Long: true}, func(w *workRow) any { return text(w.Work) }},
	{Column{Name: "state"}, func(w *workRow) any { return StateOf(w.State) }},
	{Column{Name: "pages", Number: true, Spare: true}, func(w *workRow) any { return int64(w.Pages) }},
	{Column{Name: "new", Number: true}, func(w *workRow) any { return int64(w.New) }},
	{Column{Name: "updated", Number: true, Spare: true}, func(w *workRow) any { return int64(w.Updated) }},
	{Column{Name: "why", Terminal: true}, func(w *workRow) any { return reason(w.Error, w.ResumeAt) }},
}

// WorkTable returns a row for each unit of work of these runs.
func WorkTable(all []catalog.RunRecord) Table {
	var rows []workRow
	for i := range all {
		for k := range all[i].Work {
			rows = append(rows, workRow{&all[i].Work[k], &all[i]})
		}
	}
	return table(withSpent(workColumns, rows, func(w *workRow) *catalog.WorkRecord { return w.WorkRecord }), rows)
}

// Why says why a run did not do all its work: the error that ended the run, or else that
// of the first unit of work that failed, or was deferred.
func Why(r *catalog.RunRecord) string {
	if r.Error != "" {
		return r.Error
	}
	text, more := "", 0
	for _, state := range []catalog.State{catalog.Failed, catalog.Deferred} {
		for _, w := range r.Work {
			switch {
			case w.State != state || w.Error == "":
			case text == "":
				text = w.Work + ": " + w.Error
			default:
				more++
			}
		}
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more: `ingestor runs --work` shows them)", more)
	}
	return text
}
