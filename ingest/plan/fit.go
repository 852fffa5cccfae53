package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	// Schedules are the jobs to run less often, each with a cron expression. It is empty if the
	// present schedule fits without earlier spend.
	Schedules map[string]string `json:"schedules"`
}

// trialDays is how far a trial goes. A schedule repeats after a week.
const trialDays = 7

// errDeferred ends a trial.
var errDeferred = errors.New("work is deferred")

// remedy finds the schedule. Where a pool has too little, the job that spends most of it runs as
// often as fits, once a day at least. If that does not suffice, the next job runs less often, too.
func (s *scenario) remedy(ctx context.Context, costs *quota.Book, p *Plan) (*Remedy, error) {
	found := &Remedy{Schedules: map[string]string{}}
	for {
		first, err := s.try(ctx, costs, found.Schedules, "")
		if err != nil || first == nil {
			found.Fits = err == nil
			return found, err
		}
		job := s.spender(p, first.Pool, found.Schedules)
		if job == nil {
			return found, nil
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
	trial.until = midnight(s.from, s.zone, trialDays)
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

// slower returns schedules that are due less often than that of a job, from often to daily. They keep
// its minute, and its hour if possible. A job that is not due each day of the week has none.
func (s *scenario) slower(j *ingest.Job) (all []string) {
	if fields := strings.Fields(j.Cron); len(fields) > 3 && strings.Join(fields[len(fields)-3:], " ") != "* * *" {
		return nil
	}
	zone, err := time.LoadLocation(cmp.Or(j.Zone, "UTC"))
	if err != nil {
		return nil
	}
	often, hour, minute := 0, 23, 59 // times in the first day, and the earliest ones
	first := j.Schedule().Next(s.from)
	for at := first; !at.IsZero() && at.Before(first.Add(day)); at = j.Schedule().Next(at) {
		often, hour, minute = often+1, min(hour, at.In(zone).Hour()), min(minute, at.In(zone).Minute())
	}
	steps := func(first, most, step int) string {
		switch first %= step; {
		case step == 1:
			return "*"
		case step == most:
			return fmt.Sprint(first)
		case first == 0:
			return fmt.Sprintf("*/%d", step)
		}
		return fmt.Sprintf("%d-%d/%d", first, most-1, step)
	}
	for _, step := range []int{2, 3, 5, 10, 15, 20, 30} {
		if 24*60/step < often {
			all = append(all, steps(minute, 60, step)+" * * * *")
		}
	}
	for _, step := range []int{1, 2, 3, 4, 6, 8, 12, 24} {
		if hours := steps(hour, 24, step); 24/step < often {
			all = append(all, fmt.Sprintf("%d %s * * *", minute, hours))
		}
	}
	return all
}
