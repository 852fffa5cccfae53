package verdict

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

// Job is a job with its cost and its next start.
type Job struct {
	*ingest.Job
	class   book.Class
	first   map[string]int64   // units of its first call, by pool
	Share   map[string]float64 // the part of its units that a pool pays, by pool
	outage  quota.Policy       // of its calls
	Methods []string

	Last    *catalog.RunRecord // nil if it never ran
	Ended   *catalog.RunRecord // the last one that has ended, and was not deferred before its first call; or nil
	Timed   time.Time          // the last time of the schedule for which it ran, or zero
	Cost    Cost
	Next    time.Time          // when it is due
	Resume  time.Time          // when deferred work resumes, or zero
	Missed  time.Time          // when it was due and did not run, or zero
	Waiting int                // deferred units of work
	comes   bool               // it was due a moment ago, and its run is still to come
	Paused  bool               // on all machines, by a person: it has no next start, and was not missed
	Fresh   []ingest.Freshness // of the regions of a search
}

// Cost is the cost of one run of a job.
type Cost struct {
	Units   int64
	Runs    int  // how many runs it is the median of; 0: it is the highest cost, by the configuration
	Unknown bool // no run is done, and the configuration does not bound the cost
}

// newJob prices a job by the price book.
func (s *State) newJob(j *ingest.Job) *Job {
	n := &Job{Job: j, Methods: j.Kind.Methods(), first: map[string]int64{}, Share: map[string]float64{}}
	var whole, dearest int64
	sums := map[string]int64{}
	for i, name := range n.Methods {
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
			n.Share[key] = float64(sum) / float64(whole)
		}
	}
	n.Cost = maxCost(j, dearest)
	n.Next = j.Schedule().Next(s.Now)
	return n
}

func (s *State) method(name string) (*book.Upstream, *book.Method) {
	for _, u := range slices.Sorted(maps.Keys(s.Book.Upstreams)) {
		if m := s.Book.Upstreams[u].Methods[name]; m != nil {
			return s.Book.Upstreams[u], m
		}
	}
	return nil, nil
}

// maxCost returns the highest cost of a run as configured, where each page is a call.
func maxCost(j *ingest.Job, call int64) Cost {
	calls, known := j.MostCalls()
	units := calls * call
	if j.MaxUnits > 0 {
		units = min(units, j.MaxUnits)
	}
	return Cost{Units: units, Unknown: !known}
}

// A job's cost is the median of its last finished runs.
const (
	recent  = 30 // runs of a job that are read
	costing = 10 // finished runs that count
)

// read reads the history of a job from the catalog.
func (j *Job) read(ctx context.Context, r *Reader, src *view.Sources, s *State) error {
	runs, err := src.Catalog.Runs(ctx, catalog.RunsQuery{Job: j.Name, Limit: recent, Made: true, Bare: true})
	if err != nil {
		return fmt.Errorf("read the runs of %s: %w", j.Name, err)
	}
	var done []int64
	for i := range runs {
		if runs[i].State == catalog.Done && len(done) < costing {
			units, err := r.unitsOf(ctx, src.Catalog, runs[i].ID)
			if err != nil {
				return err
			}
			done = append(done, units)
		}
	}
	if len(done) > 0 {
		slices.Sort(done)
		j.Cost = Cost{Units: done[len(done)/2], Runs: len(done)}
	}
	if len(runs) > 0 {
		if j.Last, err = whole(ctx, src.Catalog, runs[0].ID); err != nil {
			return err
		}
	}
	for i := 0; i < len(runs) && j.Ended == nil; i++ {
		units := int64(1)
		if runs[i].State == catalog.Deferred {
			units, err = r.unitsOf(ctx, src.Catalog, runs[i].ID)
		}
		if err == nil && units > 0 && runs[i].State != catalog.Running {
			j.Ended, err = whole(ctx, src.Catalog, runs[i].ID)
		}
		if err != nil {
			return err
		}
	}
	if j.Resume, err = src.Runner.ResumeAt(ctx, j.Job, s.open); err != nil {
		return fmt.Errorf("read the deferred work of %s: %w", j.Name, err)
	}
	cursors, err := src.Catalog.Cursors(ctx, j.Name)
	if err != nil {
		return fmt.Errorf("read the cursors of %s: %w", j.Name, err)
	}
	for _, c := range cursors {
		if !c.ResumeAt.IsZero() {
			j.Waiting++
		}
	}
	if j.Regional() && len(j.Charts()) == 0 { // the feeds are those of charts
		if j.Fresh, err = src.Runner.Freshness(ctx, j.Job); err != nil {
			return err
		}
	}
	if !s.anyAlive() {
		if err := j.comeTwice(ctx, src.Catalog, runs); err != nil {
			return err
		}
	}
	if j.Timed, err = src.Runner.LastScheduled(ctx, j.Job); err != nil {
		return err
	}
	first, due, err := src.Runner.Overdue(ctx, j.Job)
	if due {
		j.Missed = j.late(first, s.Now)
		j.comes = j.Missed.IsZero() && !first.IsZero() && j.Last != nil && j.Last.State != catalog.Running
	}
	return err
}

