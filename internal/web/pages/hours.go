package pages

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

// grouping is the label by which a chart groups spend.
type grouping string

const (
	byJob    grouping = "job"
	byMethod grouping = "method"
)

// hoursShown is the number of hours in a chart, with the current one.
const hoursShown = 24

// colours is the number of colours for series.
const colours = 8

// hours holds the units of a pool that runs used, by the hour in which each unit of work
// ended.
type hours struct {
	from   time.Time // the first hour
	groups []group   // by name
	others int64     // units that callers other than runs used, at hours that are not recorded
	total  int64
}

// group is the part of one job or method.
type group struct {
	name  string
	hours [hoursShown]int64
	units int64
	class string // of the colour
}

// hours adds up the runs of the last 24 hours. The catalog knows the units and the times
// of a run. The ledger knows the methods, but only by day. So the hours of a method are
// those of the jobs that call it.
func (s *state) hours(u *quota.Usage, by grouping) hours {
	h := hours{from: s.now.UTC().Truncate(time.Hour).Add(-(hoursShown - 1) * time.Hour)}
	groups := map[string]*group{}
	rolling := 0.0
	for i := range s.runs {
		r := &s.runs[i]
		j := s.job(r.Job)
		for _, w := range r.Work {
			took := float64(w.Units) * s.shareOf(j, r.Job, u)
			at := endOf(r, &w)
			if at.After(s.now.Add(-day - slack)) {
				rolling += took
			}
			hour := int(at.Sub(h.from) / time.Hour)
			if took == 0 || at.Before(h.from) || hour >= hoursShown {
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
			i = slices.Index(s.jobNames(), name)
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

// endOf returns when work ended; for work under way, when its run ended or started.
func endOf(r *catalog.RunRecord, w *catalog.WorkRecord) time.Time {
	for _, t := range []time.Time{w.EndedAt, r.EndedAt} {
		if !t.IsZero() {
			return t
		}
	}
	return r.StartedAt
}

// shareOf returns the part of a job's units that a pool pays for. If the job is no longer
// configured, the ledger's spend tells.
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

// methodsOf names the methods that a job called lately, by the ledger's spend or else by
// the kind of the job.
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
