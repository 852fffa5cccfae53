package ledger

import (
	"fmt"
	"time"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
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

// fullest returns the row of a limiter's fullest window.
func fullest(id, name string, r boundary.Rate, worst boundary.Window, t boundary.Timeline) provedLimiter {
	return provedLimiter{
		ID: id, Name: name,
		Accepted: worst.Accepted,
		Times:    float64(worst.Accepted) / float64(r.Limit),
		OverBy:   max(worst.Accepted-r.Limit, 0),
		From:     worst.From, To: worst.To,
		Timeline: t.Name, About: t.About,
	}
}

func proved(h *proveHome, r boundary.Rate, results []boundary.Result) *ProveView {
	v := &ProveView{Limit: r.Limit, Per: r.Per.Seconds(), Where: h.where, Real: h.real, per: r.Per}
	bursts := map[string]*boundary.Trial{}
	for _, result := range results {
		bursts[result.ID] = result.Trials[0]
		v.Limiters = append(v.Limiters, fullest(result.ID, result.Name, r, result.Worst, result.At.Timeline))
	}
	fixed, ours := bursts["fixed"], bursts[string(window.Sliding)]
	for i, step := range fixed.Timeline.Steps {
		v.Boundary.Bursts = append(v.Boundary.Bursts, proveBurst{step.After.Seconds(), fixed.Asked[i], fixed.Given[i], ours.Given[i]})
		v.Boundary.Fixed += fixed.Given[i]
		v.Boundary.Ours += ours.Given[i]
	}
	v.Boundary.Apart = apart(r).Seconds()
	return v
}

// compared returns what the tables and the picture show.
func (v *ProveView) compared() *compared {
	burstsOf := func(accepted func(proveBurst) int) []drawn {
		all := make([]drawn, len(v.Boundary.Bursts))
		for i, b := range v.Boundary.Bursts {
			all[i] = drawn{b.After / v.Per, b.Asked, accepted(b)}
		}
		return all
	}
	c := &compared{rate: boundary.Rate{Limit: v.Limit, Per: v.per}, each: "each", tried: "limiter", rows: v.Limiters}
	c.title = "How much rate limiters let through in the worst case"
	c.about = fmt.Sprintf("All are set to %s. Around a boundary the fixed window lets %s through within %s, the sliding window %s.",
		inAny(c.rate), figure(v.Boundary.Fixed), console.Length(apart(c.rate)), figure(v.Boundary.Ours))
	c.head = "Both are set to " + inAny(c.rate) + ", and get two full bursts"
	c.panels = [2]panel{
		{"fixed window", "A fixed window begins anew at the boundary", burstsOf(func(b proveBurst) int { return b.Fixed })},
		{"sliding window", "A sliding window has no boundary", burstsOf(func(b proveBurst) int { return b.Ours })},
	}
	return c
}

// show writes both tables.
func (v *ProveView) show(s *console.Sheet) {
	how := "on a moved clock"
	if v.Real {
		how = "in real time"
	}
	c := v.compared()
	s.Line("%s, %s, %s.", inAny(c.rate), v.Where, how)
	c.show(s)
}
