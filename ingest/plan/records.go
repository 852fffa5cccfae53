package plan

import (
	"slices"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// What a record is made of.
const (
	passesOf = 10 // passes, of which the median counts
	failsOf  = 3  // runs in a row that failed, for what goes on failing
)

// Recorded reads from runs, the latest first, how long passes are and what fails.
func Recorded(runs []catalog.RunRecord) map[Work]Record {
	passes := map[Work][]int{} // the latest last
	partly := map[Work]int{}
	failed := map[Work]int{} // in a row
	for _, run := range slices.Backward(runs) {
		for i := range run.Work {
			w := &run.Work[i]
			key := Work{run.Job, w.Work}
			partly[key] += w.Pages
			switch w.State {
			case catalog.Done:
				if partly[key] > 0 {
					passes[key] = append(passes[key], partly[key])
				}
				partly[key], failed[key] = 0, 0
			case catalog.Failed:
				failed[key]++
			case catalog.Deferred, catalog.Running: // its pass goes on
				if w.Error == ingest.ErrMorePages.Error() {
					failed[key] = 0
				}
			}
		}
	}
	all := map[Work]Record{}
	for key, pages := range passes {
		last := slices.Sorted(slices.Values(pages[max(len(pages)-passesOf, 0):]))
		all[key] = Record{Pages: last[len(last)/2]}
	}
	for key, times := range failed {
		if times >= failsOf {
			r := all[key]
			r.Failing = true
			all[key] = r
		}
	}
	return all
}
