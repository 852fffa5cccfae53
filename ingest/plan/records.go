package plan

import (
	"slices"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
)

// The input of a record.
const (
	recordedPasses = 10 // the latest passes; their median counts
	failures       = 3  // work that failed so often in a row keeps failing
)

// ReadRecords returns the length and cost of passes, and the failures of runs, the latest first.
func ReadRecords(runs []catalog.RunRecord) map[Work]Record {
	passes := map[Work][]int{} // the latest last
	pages := map[Work]int{}    // of the pass that has begun
	units := map[Work][]int64{}
	failed := map[Work]int{} // in a row
	for _, run := range slices.Backward(runs) {
		for i := range run.Work {
			w := &run.Work[i]
			key := Work{run.Job, w.Work}
			pages[key] += w.Pages
			switch w.State {
			case catalog.Done:
				if pages[key] > 0 {
					passes[key] = append(passes[key], pages[key])
					units[key] = append(units[key], w.Units)
				}
				pages[key], failed[key] = 0, 0
			case catalog.Failed:
				failed[key]++
			case catalog.Deferred, catalog.Running: // its pass continues
				if w.Error == ingest.ErrMorePages.Error() {
					failed[key] = 0
				}
			}
		}
	}
	records := map[Work]Record{}
	for key, all := range passes {
		records[key] = Record{Pages: typical(all), Units: typical(units[key])}
	}
	for key, times := range failed {
		if times >= failures {
			r := records[key]
			r.Failing = true
			records[key] = r
		}
	}
	return records
}

// typical returns the median of the last numbers.
func typical[N int | int64](all []N) N {
	last := slices.Sorted(slices.Values(all[max(len(all)-recordedPasses, 0):]))
	return last[len(last)/2]
}
