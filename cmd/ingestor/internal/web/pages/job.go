package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// job is a job with its cost and its next start.
type job struct {
	*ingest.Job
	class   book.Class
	first   map[string]int64   // units of its first call, by pool
	share   map[string]float64 // the part of its units that a pool pays, by pool
	outage  quota.Policy       // of its calls
	methods []string

	last    *catalog.RunRecord // nil if it never ran
	cost    cost
	next    time.Time          // when it is due
	resume  time.Time          // when deferred work resumes, or zero
	missed  time.Time          // when it was due and did not run, or zero
	waiting int                // deferred units of work
	fresh   []ingest.Freshness // of the regions of a search
}

// cost is the cost of one run of a job.
type cost struct {
	units   int64
	runs    int  // how many runs it is the median of; 0: it is the highest cost, by the configuration
	unknown bool // no run is done, and the configuration does not bound the cost
}

// newJob prices a job by the price book.
func (s *state) newJob(j *ingest.Job) *job {
	n := &job{Job: j, methods: j.Kind.Methods(), first: map[string]int64{}, share: map[string]float64{}}
	var whole, dearest int64
	sums := map[string]int64{}
	for i, name := range n.methods {
		upstream, method := s.method(name)
		if method == nil {
			continue
		}
		var call int64
		for pool, charge := range method.Charges {
			key := quota.Pool{Upstream: upstream.Name, Account: cmp.Or(j.Account, quota.DefaultAccount), Name: pool}.String()
			sums[key] += charge
			call += charge
			if i == 0 {
				n.first[key] = charge
			}
		}
		if i == 0 {
			n.class, n.outage = upstream.Classes[j.Class], cmp.Or(upstream.Classes[j.Class].Outage, method.Outage)
		}
		whole += call
		dearest = max(dearest, call)
	}
	for key, sum := range sums {
		if whole > 0 {
			n.share[key] = float64(sum) / float64(whole)
		}
	}
	n.cost = maxCost(j, dearest)
	n.next = j.Schedule().Next(s.now)
	return n
}

// method finds a method in the price book.
func (s *state) method(name string) (*book.Upstream, *book.Method) {
	for _, u := range slices.Sorted(maps.Keys(s.book.Upstreams)) {
		if m := s.book.Upstreams[u].Methods[name]; m != nil {
			return s.book.Upstreams[u], m
		}
	}
	return nil, nil
}

// maxCost returns the highest cost of a run as configured, where each page is a call.
func maxCost(j *ingest.Job, call int64) cost {
	calls, known := j.MostCalls()
	units := calls * call
	if j.MaxUnits > 0 {
		units = min(units, j.MaxUnits)
	}
	return cost{units: units, unknown: !known}
}

// A job's cost is the median of its last finished runs.
const (
	recent  = 30 // runs of a job that are read
	costing = 10 // finished runs that count
)

// read reads the history of a job from the catalog.
func (j *job) read(ctx context.Context, src *view.Sources, s *state) error {
	runs, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: recent, Made: true})
	if err != nil {
		return fmt.Errorf("read the runs of %s: %w", j.Name, err)
	}
	if len(runs) > 0 {
		j.last = &runs[0]
	}
	var done []int64
	for i := range runs {
		if runs[i].State == catalog.Done && len(done) < costing {
			done = append(done, view.Total(&runs[i]).Units)
		}
	}
	if len(done) > 0 {
		slices.Sort(done)
		j.cost = cost{units: done[len(done)/2], runs: len(done)}
	}
	if j.resume, err = src.Runner.ResumeAt(ctx, j.Job, s.open); err != nil {
		return fmt.Errorf("read the deferred work of %s: %w", j.Name, err)
	}
	cursors, err := src.Catalog.Cursors(ctx, j.Name)
	if err != nil {
		return fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	for _, c := range cursors {
		if !c.ResumeAt.IsZero() {
			j.waiting++
		}
	}
	if j.Regional() && len(j.Charts()) == 0 { // the feeds are those of charts
		if j.fresh, err = src.Runner.Freshness(ctx, j.Job); err != nil {
			return err
		}
	}
	why, due, err := src.Runner.Due(ctx, j.Job)
	if last := cmp.Or(j.last, &catalog.RunRecord{}); due && view.Missed(j.Job, last, why.Scheduled, s.now) {
		j.missed = why.Scheduled
	}
	return err
}

// start returns when the job starts next, and whether it then resumes deferred work.
func (j *job) start(now time.Time) (at time.Time, resumes bool) {
	if !j.resume.IsZero() && j.resume.Before(j.next) {
		if j.resume.Before(now) {
			return now, true
		}
		return j.resume, true
	}
	return j.next, false
}

// costIn returns the part of the cost that a pool pays.
func (j *job) costIn(pool string) int64 { return int64(float64(j.cost.units)*j.share[pool] + 0.5) }

// pools names the pools that the job charges, sorted.
func (j *job) pools() []string { return slices.Sorted(maps.Keys(j.share)) }
