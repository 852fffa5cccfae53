package ledger

import (
	"fmt"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/headroom-quota/headroom/cmd/ingestor/internal/console"
	"github.com/headroom-quota/headroom/cmd/ingestor/internal/web/view"
	"github.com/headroom-quota/headroom/internal/boundary"
	"github.com/headroom-quota/headroom/internal/svg"
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

// The measures of the picture, in pixels.
const (
	proveWidth  = 760
	proveMargin = 24
	panelWidth  = 340 // around a boundary, two windows
	panelTop    = 84
	panelHeight = 96 // of a full burst
	barsTop     = 286
	barsLeft    = 170
	barsWidth   = 430 // twice the limit
	barHeight   = 18
	barStep     = 30
)

// svg draws the picture. The upper part shows what happens at a boundary, the lower part
// the worst case of each limiter.
func (v *ProveView) svg() []byte {
	height := barsTop + float64(len(v.Limiters))*barStep + 28
	c := svg.New(proveWidth, height, "How much rate limiters let through in the worst case",
		fmt.Sprintf("All are set to %s. Around a boundary the fixed window lets %s through within %s, the sliding window %s.",
			v.rate(), figure(v.Boundary.Fixed), console.Length(v.apart()), figure(v.Boundary.Ours)))
	c.Rect(0, 0, proveWidth, height, "page")
	c.Text(proveMargin, 30, "head", "Both are set to "+v.rate()+", and get two full bursts")
	fixed, ours := v.burstsOf(func(b proveBurst) int { return b.Fixed }), v.burstsOf(func(b proveBurst) int { return b.Ours })
	v.panel(c, proveMargin, "A fixed window begins anew at the boundary", fixed)
	v.panel(c, proveWidth-proveMargin-panelWidth, "A sliding window has no boundary", ours)
	v.bars(c)
	return c.File()
}

// drawn is a burst in the picture.
type drawn struct {
	after           float64 // the boundary, in windows
	asked, accepted int
}

func (v *ProveView) burstsOf(accepted func(proveBurst) int) []drawn {
	all := make([]drawn, len(v.Boundary.Bursts))
	for i, b := range v.Boundary.Bursts {
		all[i] = drawn{b.After / v.Per, b.Asked, accepted(b)}
	}
	return all
}

// panel shows what one limiter did around the boundary.
func (v *ProveView) panel(c *svg.Canvas, left float64, title string, bursts []drawn) {
	const wide = 22 // a burst
	middle, base := left+panelWidth/2, float64(panelTop+panelHeight)
	at := func(windows float64) float64 { return middle + windows*panelWidth/2 }
	tall := func(n int) float64 { return float64(n) / float64(v.Limit) * panelHeight }
	c.Text(left, panelTop-26, "", title)
	c.Rect(at(-0.5), panelTop-14, panelWidth/2, panelHeight+14, "shade")
	c.Text(at(0.5)-6, panelTop-3, "end faint", "any "+console.Length(v.per))
	c.Line(middle, panelTop-14, middle, base+6, "axis")
	c.Line(left, base, left+panelWidth, base, "axis")
	total := 0
	for _, b := range bursts {
		class := "s2"
		if total += b.accepted; total > v.Limit {
			class = "bad"
		}
		x := at(b.after) - wide/2
		side := "" // of the number: away from the boundary
		number := x + wide + 6
		if b.after < 0 {
			side, number = "end", x-6
		}
		if b.accepted > 0 {
			c.Bar(x, base-tall(b.accepted), wide, tall(b.accepted), class, fmt.Sprintf("%s of %s accepted", figure(b.accepted), figure(b.asked)))
			c.Text(number, base-tall(b.accepted)+12, side, figure(b.accepted)+" pass")
		}
		if refused := b.asked - b.accepted; refused > 0 {
			c.Bar(x, base-tall(b.asked), wide, tall(refused), "axis line", fmt.Sprintf("%s of %s refused", figure(refused), figure(b.asked)))
			c.Text(number, base-tall(b.asked)+12, side, figure(refused)+" refused")
		}
	}
	c.Text(middle, base+20, "middle faint", "boundary")
	c.Text(left, base+20, "faint", console.Length(v.per)+" before")
	c.Text(left+panelWidth, base+20, "end faint", console.Length(v.per)+" after")
	sum := fmt.Sprintf("%s pass within %s", figure(total), console.Length(v.apart()))
	if total > v.Limit {
		sum += fmt.Sprintf(": %.3g times the limit", float64(total)/float64(v.Limit))
	}
	c.Text(middle, base+42, "middle head", sum)
}

// bars shows what each limiter let through at worst.
func (v *ProveView) bars(c *svg.Canvas) {
	perUnit := barsWidth / (2 * float64(v.Limit))
	limit := barsLeft + float64(v.Limit)*perUnit
	c.Text(proveMargin, barsTop-26, "head", "The most that each let through in "+console.Length(v.per)+", at its worst")
	for i, l := range v.Limiters {
		y := barsTop + float64(i)*barStep
		within := float64(min(l.Accepted, v.Limit)) * perUnit
		hint := fmt.Sprintf("%s: %s accepted in %s, %s", l.Name, figure(l.Accepted), console.Length(v.per), l.verdict())
		c.Text(barsLeft-10, y+13, "end", l.Name)
		c.Bar(barsLeft, y, within, barHeight, "s2", hint)
		end := barsLeft + within
		if l.OverBy > 0 {
			over := float64(l.OverBy) * perUnit
			c.Bar(limit, y, over, barHeight, "bad", hint)
			end = limit + over
		}
		c.Text(end+8, y+13, "", figure(l.Accepted)+", "+l.verdict())
	}
	bottom := barsTop + float64(len(v.Limiters))*barStep
	c.Line(limit, barsTop-8, limit, bottom, "limit")
	c.Text(limit, bottom+14, "middle faint", "the limit: "+figure(v.Limit))
}
