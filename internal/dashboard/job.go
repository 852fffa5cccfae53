package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/internal/view"
	"github.com/headroom-quota/headroom/quota"
	"github.com/headroom-quota/headroom/quota/book"
)

// job is a job with what it costs and when it goes on.
type job struct {
	*ingest.Job
	class   book.Class
	first   map[string]int64   // what its first call charges, by pool
	share   map[string]float64 // which part of its units are of a pool
	outage  quota.Policy       // of its calls
	methods []string

	last    *catalog.RunRecord // nil: there is none
	cost    cost
	next    time.Time          // it is due
	resume  time.Time          // deferred work goes on; zero: there is none
	missed  time.Time          // it was due and nobody ran it
	waiting int                // units of work that were deferred
	fresh   []ingest.Freshness // of its regions, if it fetches no charts
}

// cost is what one run of a job needs.
type cost struct {
	units   int64
	runs    int  // that it is the median of; 0: by the configuration, at most
	unknown bool // no run was done, and nobody knows how much there is to do
}

// newJob works out what the price book says of a job.
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
	n.cost = most(j, dearest)
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

// most is what a run costs at most, as it is configured.
func most(j *ingest.Job, call int64) cost {
	calls, known := j.MostCalls()
	units := calls * call
	if j.MaxUnits > 0 {
		units = min(units, j.MaxUnits)
	}
	return cost{units: units, unknown: !known}
}

// What is remembered of a job: so many of its last runs, of which so many that were
// done say what it costs.
const (
	recent  = 30
	costing = 10
)

// late is how long after its time a run is missed: until then it may be on its way.
const late = 5 * time.Minute

// read asks the catalog about a job.
func (j *job) read(ctx context.Context, src *view.Sources, s *state) error {
	runs, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: recent})
	if err != nil {
		return fmt.Errorf("read the runs of %s: %w", j.Name, err)
	}
	if len(runs) > 0 {
		j.last = &runs[0]
	}
	var done []int64
	for i := range runs {
		if runs[i].State == catalog.Done && len(done) < costing {
			done = append(done, units(&runs[i]))
		}
	}
	if len(done) > 0 {
		slices.Sort(done)
		j.cost = cost{units: done[len(done)/2], runs: len(done)}
	}
	if j.resume, err = src.Runner.ResumeAt(ctx, j.Job, s.open); err != nil {
		return fmt.Errorf("read what of %s was deferred: %w", j.Name, err)
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
	if due && s.now.Sub(why.Scheduled) > late+j.Jitter && (j.last == nil || j.last.State != catalog.Running && j.last.StartedAt.Before(why.Scheduled)) {
		j.missed = why.Scheduled
	}
	return err
}

// goes is when the job next does something, and whether that is to go on with what
// was deferred.
func (j *job) goes(now time.Time) (at time.Time, resumes bool) {
	if !j.resume.IsZero() && j.resume.Before(j.next) {
		if j.resume.Before(now) {
			return now, true
		}
		return j.resume, true
	}
	return j.next, false
}

// of is the part of the cost that one pool bears.
func (j *job) of(pool string) int64 { return int64(float64(j.cost.units)*j.share[pool] + 0.5) }

// pools are those that the job charges, by name.
func (j *job) pools() []string { return slices.Sorted(maps.Keys(j.share)) }
