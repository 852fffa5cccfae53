package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// What an outage, or an upstream that is not well, is given to pass. An upstream is
// given twice as much each time that it was not enough, as it charges for errors.
const (
	recovery  = 5 * time.Minute
	doublings = 5 // at most: 160 minutes
)

// recoverAt is when the upstream is asked again, by all work of this run at once.
func (r *run) recoverAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recovered.IsZero() {
		r.recovered = r.clock.Now().Add(recovery << r.setbacks())
	}
	return r.recovered
}

// setbacks is how many runs before this one failed in a row, as far as that matters.
func (r *run) setbacks() (n int) {
	runs, err := r.catalog.Runs(context.WithoutCancel(r.abort), catalog.RunsQuery{Job: r.job.Name, Limit: 1 + doublings})
	if err != nil {
		r.log.Warn("read what became of the runs before", "error", err)
	}
	for _, run := range runs {
		switch {
		case run.State == catalog.Running: // this one
		case run.State == catalog.Failed:
			n++
		case len(run.Work) > 0: // one without any has asked nobody
			return n
		}
	}
	return n
}
