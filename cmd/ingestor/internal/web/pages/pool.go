package pages

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/verdict"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/quota"
)

// poolSection is the data of the template pool.html.
type poolSection struct {
	Name     string
	Level    level
	State    string     // in a word or two
	Line     *windowRow // the window of which the least is left
	Windows  []windowRow
	Grant    string        // the quota and the headroom, in words
	Waits    string        // who waits for its units
	Step     string        // of a budget: what the last step that its calls pass now does
	SpillsTo string        // where calls go that lack its units
	Spaced   string        // how its calls are spaced
	Learned  string        // what was learned of its limit
	Course   template.HTML // how that changed
	Said     string        // what the upstream said when it blocked the pool
	Hours    template.HTML // the chart for a wide screen
	Narrow   template.HTML // the chart for a narrow screen
	Groups   []legend
	Of       string   // what the legend adds up to
	Says     sentence // the same for people, if it is not what the window counts
	Forecast *forecast
	History  string // address
	CSV      string // address of the figures of the chart
	Actions  []action

	usage *quota.Usage
}

// troubled reports whether the pool gets a card of its own, and not one line.
func (p *poolSection) troubled() bool { return p.Level != good }

type windowRow struct {
	Within              string
	Used, Limit, Left   string
	UsedPart, LimitPart int64 // of the quota, in thousandths
	Percent             int64 // of the limit
	Level               level
	Back                []sentence // what comes back
}

type legend struct {
	Class, Name, Kind, Units, Share string

	units, share int64
}

// Of many pools, only the first mostCharts have a chart on the first page, and the healthy
// ones beyond the first mostPools are folded up. The history has a chart of each.
const (
	mostCharts = 8
	mostPools  = 12
)

// poolSections returns the pools in use, those with problems first, and the healthy ones
// that are folded up.
func (s *state) poolSections(by grouping, v *verdict.Verdict) (all, folded []poolSection) {
	for i := range s.Pools {
		if u := &s.Pools[i]; s.Used(u) {
			all = append(all, s.poolSection(u, by, v))
		}
	}
	slices.SortStableFunc(all, func(a, b poolSection) int {
		return cmp.Or(strings.Compare(rank(a.Level), rank(b.Level)), s.JobsOf(b.Name)-s.JobsOf(a.Name))
	})
	for i := range all[:min(len(all), mostCharts)] {
		all[i].draw(s, by)
	}
	shown := len(all)
	for shown > mostPools && !all[shown-1].troubled() {
		shown--
	}
	return all[:shown], all[shown:]
}

// draw adds the chart.
func (p *poolSection) draw(s *state, by grouping) {
	h := s.hours(p.usage, verdict.Shown(p.usage), by)
	if h.n == 0 || h.total == 0 {
		return
	}
	p.Hours, p.Narrow = h.draw(by, 560), h.draw(by, 340)
	p.Groups, p.Of, p.Says = firstOf(h.pool, h.legend(), mostLines), h.of, h.says
}

// unused names the pools without spend that no job charges.
func (s *state) unused() (names []string) {
	for i := range s.Pools {
		if u := &s.Pools[i]; !s.Used(u) {
			names = append(names, u.Pool.String())
		}
	}
	return names
}

func (s *state) poolSection(u *quota.Usage, by grouping, v *verdict.Verdict) poolSection {
	p := poolSection{usage: u, Name: u.Pool.String(), Level: good, State: "available", Forecast: s.forecast(u), Actions: s.actionsOf(u)}
	tight := verdict.Tightest(u)
	for i := range u.Allowances {
		w := &u.Allowances[i]
		row := s.windowRow(u, w)
		if u == v.Pool && w == v.Window {
			row.Back = nil // the verdict says it
		}
		switch {
		case row.Level == bad:
			p.Level, p.State = bad, "used up"
		case row.Level == warn && p.Level == good:
			p.Level, p.State = warn, "nearly used up"
		}
		if w == tight {
			p.Line = &row
		}
		if w == tight || w.Used > 0 {
			p.Windows = append(p.Windows, row)
		}
	}
	if p.Level == good && p.Forecast != nil && !p.Forecast.Fits {
		p.Level, p.State = warn, "will not last"
	}
	if !verdict.Known(u) {
		p.Level, p.State = warn, "not known"
	}
	if u.Blocked.After(u.Now) {
		p.Level, p.State = bad, "blocked"
		if u.BlockedBy != quota.BlockedByPerson {
			p.Said = view.Plain(u.Reason)
		}
	}
	w := verdict.Shown(u)
	if w != nil {
		p.Grant = "Quota " + view.Amount(u.Pool.String(), w.Quota)
		if w.Headroom > 0 {
			p.Grant += ", headroom " + view.Number(w.Headroom)
		}
		switch amount := view.Amount(u.Pool.String(), w.Reported); {
		case w.Reported > 0 && w.ByHand:
			p.Grant += "; set by hand: " + amount
		case w.Reported > 0:
			p.Grant += "; the upstream reports " + amount
		}
		if w.Reported > 0 && w.ReportedHeadroom != w.Headroom {
			p.Grant += ", headroom " + view.Amount(u.Pool.String(), w.ReportedHeadroom)
		}
	}
	p.Step, p.SpillsTo = u.Step, u.SpillsTo
	shown := view.Pools([]quota.Usage{*u})[0]
	if shown.Spaced != nil {
		p.Spaced = shown.Spaced.Words()
	}
	if p.Waits = shown.Waits(); u.Learned != nil {
		p.Learned, p.Course = shown.Learned.Words(), drawLearned(u.Learned)
	}
	pool := url.Values{"pool": {pageOf(u.Pool)}}.Encode()
	p.History, p.CSV = "/history?"+pool, "/csv/history?by="+string(by)+"&range=24h&"+pool
	return p
}

func (s *state) windowRow(u *quota.Usage, w *quota.WindowUsage) windowRow {
	row := windowRow{Within: period(w), Used: view.Amount(u.Pool.String(), w.Used), Limit: view.Amount(u.Pool.String(), w.Limit), Left: view.Amount(u.Pool.String(), w.Remaining), Level: good}
	if of := cmp.Or(w.Reported, w.Quota); of > 0 {
		row.UsedPart = int64(min(float64(w.Used)/float64(of), 1) * 1000)
		row.LimitPart = int64(min(float64(w.Limit)/float64(of), 1) * 1000)
	}
	if w.Used > 0 {
		row.UsedPart = max(row.UsedPart, 4) // so that it is visible
		open := *u
		open.Blocked = time.Time{} // the card says when the pool opens
		row.Back = s.When(&open, w)
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
	return row
}
