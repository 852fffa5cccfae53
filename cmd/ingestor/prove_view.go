package main

import (
	"fmt"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/web/view"
	"github.com/headroom-quota/headroom/quota/window"
)

// proveView is the result of ingestor prove, in JSON.
type proveView struct {
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

// promises reports whether the limiter promises never to exceed its limit.
func (l *provedLimiter) promises() bool {
	return l.ID == string(window.Exact) || l.ID == string(window.Sliding)
}

// verdict says in words how the limiter did.
func (l *provedLimiter) verdict() string {
	switch {
	case l.OverBy > 0:
		return "over by " + figure(l.OverBy)
	case l.promises():
		return "never over"
	}
	return "not over" // a limit of 1 leaves little room
}

func proved(h *proveHome, r boundary.Rate, results []boundary.Result) *proveView {
	v := &proveView{Limit: r.Limit, Per: r.Per.Seconds(), Where: h.where, Real: h.real, per: r.Per}
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
func (v *proveView) apart() time.Duration { return 2 * v.per / 10 }

// show writes both tables.
func (v *proveView) show(s *sheet) {
	how := "on a moved clock"
	if v.Real {
		how = "in real time"
	}
	s.line("%s, %s, %s.", v.rate(), v.Where, how)
	s.line("")
	s.line("%s", s.in(bold, "A full burst just before a boundary, and another just after it"))
	rows := make([][]string, 0, 3)
	for i, b := range v.Boundary.Bursts {
		when := length(v.apart()/2) + [...]string{" before", " after"}[i]
		rows = append(rows, []string{when, figure(b.Asked), figure(b.Fixed), figure(b.Ours)})
	}
	fixed, ours := figure(v.Boundary.Fixed), figure(v.Boundary.Ours)
	rows = append(rows, []string{"within " + length(v.apart()), figure(2 * v.Limit), s.in(v.ink(v.Boundary.Fixed), fixed), s.in(v.ink(v.Boundary.Ours), ours)})
	s.table([]column{{name: "accepted"}, {name: "of", right: true}, {name: "fixed window", right: true}, {name: "sliding window", right: true}}, rows)
	s.line("")
	s.line("%s", s.in(bold, "The most that each let through in "+length(v.per)+", on the timeline that was its worst"))
	rows = rows[:0]
	for _, l := range v.Limiters {
		rows = append(rows, []string{l.Name, figure(l.Accepted), fmt.Sprintf("%.2fx", l.Times), s.in(v.ink(l.Accepted), l.verdict()), l.About})
	}
	s.table([]column{{name: "limiter"}, {name: "accepted", right: true}, {name: "limit", right: true}, {name: "verdict"}, {name: "timeline", long: true}}, rows)
}

// showPicture writes where the picture is.
func (v *proveView) showPicture(s *sheet, path string) {
	if path != "" {
		s.line("")
		s.line("The picture is in %s.", plain(path))
	}
}

// rate describes the limit of all limiters.
func (v *proveView) rate() string {
	if v.Limit == 1 {
		return "1 request in any " + length(v.per)
	}
	return figure(v.Limit) + " requests in any " + length(v.per)
}

// ink returns red above the limit, and green within it.
func (v *proveView) ink(accepted int) lipgloss.Style {
	if accepted > v.Limit {
		return bad
	}
	return good
}

func figure(n int) string { return view.Number(int64(n)) }

// length formats a duration, to the millisecond where it is short.
func length(d time.Duration) string {
	if d < time.Minute {
		return d.String()
	}
	return span(d)
}
