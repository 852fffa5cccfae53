package dashboard

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headroom-quota/headroom/ingest/catalog"
	"github.com/headroom-quota/headroom/quota"
)

// grouping is what spend is told by.
type grouping string

const (
	byJob    grouping = "job"
	byMethod grouping = "method"
)

// shown is how many hours a chart has, the one under way among them.
const shown = 24

// colours are how many series a picture tells apart.
const colours = 8

// hours are the units that runs took of a pool, by the hour in which each unit of
// work ended.
type hours struct {
	from   time.Time // the first hour
	groups []group   // by name
	others int64     // used of the pool by others than runs, at hours that are not recorded
	total  int64
}

// group is what one job or method took.
type group struct {
	name  string
	hours [shown]int64
	units int64
	class string // of its colour
}

// hours adds up the runs of the last 24 hours. Of a run the catalog knows the units
// and the times, of a day the ledger knows the methods; so the hours of a method are
// those of the jobs that call it.
func (s *state) hours(u *quota.Usage, by grouping) hours {
	h := hours{from: s.now.UTC().Truncate(time.Hour).Add(-(shown - 1) * time.Hour)}
	groups := map[string]*group{}
	rolling := 0.0
	for i := range s.runs {
		r := &s.runs[i]
		j := s.job(r.Job)
		for _, w := range r.Work {
			took := float64(w.Units) * s.shareOf(j, r.Job, u)
			at := ended(r, &w)
			if at.After(s.now.Add(-day - slack)) {
				rolling += took
			}
			hour := int(at.Sub(h.from) / time.Hour)
			if took == 0 || at.Before(h.from) || hour >= shown {
				continue
			}
			name := r.Job
			if by == byMethod {
				name = s.methodsOf(r.Job, u)
			}
			g := groups[name]
			if g == nil {
				g = &group{name: name}
				groups[name] = g
			}
			g.hours[hour] += int64(took + 0.5)
			g.units += int64(took + 0.5)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(groups)) {
		g := groups[name]
		if by == byJob { // a job has its colour in every pool
			i = slices.Index(s.rows(), name)
		}
		g.class = "s" + strconv.Itoa(i%colours+1)
		h.groups = append(h.groups, *g)
		h.total += g.units
	}
	for _, w := range u.Allowances {
		if w.Spec.Per == day {
			h.others = max(w.Used-int64(rolling+0.5), 0)
		}
	}
	return h
}

// ended is when work ended, or that it is under way.
func ended(r *catalog.RunRecord, w *catalog.WorkRecord) time.Time {
	for _, t := range []time.Time{w.EndedAt, r.EndedAt} {
		if !t.IsZero() {
			return t
		}
	}
	return r.StartedAt
}

// shareOf is which part of what a job takes is of a pool. Of a job that is no longer
// in the configuration the ledger knows it.
func (s *state) shareOf(j *job, name string, u *quota.Usage) float64 {
	if j != nil {
		return j.share[u.Pool.String()]
	}
	var of, all int64
	for _, sp := range s.spend {
		if sp.Labels.Job == name {
			all += sp.Units
			if sp.Pool == u.Pool {
				of += sp.Units
			}
		}
	}
	if all <= 0 {
		return 0
	}
	return float64(of) / float64(all)
}

// methodsOf are the methods that a job called of late, as the ledger has them; where it
// has none, as its kind has.
func (s *state) methodsOf(name string, u *quota.Usage) string {
	var all []string
	for _, sp := range s.spend {
		if sp.Labels.Job == name && sp.Pool == u.Pool && sp.Units > 0 {
			all = append(all, sp.Labels.Method)
		}
	}
	if j := s.job(name); len(all) == 0 && j != nil {
		all = slices.Clone(j.methods)
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(slices.Compact(all), " + "), "unknown")
}
