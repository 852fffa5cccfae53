package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest"
	"github.com/headroom-quota/headroom/quota"
)

// Remedy says which schedule would fit, without what was spent before the plan.
type Remedy struct {
	// Fits is false if nothing is found: jobs that run once a day spend too much.
	Fits bool `json:"fits"`
	// Never are the jobs that do not fit, even if each runs alone and rarely. Then Schedules are those
	// with which the other jobs fit without them.
	Never []string `json:"never,omitempty"`
	// Schedules are the jobs to run less often, each with a cron expression. It is empty if the
	// present schedule fits without earlier spend.
	Schedules map[string]string `json:"schedules"`
}

// trialDays is how far a trial goes, unless work is first deferred later. A schedule repeats after a week.
const trialDays = 7

// errDeferred ends a trial.
var errDeferred = errors.New("work is deferred")

// remedy finds the schedule. Jobs that never fit are left out, so that they do not hide what the
// others need. It changes how far the scenario goes.
func (s *scenario) remedy(ctx context.Context, costs *quota.Book, p *Plan) (*Remedy, error) {
	if s.until = midnight(s.from, s.zone, trialDays); !p.First.At.Before(s.until) {
		s.until = midnight(p.First.At, s.zone, 1)
	}
	found, err := s.slowDown(ctx, costs, p)
	if err != nil || found.Fits {
		return found, err
	}
	var never []string
	for _, j := range s.config.List() {
		slowest := map[string]string{}
		if all := s.slower(j); len(all) > 0 {
			slowest[j.Name] = all[len(all)-1]
		}
		first, err := s.with(func(name string) bool { return name == j.Name }).try(ctx, costs, slowest, "")
		if err != nil {
			return nil, err
		}
		if first != nil {
			never = append(never, j.Name)
		}
	}
	rest := s.with(func(name string) bool { return !slices.Contains(never, name) })
	if len(never) == 0 || len(rest.config.List()) == 0 {
		return found, nil
	}
	others, err := rest.slowDown(ctx, costs, p)
	if err != nil || !others.Fits {
		return found, err
	}
	return &Remedy{Never: never, Schedules: others.Schedules}, nil
}

// with returns the scenario with some of its jobs.
func (s *scenario) with(keep func(name string) bool) *scenario {
	config, some := *s.config, *s
	config.Jobs, some.config = maps.Clone(config.Jobs), &config
	maps.DeleteFunc(config.Jobs, func(name string, _ ingest.Job) bool { return !keep(name) })
	return &some
}

// slowDown finds schedules with which all jobs fit. Where a pool has too little, the job that spends
// most of it runs as often as fits, once on each of its days at least. If that does not suffice, the
// next job runs less often, too.
func (s *scenario) slowDown(ctx context.Context, costs *quota.Book, p *Plan) (*Remedy, error) {
	found := &Remedy{Schedules: map[string]string{}}
	for {
		first, err := s.try(ctx, costs, found.Schedules, "")
		if err != nil || first == nil {
			found.Fits = err == nil
			return found, err
		}
		job := s.spender(p, first.Pool, found.Schedules)
		if job == nil {
			return &Remedy{Schedules: map[string]string{}}, nil
		}
		slower, tried := s.slower(job), maps.Clone(found.Schedules)
		i := sort.Search(len(slower)-1, func(i int) bool {
			tried[job.Name] = slower[i]
			again, failed := s.try(ctx, costs, tried, first.Pool)
			err = cmp.Or(err, failed)
			return again == nil
		})
		if err != nil {
			return nil, err
		}
		found.Schedules[job.Name] = slower[i]
	}
}

