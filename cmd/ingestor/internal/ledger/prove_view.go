package ledger

import (
	"fmt"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/quota/window"
)

// ProveView is the result of ingestor prove, in JSON.
type ProveView struct {
	Limit    int             `json:"limit"`
	Per      float64         `json:"per_seconds"`
	Where    string          `json:"where"`
	Real     bool            `json:"real_time"`
	Boundary proveBoundary   `json:"boundary"`
	Limiters []provedLimiter `json:"limiters"`

	per time.Duration
}

// proveBoundary is what was accepted around a boundary.
type proveBoundary struct {
	Apart  float64      `json:"apart_seconds"`
	Bursts []proveBurst `json:"bursts"`
	Fixed  int          `json:"fixed_window"`
	Ours   int          `json:"sliding_window"`
}

type proveBurst struct {
	After float64 `json:"after_boundary_seconds"`
	Asked int     `json:"asked"`
	Fixed int     `json:"fixed_window"`
	Ours  int     `json:"sliding_window"`
}

// provedLimiter is the worst case of one limiter.
type provedLimiter struct {
	ID       string    `json:"limiter"`
	Name     string    `json:"name"`
	Accepted int       `json:"accepted"` // in one trailing window
	Times    float64   `json:"times_limit"`
	OverBy   int       `json:"over_by"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Timeline string    `json:"timeline"`
	About    string    `json:"about"` // the timeline
}

// Promises reports whether the limiter promises never to exceed its limit.
func (l *provedLimiter) Promises() bool {
	return l.ID == string(window.Exact) || l.ID == string(window.Sliding)
}

// verdict says in words how the limiter did.
func (l *provedLimiter) verdict() string {
	switch {
	case l.OverBy > 0:
		return "over by " + figure(l.OverBy)
	case l.Promises():
		return "never over"
	}
	return "not over" // a limit of 1 leaves little room
}

func proved(h *proveHome, r boundary.Rate, results []boundary.Result) *ProveView {
	v := &ProveView{Limit: r.Limit, Per: r.Per.Seconds(), Where: h.where, Real: h.real, per: r.Per}
	bursts := map[string]*boundary.Trial{}
	for _, result := range results {
		bursts[result.ID] = result.Trials[0]
		v.Limiters = append(v.Limiters, provedLimiter{
			ID: result.ID, Name: result.Name,
			Accepted: result.Worst.Accepted,
			Times:    float64(result.Worst.Accepted) / float64(r.Limit),
			OverBy:   max(result.Worst.Accepted-r.Limit, 0),
			From:     result.Worst.From, To: result.Worst.To,
			Timeline: result.At.Timeline.Name, About: result.At.Timeline.About,
		})
	}
	fixed, ours := bursts["fixed"], bursts[string(window.Sliding)]
	for i, step := range fixed.Timeline.Steps {
		v.Boundary.Bursts = append(v.Boundary.Bursts, proveBurst{step.After.Seconds(), fixed.Asked[i], fixed.Given[i], ours.Given[i]})
		v.Boundary.Fixed += fixed.Given[i]
		v.Boundary.Ours += ours.Given[i]
	}
	v.Boundary.Apart = v.apart().Seconds()
	return v
}

// apart returns how far apart the two bursts are.
func (v *ProveView) apart() time.Duration { return 2 * v.per / 10 }

// show writes both tables.
func (v *ProveView) show(s *console.Sheet) {
	how := "on a moved clock"
	if v.Real {
		how = "in real time"
	}
	s.Line("%s, %s, %s.", v.rate(), v.Where, how)
	s.Line("")
	s.Line("%s", s.In(console.Bold, "A full burst just before a boundary, and another just after it"))
	rows := make([][]string, 0, 3)
	for i, b := range v.Boundary.Bursts {
		when := console.Length(v.apart()/2) + [...]string{" before", " after"}[i]
		rows = append(rows, []string{when, figure(b.Asked), figure(b.Fixed), figure(b.Ours)})
	}
	fixed, ours := figure(v.Boundary.Fixed), figure(v.Boundary.Ours)
	rows = append(rows, []string{"within " + console.Length(v.apart()), figure(2 * v.Limit), s.In(v.ink(v.Boundary.Fixed), fixed), s.In(v.ink(v.Boundary.Ours), ours)})
	s.Table(console.Columns("accepted", ">of", ">fixed window", ">sliding window"), rows)
	s.Line("")
	s.Line("%s", s.In(console.Bold, "The most that each let through in "+console.Length(v.per)+", on the timeline that was its worst"))
	rows = rows[:0]
	for _, l := range v.Limiters {
		rows = append(rows, []string{l.Name, figure(l.Accepted), fmt.Sprintf("%.2fx", l.Times), s.In(v.ink(l.Accepted), l.verdict()), l.About})
	}
	s.Table(console.Columns("limiter", ">accepted", ">limit", "verdict", "~timeline"), rows)
}

// showPicture writes where the picture is.
func (v *ProveView) showPicture(s *console.Sheet, path string) {
	if path != "" {
		s.Line("")
		s.Line("The picture is in %s.", console.Plain(path))
	}
}

// rate describes the limit of all limiters.
func (v *ProveView) rate() string {
	if v.Limit == 1 {
		return "1 request in any " + console.Length(v.per)
	}
	return figure(v.Limit) + " requests in any " + console.Length(v.per)
}

// ink returns red above the limit, and green within it.
func (v *ProveView) ink(accepted int) lipgloss.Style {
	if accepted > v.Limit {
		return console.Bad
	}
	return console.Good
}

func figure(n int) string { return view.Number(int64(n)) }
