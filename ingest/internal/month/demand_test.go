package month

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// betweenRuns is how far apart the runs of a schedule are.
const betweenRuns = 30 * time.Minute

// demand is what a program wants of the upstream, run by run: more than there is. It
// is drawn before anything runs, so that whoever meters it is asked for the same in
// the same order.
type demand struct {
	from time.Time
	days int
	runs [][]work // the first is due at from
}

// work is a row of calls. It ends with the first that fails.
type work struct {
	job, region, class string

	path    string // of its calls
	calls   int    // 0: as long as there is a next page
	restart bool   // the program ends before it, in the middle of its run, and another begins
	flights uint64 // the seed of how long its calls are under way
}

// regions that are fetched.
var regions = []string{"JP", "DE", "US", "BR", "IN", "GB", "FR", "KR"}

// runaway is what the search whose pages never end asks for.
const runaway = "runaway"

// newDemand draws a demand for so many days of California, with about so many calls
// in each region and run.
func newDemand(seed uint64, from time.Time, days, calls int) *demand {
	r := rand.New(rand.NewPCG(seed, 0))
	d := &demand{from: from, days: days}
	for at := from; at.Before(from.AddDate(0, 0, days)); at = at.Add(betweenRuns) {
		var run []work
		for _, region := range regions {
			run = append(run, work{
				job: "statistics", region: region, calls: calls/2 + r.IntN(calls+1),
				path: "videos?part=id&fields=items/id&id=dQw4w9WgXcQ",
			})
		}
		for range 1 + r.IntN(2) {
			run = append(run, work{
				job: "news", calls: 1,
				path: fmt.Sprintf("search?part=id&fields=nextPageToken&type=video&maxResults=1&q=%d", r.IntN(1000)),
			})
		}
		if r.IntN(12) == 0 {
			run = append(run, work{
				job: "backfill", class: "backfill", calls: 200 + r.IntN(1000),
				path: "channels?part=id&fields=items/id&id=UC_x5XG1OV2P6uZZ5FSM9Ttw",
			})
		}
		if at.Equal(from) || r.IntN(12) == 0 {
			run = append(run, work{job: runaway, path: "search?part=id&fields=nextPageToken&type=video&maxResults=1&q=" + runaway})
		}
		r.Shuffle(len(run), func(i, j int) { run[i], run[j] = run[j], run[i] })
		for i := range run {
			run[i].restart, run[i].flights = r.IntN(50) == 0, r.Uint64()
		}
		d.runs = append(d.runs, run)
	}
	return d
}
