package pages

import (
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

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
func (s *state) whyRun(r *catalog.RunRecord) any {
	var says sentence
	switch w := stopped(r); {
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
	return view.Reason{Why: says.String(), Until: r.ResumeAt}
}
