package googlecount

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	monitoring "google.golang.org/api/monitoring/v3"
)

// day is the label of series that count a day, in seconds.
const day = "86400s"

type tally struct {
	units int64
	until time.Time
}

// larger returns the tally that says more. The two kinds of series count the same calls,
// so they are never added up.
func (a tally) larger(b tally) tally {
	if c := cmp.Or(cmp.Compare(a.units, b.units), a.until.Compare(b.until)); c >= 0 {
		return a
	}
	return b
}

// add adds what another series of the same kind says.
func (a tally) add(b tally) tally {
	if b.until.After(a.until) {
		a.until = b.until
	}
	a.units += b.units
	return a
}

type point struct {
	start, end time.Time
	value      int64
}

// pointsOf reads the points of series, by the labels of the series: a series may come in
// several parts, on pages of their own. Points without a number are left out.
func pointsOf(all []*monitoring.TimeSeries) map[string]*seen {
	found := map[string]*seen{}
	for _, ts := range all {
		if ts == nil || ts.Metric == nil {
			continue
		}
		labels := maps.Clone(ts.Metric.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		key := fmt.Sprint(ts.Metric.Type, " ", labels) // maps are printed in order
		if ts.Resource != nil {
			key += fmt.Sprint(" ", ts.Resource.Type, " ", ts.Resource.Labels)
			for name, value := range ts.Resource.Labels {
				labels[name] = cmp.Or(labels[name], value)
			}
		}
		s := found[key]
		if s == nil {
			s = &seen{labels: labels, kind: ts.MetricKind}
			found[key] = s
		}
		for _, p := range ts.Points {
			if one, ok := pointOf(p); ok {
				s.points = append(s.points, one)
			}
		}
	}
	for _, s := range found {
		slices.SortFunc(s.points, func(a, b point) int {
			return cmp.Or(a.end.Compare(b.end), a.start.Compare(b.start), cmp.Compare(a.value, b.value))
		})
	}
	return found
}

type seen struct {
	labels map[string]string
	kind   string
	points []point // by their end
}

func pointOf(p *monitoring.Point) (point, bool) {
	if p == nil || p.Interval == nil || p.Value == nil {
		return point{}, false
	}
	end, err := time.Parse(time.RFC3339Nano, p.Interval.EndTime)
	if err != nil {
		return point{}, false
	}
	start, err := time.Parse(time.RFC3339Nano, p.Interval.StartTime)
	if err != nil {
		start = end
	}
	one := point{start: start, end: end}
	switch {
	case p.Value.Int64Value != nil:
		one.value = *p.Value.Int64Value
	case p.Value.DoubleValue != nil:
		one.value = int64(*p.Value.DoubleValue)
	default:
		return point{}, false
	}
	return one, true
}

// metric is the quota's metric, as youtube.googleapis.com/default.
func (s *seen) metric() string { return s.labels["quota_metric"] }

// ofDay reports whether a series of usage is about days, of which the present one began
// at since. The older series have no label for it.
func (s *seen) ofDay(since time.Time) bool {
	if size := s.labels["window_size"]; size != "" && size != day {
		return false
	}
	began, err := time.Parse(time.RFC3339Nano, s.labels["window_start_time"])
	return err != nil || began.Equal(since)
}

// usage returns what a series counts since the day began.
func (s *seen) usage(since time.Time) (t tally, ok bool) {
	last := point{}
	for _, p := range s.points {
		if !p.end.After(since) || p.value < 0 {
			continue
		}
		running := s.kind == "GAUGE" || s.kind == "CUMULATIVE"
		switch {
		case running && p.start.Before(since) && s.kind == "CUMULATIVE":
			continue // it counts from an earlier day on
		case running:
			t.units = p.value
		case p.start.Before(since):
			continue // the part of today is unknown
		case p.start.Before(last.end): // told twice, or again with more
			t.units += max(p.value-last.value, 0)
			p.value = max(p.value, last.value)
		default:
			t.units += p.value
		}
		last, t.until, ok = p, p.end, true
	}
	return t, ok
}

// usages returns what series of one kind count since the day began, by metric.
func usages(all []*monitoring.TimeSeries, since time.Time) map[string]tally {
	byLimit := map[[2]string]tally{} // a metric with two limits is counted for each
	for _, s := range pointsOf(all) {
		if t, ok := s.usage(since); ok && s.metric() != "" && s.ofDay(since) {
			key := [2]string{s.metric(), s.labels["limit_name"]}
			byLimit[key] = byLimit[key].add(t)
		}
	}
	found := map[string]tally{}
	for key, t := range byLimit {
		found[key[0]] = found[key[0]].larger(t)
	}
	return found
}

// limits returns the newest limit of a day, by metric. Without a limit, Google says -1.
func limits(all []*monitoring.TimeSeries) map[string]tally {
	found := map[string]tally{}
	for _, s := range pointsOf(all) {
		ofDay := s.labels["window_size"] == day || strings.Contains(s.labels["limit_name"], "PerDay")
		if len(s.points) == 0 || s.metric() == "" || !ofDay || !strings.HasSuffix(cmp.Or(s.labels["limit_name"], "PerProject"), "PerProject") {
			continue
		}
		p := s.points[len(s.points)-1]
		if known, has := found[s.metric()]; !has || p.end.After(known.until) || p.end.Equal(known.until) && p.value < known.units {
			found[s.metric()] = tally{p.value, p.end}
		}
	}
	return found
}
