package pages

import (
	"cmp"
	"html/template"
	"slices"
	"strings"

	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// poolSection is the data of the template pool.html.
type poolSection struct {
	Name     string
	Level    level
	State    string // in a word or two
	Windows  []windowRow
	Hours    template.HTML // the chart for a wide screen
	Narrow   template.HTML // the chart for a narrow screen
	Groups   []legend
	Within   string // the window that the legend adds up to
	Forecast *forecast
}

// windowRow is a window with its bar.
type windowRow struct {
	Within              string
	Used, Limit, Left   string
	Quota, Headroom     string
	UsedPart, LimitPart int64 // of the quota, in thousandths
	Percent             int64 // of the limit
	Level               level
	NextUnits           string
	Next, Reset         *moment
	All                 bool   // whether all of it comes back next
	After               string // how long after the reset it does
}

// legend is a line of the legend of a chart.
type legend struct{ Class, Name, Units, Share string }

// poolSections returns the pools in use, those with problems first.
func (s *state) poolSections(by grouping) (all []poolSection) {
	for i := range s.pools {
		if u := &s.pools[i]; s.used(u) {
			all = append(all, s.poolSection(u, by))
		}
	}
	slices.SortStableFunc(all, func(a, b poolSection) int {
		return cmp.Or(strings.Compare(rank(a.Level), rank(b.Level)), s.jobsOf(b.Name)-s.jobsOf(a.Name))
	})
	return all
}

// unused names the pools without spend that no job charges.
func (s *state) unused() (names []string) {
	for i := range s.pools {
		if u := &s.pools[i]; !s.used(u) {
			names = append(names, u.Pool.String())
		}
	}
	return names
}

// used reports whether a pool gets a section.
func (s *state) used(u *quota.Usage) bool { return u.Known || s.jobsOf(u.Pool.String()) > 0 }

// jobsOf returns how many jobs charge a pool.
func (s *state) jobsOf(pool string) (n int) {
	for _, j := range s.jobs {
		if j.share[pool] > 0 {
			n++
		}
	}
	return n
}

func (s *state) poolSection(u *quota.Usage, by grouping) poolSection {
	p := poolSection{Name: u.Pool.String(), Level: good, State: "open", Forecast: s.forecast(u)}
	for i := range u.Allowances {
		row := s.windowRow(&u.Allowances[i])
		switch {
		case row.Level == bad:
			p.Level, p.State = bad, "used up"
		case row.Level == warn && p.Level == good:
			p.Level, p.State = warn, "nearly used up"
		}
		p.Windows = append(p.Windows, row)
	}
	if p.Level == good && p.Forecast != nil && !p.Forecast.Fits {
		p.Level, p.State = warn, "will not last"
	}
	if s.outage != nil {
		p.Level, p.State = warn, "not known"
	}
	if u.Blocked.After(u.Now) {
		p.Level, p.State = bad, view.Shut(u.BlockedBy)
	}
	h := s.hours(u, shown(u), by)
	if h.n == 0 {
		return p
	}
	p.Hours, p.Narrow = h.draw(p.Name, by, 560), h.draw(p.Name, by, 340)
	p.Groups, p.Within = h.legend(), h.within
	return p
}

func (s *state) windowRow(w *quota.WindowUsage) windowRow {
	row := windowRow{
		Within: period(w), Used: view.Number(w.Used), Limit: view.Number(w.Limit), Quota: view.Number(w.Quota), Headroom: view.Number(w.Headroom),
		Left: view.Number(w.Remaining), Level: good,
	}
	if w.Quota > 0 {
		row.UsedPart = min(w.Used*1000/w.Quota, 1000)
		row.LimitPart = min(w.Limit*1000/w.Quota, 1000)
	}
	if w.Used > 0 {
		row.UsedPart = max(row.UsedPart, 4) // so that it is visible
	}
	if w.Limit > 0 {
		row.Percent = w.Used * 100 / w.Limit
	}
	switch {
	case w.Remaining == 0:
		row.Level = bad
	case row.Percent >= 80:
		row.Level = warn
	}
	if w.NextUnits > 0 {
		at := s.moment(w.NextAt)
		row.Next, row.NextUnits, row.All = &at, view.Number(w.NextUnits), w.NextUnits >= w.Used
	}
	if w.Used > 0 && w.ResetAt.After(s.now) {
		at := s.moment(w.ResetAt)
		row.Reset = &at
		if w.NextAt.After(w.ResetAt) {
			row.After = span(w.NextAt.Sub(w.ResetAt))
		}
	}
	return row
}