// comeTwice passes by times that were recorded before the clock was set back: a timer or a fleet makes no other run of
// them. The daemon of a catalog in a file does, unless their work is done.
func (j *Job) comeTwice(ctx context.Context, c view.Catalog, runs []catalog.RunRecord) error {
	var last time.Time // of the times that come twice
	for i := range runs {
		if at := runs[i].Scheduled; at.After(last) {
			last = at
		}
	}
	for times := 0; !j.Next.IsZero() && !j.Next.After(last); times++ {
		if times == 100 { // of a job that is due each minute
			j.Next = j.Schedule().Next(last)
			return nil
		}
		at, err := c.Runs(ctx, catalog.RunsQuery{Job: j.Name, Due: j.Next, Limit: 1, Bare: true})
		if err != nil {
			return fmt.Errorf("read the runs of %s: %w", j.Name, err)
		}
		if len(at) == 0 || !at[0].Scheduled.Equal(j.Next) {
			return nil
		}
		j.Next = j.Schedule().Next(j.Next)
	}
	return nil
}

// whole reads a run with its work.
func whole(ctx context.Context, c view.Catalog, id int64) (*catalog.RunRecord, error) {
	all, err := c.Runs(ctx, catalog.RunsQuery{Before: id + 1, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read the work of run %d: %w", id, err)
	}
	if len(all) == 0 || all[0].ID != id { // it was deleted a moment ago
		return &catalog.RunRecord{ID: id}, nil
	}
	return &all[0], nil
}

// unitsOf returns the units of a run that is done. A run may have a hundred thousand units of work, so it is
// read once.
func (r *Reader) unitsOf(ctx context.Context, c view.Catalog, id int64) (int64, error) {
	r.mu.Lock()
	units, known := r.units[id]
	r.mu.Unlock()
	if known {
		return units, nil
	}
	run, err := whole(ctx, c, id)
	if err != nil {
		return 0, err
	}
	units = view.Total(run).Units
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.units) > 10_000 {
		clear(r.units)
	}
	r.units[id] = units
	return units, nil
}

// tooLate is how long after its time a run counts as missed.
const tooLate = 5 * time.Minute

// late returns when a job was due first whose run nobody makes, or zero if that is not late yet. The latest time
// does not tell: a job of every minute was always due a moment ago. The last run may have been killed: it counts
// until it should have ended.
func (j *Job) late(due, now time.Time) time.Time {
	most := tooLate + j.Jitter
	if j.Last == nil {
		return j.Schedule().Last(now.Add(-most))
	}
	if !j.Last.StartedAt.Before(due) { // a person made one
		due = j.Schedule().Next(j.Last.StartedAt)
	}
	end := j.Deadline(j.Last.StartedAt, ingest.Occasion{Scheduled: j.Last.Scheduled})
	if now.Sub(due) <= most || j.Last.State == catalog.Running && (end.IsZero() || now.Sub(end) <= most) {
		return time.Time{}
	}
	return due
}

// Start returns when the job starts next, and whether it then resumes deferred work.
func (j *Job) Start(now time.Time) (at time.Time, resumes bool) {
	if !j.Resume.IsZero() && j.Resume.Before(j.Next) {
		if j.Resume.Before(now) {
			return now, true
		}
		return j.Resume, true
	}
	return j.Next, false
}

// CostIn returns the part of the cost that a pool pays.
func (j *Job) CostIn(pool string) int64 { return int64(float64(j.Cost.Units)*j.Share[pool] + 0.5) }

// Pools names the pools that the job charges, sorted.
func (j *Job) Pools() []string { return slices.Sorted(maps.Keys(j.Share)) }