// try plans with other schedules, and without earlier spend. It returns the first deferral by a
// pool, or by any pool if the name is empty.
func (s *scenario) try(ctx context.Context, costs *quota.Book, schedules map[string]string, pool string) (*Deferral, error) {
	config, options, trial := *s.config, *s.options, *s
	config.Jobs, options.Past = maps.Clone(config.Jobs), nil
	for name, schedule := range schedules {
		j := config.Jobs[name]
		j.Cron = schedule
		config.Jobs[name] = j
	}
	if faults := config.Prepare(); len(faults) > 0 {
		return nil, faults[0]
	}
	maps.DeleteFunc(config.Jobs, func(name string, _ ingest.Job) bool { // Prepare adds retention, which the price book may have no prices for
		_, is := s.config.Jobs[name]
		return !is
	})
	trial.config, trial.options, trial.progress, trial.refused = &config, &options, func(time.Time) {}, func() {}
	var found *Deferral
	trial.deferred = func(d *Deferral, end func(error)) {
		if found == nil && (pool == "" || d.Pool == pool) {
			found = d
			end(errDeferred)
		}
	}
	_, err := trial.run(ctx, costs)
	if errors.Is(err, errDeferred) {
		err = nil
	}
	return found, err
}

// spender returns the job that spends most of a pool, and may run less often than it does.
func (s *scenario) spender(p *Plan, pool string, done map[string]string) (most *ingest.Job) {
	units := map[string]int64{}
	for i := range p.Pools {
		for _, d := range p.Pools[i].Days {
			for name, n := range d.Jobs {
				if p.Pools[i].Pool == pool {
					units[name] += n
				}
			}
		}
	}
	for _, j := range s.config.List() {
		if _, known := done[j.Name]; !known && units[j.Name] > 0 && len(s.slower(j)) > 0 && (most == nil || units[j.Name] > units[most.Name]) {
			most = j
		}
	}
	return most
}

// slower returns schedules that are due less often than that of a job, from often to once a day. They
// keep its days, its minute, and its hours if possible.
func (s *scenario) slower(j *ingest.Job) (all []string) {
	days := "* * *"
	if fields := strings.Fields(j.Cron); len(fields) == 5 {
		days = strings.Join(fields[2:], " ")
	}
	zone, err := time.LoadLocation(cmp.Or(j.Zone, "UTC"))
	if err != nil {
		return nil
	}
	minute, times, hours := 59, map[string]int{}, map[int]bool{} // the earliest one, times by date, and the hours
	first := j.Schedule().Next(s.from)
	for at := first; !at.IsZero() && at.Before(first.Add(trialDays*day)); at = j.Schedule().Next(at) {
		local := at.In(zone)
		minute, hours[local.Hour()] = min(minute, local.Minute()), true
		times[local.Format(time.DateOnly)]++
	}
	often := slices.Max(append(slices.Collect(maps.Values(times)), 0))
	early, late, around := span(slices.Sorted(maps.Keys(hours)))
	field := func(step int) (string, int) {
		if around {
			return steps(early%step, 23, step, 24)
		}
		return steps(early, late, step, 24)
	}
	each, n := field(1)
	for _, step := range []int{2, 3, 5, 10, 15, 20, 30} {
		if minutes, m := steps(minute%step, 59, step, 60); n*m < often {
			all = append(all, minutes+" "+each+" "+days)
		}
	}
	for _, step := range []int{1, 2, 3, 4, 6, 8, 12, 24} {
		if hours, n := field(step); n < often {
			all = append(all, fmt.Sprintf("%d %s %s", minute, hours, days))
		}
	}
	return all
}

// span returns the first and the last of some hours, and whether they are spread around the clock: the
// time between the last one and the first one is no longer than another between two.
func span(hours []int) (first, last int, around bool) {
	if len(hours) == 0 {
		return 0, 0, false
	}
	first, last = hours[0], hours[len(hours)-1]
	for i := range hours[1:] {
		around = around || hours[i+1]-hours[i] >= first+24-last
	}
	return first, last, around
}

// steps returns the field of a cron expression with each step-th number of a range, and how many
// these are. The field can have the numbers below most.
func steps(first, last, step, most int) (field string, n int) {
	n = (last-first)/step + 1
	switch whole := first == 0 && last == most-1; {
	case n == 1:
		field = fmt.Sprint(first)
	case whole && step == 1:
		field = "*"
	case whole:
		field = fmt.Sprintf("*/%d", step)
	case step == 1:
		field = fmt.Sprintf("%d-%d", first, last)
	default:
		field = fmt.Sprintf("%d-%d/%d", first, last, step)
	}
	return field, n
}
