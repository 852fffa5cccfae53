package ingest

import (
	"context"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
)

// How long to wait after an outage, or after an upstream failed. For an upstream the wait
// doubles with each failed run, because the upstream charges for errors.
const (
	recovery  = 5 * time.Minute
	doublings = 5 // so up to 160 minutes
)

// recoverAt returns when the upstream is called again. It is one time for all work of the
// run.
func (r *Run) recoverAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Recovered.IsZero() {
		r.state.Recovered = r.clock.Now().Add(recovery << r.setbacks())
	}
	return r.state.Recovered
}

// setbacks returns how many runs before this one failed in a row, up to doublings.
func (r *Run) setbacks() (n int) {
	runs, err := r.catalog.Runs(context.WithoutCancel(r.abort), catalog.RunsQuery{Job: r.job.Name, Limit: 1 + doublings, Made: true})
	if err != nil {
		r.log.Warn("read the runs before this one", "error", err)
	}
	for _, run := range runs {
		switch {
		case run.State == catalog.Running: // this one
		case run.State == catalog.Failed:
			n++
		case len(run.Work) > 0: // a run without work made no calls
			return n
		}
	}
	return n
}
